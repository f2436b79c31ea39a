/* Waiting for a latch to fall. A thread that is no worker sleeps and can be interrupted by a signal. A worker first
 * runs works that it waits for anyway: the wanted one, and descendants of its own work, which cannot end before them.
 * Any other work could in turn wait for one further down on the same stack. If there are none, the worker lends its
 * slot. A worker also waits between works, in callbacks of a work that has ended. */
#include "binding.h"
#include "queues.h"

#include <errno.h>
#include <time.h>

#define DEEPEST 50 /* nested works that run inside waits: C and Python stacks are finite */
/* A signal that comes just before the sleep does not end it, so a thread that may get signals checks periodically. */
#define LONGEST_SLEEP_S 0.5

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

static bool is_before(const struct timespec *one, const struct timespec *other)
{
    return one->tv_sec < other->tv_sec || (one->tv_sec == other->tv_sec && one->tv_nsec < other->tv_nsec);
}

/* Sleep until the deadline; NULL: none. Returns whether it has passed; may return earlier. */
static bool sleep_on(struct waiter *waiter, const struct timespec *deadline)
{
    struct timespec until = deadline_in(LONGEST_SLEEP_S);
    const bool to_the_end = deadline != NULL && is_before(deadline, &until);
    int failed = 0, error = 0;
    Py_BEGIN_ALLOW_THREADS;
    if (deadline == NULL && tprof_current_thread != NULL)
        failed = sem_wait(&waiter->semaphore);
    else
        failed = sem_clockwait(&waiter->semaphore, CLOCK_MONOTONIC, to_the_end ? deadline : &until);
    if (failed != 0)
        error = errno;
    Py_END_ALLOW_THREADS;
    return error == ETIMEDOUT && to_the_end;
}

static bool was_woken(struct scheduler *scheduler, const struct waiter *waiter)
{
    tprof_lock(scheduler);
    const bool woken = waiter->woken;
    tprof_unlock(scheduler);
    return woken;
}

/* Sleep until woken (0), until the timeout (1), or until a signal's handler raises (-1). The latch has the waiter. */
static int sleep_until_woken(struct scheduler *scheduler, struct latch *latch, struct waiter *waiter, double timeout_s)
{
    int outcome = 0;
    const struct timespec deadline = deadline_in(timeout_s > 0 ? timeout_s : 0);
    while (outcome == 0) {
        const bool late = sleep_on(waiter, timeout_s < 0 ? NULL : &deadline);
        if (was_woken(scheduler, waiter))
            break;
        if (late)
            outcome = 1;
        else if (PyErr_CheckSignals() < 0)
            outcome = -1;
    }
    tprof_lock(scheduler);
    tprof_latch_remove_waiter(latch, waiter);
    tprof_unlock(scheduler);
    return outcome;
}

static int wait_outside(struct scheduler *scheduler, struct latch *latch, size_t enough, double timeout_s)
{
    if (tprof_latch_count(latch) <= enough)
        return 0;
    struct waiter waiter;
    tprof_lock(scheduler);
    sem_init(&waiter.semaphore, 0, 0);
    const bool waits = tprof_latch_add_waiter(latch, &waiter, enough);
    tprof_unlock(scheduler);
    if (!waits) {
        sem_destroy(&waiter.semaphore);
        return 0;
    }
    /* A task that is none of the runtime's, such as one of dask's workers, does not run while it waits here. */
    struct tprof_paused paused;
    tprof_api->pause(&paused);
    const int outcome = sleep_until_woken(scheduler, latch, &waiter, timeout_s);
    tprof_api->resume(&paused);
    sem_destroy(&waiter.semaphore);
    return outcome;
}

static struct work *find_runnable(struct scheduler *scheduler, struct thread *thread, struct work *wanted)
{
    struct deferred deferred = {0};
    struct work *work = NULL;
    if (thread->depth >= DEEPEST)
        return NULL;
    if (wanted != NULL && tprof_queue_take_this(scheduler, thread, wanted, &deferred))
        work = wanted;
    else if (thread->work != NULL)
        work = tprof_queue_descendant(scheduler, thread, thread->work, &deferred);
    if (work != NULL && !tprof_graph_may_begin(work, &deferred))
        work = NULL;
    tprof_run_deferred(scheduler, &deferred);
    return work;
}

static void lend_slot(struct thread *thread, struct tprof_paused *paused)
{
    struct scheduler *scheduler = thread->scheduler;
    struct deferred deferred = {0};
    tprof_lock(scheduler);
    tprof_slot_leave(scheduler, thread, &deferred);
    if (!tprof_queues_are_empty(scheduler))
        tprof_wake_for(scheduler, 1, &deferred);
    tprof_unlock(scheduler);
    tprof_run_deferred(scheduler, &deferred);
    tprof_report(thread, thread->work, TPROF_TASK_PAUSES);
    tprof_api->pause(paused);
}

static void regain_slot(struct thread *thread, const struct tprof_paused *paused)
{
    struct scheduler *scheduler = thread->scheduler;
    tprof_lock(scheduler);
    const bool found = tprof_slot_regain(scheduler, thread);
    tprof_unlock(scheduler);
    if (!found)
        tprof_thread_sleep(thread);
    tprof_thread_report_slot(thread);
    tprof_report(thread, thread->work, TPROF_TASK_RESUMES);
    tprof_api->resume(paused);
}

/* Sleep and lend the slot meanwhile. */
static int block(struct scheduler *scheduler, struct thread *thread, struct latch *latch, size_t enough,
                 double timeout_s)
{
    struct waiter waiter;
    struct tprof_paused paused;
    sem_init(&waiter.semaphore, 0, 0);
    tprof_lock(scheduler);
    const bool waits = tprof_latch_add_waiter(latch, &waiter, enough);
    tprof_unlock(scheduler);
    int outcome = 0;
    if (waits) {
        lend_slot(thread, &paused);
        outcome = sleep_until_woken(scheduler, latch, &waiter, timeout_s);
        regain_slot(thread, &paused);
    }
    sem_destroy(&waiter.semaphore);
    return outcome;
}

/* For a worker of another runtime: tasks of this one may wait for tasks that need its slot. */
static int wait_elsewhere(struct scheduler *scheduler, struct thread *thread, struct latch *latch, size_t enough,
                          double timeout_s)
{
    struct tprof_paused paused;
    lend_slot(thread, &paused);
    const int outcome = wait_outside(scheduler, latch, enough, timeout_s);
    regain_slot(thread, &paused);
    return outcome;
}

static int wait_inside(struct scheduler *scheduler, struct thread *thread, struct latch *latch, size_t enough,
                       struct work *wanted, double timeout_s)
{
    int outcome = 0;
    while (outcome == 0 && tprof_latch_count(latch) > enough) {
        struct work *work = timeout_s < 0 ? find_runnable(scheduler, thread, wanted) : NULL;
        if (work != NULL)
            tprof_run(thread, work, -1);
        else
            outcome = block(scheduler, thread, latch, enough, timeout_s);
    }
    return outcome;
}

int tprof_wait(struct scheduler *scheduler, struct latch *latch, size_t enough, struct work *wanted, double timeout_s)
{
    struct thread *thread = tprof_current_thread;
    if (scheduler->dead)
        return 0;
    if (thread == NULL)
        return wait_outside(scheduler, latch, enough, timeout_s);
    if (thread->scheduler != scheduler)
        return wait_elsewhere(scheduler, thread, latch, enough, timeout_s);
    return wait_inside(scheduler, thread, latch, enough, wanted, timeout_s);
}
