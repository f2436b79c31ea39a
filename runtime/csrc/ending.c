/* How a work leaves the graph: its successors are released or, if it failed, cancelled; threads that wait for the work,
 * its group or its domain are woken. None of that takes the mutex, unless a thread is woken. */
#include "core.h"
#include "queues.h"
#include "regions.h"

#include <stdlib.h>

/* Most works are ready when they are spawned: one event says both, which takes half the time of two. */
static bool is_said_by_spawn(uint8_t kind, const struct work *work, uint64_t other, struct deferred *deferred)
{
    if (kind != TPROF_EVENT_READY || other != 0 || deferred->event_count == 0)
        return false;
    struct logged *last = &deferred->events[deferred->event_count - 1];
    if (last->event.kind != TPROF_EVENT_SPAWN || last->event.instance != work->instance.number ||
        last->generation != work->instance.generation)
        return false;
    last->event.flags |= TPROF_EVENT_AT_ONCE;
    return true;
}

void tprof_log_event(uint8_t kind, const struct work *work, uint64_t other, struct deferred *deferred)
{
    if (work->instance.number == 0 || is_said_by_spawn(kind, work, other, deferred))
        return;
    struct tprof_graph_event *event = tprof_new_event(deferred, work->instance.generation);
    if (event != NULL)
        *event = (struct tprof_graph_event){
            tprof_api->now_ns(), work->instance.number, other, work->task, TPROF_NO_WORKER, kind, 0};
}

void tprof_clear_poison(struct region *region, struct deferred *deferred)
{
    tprof_defer_unref(deferred, region->cause);
    tprof_defer_decref(deferred, region->keep);
    region->cause = NULL;
    region->keep = NULL;
}

struct work *tprof_poisoned_by(struct region *region, const struct domain *domain, struct deferred *deferred)
{
    const struct work *cause = region->cause;
    if (cause != NULL && (tprof_is_acknowledged(cause) || region->poisoned_at <= domain->handled_up_to))
        tprof_clear_poison(region, deferred);
    return region->cause;
}

void tprof_set_cause(struct work *work, struct work *cause)
{
    struct work *none = NULL;
    if (cause != NULL && tprof_cause_of(work) == NULL &&
        atomic_compare_exchange_strong_explicit(&work->cause, &none, cause, memory_order_release, memory_order_relaxed))
        (void)tprof_ref(cause);
}

struct work *tprof_root_cause(struct work *work)
{
    struct work *cause = tprof_cause_of(work);
    return cause != NULL ? cause : work;
}

/* Mark data that the work has not written: works that need it are cancelled too. */
static void poison(const struct access *access, struct work *cause, uint64_t at, struct deferred *deferred)
{
    struct region *region = access->region;
    if (region == NULL || access->mode == TPROF_READS || tprof_is_acknowledged(cause))
        return;
    tprof_clear_poison(region, deferred);
    region->cause = tprof_ref(cause);
    region->poisoned_at = at;
    region->keep = tprof_ref_object(access->object);
}

struct group *tprof_group_around(struct group *group, const struct scheduler *scheduler, const struct work *parent)
{
    while (group != NULL && (group->scheduler != scheduler || (parent != NULL && parent->number != group->inside)))
        group = group->outer;
    return group;
}

struct group *tprof_open_group(struct group *group, const struct scheduler *scheduler, const struct work *parent)
{
    group = tprof_group_around(group, scheduler, parent);
    while (group != NULL && !tprof_is_open(group))
        group = tprof_group_around(group->outer, scheduler, parent);
    return group;
}

struct group *tprof_waiting_group(const struct work *work)
{
    struct group *group = work->group;
    while (group != NULL && !group->waits)
        group = tprof_group_around(group->outer, work->scheduler, work->parent);
    return group;
}

static bool is_unwanted_in_group(const struct work *work)
{
    struct group *group = work->group;
    while (group != NULL && work->number > group->cancelled)
        group = tprof_group_around(group->outer, work->scheduler, work->parent);
    return group != NULL;
}

static bool is_unwanted(const struct work *work)
{
    if (!atomic_load(&work->scheduler->cancelling))
        return false;
    for (; work->parent != NULL; work = work->parent)
        if (is_unwanted_in_group(work))
            return true;
    return work->number <= work->scheduler->cancelled || is_unwanted_in_group(work);
}

static void let_end(struct work *work, enum state outcome, struct deferred *deferred)
{
    work->outcome = (uint8_t)outcome;
    tprof_append(&deferred->ending, work);
}

void tprof_graph_end_cancelled(struct work *work, struct deferred *deferred)
{
    const struct work *cause = tprof_cause_of(work);
    tprof_log_event(TPROF_EVENT_CANCEL, work, cause == NULL ? 0 : cause->instance.number, deferred);
    let_end(work, TPROF_CANCELLED, deferred);
}

void tprof_graph_released(struct work *work, uint64_t released_by, struct deferred *deferred)
{
    if (atomic_fetch_sub(&work->unmet, 1) > 1)
        return;
    work->released_by = released_by;
    if (tprof_is_cancel_requested(work))
        tprof_graph_end_cancelled(work, deferred);
    else
        tprof_append(&deferred->ready, work);
}

/* A work that no other thread has, or lets end. */
static void withdraw(struct work *work, struct deferred *deferred)
{
    tprof_set_state(work, TPROF_WITHDRAWN);
    tprof_acknowledge(work);
    tprof_graph_end_cancelled(work, deferred);
}

bool tprof_graph_may_begin(struct work *work, struct deferred *deferred)
{
    if (!is_unwanted(work))
        return true;
    withdraw(work, deferred);
    tprof_defer_unref(deferred, work);
    return false;
}

static void release_successors(struct work *work, struct deferred *deferred)
{
    const struct node *node = work->node;
    for (uint32_t i = 0; i < node->successor_count; i++) {
        struct work *successor = node->successors[i].work;
        if (work->outcome != TPROF_FINISHED && node->successors[i].needs) {
            tprof_set_cause(successor, tprof_root_cause(work));
            tprof_request_cancel(successor);
        }
        tprof_graph_released(successor, work->instance.number, deferred);
    }
}

/* Keep a failure for the group that waits for the work, else for its domain. */
static void report(struct work *work, struct domain *domain, struct deferred *deferred)
{
    struct group *group = tprof_waiting_group(work);
    tprof_lock(work->scheduler);
    tprof_failures_add(group != NULL ? &group->failures : &domain->failures, work, deferred);
    tprof_unlock(work->scheduler);
}

static struct work *first_failure(const struct domain *domain)
{
    struct work *first = NULL;
    for (struct work *work = domain->failures.first; work != NULL; work = work->next_failed)
        if (!tprof_is_acknowledged(work))
            first = work;
    return first;
}

/* The body and all children have ended. The work takes over a child's failure that is not acknowledged; nobody else uses
 * the list of failures any more. The body's thread and the last child's may both come here. */
static void complete(struct work *work, struct deferred *deferred)
{
    if (atomic_exchange(&work->completed, true))
        return;
    struct work *failure = work->children == NULL ? NULL : first_failure(work->children);
    if (failure != NULL && work->error == NULL) {
        work->error = tprof_ref_object(failure->error);
        tprof_acknowledge(failure);
    }
    let_end(work, work->error != NULL ? TPROF_FAILED_WORK : TPROF_FINISHED, deferred);
}

static void all_ended(struct scheduler *scheduler)
{
    tprof_lock(scheduler);
    if (tprof_unfinished(scheduler) == 0)
        tprof_all_ended(scheduler);
    tprof_unlock(scheduler);
}

/* What waits for the work sees that it has ended. The domain comes last, since the program that waits for it may ask how
 * many are unfinished and how many failed. */
static void count_out(struct work *work, struct deferred *deferred)
{
    struct scheduler *scheduler = work->scheduler;
    struct work *parent = work->parent;
    struct domain *domain = tprof_domain_around(work);
    if (work->outcome == TPROF_FAILED_WORK)
        report(work, domain, deferred);
    const size_t unfinished = atomic_fetch_sub(&scheduler->unfinished, 1) - 1;
    if ((unfinished & ~TPROF_CLOSED) == 0 && (atomic_load(&scheduler->cancelling) || tprof_is_stopping(scheduler)))
        all_ended(scheduler);
    tprof_latch_fall(scheduler, &work->done);
    struct group *group = tprof_waiting_group(work);
    if (group != NULL)
        tprof_latch_fall(scheduler, &group->unfinished);
    tprof_latch_fall(scheduler, &domain->unfinished);
    if (parent != NULL && atomic_load(&parent->body_ended) && tprof_latch_count(&domain->unfinished) == 0)
        complete(parent, deferred);
}

/* Data is marked as unwritten before anybody can see that the work has ended. */
static void end_unfinished(struct work *work, struct deferred *deferred)
{
    struct domain *domain = tprof_domain_around(work);
    const struct node *node = work->node;
    struct work *cause = tprof_root_cause(work);
    tprof_acquire(&domain->lock);
    for (uint32_t i = 0; i < node->access_count; i++)
        poison(&tprof_accesses_of(node)[i], cause, atomic_fetch_add(&work->scheduler->poison_count, 1) + 1, deferred);
    tprof_node_end(work);
    tprof_release(&domain->lock);
}

static void leave_handles(const struct work *work, struct deferred *deferred)
{
    const struct node *node = work->node;
    for (uint32_t i = 0; i < node->access_count; i++)
        if (tprof_accesses_of(node)[i].handle != NULL)
            tprof_region_leave(tprof_domain_around(work), tprof_accesses_of(node)[i].handle, deferred);
}

/* The state is set after the node has ended: a program that has seen the state, and so may have handled the failure, and
 * then spawns a task that needs the data does not get it cancelled. */
static void end(struct work *work, struct deferred *deferred)
{
    if (work->outcome != TPROF_FINISHED && work->node->access_count > 0)
        end_unfinished(work, deferred);
    else
        tprof_node_end(work);
    tprof_set_state(work, (enum state)work->outcome);
    leave_handles(work, deferred);
    release_successors(work, deferred);
    count_out(work, deferred);
    work->next = deferred->ended;
    deferred->ended = tprof_ref(work);
}

/* Queue what is ready and wanted; returns how many. */
static size_t queue_ready(struct scheduler *scheduler, struct deferred *deferred)
{
    size_t queued = 0;
    for (struct work *work; (work = tprof_next_in(&deferred->ready)) != NULL;) {
        if (tprof_is_cancel_requested(work))
            tprof_graph_end_cancelled(work, deferred);
        else if (is_unwanted(work))
            withdraw(work, deferred);
        else {
            tprof_log_event(TPROF_EVENT_READY, work, work->released_by, deferred);
            queued += tprof_queue_push(scheduler, work, tprof_current_thread, deferred);
        }
    }
    return queued;
}

/* Relaxed: a callback that is added meanwhile may be called by the thread that adds it. */
static bool calls_back(const struct work *ended)
{
    for (; ended != NULL; ended = ended->next)
        if (atomic_load_explicit(&ended->has_callbacks, memory_order_relaxed))
            return true;
    return false;
}

void tprof_graph_settle(struct scheduler *scheduler, bool takes_one, struct deferred *deferred)
{
    do {
        for (struct work *work; (work = tprof_next_in(&deferred->ending)) != NULL;)
            end(work, deferred);
        if (deferred->ready.first == NULL)
            return;
        const size_t queued = queue_ready(scheduler, deferred), kept = takes_one && !calls_back(deferred->ended);
        if (queued > kept)
            tprof_works_queued(scheduler, queued - kept, deferred);
        takes_one = takes_one && queued == 0;
        tprof_wake_deferred(deferred);
    } while (deferred->ending.first != NULL);
}

void tprof_graph_future_ended(struct work *work, struct work *needed, struct deferred *deferred)
{
    if (tprof_state_of(needed) != TPROF_FINISHED) {
        tprof_set_cause(work, tprof_root_cause(needed));
        tprof_request_cancel(work);
    }
    tprof_graph_released(work, 0, deferred);
}

void tprof_graph_body_ended(struct work *work, struct deferred *deferred)
{
    atomic_store(&work->body_ended, true);
    if (work->children == NULL || tprof_latch_count(&work->children->unfinished) == 0)
        complete(work, deferred);
}

/* One that was queued ends here; one that has to wait for others still does, since its successors wait for these. */
bool tprof_graph_cancel(struct work *work, struct deferred *deferred)
{
    uint8_t state = atomic_load(&work->state);
    while (state == TPROF_PENDING || state == TPROF_QUEUED) {
        const bool queued = state == TPROF_QUEUED;
        if (!atomic_compare_exchange_strong(&work->state, &state, TPROF_WITHDRAWN))
            continue;
        if (queued)
            tprof_graph_end_cancelled(work, deferred);
        return true;
    }
    return state == TPROF_WITHDRAWN;
}

/* Works that stay wanted go to the shared queues. */
static void cancel_queued(struct scheduler *scheduler, struct deferred *deferred)
{
    size_t kept = 0;
    for (struct work *work = tprof_queues_drain(scheduler), *next; work != NULL; work = next) {
        next = work->next_queued;
        if (tprof_queue_claim(work, TPROF_PENDING)) {
            if (is_unwanted(work))
                withdraw(work, deferred);
            else
                kept += tprof_queue_push(scheduler, work, NULL, deferred);
        }
        tprof_defer_unref(deferred, work);
    }
    if (kept > 0)
        tprof_works_queued(scheduler, kept, deferred);
}

void tprof_graph_cancel_all(struct scheduler *scheduler, struct group *group, struct deferred *deferred)
{
    tprof_lock(scheduler);
    atomic_store(group != NULL ? &group->cancelled : &scheduler->cancelled, atomic_load(&scheduler->spawned));
    atomic_store(&scheduler->cancelling, true);
    if (tprof_unfinished(scheduler) == 0)
        atomic_store(&scheduler->cancelling, false);
    tprof_unlock(scheduler);
    cancel_queued(scheduler, deferred);
}
