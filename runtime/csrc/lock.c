/* The slow paths of a lock: a thread spins for about as long as sections last, then sleeps in the kernel. */
#include "lock.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPINS 100

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void tprof_acquire_awaited(struct lock *lock)
{
    for (int i = 0; i < SPINS; i++) {
        uint32_t expected = TPROF_LOCK_FREE;
        if (atomic_load_explicit(&lock->state, memory_order_relaxed) == TPROF_LOCK_FREE &&
            atomic_compare_exchange_strong_explicit(&lock->state, &expected, TPROF_LOCK_HELD, memory_order_acquire,
                                                    memory_order_relaxed))
            return;
        relax();
    }
    while (atomic_exchange_explicit(&lock->state, TPROF_LOCK_AWAITED, memory_order_acquire) != TPROF_LOCK_FREE)
        (void)syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, TPROF_LOCK_AWAITED, NULL, NULL, 0);
}

void tprof_wake_next(struct lock *lock)
{
    (void)syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
