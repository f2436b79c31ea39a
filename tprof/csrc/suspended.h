/* Suspended generators and coroutines under sys.monitoring, by the interpreter's frame, whose address is unique to a
 * generator during its lifetime. Any thread may resume one. Needs neither Python nor its lock. */
#ifndef TPROF_SUSPENDED_H
#define TPROF_SUSPENDED_H

#include <stdint.h>

#include "recorder.h"

struct tprof_suspended {
    const void *frame, *code;
    uint64_t generation; /* the recording of this instance; another recording starts a new instance */
    uint64_t instance;
    struct tprof_suspension at;
    long offset;            /* of the instruction that suspended it */
    struct tprof_suspended *next; /* in the same bucket */
};

/* Store it until its frame runs again. It must come from malloc; it is freed if there is no memory to store it. */
void tprof_suspended_put(struct tprof_suspended *generator);

/* Remove and return the suspended call of the frame; NULL without one. */
struct tprof_suspended *tprof_suspended_take(const void *frame);

/* In a forked child: another thread may have held the lock, and the child's recording has none of these instances. */
void tprof_suspended_forget(void);

#endif
