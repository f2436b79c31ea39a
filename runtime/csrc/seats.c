/* Who may run. There are as many seats as workers, and only a thread with a seat runs tasks. A task that waits for
 * something leaves its seat to another thread, a spare one if need be, and goes on as soon as a seat is free: so the
 * processor stays busy, no more tasks run than there are workers, and waiting tasks cannot starve those they wait
 * for. Fewer seats may be active than there are: the others stay empty, and who sits there leaves after its task. */
#include "core.h"

uint16_t tprof_worker_number(const struct scheduler *scheduler, int seat)
{
    return (uint16_t)((scheduler->first_worker + (uint32_t)seat) % TPROF_NO_WORKER);
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

void tprof_seat_take(struct scheduler *scheduler, struct thread *thread, int seat)
{
    thread->seat = seat;
    scheduler->seated[seat] = thread;
}

static int empty_seat(const struct scheduler *scheduler)
{
    for (uint32_t seat = 0; seat < scheduler->active; seat++)
        if (scheduler->seated[seat] == NULL)
            return (int)seat;
    return -1;
}

bool tprof_seat_find(struct scheduler *scheduler, struct thread *thread)
{
    int seat = empty_seat(scheduler);
    if (seat < 0) {
        struct thread *idle = tprof_pop(&scheduler->sleeping);
        if (idle == NULL)
            return false;
        seat = idle->seat;
        idle->seat = -1;
        tprof_push_last(&scheduler->parked, idle);
    }
    tprof_seat_take(scheduler, thread, seat);
    return true;
}

void tprof_seat_leave(struct scheduler *scheduler, struct thread *thread)
{
    const int seat = thread->seat;
    if (seat < 0)
        return;
    if (thread->told != 0) {
        const struct tprof_graph_event event = {.t_ns = tprof_api->now_ns(), .task = TPROF_NO_TASK,
                                                .worker = tprof_worker_number(scheduler, seat), .kind = TPROF_EVENT_END};
        tprof_api->tell(&event);
        thread->told = 0;
    }
    thread->seat = -1;
    scheduler->seated[seat] = NULL;
    if ((uint32_t)seat >= scheduler->active)
        return;
    struct thread *heir = tprof_pop(&scheduler->returning);
    if (heir == NULL && scheduler->levels != 0)
        heir = tprof_pop(&scheduler->parked);
    if (heir == NULL)
        return;
    tprof_seat_take(scheduler, heir, seat);
    sem_post(&heir->semaphore);
}

void tprof_wake_for(struct scheduler *scheduler, size_t works, struct aftermath *after)
{
    for (; works > 0; works--) {
        struct thread *thread = tprof_pop(&scheduler->sleeping);
        if (thread == NULL) {
            const int seat = empty_seat(scheduler);
            if (seat < 0)
                return;
            thread = tprof_pop(&scheduler->parked);
            if (thread == NULL) {
                if (scheduler->starting == 0) {
                    scheduler->starting++;
                    after->threads_wanted++;
                }
                return;
            }
            tprof_seat_take(scheduler, thread, seat);
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

/* Idle threads of seats that become inactive are woken to leave them by themselves, since only a thread itself can tell
 * the recording so. */
static void rouse_inactive(struct scheduler *scheduler)
{
    struct thread **place = &scheduler->sleeping;
    while (*place != NULL) {
        struct thread *thread = *place;
        if ((uint32_t)thread->seat < scheduler->active) {
            place = &thread->next;
            continue;
        }
        *place = thread->next;
        thread->next = NULL;
        sem_post(&thread->semaphore);
    }
}

void tprof_seats_activate(struct scheduler *scheduler, uint32_t active, struct aftermath *after)
{
    const uint32_t before = scheduler->active;
    scheduler->active = active;
    rouse_inactive(scheduler);
    for (int seat; scheduler->returning != NULL && (seat = empty_seat(scheduler)) >= 0;) {
        struct thread *thread = tprof_pop(&scheduler->returning);
        tprof_seat_take(scheduler, thread, seat);
        sem_post(&thread->semaphore);
    }
    if (active > before && scheduler->levels != 0)
        tprof_wake_for(scheduler, active - before, after);
}
