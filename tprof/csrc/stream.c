/* Called by the thread that owns the stream, with or without Python's lock; takes no lock of its own. */
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"

static int write_whole(int fd, const char *bytes, size_t count, off_t offset)
{
    while (count > 0) {
        const ssize_t written = pwrite(fd, bytes, count, offset);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? errno : ENOSPC;
        bytes += written;
        count -= (size_t)written;
        offset += written;
    }
    return 0;
}

static bool is_full_disk(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

/* Write zeros instead of only reserving space: with lazy allocation a reserved page can still fail. */
static int lay_out(int fd, const struct tprof_header *header)
{
    static const char zeros[4096];
    int error = write_whole(fd, (const char *)header, sizeof *header, 0);
    for (uint32_t at = 0; error == 0 && at < header->window_bytes; at += (uint32_t)sizeof zeros)
        error = write_whole(fd, zeros, sizeof zeros, (off_t)(sizeof *header + at));
    return error;
}

int tprof_stream_create(struct tprof_stream *stream, int directory, const char *path, const struct tprof_header *header)
{
    const char *name = directory == AT_FDCWD ? path : strrchr(path, '/') + 1;
    const size_t mapped_bytes = sizeof *header + header->window_bytes;
    char *mapped = MAP_FAILED;
    struct stat status;
    int error = 0;

    memset(stream, 0, sizeof *stream);
    if (strlen(path) >= sizeof stream->path)
        return ENAMETOOLONG;
    const int fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    error = lay_out(fd, header);
    if (error != 0)
        goto error;
    if (fstat(fd, &status) != 0) {
        error = errno;
        goto error;
    }
    mapped = mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) {
        error = errno;
        goto error;
    }
    /* A forked child would write into its parent's file. */
    (void)madvise(mapped, mapped_bytes, MADV_DONTFORK);
    close(fd);
    strcpy(stream->path, path);
    stream->header = (struct tprof_header *)mapped;
    stream->window = mapped + sizeof *header;
    stream->record_bytes = header->record_bytes;
    stream->capacity = header->window_bytes / header->record_bytes;
    stream->device = status.st_dev;
    stream->inode = status.st_ino;
    return 0;

error:
    close(fd);
    unlinkat(directory, name, 0);
    return error;
}

/* The file is opened by name each time; its identity is checked, so that nothing else is ever written to. */
static int append(struct tprof_stream *stream)
{
    struct stat status;
    const size_t count = (size_t)stream->used * stream->record_bytes;
    const off_t offset =
        (off_t)(sizeof *stream->header + stream->header->window_bytes + stream->flushed * stream->record_bytes);
    const int fd = open(stream->path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int error = fstat(fd, &status) != 0 ? errno : 0;
    if (error == 0 && (status.st_dev != stream->device || status.st_ino != stream->inode))
        error = ESTALE;
    if (error == 0)
        error = write_whole(fd, stream->window, count, offset);
    close(fd);
    return error;
}

bool tprof_stream_flush(struct tprof_stream *stream)
{
    const int saved_errno = errno;
    const int error = stream->used > 0 ? append(stream) : 0;
    errno = saved_errno;
    if (error != 0) {
        stream->error = error;
        return false;
    }
    stream->flushed += stream->used;
    stream->used = 0;
    __atomic_store_n(&stream->header->flushed, stream->flushed, __ATOMIC_RELEASE);
    return true;
}

void tprof_stream_drop(struct tprof_stream *stream)
{
    struct tprof_header *header = stream->header;
    if (header->first_drop_ns == 0)
        header->first_drop_ns = tprof_now_ns();
    if (is_full_disk(stream->error))
        header->dropped_enospc++;
    else
        header->dropped_io++;
}

void tprof_stream_close(struct tprof_stream *stream, bool flush)
{
    if (stream->header == NULL)
        return;
    /* A failure loses no records: they stay readable in the window. */
    if (flush && stream->error == 0)
        (void)tprof_stream_flush(stream);
    munmap(stream->header, sizeof *stream->header + stream->header->window_bytes);
    stream->header = NULL;
}
