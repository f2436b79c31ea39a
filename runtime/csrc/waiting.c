/* Waiting for a latch to fall. A thread from outside sleeps and can be interrupted by a signal; a worker makes itself
 * useful first. What it may run meanwhile is limited to works that it waits for anyway: the one it wants, and those
 * that its own work spawned, since it cannot end before them. Any other could wait in turn for something further
 * down on this very stack. When there is none it leaves its seat. */
#include "core.h"

#include <errno.h>
#include <time.h>

#define DEEPEST 50 /* works run inside waits, one in the other: C and Python stacks are finite */

static struct timespec deadline_in(double timeout_s)
{
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    const double whole = (double)(time_t)timeout_s;
    deadline.tv_sec += (time_t)whole;
    deadline.tv_nsec += (long)((timeout_s - whole) * 1e9);
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
    return deadline;
}

/* Returns 0 or what ended the sleep: EINTR, ETIMEDOUT. */
static int sleep_on(struct waiter *waiter, const struct timespec *deadline)
{
    int error = 0;
    Py_BEGIN_ALLOW_THREADS;
    const int failed = deadline == NULL ? sem_wait(&waiter->semaphore)
                                        : sem_clockwait(&waiter->semaphore, CLOCK_MONOTONIC, deadline);
    if (failed != 0)
        error = errno;
    Py_END_ALLOW_THREADS;
    return error;
}

static bool was_woken(struct scheduler *scheduler, const struct waiter *waiter)
{
    tprof_lock(scheduler);
    const bool woken = waiter->woken;
    tprof_unlock(scheduler);
    return woken;
}

/* Until woken, out of time (1), or a signal's handler has raised (-1). The waiter is expected by the latch. */
static int sleep_until_woken(struct scheduler *scheduler, struct latch *latch, struct waiter *waiter,
                             double timeout_s)
{
    int outcome = 0;
    const struct timespec deadline = deadline_in(timeout_s > 0 ? timeout_s : 0);
    while (outcome == 0) {
        const int error = sleep_on(waiter, timeout_s < 0 ? NULL : &deadline);
        if (was_woken(scheduler, waiter))
            break;
        if (error == ETIMEDOUT)
            outcome = 1;
        else if (PyErr_CheckSignals() < 0)
            outcome = -1;
    }
    tprof_lock(scheduler);
    tprof_latch_forget(latch, waiter);
    tprof_unlock(scheduler);
    return outcome;
}

static int wait_outside(struct scheduler *scheduler, struct latch *latch, size_t enough, double timeout_s)
{
    struct waiter waiter;
    tprof_lock(scheduler);
    const bool there = latch->count <= enough;
    if (!there) {
        sem_init(&waiter.semaphore, 0, 0);
        tprof_latch_expect(latch, &waiter, enough);
    }
    tprof_unlock(scheduler);
    if (there)
        return 0;
    const int outcome = sleep_until_woken(scheduler, latch, &waiter, timeout_s);
    sem_destroy(&waiter.semaphore);
    return outcome;
}

/* Under the mutex. */
static struct work *something_useful(struct scheduler *scheduler, struct thread *thread, struct work *wanted)
{
    if (thread->depth >= DEEPEST)
        return NULL;
    if (wanted != NULL && wanted->state == TPROF_QUEUED) {
        tprof_queue_remove(scheduler, wanted);
        return wanted;
    }
    return tprof_queue_descendant(scheduler, thread, thread->work);
}

static void regain_seat(struct scheduler *scheduler, struct thread *thread)
{
    tprof_lock(scheduler);
    const bool found = tprof_seat_find(scheduler, thread);
    if (!found)
        tprof_push_last(&scheduler->returning, thread);
    tprof_unlock(scheduler);
    if (!found)
        tprof_thread_sleep(thread);
    tprof_thread_settle_in(thread);
}

/* Leaves its seat for as long; enters with the mutex and comes back without. */
static int block(struct scheduler *scheduler, struct thread *thread, struct latch *latch, size_t enough,
                 double timeout_s)
{
    struct waiter waiter;
    struct aftermath after = {0};
    struct tprof_paused paused;
    sem_init(&waiter.semaphore, 0, 0);
    tprof_latch_expect(latch, &waiter, enough);
    tprof_seat_leave(scheduler, thread);
    if (scheduler->levels != 0)
        tprof_wake_for(scheduler, 1, &after);
    tprof_unlock(scheduler);
    tprof_settle(scheduler, &after);
    tprof_tell_operator(thread, thread->work, TPROF_TASK_PAUSES);
    tprof_api->pause(&paused);
    const int outcome = sleep_until_woken(scheduler, latch, &waiter, timeout_s);
    sem_destroy(&waiter.semaphore);
    regain_seat(scheduler, thread);
    tprof_tell_operator(thread, thread->work, TPROF_TASK_RESUMES);
    tprof_api->resume(&paused);
    return outcome;
}

static int wait_inside(struct scheduler *scheduler, struct thread *thread, struct latch *latch, size_t enough,
                       struct work *wanted, double timeout_s)
{
    int outcome = 0;
    tprof_lock(scheduler);
    while (outcome == 0 && latch->count > enough) {
        struct work *work = timeout_s < 0 ? something_useful(scheduler, thread, wanted) : NULL;
        if (work != NULL) {
            work->state = TPROF_RUNNING;
            tprof_unlock(scheduler);
            tprof_run(thread, work, -1);
        } else
            outcome = block(scheduler, thread, latch, enough, timeout_s);
        tprof_lock(scheduler);
    }
    tprof_unlock(scheduler);
    return outcome;
}

int tprof_wait(struct scheduler *scheduler, struct latch *latch, size_t enough, struct work *wanted, double timeout_s)
{
    struct thread *thread = tprof_thread_here;
    if (thread != NULL && thread->scheduler == scheduler && thread->work != NULL)
        return wait_inside(scheduler, thread, latch, enough, wanted, timeout_s);
    return wait_outside(scheduler, latch, enough, timeout_s);
}
