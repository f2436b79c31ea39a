/* The end of a stream that another thread or process writes: the records committed since the last read.
 *
 * The file is opened by name each time: a program may close every descriptor it finds, and have the number given to
 * another file. Nothing waits here but for the page cache, so Python's lock is held meanwhile: to win it back costs
 * milliseconds where other threads run, a read microseconds. */
#ifndef TPROF_TAIL_H
#define TPROF_TAIL_H

#include <limits.h>
#include <sys/types.h>

#include "layout.h"

struct tprof_tail {
    uint64_t body_at; /* where the body begins */
    uint64_t done;    /* records read so far */
    uint32_t record_bytes;
    char path[PATH_MAX];
};

/* What changes in a header. */
struct tprof_tail_state {
    uint64_t committed, flushed, first_drop_ns, end_ns;
    uint64_t end_columns[TPROF_MAX_COLUMNS];
    uint32_t end_reason;
};

/* Returns a descriptor that the caller closes, or -1 with errno set. */
int tprof_tail_open(const struct tprof_tail *tail, struct tprof_tail_state *state);

/* Read at most so many records from `done` on, which stays; the state is brought up to date where that is needed.
 * Returns how many came whole, or -1 with errno set. */
ssize_t tprof_tail_read(const struct tprof_tail *tail, int fd, struct tprof_tail_state *state, void *records,
                        size_t most);

#endif
