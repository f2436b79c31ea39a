#include "native_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "stream.h"

#define WINDOW_BYTES 16384u

static struct tprof_stream stream;
static uint64_t written;

int tprof_native_file_create(const char *directory, uint32_t process, const char *description)
{
    char path[PATH_MAX];
    struct tprof_header header = {
        .magic = TPROF_MAGIC,
        .major = TPROF_MAJOR,
        .minor = TPROF_MINOR,
        .endian = TPROF_ENDIAN,
        .kind = TPROF_NATIVE,
        .header_bytes = TPROF_HEADER_BYTES,
        .window_bytes = WINDOW_BYTES,
        .record_bytes = sizeof(struct tprof_native),
        .process = process,
        .thread = TPROF_NO_THREAD,
        .pid = (uint32_t)getpid(),
        .start_ns = tprof_now_ns(),
        .description_bytes = (uint32_t)strnlen(description, TPROF_DESCRIPTION_BYTES),
    };
    memcpy(header.description, description, header.description_bytes);
    if (snprintf(path, sizeof path, "%s/native/%08u.native", directory, process) >= (int)sizeof path)
        return ENAMETOOLONG;
    written = 0;
    return tprof_stream_create(&stream, AT_FDCWD, path, &header);
}

void tprof_native_file_close(void)
{
    stream.header->end_ns = tprof_now_ns();
    stream.header->end_reason = TPROF_STOPPED;
    tprof_stream_close(&stream, true);
}

bool tprof_native_file_is_open(void)
{
    return stream.header != NULL;
}

void tprof_native_file_forget(void)
{
    tprof_stream_forget(&stream);
}

void tprof_native_write(const struct tprof_native *record)
{
    struct tprof_native *slot = tprof_stream_slot(&stream);
    if (slot == NULL)
        return;
    *slot = *record;
    tprof_stream_commit(&stream);
    written++;
}

void tprof_native_write_text(struct tprof_native record, const char *text)
{
    static_assert(offsetof(struct tprof_native, thread) - offsetof(struct tprof_native, value) ==
                      TPROF_NATIVE_TEXT_BYTES,
                  "the text has its place");
    const size_t length = strlen(text);
    for (size_t at = 0; at < length; at += TPROF_NATIVE_TEXT_BYTES) {
        char *place = (char *)&record + offsetof(struct tprof_native, value);
        memset(place, 0, TPROF_NATIVE_TEXT_BYTES);
        memcpy(place, text + at, length - at < TPROF_NATIVE_TEXT_BYTES ? length - at : TPROF_NATIVE_TEXT_BYTES);
        record.part = (uint16_t)(at / TPROF_NATIVE_TEXT_BYTES);
        tprof_native_write(&record);
    }
}

uint64_t tprof_native_written(void)
{
    return written;
}
