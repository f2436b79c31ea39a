/* A lock of four bytes, for what is held for some tens of nanoseconds and exists by the million: the node of a work, the
 * data of a domain. The third state keeps the kernel out of a release that nobody waits for (U. Drepper, "Futexes are
 * tricky", 2011, mutex 3; tests/runtime/test_protocols.py explores it). No Python code runs while one is held. */
#ifndef TPROF_RUNTIME_LOCK_H
#define TPROF_RUNTIME_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

enum { TPROF_LOCK_FREE, TPROF_LOCK_HELD, TPROF_LOCK_AWAITED /* held, and others may sleep until it is free */ };

struct lock {
    _Atomic uint32_t state;
};

/* lock.c */
void tprof_acquire_awaited(struct lock *lock);
void tprof_wake_next(struct lock *lock);

static inline void tprof_acquire(struct lock *lock)
{
    uint32_t expected = TPROF_LOCK_FREE;
    if (!atomic_compare_exchange_strong_explicit(&lock->state, &expected, TPROF_LOCK_HELD, memory_order_acquire,
                                                 memory_order_relaxed))
        tprof_acquire_awaited(lock);
}

static inline void tprof_release(struct lock *lock)
{
    if (atomic_exchange_explicit(&lock->state, TPROF_LOCK_FREE, memory_order_release) == TPROF_LOCK_AWAITED)
        tprof_wake_next(lock);
}

#endif
