/* Which runtime a call of a task goes to: the innermost whose block this thread has entered, since its task began if it
 * runs one; else the one that runs the task; else, on any other thread, the one that was entered last of all.
 *
 * That last one is the only thing here that several threads have in common: whoever reads it takes a reference under the
 * same lock under which another thread exchanges it, so neither uses what the other has let go. */
#include "core.h"

#include <stdlib.h>

struct entered {
    struct scheduler *scheduler;
    uint64_t inside; /* number of the work whose body entered it, 0: none */
    struct entered *below;
};

static pthread_mutex_t current_lock = PTHREAD_MUTEX_INITIALIZER;
static struct scheduler *current;
static _Thread_local struct entered *entered_stack;

static void lock_current(void)
{
    pthread_mutex_lock(&current_lock);
}

static void unlock_current(void)
{
    pthread_mutex_unlock(&current_lock);
}

/* A child gets the lock free. */
static void follow_forks(void)
{
    (void)pthread_atfork(lock_current, unlock_current, unlock_current);
}

void tprof_initialise_current(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, follow_forks);
}

static struct scheduler *current_here(void)
{
    lock_current();
    struct scheduler *scheduler = (struct scheduler *)Py_XNewRef((PyObject *)current);
    unlock_current();
    return scheduler;
}

static const struct work *current_work(void)
{
    return tprof_current_thread == NULL ? NULL : tprof_current_thread->work;
}

static void forget(struct entered **at)
{
    struct entered *gone = *at;
    *at = gone->below;
    Py_DECREF(gone->scheduler);
    free(gone);
}

struct scheduler *tprof_current_scheduler(void)
{
    const struct work *work = current_work();
    /* One that another thread has ended. */
    while (entered_stack != NULL && tprof_is_stopping(entered_stack->scheduler))
        forget(&entered_stack);
    if (entered_stack != NULL && entered_stack->inside == (work == NULL ? 0 : work->number))
        return (struct scheduler *)Py_NewRef((PyObject *)entered_stack->scheduler);
    return work != NULL ? (struct scheduler *)Py_NewRef((PyObject *)tprof_current_thread->scheduler) : current_here();
}

PyObject *tprof_enter_scheduler(PyObject *module, PyObject *scheduler)
{
    const struct work *work = current_work();
    struct entered *entered = malloc(sizeof *entered);
    (void)module;
    if (entered == NULL)
        return PyErr_NoMemory();
    *entered = (struct entered){(struct scheduler *)Py_NewRef(scheduler), work == NULL ? 0 : work->number, entered_stack};
    entered_stack = entered;
    Py_RETURN_NONE;
}

PyObject *tprof_leave_scheduler(PyObject *module, PyObject *scheduler)
{
    (void)module;
    for (struct entered **at = &entered_stack; *at != NULL; at = &(*at)->below)
        if ((PyObject *)(*at)->scheduler == scheduler) {
            forget(at);
            break;
        }
    Py_RETURN_NONE;
}

PyObject *tprof_set_default(PyObject *module, PyObject *scheduler)
{
    (void)module;
    PyObject *next = scheduler == Py_None ? NULL : Py_NewRef(scheduler);
    lock_current();
    PyObject *former = (PyObject *)current;
    current = (struct scheduler *)next;
    unlock_current();
    Py_XDECREF(former);
    Py_RETURN_NONE;
}

PyObject *tprof_current_scheduler_method(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *scheduler = (PyObject *)tprof_current_scheduler();
    return scheduler != NULL ? scheduler : Py_NewRef(Py_None);
}
