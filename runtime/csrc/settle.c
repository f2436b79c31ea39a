/* What is left to do for Python once the mutex is free: references to drop, callbacks to call, threads to start. */
#include "core.h"

#include "failures.h"
#include "regions.h"

#include <stdlib.h>

/* Without memory for the list a reference is leaked: it cannot be dropped under the mutex. */
void tprof_loosen(struct aftermath *after, void *object)
{
    if (object == NULL)
        return;
    if (after->loose_count == after->loose_room) {
        const size_t room = after->loose_room == 0 ? 16 : after->loose_room * 2;
        PyObject **grown = realloc(after->loose, room * sizeof *grown);
        if (grown == NULL)
            return;
        after->loose = grown;
        after->loose_room = room;
    }
    after->loose[after->loose_count++] = object;
}

void tprof_note_edge(struct aftermath *after, uint64_t number)
{
    if (after->edge_count == after->edge_room) {
        const size_t room = after->edge_room == 0 ? 16 : after->edge_room * 2;
        uint64_t *grown = realloc(after->edges, room * sizeof *grown);
        if (grown == NULL)
            return;
        after->edges = grown;
        after->edge_room = room;
    }
    after->edges[after->edge_count++] = number;
}

static void drop_children(struct work *work, struct aftermath *after)
{
    struct domain *children = work->children;
    work->children = NULL;
    if (children == NULL)
        return;
    if (children->table != NULL)
        tprof_table_free(children->table, after);
    tprof_failures_drop(&children->failures);
    free(children);
}

static void call_back(struct work *work)
{
    PyObject *callbacks;
    Py_BEGIN_CRITICAL_SECTION(work);
    callbacks = work->callbacks;
    work->callbacks = NULL;
    work->settled = true;
    Py_END_CRITICAL_SECTION();
    if (callbacks == NULL)
        return;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(callbacks); i++) {
        PyObject *callback = PyList_GET_ITEM(callbacks, i);
        PyObject *result = PyObject_CallOneArg(callback, (PyObject *)work);
        if (result == NULL)
            PyErr_WriteUnraisable(callback);
        Py_XDECREF(result);
    }
    Py_DECREF(callbacks);
}

static void settle_work(struct work *work, struct aftermath *after)
{
    for (uint32_t i = 0; i < work->successor_count; i++)
        Py_DECREF(work->successors[i].work);
    free(work->successors);
    free(work->accesses);
    work->successors = NULL;
    work->accesses = NULL;
    work->successor_count = work->access_count = 0;
    drop_children(work, after);
    call_back(work);
    Py_CLEAR(work->args);
    Py_CLEAR(work->names);
    Py_CLEAR(work->parent);
    Py_CLEAR(work->group);
}

static void start_threads(struct scheduler *scheduler, size_t count)
{
    for (; count > 0; count--) {
        PyObject *result = PyObject_CallNoArgs(scheduler->start_thread);
        if (result == NULL) {
            PyErr_WriteUnraisable(scheduler->start_thread);
            tprof_lock(scheduler);
            scheduler->starting--;
            tprof_unlock(scheduler);
        }
        Py_XDECREF(result);
    }
}

void tprof_settle(struct scheduler *scheduler, struct aftermath *after)
{
    start_threads(scheduler, after->threads_wanted);
    for (struct work *work = after->settled, *next; work != NULL; work = next) {
        next = work->next_settled;
        work->next_settled = NULL;
        settle_work(work, after);
        Py_DECREF(work);
    }
    for (size_t i = 0; i < after->loose_count; i++)
        Py_DECREF(after->loose[i]);
    free(after->loose);
    free(after->edges);
}
