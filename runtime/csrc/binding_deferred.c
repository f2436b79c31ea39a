/* Deferred work, done when no lock is held: drop references, call callbacks, start threads. */
#include "binding.h"

#include "regions.h"

#include <stdlib.h>
#include <string.h>

void *tprof_ref(void *body)
{
    Py_XINCREF(tprof_object(body));
    return body;
}

PyObject *tprof_ref_object(PyObject *object)
{
    return Py_XNewRef(object);
}

/* Without memory for the list the reference leaks, since it cannot be dropped under the mutex. */
void tprof_defer_decref(struct deferred *deferred, PyObject *object)
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

void tprof_defer_unref(struct deferred *deferred, void *body)
{
    tprof_defer_decref(deferred, tprof_object(body));
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
        if (!tprof_is_acknowledged(work) && taken != NULL && PyList_Insert(taken, 0, tprof_object(work)) < 0)
            Py_CLEAR(taken);
        tprof_acknowledge(work);
        tprof_unref(work);
    }
    return taken;
}

void tprof_failures_drop(struct failures *failures)
{
    struct work *failed = failures->first;
    *failures = (struct failures){0};
    for (struct work *work; (work = next_of(&failed)) != NULL;)
        tprof_unref(work);
}

/* Not the domain itself: the thread of the last child may still look at its count. */
static void drop_children(struct work *work, struct deferred *deferred)
{
    struct domain *children = work->children;
    if (children == NULL)
        return;
    if (children->table != NULL)
        tprof_table_free(children->table, deferred);
    children->table = NULL;
    tprof_failures_drop(&children->failures);
}

struct tprof_graph_event *tprof_new_event(struct deferred *deferred, uint64_t generation)
{
    if (deferred->events == NULL) {
        deferred->events = deferred->few_events;
        deferred->event_capacity = sizeof deferred->few_events / sizeof *deferred->few_events;
    }
    if (deferred->event_count == deferred->event_capacity) {
        const bool few = deferred->events == deferred->few_events;
        const size_t capacity = deferred->event_capacity * 4;
        struct logged *grown = realloc(few ? NULL : deferred->events, capacity * sizeof *grown);
        if (grown == NULL)
            return NULL;
        if (few)
            memcpy(grown, deferred->few_events, sizeof deferred->few_events);
        deferred->events = grown;
        deferred->event_capacity = capacity;
    }
    struct logged *logged = &deferred->events[deferred->event_count++];
    logged->generation = generation;
    return &logged->event;
}

void tprof_write_events(struct deferred *deferred)
{
    for (size_t i = 0; i < deferred->event_count; i++)
        tprof_api->write_event(deferred->events[i].generation, &deferred->events[i].event);
    if (deferred->events != deferred->few_events)
        free(deferred->events);
    deferred->events = NULL;
    deferred->event_count = deferred->event_capacity = 0;
}

static void call_back(struct work *work)
{
    PyObject *callbacks;
    Py_BEGIN_CRITICAL_SECTION(tprof_object(work));
    callbacks = work->callbacks;
    work->callbacks = NULL;
    work->callbacks_called = true;
    Py_END_CRITICAL_SECTION();
    if (callbacks == NULL)
        return;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(callbacks); i++) {
        PyObject *callback = PyList_GET_ITEM(callbacks, i);
        PyObject *result = PyObject_CallOneArg(callback, tprof_object(work));
        if (result == NULL)
            PyErr_WriteUnraisable(callback);
        Py_XDECREF(result);
    }
    Py_DECREF(callbacks);
}

static void clean_up_work(struct work *work, struct deferred *deferred)
{
    struct node *node = work->node;
    for (uint32_t i = 0; i < node->successor_count; i++)
        tprof_unref(node->successors[i].work);
    free(node->successors);
    node->successors = NULL;
    node->successor_count = 0;
    drop_children(work, deferred);
    call_back(work);
    Py_CLEAR(work->args);
    Py_CLEAR(work->names);
    TPROF_CLEAR(work->parent);
    TPROF_CLEAR(work->group);
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
    tprof_graph_settle(scheduler, false, deferred);
    tprof_wake_deferred(deferred);
    tprof_write_events(deferred);
    start_threads(scheduler, deferred->threads_wanted);
    for (struct work *work = deferred->ended, *next; work != NULL; work = next) {
        next = work->next;
        work->next = NULL;
        clean_up_work(work, deferred);
        tprof_unref(work);
    }
    if (deferred->table != NULL)
        tprof_table_free(deferred->table, deferred);
    for (size_t i = 0; i < deferred->reference_count; i++)
        Py_DECREF(deferred->references[i]);
    free(deferred->references);
    free(deferred->edges);
}
