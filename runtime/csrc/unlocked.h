/* What is read without a lock, and in which memory order. core.h includes this file.
 *
 * Fields that are written while other threads may read them without a lock are `_Atomic`. They are read and written
 * through these functions, whether a lock is held or not. The following need no atomic:
 * - what is set before other threads can reach the object and never changes: a work's callable, number, node and
 *   parent, a scheduler's callables, a group's `outer`, `inside` and `waits` (it is opened once, before a context holds
 *   it);
 * - a work's `children`: the thread that runs the work sets it, and children find it through their parent;
 * - a work's `result` and `error`, which are written before its state;
 * - `released_by`, which the thread writes that found the last predecessor ended;
 * - a work's successors, accesses and arguments after its end: only the thread that does its deferred work uses them;
 * - `struct thread`: its own thread uses it, except `slot` and `next` while it is on a list. The thread that takes it
 *   off writes them and then posts its semaphore; its own thread reads them after it was woken;
 * - `dead`, which a forked child sets while it has one thread;
 * - a work's `callbacks` and `callbacks_called`, which its critical section guards (the GIL before Python 3.13).
 *
 * Where two threads each write one variable and then read the other's, both must not miss the other: a latch's count
 * and `wake_below`, `body_ended` and the children's count, `unfinished` and `cancelling` or `stopping`, top and bottom of
 * a deque, what is queued and who is idle or searching. These are sequentially consistent, and so are the counts that
 * decide who is last; tests/runtime/test_protocols.py explores them. */
#ifndef TPROF_RUNTIME_UNLOCKED_H
#define TPROF_RUNTIME_UNLOCKED_H

/* A work's state is written with release and read with acquire: a thread that sees that the work has ended, as in
 * result(), sees the result and the error that were written before. Until it runs, its state changes by
 * compare-and-swap: one thread makes it ready, any may cancel it, and any worker may take it. */
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

/* Likewise: a thread that sees it sees the cause that was written before. */
static inline bool tprof_is_cancel_requested(const struct work *work)
{
    return atomic_load_explicit(&work->cancel_requested, memory_order_acquire);
}

static inline void tprof_request_cancel(struct work *work)
{
    atomic_store_explicit(&work->cancel_requested, true, memory_order_release);
}

/* Likewise: it is set once, and the work that it points to is complete then. */
static inline struct work *tprof_cause_of(const struct work *work)
{
    return atomic_load_explicit(&work->cause, memory_order_acquire);
}

/* Relaxed: no other read depends on it. A program that asks about a failure and then spawns a task that needs the data
 * does both on one thread, or synchronises the two threads. */
static inline bool tprof_is_acknowledged(const struct work *work)
{
    return atomic_load_explicit(&work->acknowledged, memory_order_relaxed);
}

static inline void tprof_acknowledge(struct work *work)
{
    atomic_store_explicit(&work->acknowledged, true, memory_order_relaxed);
}

/* Relaxed: a thread that misses that another thread has entered or left a block might have read a moment earlier. It
 * sees the blocks that it has entered itself. */
static inline bool tprof_is_open(const struct group *group)
{
    return atomic_load_explicit(&group->open, memory_order_relaxed);
}

/* Relaxed: a group that counts here was opened on this thread, or before its context was copied to this thread. */
static inline size_t tprof_open_groups(const struct scheduler *scheduler)
{
    return atomic_load_explicit(&scheduler->groups, memory_order_relaxed);
}

static inline bool tprof_is_stopping(const struct scheduler *scheduler)
{
    return atomic_load(&scheduler->stopping);
}

static inline size_t tprof_unfinished(const struct scheduler *scheduler)
{
    return atomic_load(&scheduler->unfinished) & ~TPROF_CLOSED;
}

/* A thread that sees that all have ended sees what they wrote. */
static inline size_t tprof_latch_count(const struct latch *latch)
{
    return atomic_load(&latch->count);
}

static inline void tprof_latch_rise(struct latch *latch)
{
    (void)atomic_fetch_add(&latch->count, 1);
}

/* Acquire: a thread that sees it sees how the work ended. */
static inline bool tprof_node_has_ended(const struct node *node)
{
    return atomic_load_explicit(&node->ended, memory_order_acquire);
}

static inline struct access *tprof_accesses_of(const struct node *node)
{
    return (struct access *)(node + 1);
}

static inline struct node *tprof_node_of(const struct access *access)
{
    return (struct node *)(access - access->index) - 1;
}

static inline void tprof_append(struct list *list, struct work *work)
{
    work->next = NULL;
    if (list->first == NULL)
        list->first = work;
    else
        list->last->next = work;
    list->last = work;
}

static inline struct work *tprof_next_in(struct list *list)
{
    struct work *work = list->first;
    if (work != NULL)
        list->first = work->next;
    return work;
}

#endif
