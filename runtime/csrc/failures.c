/* Failures that nobody has asked about yet, as a list for Python, the first that happened first. */
#include "failures.h"

PyObject *tprof_failures_take(struct scheduler *scheduler, struct work **list)
{
    tprof_lock(scheduler);
    struct work *failed = *list;
    *list = NULL;
    tprof_unlock(scheduler);
    PyObject *taken = PyList_New(0);
    while (failed != NULL) {
        struct work *next = failed->next_failed;
        failed->next_failed = NULL;
        if (!tprof_is_acknowledged(failed) && taken != NULL && PyList_Insert(taken, 0, (PyObject *)failed) < 0)
            Py_CLEAR(taken);
        tprof_acknowledge(failed);
        Py_DECREF(failed);
        failed = next;
    }
    return taken;
}
