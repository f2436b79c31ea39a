/* The futures among a work's arguments. Those of its own runtime are predecessors like any. Another runtime has another
 * mutex, so its futures call a callback at their end, as they do for Python. */
#include "needed.h"

#include <stdlib.h>

static bool is_future(const struct work *work, PyObject *argument)
{
    return Py_TYPE(argument) == work->scheduler->future_type;
}

static int put_needed(struct needed *needed, const struct work *work, struct work *future, size_t *last)
{
    if (future->scheduler == work->scheduler)
        needed->works[needed->ours++] = future;
    else if (future->scheduler->dead && !tprof_has_ended(future)) {
        PyErr_Format(PyExc_RuntimeError, "%R belongs to a runtime of the parent process: it never ends here", future);
        return -1;
    } else
        needed->works[--*last] = future;
    return 0;
}

int tprof_needed_find(struct needed *needed, const struct work *work)
{
    needed->works = needed->few;
    needed->ours = needed->all = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(work->args); i++)
        needed->all += is_future(work, PyTuple_GET_ITEM(work->args, i));
    if (needed->all > sizeof needed->few / sizeof *needed->few &&
        (needed->works = malloc(needed->all * sizeof *needed->works)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    size_t last = needed->all;
    int failed = 0;
    for (Py_ssize_t i = 0; failed == 0 && i < PyTuple_GET_SIZE(work->args); i++)
        if (is_future(work, PyTuple_GET_ITEM(work->args, i)))
            failed = put_needed(needed, work, (struct work *)PyTuple_GET_ITEM(work->args, i), &last);
    return failed;
}

void tprof_needed_free(struct needed *needed)
{
    if (needed->works != needed->few)
        free(needed->works);
}

/* Called by another runtime when one of its works has ended. */
static PyObject *on_future_ended(PyObject *object, PyObject *future)
{
    struct work *work = (struct work *)object;
    struct scheduler *scheduler = work->scheduler;
    struct deferred deferred = {0};
    (void)tprof_api->join();
    tprof_lock(scheduler);
    tprof_graph_future_ended(work, (struct work *)future, &deferred);
    tprof_wake_for(scheduler, deferred.readied, &deferred);
    tprof_unlock(scheduler);
    tprof_run_deferred(scheduler, &deferred);
    Py_RETURN_NONE;
}

static PyMethodDef on_future_ended_method = {"on_future_ended", on_future_ended, METH_O, NULL};

int tprof_needed_expect(struct work *work, const struct needed *needed)
{
    if (needed->ours == needed->all)
        return 0;
    PyObject *callback = PyCFunction_New(&on_future_ended_method, (PyObject *)work);
    int failed = callback == NULL;
    for (size_t i = needed->ours; !failed && i < needed->all; i++)
        failed = tprof_work_call_back(needed->works[i], callback) < 0;
    Py_XDECREF(callback);
    return failed ? -1 : 0;
}
