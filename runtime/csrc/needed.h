/* The futures among a work's arguments, which it waits for. */
#ifndef TPROF_NEEDED_H
#define TPROF_NEEDED_H

#include "core.h"

/* Borrowed from the arguments; futures of other runtimes come last. */
struct needed {
    struct work **works, *few[8];
    size_t ours, all;
};

/* Attached to Python, without the mutex; -1 with an exception set. */
int tprof_needed_find(struct needed *needed, const struct work *work);
/* After the work has entered, with futures of other runtimes counted as unmet: add the callbacks to these. */
int tprof_needed_expect(struct work *work, const struct needed *needed);
void tprof_needed_free(struct needed *needed);

#endif
