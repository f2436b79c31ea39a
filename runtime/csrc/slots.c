/* Slots: permissions to run tasks. There are as many as workers, and only a thread with a slot runs tasks. A task that
 * waits leaves its slot to another thread, a spare one if need be, and continues once a slot is free. So the processor
 * stays busy, no more tasks run than there are workers, and waiting tasks cannot starve those they wait for. Some slots
 * may be inactive: a thread in one leaves it after its task, and it stays empty.
 *
 * Works are queued without the mutex. Who queues one, then sees that a slot is idle, and that no thread is searching for
 * works, wakes one thread; it searches until it has a work, and if it was the last to search and there are more, it wakes
 * the next. So a thousand works that come one by one do not wake a thousand times. No work is left while a slot is idle:
 * a thread that is about to sleep, or leaves its slot empty, first makes that known, stops searching, and then looks at
 * the queues once more. Each of both writes before it reads, so one sees the other. */
#include "queues.h"

uint16_t tprof_worker_number(const struct scheduler *scheduler, int slot)
{
    return (uint16_t)((scheduler->first_worker + (uint32_t)slot) % TPROF_NO_WORKER);
}

static struct thread *pop(struct thread **list)
{
    struct thread *thread = *list;
    if (thread != NULL) {
        *list = thread->next;
        thread->next = NULL;
    }
    return thread;
}

static void push_last(struct thread **list, struct thread *thread)
{
    while (*list != NULL)
        list = &(*list)->next;
    thread->next = NULL;
    *list = thread;
}

static void take(struct scheduler *scheduler, struct thread *thread, int slot)
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

/* After each change of slots and lists. */
static void publish(struct scheduler *scheduler)
{
    atomic_store(&scheduler->queues->has_idle, scheduler->sleeping != NULL || empty_slot(scheduler) >= 0);
    atomic_store(&scheduler->queues->has_returning, scheduler->returning != NULL);
}

bool tprof_slot_take_empty(struct scheduler *scheduler, struct thread *thread)
{
    const int slot = empty_slot(scheduler);
    if (slot < 0)
        return false;
    take(scheduler, thread, slot);
    publish(scheduler);
    return true;
}

bool tprof_slot_regain(struct scheduler *scheduler, struct thread *thread)
{
    if (tprof_slot_take_empty(scheduler, thread))
        return true;
    struct thread *idle = pop(&scheduler->sleeping);
    if (idle == NULL)
        push_last(&scheduler->returning, thread);
    else {
        take(scheduler, thread, idle->slot);
        idle->slot = -1;
        push_last(&scheduler->parked, idle);
    }
    publish(scheduler);
    return idle != NULL;
}

void tprof_slot_park(struct scheduler *scheduler, struct thread *thread)
{
    push_last(&scheduler->parked, thread);
}

static void start_search(struct thread *thread)
{
    thread->searching = true;
    (void)atomic_fetch_add(&thread->scheduler->queues->searching, 1);
}

/* Returns whether it was the last one. */
static bool stop_search(struct thread *thread)
{
    if (!thread->searching)
        return false;
    thread->searching = false;
    return atomic_fetch_sub(&thread->scheduler->queues->searching, 1) == 1;
}

bool tprof_slot_rest(struct scheduler *scheduler, struct thread *thread)
{
    if (scheduler->returning != NULL || (uint32_t)thread->slot >= scheduler->active)
        return false;
    thread->next = scheduler->sleeping;
    scheduler->sleeping = thread;
    publish(scheduler);
    (void)stop_search(thread);
    if (tprof_queues_are_empty(scheduler))
        return true;
    (void)pop(&scheduler->sleeping);
    publish(scheduler);
    start_search(thread);
    return false;
}

void tprof_search_ended(struct thread *thread, struct deferred *deferred)
{
    struct scheduler *scheduler = thread->scheduler;
    if (!stop_search(thread) || !atomic_load(&scheduler->queues->has_idle) || tprof_queues_are_empty(scheduler))
        return;
    tprof_lock(scheduler);
    tprof_wake_for(scheduler, 1, deferred);
    tprof_unlock(scheduler);
}

void tprof_works_queued(struct scheduler *scheduler, size_t works, struct deferred *deferred)
{
    const struct queues *queues = scheduler->queues;
    if (!atomic_load(&queues->has_idle) || atomic_load(&queues->searching) >= works)
        return;
    tprof_lock(scheduler);
    const size_t searching = atomic_load(&queues->searching);
    if (searching < works)
        tprof_wake_for(scheduler, works - searching, deferred);
    tprof_unlock(scheduler);
}

/* A thread that was taken off its list goes on only when it is woken, and does so once for each such time. One that gets a
 * slot for its task does not search. */
static void wake_later(struct thread *thread, struct deferred *deferred)
{
    thread->next = deferred->woken;
    deferred->woken = thread;
}

void tprof_wake_deferred(struct deferred *deferred)
{
    for (struct thread *thread; (thread = pop(&deferred->woken)) != NULL;)
        sem_post(&thread->semaphore);
}

void tprof_slot_leave(struct scheduler *scheduler, struct thread *thread, struct deferred *deferred)
{
    const int slot = thread->slot;
    if (slot < 0)
        return;
    if (thread->logged_generation != 0) {
        struct tprof_graph_event *event = tprof_new_event(deferred, thread->logged_generation);
        if (event != NULL)
            *event = (struct tprof_graph_event){.t_ns = tprof_api->now_ns(),
                                                .task = TPROF_NO_TASK,
                                                .worker = tprof_worker_number(scheduler, slot),
                                                .kind = TPROF_EVENT_END};
        thread->logged_generation = 0;
    }
    (void)stop_search(thread);
    thread->slot = -1;
    scheduler->slot_threads[slot] = NULL;
    publish(scheduler);
    if ((uint32_t)slot >= scheduler->active)
        return;
    struct thread *next_thread = pop(&scheduler->returning);
    if (next_thread == NULL && !tprof_queues_are_empty(scheduler) && (next_thread = pop(&scheduler->parked)) != NULL)
        start_search(next_thread);
    if (next_thread == NULL)
        return;
    take(scheduler, next_thread, slot);
    publish(scheduler);
    wake_later(next_thread, deferred);
}

/* Returns whether a thread was woken. */
static bool wake_one(struct scheduler *scheduler, struct deferred *deferred)
{
    struct thread *thread = pop(&scheduler->sleeping);
    if (thread == NULL) {
        const int slot = empty_slot(scheduler);
        if (slot < 0)
            return false;
        thread = pop(&scheduler->parked);
        if (thread == NULL) {
            deferred->threads_wanted += scheduler->starting == 0;
            scheduler->starting += scheduler->starting == 0;
            return false;
        }
        take(scheduler, thread, slot);
    }
    start_search(thread);
    wake_later(thread, deferred);
    return true;
}

void tprof_wake_for(struct scheduler *scheduler, size_t works, struct deferred *deferred)
{
    while (works > 0 && wake_one(scheduler, deferred))
        works--;
    publish(scheduler);
}

/* Posts under the mutex: it happens once, at the end. */
void tprof_wake_all(struct scheduler *scheduler)
{
    struct thread *thread;
    while ((thread = pop(&scheduler->sleeping)) != NULL)
        sem_post(&thread->semaphore);
    while ((thread = pop(&scheduler->parked)) != NULL)
        sem_post(&thread->semaphore);
    publish(scheduler);
}

bool tprof_close(struct scheduler *scheduler)
{
    size_t unfinished = 0;
    return tprof_is_stopping(scheduler) &&
           (atomic_compare_exchange_strong(&scheduler->unfinished, &unfinished, TPROF_CLOSED) ||
            unfinished >= TPROF_CLOSED);
}

void tprof_all_ended(struct scheduler *scheduler)
{
    atomic_store(&scheduler->cancelling, false);
    if (tprof_close(scheduler))
        tprof_wake_all(scheduler);
}

/* Wake idle threads whose slots become inactive. Each leaves its slot itself, since only the thread itself can record
 * that. */
static void wake_inactive(struct scheduler *scheduler, struct deferred *deferred)
{
    struct thread **place = &scheduler->sleeping;
    while (*place != NULL) {
        struct thread *thread = *place;
        if ((uint32_t)thread->slot < scheduler->active) {
            place = &thread->next;
            continue;
        }
        *place = thread->next;
        wake_later(thread, deferred);
    }
}

void tprof_slots_activate(struct scheduler *scheduler, uint32_t active, struct deferred *deferred)
{
    const uint32_t before = scheduler->active;
    atomic_store(&scheduler->active, active);
    wake_inactive(scheduler, deferred);
    for (int slot; scheduler->returning != NULL && (slot = empty_slot(scheduler)) >= 0;) {
        struct thread *thread = pop(&scheduler->returning);
        take(scheduler, thread, slot);
        wake_later(thread, deferred);
    }
    publish(scheduler);
    if (active > before && !tprof_queues_are_empty(scheduler))
        tprof_wake_for(scheduler, active - before, deferred);
}
