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

#define GROWING_BYTES 65536u /* larger windows begin with a part */
#define PARTS 4

static uint64_t segment_bytes;

void tprof_stream_set_segment_bytes(uint64_t bytes)
{
    __atomic_store_n(&segment_bytes, bytes, __ATOMIC_RELAXED);
}

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

/* The header of a new file, whose body is in segments if the session's are. */
static struct tprof_header placed(const struct tprof_header *given)
{
    struct tprof_header header = *given;
    const uint64_t bytes = __atomic_load_n(&segment_bytes, __ATOMIC_RELAXED);
    if (bytes != 0 && header.window_bytes != 0) {
        const uint64_t windows = bytes / header.window_bytes;
        header.segment_records = (windows != 0 ? windows : 1) * (header.window_bytes / header.record_bytes);
        header.major = TPROF_BESIDE_MAJOR;
    }
    return header;
}

/* Write zeros instead of only reserving space: with lazy allocation a reserved page can still fail. */
static int lay_out(int fd, uint32_t from, uint32_t to)
{
    static const char zeros[4096];
    int error = 0;
    for (uint32_t at = from; error == 0 && at < to; at += (uint32_t)sizeof zeros)
        error =
            write_whole(fd, zeros, to - at < sizeof zeros ? to - at : sizeof zeros, (off_t)(TPROF_HEADER_BYTES + at));
    return error;
}

static uint32_t used(const struct tprof_stream *stream)
{
    return (uint32_t)(stream->committed - stream->flushed);
}

/* Go on after the records that are in the window. */
static void open_window(struct tprof_stream *stream)
{
    stream->next = stream->window + (size_t)used(stream) * stream->record_bytes;
    stream->end = stream->window + (size_t)stream->capacity * stream->record_bytes;
}

int tprof_stream_create(struct tprof_stream *stream, int directory, const char *path, const struct tprof_header *given)
{
    const struct tprof_header placed_header = placed(given), *header = &placed_header;
    const char *name = directory == AT_FDCWD ? path : strrchr(path, '/') + 1;
    const size_t mapped_bytes = sizeof *header + header->window_bytes;
    const uint32_t first_bytes = header->window_bytes / (header->window_bytes < GROWING_BYTES ? 1 : PARTS);
    char *mapped = MAP_FAILED;
    struct stat status;
    int error = 0;

    memset(stream, 0, sizeof *stream);
    if (strlen(path) >= sizeof stream->path)
        return ENAMETOOLONG;
    const int fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    error = write_whole(fd, (const char *)header, sizeof *header, 0);
    if (error == 0)
        error = lay_out(fd, 0, first_bytes);
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
    stream->capacity = first_bytes / header->record_bytes;
    open_window(stream);
    stream->device = status.st_dev;
    stream->inode = status.st_ino;
    return 0;

error:
    close(fd);
    unlinkat(directory, name, 0);
    return error;
}

/* Open a file by name, if it still is the one with this identity, so that nothing else is ever written to. Returns -1
 * with errno set. */
static int open_same(const char *path, dev_t device, ino_t inode)
{
    struct stat status;
    const int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int error = fstat(fd, &status) != 0 ? errno : 0;
    if (error == 0 && status.st_dev == device && status.st_ino == inode)
        return fd;
    close(fd);
    errno = error != 0 ? error : ESTALE;
    return -1;
}

/* Make a segment in the directory that still holds the stream's file. Returns -1 with errno set. */
static int make_segment(struct tprof_stream *stream, char *path)
{
    struct stat status;
    char *name = strrchr(path, '/');
    const char *own_name = strrchr(stream->path, '/');
    if (name == NULL || own_name == NULL) {
        errno = EINVAL;
        return -1;
    }
    *name = '\0';
    const int directory = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    *name++ = '/';
    if (directory < 0)
        return -1;
    int fd = -1, error = fstatat(directory, own_name + 1, &status, AT_SYMLINK_NOFOLLOW) != 0 ? errno : 0;
    if (error == 0 && (status.st_dev != stream->device || status.st_ino != stream->inode))
        error = ESTALE;
    if (error == 0 && (fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)) < 0)
        error = errno;
    if (error == 0 && fstat(fd, &status) == 0)
        stream->segment_inode = status.st_ino;
    close(directory);
    errno = error;
    return fd;
}

/* Open the file that has the place of the next record of the body, and say where that is. A descriptor, or -1 with
 * errno set. */
static int open_body(struct tprof_stream *stream, off_t *offset)
{
    char path[PATH_MAX];
    const uint64_t records = stream->header->segment_records;
    if (records == 0) {
        *offset =
            (off_t)(sizeof *stream->header + stream->header->window_bytes + stream->flushed * stream->record_bytes);
        return open_same(stream->path, stream->device, stream->inode);
    }
    *offset = (off_t)(stream->flushed % records * stream->record_bytes);
    if (!tprof_stream_segment_path(path, stream->path, stream->flushed / records)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return *offset == 0 ? make_segment(stream, path) : open_same(path, stream->device, stream->segment_inode);
}

bool tprof_stream_segment_path(char path[PATH_MAX], const char *stream, uint64_t number)
{
    return snprintf(path, PATH_MAX, "%s.%08llu", stream, (unsigned long long)number) < PATH_MAX;
}

static int append(struct tprof_stream *stream)
{
    off_t offset;
    const int fd = open_body(stream, &offset);
    if (fd < 0)
        return errno;
    const int error = write_whole(fd, stream->window, (size_t)used(stream) * stream->record_bytes, offset);
    close(fd);
    return error;
}

/* Let the window have twice as many records, before any is in the body. A failure leaves it as it is. */
static bool grow(struct tprof_stream *stream)
{
    const uint32_t bytes = stream->capacity * stream->record_bytes;
    if (stream->flushed != 0 || 2 * bytes > stream->header->window_bytes)
        return false;
    const int fd = open_same(stream->path, stream->device, stream->inode);
    if (fd < 0)
        return false;
    const int error = lay_out(fd, bytes, 2 * bytes);
    close(fd);
    if (error != 0)
        return false;
    stream->capacity *= 2;
    open_window(stream);
    return true;
}

/* Count a record that could not be written since `error` struck. */
static void drop(struct tprof_stream *stream)
{
    struct tprof_header *header = stream->header;
    if (header->first_drop_ns == 0)
        header->first_drop_ns = tprof_now_ns();
    if (is_full_disk(stream->error))
        header->dropped_enospc++;
    else
        header->dropped_io++;
}

bool tprof_stream_make_room(struct tprof_stream *stream)
{
    if (stream->header == NULL)
        return false;
    const int saved_errno = errno;
    const bool made = stream->error == 0 && (grow(stream) || tprof_stream_flush(stream));
    errno = saved_errno;
    if (!made)
        drop(stream);
    return made;
}

bool tprof_stream_flush(struct tprof_stream *stream)
{
    const int saved_errno = errno;
    const int error = used(stream) > 0 ? append(stream) : 0;
    errno = saved_errno;
    if (error != 0) {
        stream->error = error;
        stream->end = stream->next;
        return false;
    }
    stream->flushed = stream->committed;
    open_window(stream);
    __atomic_store_n(&stream->header->flushed, stream->flushed, __ATOMIC_RELEASE);
    return true;
}

void tprof_stream_close(struct tprof_stream *stream, bool flush)
{
    if (stream->header == NULL)
        return;
    /* A failure loses no records: they stay readable in the window. */
    if (flush && stream->error == 0)
        (void)tprof_stream_flush(stream);
    munmap(stream->header, sizeof *stream->header + stream->header->window_bytes);
    tprof_stream_forget(stream);
}

void tprof_stream_forget(struct tprof_stream *stream)
{
    stream->header = NULL;
    stream->next = stream->end = NULL;
}
