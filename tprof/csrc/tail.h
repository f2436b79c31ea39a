/* The end of a stream that another thread or process writes: the records committed since the last read.
 *
 * The file is opened by name each time: a program may close every descriptor it finds, and have the number given to
 * another file. Reads wait at most for the page cache, so Python's lock is held meanwhile: getting it back takes
 * milliseconds if other threads run, a read microseconds. */
#ifndef TPROF_TAIL_H
#define TPROF_TAIL_H

#include <limits.h>
#include <sys/types.h>

#include "layout.h"

struct tprof_tail {
    uint64_t body_at; /* where the body begins */
    uint64_t done;    /* records read so far */
    uint32_t record_bytes;
    /* Gives compressed records from `first` on; returns their number, 0 if they are gone, or -1 with errno set. NULL:
     * there are none. */
    ssize_t (*fetch)(void *packed, uint64_t first, void *records, size_t most);
    void *packed;
    char path[PATH_MAX];
};

/* The changing fields of a header. */
struct tprof_tail_state {
    uint64_t committed, flushed, packed, segment_records, first_drop_ns, end_ns;
    uint64_t end_columns[TPROF_MAX_COLUMNS];
    uint32_t end_reason;
};

/* Returns a descriptor that the caller closes, or -1 with errno set. */
int tprof_tail_open(const struct tprof_tail *tail, struct tprof_tail_state *state);

/* Read at most so many records from `done` on; updates the state if necessary. `done` changes only if it is in a segment
 * that was removed: it then is the first record after that. Returns the number of complete records, or -1 with errno
 * set. */
ssize_t tprof_tail_read(struct tprof_tail *tail, int fd, struct tprof_tail_state *state, void *records, size_t most);

#endif
