/* Stand-ins for what the scheduler takes from Python, for programs that run its C code alone. Objects of Python are counters,
 * in front of each body. A program defines `scheduler` before it includes this, and `drop_work` after: it lets one reference
 * to a work go. */
#ifndef TPROF_SCHEDULER_ALONE_H
#define TPROF_SCHEDULER_ALONE_H

#include "queues.h"
#include "regions.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 16 };

const struct tprof_runtime_api *tprof_api;
_Thread_local struct thread *tprof_current_thread;

static void drop_work(struct work *work);

static _Atomic size_t *head_of(void *body)
{
    return (_Atomic size_t *)(void *)((char *)body - HEAD);
}

static void *make(size_t size)
{
    char *memory = calloc(1, HEAD + size);
    atomic_store((_Atomic size_t *)(void *)memory, 1);
    return memory + HEAD;
}

void *tprof_ref(void *body)
{
    if (body != NULL)
        atomic_fetch_add(head_of(body), 1);
    return body;
}

/* Such an object is never freed. */
PyObject *tprof_ref_object(PyObject *object)
{
    return object;
}

void tprof_defer_decref(struct deferred *deferred, PyObject *object)
{
    (void)deferred, (void)object;
}

void tprof_defer_unref(struct deferred *deferred, void *body)
{
    (void)deferred;
    if (body != NULL)
        drop_work(body);
}

void tprof_add_edge(struct deferred *deferred, uint64_t number)
{
    (void)deferred, (void)number;
}

struct tprof_graph_event *tprof_new_event(struct deferred *deferred, uint64_t generation)
{
    (void)deferred, (void)generation;
    return NULL;
}

static void run_deferred(struct deferred *deferred)
{
    tprof_graph_settle(&scheduler, false, deferred);
    tprof_wake_deferred(deferred);
    for (struct work *work = deferred->ended, *next; work != NULL; work = next) {
        next = work->next;
        for (uint32_t i = 0; i < work->node->successor_count; i++)
            drop_work(work->node->successors[i].work);
        free(work->node->successors);
        work->node->successors = NULL;
        work->node->successor_count = 0;
        drop_work(work);
    }
}

#endif
