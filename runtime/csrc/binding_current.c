/* The current runtime, which receives a call of a task. A thread that runs a task: the innermost runtime that the task
 * has entered, else the one that runs the task. Any other thread: the innermost that the thread has entered, else the
 * default, which is the last that any thread entered.
 *
 * Threads share the default alone. A reader takes a reference under the lock under which others replace it, so it
 * cannot be freed in between. */
#include "binding.h"

#include <stdlib.h>

struct entered {
    struct scheduler *scheduler;
    uint64_t inside; /* number of the work whose body entered it, 0: none */
    struct entered *below;
};

static pthread_mutex_t default_lock = PTHREAD_MUTEX_INITIALIZER;
static struct scheduler *default_scheduler;
static _Thread_local struct entered *entered_stack;

static void lock_default(void)
{
    pthread_mutex_lock(&default_lock);
}

static void unlock_default(void)
{
    pthread_mutex_unlock(&default_lock);
}

void tprof_initialise_current(void)
{
    tprof_api->follow_forks(lock_default, unlock_default);
}

static struct scheduler *get_default(void)
{
    lock_default();
    struct scheduler *scheduler = tprof_ref(default_scheduler);
    unlock_default();
    return scheduler;
}

static const struct work *current_work(void)
{
    return tprof_current_thread == NULL ? NULL : tprof_current_thread->work;
}

static void remove_entry(struct entered **at)
{
    struct entered *removed = *at;
    *at = removed->below;
    tprof_unref(removed->scheduler);
    free(removed);
}

struct scheduler *tprof_current_scheduler(void)
{
    const struct work *work = current_work();
    /* Another thread may have ended it. */
    while (entered_stack != NULL && tprof_is_stopping(entered_stack->scheduler))
        remove_entry(&entered_stack);
    if (entered_stack != NULL && entered_stack->inside == (work == NULL ? 0 : work->number))
        return tprof_ref(entered_stack->scheduler);
    return work != NULL ? tprof_ref(tprof_current_thread->scheduler) : get_default();
}

PyObject *tprof_enter_scheduler(PyObject *module, PyObject *scheduler)
{
    const struct work *work = current_work();
    struct entered *entered = malloc(sizeof *entered);
    (void)module;
    if (entered == NULL)
        return PyErr_NoMemory();
    entered->scheduler = tprof_ref(tprof_as_scheduler(scheduler));
    entered->inside = work == NULL ? 0 : work->number;
    entered->below = entered_stack;
    entered_stack = entered;
    Py_RETURN_NONE;
}

PyObject *tprof_leave_scheduler(PyObject *module, PyObject *scheduler)
{
    (void)module;
    for (struct entered **at = &entered_stack; *at != NULL; at = &(*at)->below)
        if (tprof_object((*at)->scheduler) == scheduler) {
            remove_entry(at);
            break;
        }
    Py_RETURN_NONE;
}

PyObject *tprof_set_default(PyObject *module, PyObject *scheduler)
{
    (void)module;
    struct scheduler *next = scheduler == Py_None ? NULL : tprof_ref(tprof_as_scheduler(scheduler));
    lock_default();
    struct scheduler *former = default_scheduler;
    default_scheduler = next;
    unlock_default();
    tprof_unref(former);
    Py_RETURN_NONE;
}

PyObject *tprof_current_scheduler_method(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *scheduler = tprof_object(tprof_current_scheduler());
    return scheduler != NULL ? scheduler : Py_NewRef(Py_None);
}
