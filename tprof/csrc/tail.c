/* Called by followers of a recording, one thread at a time for each tail; needs neither Python nor a lock. */
#include "tail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "stream.h"

/* Segments that may be passed over in one read. */
#define MOST_GONE 10000

static bool read_state(int fd, struct tprof_tail_state *state)
{
    struct tprof_header header;
    const size_t first = offsetof(struct tprof_header, committed);
    const size_t bytes = offsetof(struct tprof_header, modulus) - first;
    const ssize_t got = pread(fd, (char *)&header + first, bytes, (off_t)first);
    if (got != (ssize_t)bytes) {
        if (got >= 0)
            errno = EIO;
        return false;
    }
    state->committed = header.committed;
    state->flushed = header.flushed;
    state->packed = header.packed;
    state->segment_records = header.segment_records;
    state->first_drop_ns = header.first_drop_ns;
    state->end_ns = header.end_ns;
    state->end_reason = header.end_reason;
    for (int i = 0; i < TPROF_MAX_COLUMNS; i++)
        state->end_columns[i] = header.end_columns[i];
    return true;
}

int tprof_tail_open(const struct tprof_tail *tail, struct tprof_tail_state *state)
{
    const int fd = open(tail->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || read_state(fd, state))
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static ssize_t read_at(const struct tprof_tail *tail, int fd, void *records, size_t count, uint64_t offset)
{
    const ssize_t got = pread(fd, records, count * tail->record_bytes, (off_t)offset);
    return got < 0 ? -1 : got / (ssize_t)tail->record_bytes;
}

/* Records of one segment, which may be compressed or gone by now: 0 if it is gone. */
static ssize_t read_segment(const struct tprof_tail *tail, uint64_t segment_records, void *records, size_t most)
{
    char path[PATH_MAX];
    if (!tprof_stream_segment_path(path, tail->path, tail->done / segment_records)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        if (errno != ENOENT)
            return -1;
        return tail->fetch != NULL ? tail->fetch(tail->packed, tail->done, records, most) : 0;
    }
    const ssize_t got = read_at(tail, fd, records, most, tail->done % segment_records * tail->record_bytes);
    const int error = errno;
    close(fd);
    errno = error;
    return got;
}

static uint64_t smaller(uint64_t first, uint64_t second)
{
    return first < second ? first : second;
}

/* Records from the segments of the body; segments that are gone are passed over. 0: `done` is in the window now. */
static ssize_t read_segments(struct tprof_tail *tail, const struct tprof_tail_state *state, void *records, size_t most)
{
    for (int gone = 0; tail->done < state->flushed; gone++) {
        const uint64_t left = state->segment_records - tail->done % state->segment_records;
        const uint64_t here = smaller(left, state->flushed - tail->done);
        const ssize_t got = read_segment(tail, state->segment_records, records, (size_t)smaller(here, most));
        if (got != 0)
            return got;
        if (gone == MOST_GONE) { /* a damaged header could name 2^64 of them */
            errno = ENODATA;
            return -1;
        }
        tail->done += here;
    }
    return 0;
}

/* The writer overwrites its window only after increasing `flushed`, so records from the window are valid if `flushed`
 * has not changed. */
ssize_t tprof_tail_read(struct tprof_tail *tail, int fd, struct tprof_tail_state *state, void *records, size_t most)
{
    if (tail->done < state->packed) {
        const uint64_t packed = state->packed - tail->done;
        if (tail->fetch != NULL)
            return tail->fetch(tail->packed, tail->done, records, packed < most ? (size_t)packed : most);
        errno = EINVAL;
        return -1;
    }
    do {
        if (state->segment_records != 0) {
            const ssize_t got = read_segments(tail, state, records, most);
            if (got != 0)
                return got;
        } else if (tail->done < state->flushed) {
            break;
        }
        const uint64_t flushed = state->flushed;
        const uint64_t left = state->committed > tail->done ? state->committed - tail->done : 0;
        if (left == 0)
            return 0;
        const ssize_t got = read_at(tail, fd, records, left < most ? (size_t)left : most,
                                    TPROF_HEADER_BYTES + (tail->done - flushed) * tail->record_bytes);
        if (got < 0 || !read_state(fd, state))
            return -1;
        if (state->flushed == flushed)
            return got;
    } while (true);
    const uint64_t in_body = state->flushed - tail->done;
    return read_at(tail, fd, records, in_body < most ? (size_t)in_body : most,
                   tail->body_at + tail->done * tail->record_bytes);
}
