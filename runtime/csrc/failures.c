/* Failures are kept until the program waits. A program that asks each future for its result need not wait: without
 * sweeping, the list of a long-lived runtime would keep every exception. */
#include "failures.h"

#define FEW 64

static void sweep(struct failures *failures, struct deferred *deferred)
{
    for (struct work **at = &failures->first; *at != NULL;) {
        struct work *work = *at;
        if (!tprof_is_acknowledged(work)) {
            at = &work->next_failed;
            continue;
        }
        *at = work->next_failed;
        work->next_failed = NULL;
        failures->count--;
        tprof_defer_decref(deferred, work);
    }
    failures->sweep_at = failures->count < FEW / 2 ? FEW : 2 * failures->count;
}

void tprof_failures_add(struct failures *failures, struct work *work, struct deferred *deferred)
{
    if (failures->count >= failures->sweep_at)
        sweep(failures, deferred);
    work->next_failed = failures->first;
    failures->first = (struct work *)Py_NewRef((PyObject *)work);
    failures->count++;
}

/* Returns the first. No other thread can reach the list. */
static struct work *next_of(struct work **failed)
{
    struct work *work = *failed;
    if (work != NULL) {
        *failed = work->next_failed;
        work->next_failed = NULL;
    }
    return work;
}

PyObject *tprof_failures_take(struct scheduler *scheduler, struct failures *failures)
{
    tprof_lock(scheduler);
    struct work *failed = failures->first;
    *failures = (struct failures){0};
    tprof_unlock(scheduler);
    PyObject *taken = PyList_New(0);
    for (struct work *work; (work = next_of(&failed)) != NULL;) {
        if (!tprof_is_acknowledged(work) && taken != NULL && PyList_Insert(taken, 0, (PyObject *)work) < 0)
            Py_CLEAR(taken);
        tprof_acknowledge(work);
        Py_DECREF(work);
    }
    return taken;
}

void tprof_failures_drop(struct failures *failures)
{
    struct work *failed = failures->first;
    *failures = (struct failures){0};
    for (struct work *work; (work = next_of(&failed)) != NULL;)
        Py_DECREF(work);
}
