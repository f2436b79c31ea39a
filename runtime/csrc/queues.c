/* Queues of works that are ready. Each level of priority has one queue for each slot and one for works that no worker
 * spawned. A worker takes the youngest of its own queue (its data is still in the cache), else the oldest that no
 * worker spawned, else the oldest of another worker (the largest part of a nested algorithm), that is, it steals. A
 * queue owns a reference to each of its works. */
#include "core.h"

#include <stdlib.h>

int tprof_queues_make(struct scheduler *scheduler)
{
    struct queue *all = calloc((size_t)TPROF_LEVELS * (scheduler->slot_count + 1), sizeof *all);
    if (all == NULL)
        return -1;
    for (int level = 0; level < TPROF_LEVELS; level++)
        scheduler->queues[level] = all + (size_t)level * (scheduler->slot_count + 1);
    return 0;
}

void tprof_queues_free(struct scheduler *scheduler)
{
    free(scheduler->queues[0]);
}

static void unlink_from(struct scheduler *scheduler, struct queue *queue, struct work *work)
{
    if (work->previous != NULL)
        work->previous->next = work->next;
    else
        queue->front = work->next;
    if (work->next != NULL)
        work->next->previous = work->previous;
    else
        queue->back = work->previous;
    work->next = work->previous = NULL;
    if (--scheduler->queued[work->level] == 0)
        scheduler->levels &= ~(UINT64_C(1) << work->level);
}

void tprof_queue_push(struct scheduler *scheduler, struct work *work, const struct thread *by)
{
    const bool ours = by != NULL && by->scheduler == scheduler && by->slot >= 0;
    work->queue = (uint16_t)(ours ? (uint32_t)by->slot : scheduler->slot_count);
    struct queue *queue = &scheduler->queues[work->level][work->queue];
    tprof_set_state(work, TPROF_QUEUED);
    work->previous = queue->back;
    work->next = NULL;
    if (queue->back != NULL)
        queue->back->next = work;
    else
        queue->front = work;
    queue->back = work;
    scheduler->queued[work->level]++;
    scheduler->levels |= UINT64_C(1) << work->level;
    tprof_ref(work);
}

void tprof_queue_remove(struct scheduler *scheduler, struct work *work)
{
    unlink_from(scheduler, &scheduler->queues[work->level][work->queue], work);
}

static struct work *take_at_level(struct scheduler *scheduler, struct queue *queues, uint32_t slot, int *victim)
{
    if (queues[slot].back != NULL)
        return queues[slot].back;
    if (queues[scheduler->slot_count].front != NULL)
        return queues[scheduler->slot_count].front;
    for (uint32_t i = 1; i < scheduler->slot_count; i++) {
        const uint32_t other = (slot + i) % scheduler->slot_count;
        if (queues[other].front == NULL)
            continue;
        *victim = (int)other;
        scheduler->stolen++;
        return queues[other].front;
    }
    return NULL;
}

struct work *tprof_queue_take(struct scheduler *scheduler, const struct thread *by, int *victim)
{
    *victim = -1;
    if (scheduler->levels == 0)
        return NULL;
    const int level = 63 - __builtin_clzll(scheduler->levels);
    struct work *work = take_at_level(scheduler, scheduler->queues[level], (uint32_t)by->slot, victim);
    if (work != NULL)
        tprof_queue_remove(scheduler, work);
    return work;
}

static bool descends_from(const struct work *work, const struct work *ancestor)
{
    while (work != NULL && work->depth > ancestor->depth)
        work = work->parent;
    return work == ancestor;
}

struct work *tprof_queue_descendant(struct scheduler *scheduler, const struct thread *by, const struct work *work)
{
    for (uint64_t levels = scheduler->levels; levels != 0;) {
        const int level = 63 - __builtin_clzll(levels);
        levels &= ~(UINT64_C(1) << level);
        struct work *youngest = scheduler->queues[level][by->slot].back;
        if (youngest == NULL || !descends_from(youngest, work))
            continue;
        tprof_queue_remove(scheduler, youngest);
        return youngest;
    }
    return NULL;
}
