/* Generators and coroutines that sys.monitoring saw suspend, by the interpreter's frame, whose address is a generator's own
 * for as long as that lives. Any thread may resume one. Needs neither Python nor its lock. */
#ifndef TPROF_SUSPENDED_H
#define TPROF_SUSPENDED_H

#include <stdint.h>

struct tprof_suspended {
    const void *frame, *code;
    uint64_t generation; /* the recording that knows this instance; another one starts it anew */
    uint64_t instance;
    uint64_t inner_instance; /* who ran inside when it was suspended */
    uint32_t inner_task;
    long offset;            /* of the instruction that suspended it */
    struct tprof_suspended *next; /* in the same bucket */
};

/* Keep it, which must come from malloc, until its frame runs again; without memory for that it is freed. */
void tprof_suspended_put(struct tprof_suspended *generator);

/* What was suspended of the frame, now the caller's; NULL if nothing was. */
struct tprof_suspended *tprof_suspended_take(const void *frame);

/* In a forked child: another thread may have held the lock. What its parent had suspended, its recording does not know. */
void tprof_suspended_forget(void);

#endif
