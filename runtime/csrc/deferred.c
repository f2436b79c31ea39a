/* Deferred work, done after the mutex is released: drop references, call callbacks, start threads. */
#include "core.h"

#include "failures.h"
#include "regions.h"

#include <stdlib.h>

/* Without memory for the list the reference leaks, since it cannot be dropped under the mutex. */
void tprof_defer_decref(struct deferred *deferred, void *object)
{
    if (object == NULL)
        return;
    if (deferred->reference_count == deferred->reference_capacity) {
        const size_t capacity = deferred->reference_capacity == 0 ? 16 : deferred->reference_capacity * 2;
        PyObject **grown = realloc(deferred->references, capacity * sizeof *grown);
        if (grown == NULL)
            return;
        deferred->references = grown;
        deferred->reference_capacity = capacity;
    }
    deferred->references[deferred->reference_count++] = object;
}

void tprof_add_edge(struct deferred *deferred, uint64_t number)
{
    if (deferred->edge_count == deferred->edge_capacity) {
        const size_t capacity = deferred->edge_capacity == 0 ? 16 : deferred->edge_capacity * 2;
        uint64_t *grown = realloc(deferred->edges, capacity * sizeof *grown);
        if (grown == NULL)
            return;
        deferred->edges = grown;
        deferred->edge_capacity = capacity;
    }
    deferred->edges[deferred->edge_count++] = number;
}

static void drop_children(struct work *work, struct deferred *deferred)
{
    struct domain *children = work->children;
    work->children = NULL;
    if (children == NULL)
        return;
    if (children->table != NULL)
        tprof_table_free(children->table, deferred);
    tprof_failures_drop(&children->failures);
    free(children);
}

static void call_back(struct work *work)
{
    PyObject *callbacks;
    Py_BEGIN_CRITICAL_SECTION(work);
    callbacks = work->callbacks;
    work->callbacks = NULL;
    work->callbacks_called = true;
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

static void clean_up_work(struct work *work, struct deferred *deferred)
{
    for (uint32_t i = 0; i < work->successor_count; i++)
        Py_DECREF(work->successors[i].work);
    free(work->successors);
    free(work->accesses);
    work->successors = NULL;
    work->accesses = NULL;
    work->successor_count = work->access_count = 0;
    drop_children(work, deferred);
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

void tprof_run_deferred(struct scheduler *scheduler, struct deferred *deferred)
{
    start_threads(scheduler, deferred->threads_wanted);
    for (struct work *work = deferred->ended, *next; work != NULL; work = next) {
        next = work->next_ended;
        work->next_ended = NULL;
        clean_up_work(work, deferred);
        Py_DECREF(work);
    }
    for (size_t i = 0; i < deferred->reference_count; i++)
        Py_DECREF(deferred->references[i]);
    free(deferred->references);
    free(deferred->edges);
}
