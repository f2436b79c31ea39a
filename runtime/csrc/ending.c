/* How a work leaves the graph: its successors are released or, if it failed, cancelled; threads that wait for the work,
 * its group or its domain are woken. */
#include "core.h"
#include "regions.h"

#include <stdlib.h>

void tprof_log_event(uint8_t kind, const struct work *work, uint64_t other, struct deferred *deferred)
{
    if (work->instance.number == 0)
        return;
    const struct tprof_graph_event event = {
        tprof_api->now_ns(), work->instance.number, other, work->task, TPROF_NO_WORKER, kind, 0};
    tprof_add_event(deferred, work->instance.generation, &event);
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
    if (cause != NULL && tprof_cause_of(work) == NULL)
        atomic_store_explicit(&work->cause, tprof_ref(cause), memory_order_release);
}

struct work *tprof_root_cause(struct work *work)
{
    struct work *cause = tprof_cause_of(work);
    return cause != NULL ? cause : work;
}

static void stop_reading(struct access *access)
{
    if (access->previous != NULL)
        access->previous->next = access->next;
    else
        access->region->readers = access->next;
    if (access->next != NULL)
        access->next->previous = access->previous;
}

static void leave_access(struct access *access, struct deferred *deferred)
{
    struct region *region = access->region;
    if (region == NULL)
        return;
    if (access->mode == TPROF_READS)
        stop_reading(access);
    else
        region->writer = NULL;
    access->region = NULL;
    tprof_region_left(tprof_domain_around(access->work)->table, region, deferred);
}

/* Mark data that the work has not written: works that need it are cancelled too. */
static void poison(struct access *access, struct work *cause, struct deferred *deferred)
{
    struct region *region = access->region;
    if (region == NULL || access->mode == TPROF_READS || tprof_is_acknowledged(cause))
        return;
    tprof_clear_poison(region, deferred);
    region->cause = tprof_ref(cause);
    region->poisoned_at = ++access->work->scheduler->poison_count;
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
    if (!work->scheduler->cancelling)
        return false;
    for (; work->parent != NULL; work = work->parent)
        if (is_unwanted_in_group(work))
            return true;
    return work->number <= work->scheduler->cancelled || is_unwanted_in_group(work);
}

/* Put the work on the list of ended works, whose successors are released later. */
static void mark_ended(struct work *work, enum state state, struct work **ended)
{
    tprof_set_state(work, state);
    work->next = *ended;
    *ended = work;
}

static void cancel(struct work *work, struct work *cause, struct work **ended, struct deferred *deferred)
{
    tprof_set_cause(work, cause);
    tprof_log_event(TPROF_EVENT_CANCEL, work, cause == NULL ? 0 : cause->instance.number, deferred);
    mark_ended(work, TPROF_CANCELLED, ended);
}

static void make_ready(struct work *work, const struct work *released_by, struct work **ended,
                       struct deferred *deferred)
{
    if (is_unwanted(work)) {
        tprof_acknowledge(work);
        cancel(work, NULL, ended, deferred);
        return;
    }
    tprof_log_event(TPROF_EVENT_READY, work, released_by == NULL ? 0 : released_by->instance.number, deferred);
    tprof_queue_push(work->scheduler, work, tprof_current_thread);
    deferred->readied++;
}

/* All predecessors have ended. */
static void release(struct work *work, const struct work *released_by, struct work **ended, struct deferred *deferred)
{
    if (tprof_is_cancel_requested(work))
        cancel(work, tprof_cause_of(work), ended, deferred);
    else
        make_ready(work, released_by, ended, deferred);
}

static void release_successors(struct work *work, struct work **ended, struct deferred *deferred)
{
    for (uint32_t i = 0; i < work->successor_count; i++) {
        struct work *successor = work->successors[i].work;
        if (tprof_state_of(work) != TPROF_FINISHED && work->successors[i].needs) {
            tprof_set_cause(successor, tprof_root_cause(work));
            tprof_request_cancel(successor);
        }
        if (--successor->unmet == 0)
            release(successor, work, ended, deferred);
    }
}

/* Keep a failure for the group that waits for the work, else for its domain. */
static void report(struct work *work, struct domain *domain, struct deferred *deferred)
{
    struct group *group = tprof_waiting_group(work);
    tprof_failures_add(group != NULL ? &group->failures : &domain->failures, work, deferred);
}

static struct work *first_failure(const struct domain *domain)
{
    struct work *first = NULL;
    for (struct work *work = domain->failures.first; work != NULL; work = work->next_failed)
        if (!tprof_is_acknowledged(work))
            first = work;
    return first;
}

/* The body and all children have ended. The work takes over a child's failure that is not acknowledged. */
static void complete(struct work *work, struct work **ended)
{
    struct work *failure = work->children == NULL ? NULL : first_failure(work->children);
    if (failure != NULL && work->error == NULL) {
        work->error = tprof_ref_object(failure->error);
        tprof_acknowledge(failure);
    }
    mark_ended(work, work->error != NULL ? TPROF_FAILED_WORK : TPROF_FINISHED, ended);
}

static void count_out(struct work *work, struct work **ended, struct deferred *deferred)
{
    struct scheduler *scheduler = work->scheduler;
    struct work *parent = work->parent;
    struct domain *domain = tprof_domain_around(work);
    if (tprof_state_of(work) == TPROF_FAILED_WORK)
        report(work, domain, deferred);
    tprof_latch_fall(&work->done);
    struct group *group = tprof_waiting_group(work);
    if (group != NULL)
        tprof_latch_fall(&group->unfinished);
    tprof_latch_fall(&domain->unfinished);
    if (parent != NULL && parent->body_ended && tprof_latch_count(&domain->unfinished) == 0)
        complete(parent, ended);
    if (--scheduler->unfinished == 0)
        tprof_all_ended(scheduler);
}

static void end_all(struct work *ended, struct deferred *deferred)
{
    while (ended != NULL) {
        struct work *work = ended;
        ended = work->next;
        work->next = NULL;
        for (uint32_t i = 0; i < work->access_count; i++) {
            if (tprof_state_of(work) != TPROF_FINISHED)
                poison(&work->accesses[i], tprof_root_cause(work), deferred);
            leave_access(&work->accesses[i], deferred);
        }
        release_successors(work, &ended, deferred);
        count_out(work, &ended, deferred);
        work->next_ended = deferred->ended;
        deferred->ended = tprof_ref(work);
    }
}

void tprof_graph_released(struct work *work, struct deferred *deferred)
{
    struct work *ended = NULL;
    release(work, NULL, &ended, deferred);
    end_all(ended, deferred);
}

void tprof_graph_future_ended(struct work *work, struct work *needed, struct deferred *deferred)
{
    if (tprof_state_of(needed) != TPROF_FINISHED) {
        tprof_set_cause(work, tprof_root_cause(needed));
        tprof_request_cancel(work);
    }
    if (--work->unmet == 0)
        tprof_graph_released(work, deferred);
}

void tprof_graph_body_ended(struct work *work, struct deferred *deferred)
{
    struct work *ended = NULL;
    work->body_ended = true;
    if (work->children == NULL || tprof_latch_count(&work->children->unfinished) == 0)
        complete(work, &ended);
    end_all(ended, deferred);
}

bool tprof_graph_cancel(struct work *work, struct deferred *deferred)
{
    struct work *ended = NULL;
    const enum state state = tprof_state_of(work);
    if (state != TPROF_PENDING && state != TPROF_QUEUED)
        return false;
    tprof_request_cancel(work);
    if (state == TPROF_QUEUED) {
        tprof_queue_remove(work->scheduler, work);
        tprof_defer_unref(deferred, work);
        cancel(work, NULL, &ended, deferred);
        end_all(ended, deferred);
    }
    return true;
}

void tprof_graph_cancel_all(struct scheduler *scheduler, struct group *group, struct deferred *deferred)
{
    *(group != NULL ? &group->cancelled : &scheduler->cancelled) = scheduler->spawned;
    scheduler->cancelling = scheduler->unfinished > 0;
    for (int level = 0; level < TPROF_LEVELS; level++)
        for (uint32_t queue = 0; queue <= scheduler->slot_count; queue++)
            for (struct work *work = scheduler->queues[level][queue].front, *next; work != NULL; work = next) {
                next = work->next;
                if (!is_unwanted(work))
                    continue;
                tprof_acknowledge(work);
                (void)tprof_graph_cancel(work, deferred);
            }
}
