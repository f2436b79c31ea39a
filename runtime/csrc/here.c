/* Which runtime a call of a task goes to: the innermost whose block this thread has entered, since its task began if it
 * runs one; else the one that runs the task; else, on any other thread, the one that was entered last of all. */
#include "core.h"

#include <stdlib.h>

struct entered {
    struct scheduler *scheduler;
    uint64_t inside; /* number of the work whose body entered it, 0: none */
    struct entered *below;
};

PyObject *tprof_current;
static _Thread_local struct entered *entered_here;

static const struct work *work_here(void)
{
    return tprof_thread_here == NULL ? NULL : tprof_thread_here->work;
}

static void forget(struct entered **at)
{
    struct entered *gone = *at;
    *at = gone->below;
    Py_DECREF(gone->scheduler);
    free(gone);
}

struct scheduler *tprof_scheduler_here(void)
{
    const struct work *work = work_here();
    /* One that another thread has ended. */
    while (entered_here != NULL && entered_here->scheduler->stopping)
        forget(&entered_here);
    if (entered_here != NULL && entered_here->inside == (work == NULL ? 0 : work->number))
        return entered_here->scheduler;
    return work != NULL ? tprof_thread_here->scheduler : (struct scheduler *)tprof_current;
}

PyObject *tprof_enter_here(PyObject *module, PyObject *scheduler)
{
    const struct work *work = work_here();
    struct entered *entered = malloc(sizeof *entered);
    (void)module;
    if (entered == NULL)
        return PyErr_NoMemory();
    *entered = (struct entered){(struct scheduler *)Py_NewRef(scheduler), work == NULL ? 0 : work->number, entered_here};
    entered_here = entered;
    Py_RETURN_NONE;
}

PyObject *tprof_leave_here(PyObject *module, PyObject *scheduler)
{
    (void)module;
    for (struct entered **at = &entered_here; *at != NULL; at = &(*at)->below)
        if ((PyObject *)(*at)->scheduler == scheduler) {
            forget(at);
            break;
        }
    Py_RETURN_NONE;
}

PyObject *tprof_set_current(PyObject *module, PyObject *scheduler)
{
    (void)module;
    PyObject *former = tprof_current;
    __atomic_store_n(&tprof_current, scheduler == Py_None ? NULL : Py_NewRef(scheduler), __ATOMIC_RELEASE);
    Py_XDECREF(former);
    Py_RETURN_NONE;
}

PyObject *tprof_scheduler_here_method(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *scheduler = (PyObject *)tprof_scheduler_here();
    return Py_NewRef(scheduler != NULL ? scheduler : Py_None);
}
