/* Slots: permissions to run tasks. There are as many as workers, and only a thread with a slot runs tasks. A task that
 * waits leaves its slot to another thread, a spare one if need be, and continues once a slot is free. So the processor
 * stays busy, no more tasks run than there are workers, and waiting tasks cannot starve those they wait for. Some slots
 * may be inactive: a thread in one leaves it after its task, and it stays empty. */
#include "core.h"

uint16_t tprof_worker_number(const struct scheduler *scheduler, int slot)
{
    return (uint16_t)((scheduler->first_worker + (uint32_t)slot) % TPROF_NO_WORKER);
}

struct thread *tprof_pop(struct thread **list)
{
    struct thread *thread = *list;
    if (thread != NULL) {
        *list = thread->next;
        thread->next = NULL;
    }
    return thread;
}

void tprof_push_last(struct thread **list, struct thread *thread)
{
    while (*list != NULL)
        list = &(*list)->next;
    thread->next = NULL;
    *list = thread;
}

void tprof_slot_take(struct scheduler *scheduler, struct thread *thread, int slot)
{
    thread->slot = slot;
    scheduler->slot_threads[slot] = thread;
}

static int empty_slot(const struct scheduler *scheduler)
{
    for (uint32_t slot = 0; slot < scheduler->active; slot++)
        if (scheduler->slot_threads[slot] == NULL)
            return (int)slot;
    return -1;
}

bool tprof_slot_find(struct scheduler *scheduler, struct thread *thread)
{
    int slot = empty_slot(scheduler);
    if (slot < 0) {
        struct thread *idle = tprof_pop(&scheduler->sleeping);
        if (idle == NULL)
            return false;
        slot = idle->slot;
        idle->slot = -1;
        tprof_push_last(&scheduler->parked, idle);
    }
    tprof_slot_take(scheduler, thread, slot);
    return true;
}

void tprof_slot_leave(struct scheduler *scheduler, struct thread *thread, struct deferred *deferred)
{
    const int slot = thread->slot;
    if (slot < 0)
        return;
    if (thread->logged_generation != 0) {
        const struct tprof_graph_event event = {.t_ns = tprof_api->now_ns(),
                                                .task = TPROF_NO_TASK,
                                                .worker = tprof_worker_number(scheduler, slot),
                                                .kind = TPROF_EVENT_END};
        tprof_add_event(deferred, thread->logged_generation, &event);
        thread->logged_generation = 0;
    }
    thread->slot = -1;
    scheduler->slot_threads[slot] = NULL;
    if ((uint32_t)slot >= scheduler->active)
        return;
    struct thread *next_thread = tprof_pop(&scheduler->returning);
    if (next_thread == NULL && scheduler->levels != 0)
        next_thread = tprof_pop(&scheduler->parked);
    if (next_thread == NULL)
        return;
    tprof_slot_take(scheduler, next_thread, slot);
    sem_post(&next_thread->semaphore);
}

void tprof_wake_for(struct scheduler *scheduler, size_t works, struct deferred *deferred)
{
    for (; works > 0; works--) {
        struct thread *thread = tprof_pop(&scheduler->sleeping);
        if (thread == NULL) {
            const int slot = empty_slot(scheduler);
            if (slot < 0)
                return;
            thread = tprof_pop(&scheduler->parked);
            if (thread == NULL) {
                if (scheduler->starting == 0) {
                    scheduler->starting++;
                    deferred->threads_wanted++;
                }
                return;
            }
            tprof_slot_take(scheduler, thread, slot);
        }
        sem_post(&thread->semaphore);
    }
}

void tprof_wake_all(struct scheduler *scheduler)
{
    struct thread *thread;
    while ((thread = tprof_pop(&scheduler->sleeping)) != NULL)
        sem_post(&thread->semaphore);
    while ((thread = tprof_pop(&scheduler->parked)) != NULL)
        sem_post(&thread->semaphore);
}

void tprof_all_ended(struct scheduler *scheduler)
{
    scheduler->cancelling = false;
    if (tprof_is_stopping(scheduler))
        tprof_wake_all(scheduler);
}

/* Wake idle threads whose slots become inactive. Each leaves its slot itself, since only the thread itself can record
 * that. */
static void wake_inactive(struct scheduler *scheduler)
{
    struct thread **place = &scheduler->sleeping;
    while (*place != NULL) {
        struct thread *thread = *place;
        if ((uint32_t)thread->slot < scheduler->active) {
            place = &thread->next;
            continue;
        }
        *place = thread->next;
        thread->next = NULL;
        sem_post(&thread->semaphore);
    }
}

void tprof_slots_activate(struct scheduler *scheduler, uint32_t active, struct deferred *deferred)
{
    const uint32_t before = scheduler->active;
    scheduler->active = active;
    wake_inactive(scheduler);
    for (int slot; scheduler->returning != NULL && (slot = empty_slot(scheduler)) >= 0;) {
        struct thread *thread = tprof_pop(&scheduler->returning);
        tprof_slot_take(scheduler, thread, slot);
        sem_post(&thread->semaphore);
    }
    if (active > before && scheduler->levels != 0)
        tprof_wake_for(scheduler, active - before, deferred);
}
