/* Called by followers of a recording, one thread at a time for each tail; needs neither Python nor a lock. */
#include "tail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

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

/* The writer overwrites its window only after increasing `flushed`, so records from the window are valid if `flushed`
 * has not changed. */
ssize_t tprof_tail_read(const struct tprof_tail *tail, int fd, struct tprof_tail_state *state, void *records,
                        size_t most)
{
    while (tail->done >= state->flushed) {
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
    }
    const uint64_t in_body = state->flushed - tail->done;
    return read_at(tail, fd, records, in_body < most ? (size_t)in_body : most,
                   tail->body_at + tail->done * tail->record_bytes);
}
