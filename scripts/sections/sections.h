/* Included before each file of the scheduler: adds up how long each lock is held, by the function that takes it. x86-64
 * only. A section of 20,000 ticks or more was interrupted, and is left out. */
#ifndef SECTIONS_H
#define SECTIONS_H

#include <stdatomic.h>
#include <stdint.h>
#include <x86intrin.h>

#include "core.h"

#define SECTIONS_MOST_TICKS 20000
#define SECTIONS_DEEPEST 16

struct section {
    const char *lock, *function;
    _Atomic uint64_t count, ticks;
    _Atomic _Bool listed;
    struct section *next;
};

struct held {
    struct section *section;
    uint64_t since;
};

extern _Thread_local struct held sections_held[SECTIONS_DEEPEST];
extern _Thread_local int sections_depth;

void sections_list(struct section *section); /* once */

static inline void sections_begin(struct section *section)
{
    if (!atomic_load_explicit(&section->listed, memory_order_relaxed))
        sections_list(section);
    sections_held[sections_depth++] = (struct held){section, __rdtsc()};
}

static inline void sections_end(void)
{
    const struct held held = sections_held[--sections_depth];
    const uint64_t ticks = __rdtsc() - held.since;
    if (ticks >= SECTIONS_MOST_TICKS)
        return;
    atomic_fetch_add(&held.section->ticks, ticks);
    atomic_fetch_add(&held.section->count, 1);
}

#define SECTIONS_TAKEN(what, take)                                                                                     \
    do {                                                                                                               \
        static struct section here = {.lock = what};                                                                   \
        here.function = __func__;                                                                                      \
        take;                                                                                                          \
        sections_begin(&here);                                                                                         \
    } while (0)
#define SECTIONS_LEFT(leave)                                                                                           \
    do {                                                                                                               \
        sections_end();                                                                                                \
        leave;                                                                                                         \
    } while (0)

#define tprof_lock(scheduler) SECTIONS_TAKEN("mutex", (tprof_lock)(scheduler))
#define tprof_unlock(scheduler) SECTIONS_LEFT((tprof_unlock)(scheduler))
#define tprof_acquire(taken) SECTIONS_TAKEN(#taken, (tprof_acquire)(taken))
#define tprof_release(left) SECTIONS_LEFT((tprof_release)(left))

#endif
