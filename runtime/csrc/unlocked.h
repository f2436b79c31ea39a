/* What is read without the scheduler's mutex, and in which order; the end of core.h, which includes it.
 *
 * Fields that are written while others may read them without the mutex are `_Atomic`, and are read and written through
 * these functions, whether the mutex is held or not. The following need no atomic:
 * - what is set before others can know of the object and never changes: a work's callable, number and parent, a
 *   scheduler's callables, a group's `outer`, `inside` and `waits` (it is opened once, and gets into contexts then);
 * - a work's `result` and `error`, which are written before the state that says so;
 * - a work's successors, accesses and children, after its end: the thread that settles it has them alone;
 * - `struct thread`: its own thread's, except `slot` and `next` while it is on a list. Whoever takes it off writes them
 *   and then posts its semaphore, and it reads them after it was woken;
 * - `dead`, which a forked child sets while it has one thread;
 * - a work's `callbacks` and `settled`, which its critical section guards (before Python 3.13 Python's own lock does). */
#ifndef TPROF_RUNTIME_UNLOCKED_H
#define TPROF_RUNTIME_UNLOCKED_H

/* A work's state is released when it is written and acquired when it is read: who sees without the mutex that the work
 * has ended, as result() does, sees the result and the error that were written before. */
static inline enum state tprof_state_of(const struct work *work)
{
    return (enum state)atomic_load_explicit(&work->state, memory_order_acquire);
}

static inline void tprof_set_state(struct work *work, enum state state)
{
    atomic_store_explicit(&work->state, (uint8_t)state, memory_order_release);
}

static inline bool tprof_has_ended(const struct work *work)
{
    return tprof_state_of(work) >= TPROF_FINISHED;
}

/* Likewise: who sees it sees the cause that was written before. */
static inline bool tprof_is_cancel_requested(const struct work *work)
{
    return atomic_load_explicit(&work->cancel_requested, memory_order_acquire);
}

static inline void tprof_request_cancel(struct work *work)
{
    atomic_store_explicit(&work->cancel_requested, true, memory_order_release);
}

/* Likewise: it is set once and stays, complete as it was when it was released. */
static inline struct work *tprof_cause_of(const struct work *work)
{
    return atomic_load_explicit(&work->cause, memory_order_acquire);
}

/* Relaxed: nothing else is read on the strength of it. Who asks about a failure and then spawns what needs the data does
 * both on one thread, or tells the other thread in a way that orders them. */
static inline bool tprof_is_acknowledged(const struct work *work)
{
    return atomic_load_explicit(&work->acknowledged, memory_order_relaxed);
}

static inline void tprof_acknowledge(struct work *work)
{
    atomic_store_explicit(&work->acknowledged, true, memory_order_relaxed);
}

/* Relaxed: who misses that a block was left, or that another thread's was entered, could as well have come a moment
 * before; its own thread's blocks it sees. */
static inline bool tprof_is_open(const struct group *group)
{
    return atomic_load_explicit(&group->open, memory_order_relaxed);
}

/* Relaxed: who opened one on this thread, or let its context be copied to it, did so before. */
static inline size_t tprof_open_groups(const struct scheduler *scheduler)
{
    return atomic_load_explicit(&scheduler->groups, memory_order_relaxed);
}

/* Relaxed: who misses it is told again under the mutex when a work enters. */
static inline bool tprof_is_stopping(const struct scheduler *scheduler)
{
    return atomic_load_explicit(&scheduler->stopping, memory_order_relaxed);
}

/* Written under the mutex only. Relaxed: throttling reads it without, for which a count of a moment ago is as good. */
static inline size_t tprof_latch_count(const struct latch *latch)
{
    return atomic_load_explicit(&latch->count, memory_order_relaxed);
}

static inline void tprof_latch_set(struct latch *latch, size_t count)
{
    atomic_store_explicit(&latch->count, count, memory_order_relaxed);
}

#endif
