/* How a work enters the graph: its predecessors are found from the data it touches.
 *
 * A work that reads waits for the last writer of every region that shares a byte with the data; one that writes also
 * waits for the readers since then. Ended works are not waited for. A work is cancelled if a failed one left data
 * unwritten that it reads, whether it entered before the failure or after, so that speed does not matter. A work that
 * only overwrites the data, or that waits for readers, is not cancelled. A cancelled work ends only after its
 * predecessors, since its successors wait for these through it. */
#include "core.h"

#include "regions.h"

#include <stdlib.h>

/* NULL without memory. */
static struct successor *add_successor(struct work *predecessor)
{
    const uint32_t count = predecessor->successor_count;
    if (count == predecessor->successor_capacity) {
        const uint32_t capacity = count == 0 ? 4 : count * 2;
        struct successor *grown = realloc(predecessor->successors, capacity * sizeof *grown);
        if (grown == NULL)
            return NULL;
        predecessor->successors = grown;
        predecessor->successor_capacity = capacity;
    }
    return &predecessor->successors[predecessor->successor_count++];
}

static int wait_for(struct work *work, struct work *predecessor, bool needs, struct deferred *deferred)
{
    if (predecessor == NULL || predecessor == work || tprof_has_ended(predecessor))
        return 0;
    const uint32_t count = predecessor->successor_count;
    struct successor *last = count > 0 ? &predecessor->successors[count - 1] : NULL;
    if (last != NULL && last->work == work) {
        last->needs |= needs;
        return 0;
    }
    struct successor *successor = add_successor(predecessor);
    if (successor == NULL)
        return -1;
    *successor = (struct successor){tprof_ref(work), needs};
    work->unmet++;
    tprof_log_event(TPROF_EVENT_DEPENDENCE, work, predecessor->instance.number, deferred);
    if (deferred->edges_wanted)
        tprof_add_edge(deferred, predecessor->number);
    return 0;
}

static int wait_for_region(struct work *work, struct region *region, enum mode mode, struct deferred *deferred)
{
    if (region->writer != NULL && wait_for(work, region->writer->work, mode != TPROF_WRITES, deferred) < 0)
        return -1;
    if (mode != TPROF_READS)
        for (struct access *reader = region->readers; reader != NULL; reader = reader->next)
            if (wait_for(work, reader->work, false, deferred) < 0)
                return -1;
    return 0;
}

static struct work *poisoned_nearby(struct region *region, const struct domain *domain, struct deferred *deferred)
{
    struct work *cause = tprof_poisoned_by(region, domain, deferred);
    for (uint32_t i = 0; cause == NULL && i < region->neighbour_count; i++)
        cause = tprof_poisoned_by(region->neighbours[i], domain, deferred);
    return cause;
}

static void claim(struct access *access, struct region *region)
{
    access->region = region;
    if (access->mode == TPROF_READS) {
        access->previous = NULL;
        access->next = region->readers;
        if (region->readers != NULL)
            region->readers->previous = access;
        region->readers = access;
        return;
    }
    /* Later works wait for this writer, which waits for the readers. */
    for (struct access *reader = region->readers, *next; reader != NULL; reader = next) {
        next = reader->next;
        reader->region = NULL;
        reader->next = reader->previous = NULL;
    }
    region->readers = NULL;
    if (region->writer != NULL)
        region->writer->region = NULL;
    region->writer = access;
}

/* Wait for the users of the region and its neighbours, and find out whether it is poisoned. */
static int find_dependences(struct access *access, struct region *region, const struct domain *domain,
                            struct deferred *deferred)
{
    struct work *work = access->work;
    if (wait_for_region(work, region, access->mode, deferred) < 0)
        return -1;
    for (uint32_t i = 0; i < region->neighbour_count; i++)
        if (wait_for_region(work, region->neighbours[i], access->mode, deferred) < 0)
            return -1;
    if (access->mode != TPROF_WRITES)
        tprof_set_cause(work, poisoned_nearby(region, domain, deferred));
    access->region = region;
    region->users++;
    return 0;
}

static int find_all_dependences(struct work *work, struct domain *domain, const struct datum *data,
                                struct deferred *deferred)
{
    for (uint32_t i = 0; i < work->access_count; i++)
        work->accesses[i] = (struct access){.work = work, .object = data[i].object, .mode = data[i].mode};
    for (uint32_t i = 0; i < work->access_count; i++) {
        struct region *region =
            data[i].region != NULL ? data[i].region : tprof_region_find(domain, &data[i].shape, deferred);
        if (region == NULL || find_dependences(&work->accesses[i], region, domain, deferred) < 0)
            return -1;
    }
    return 0;
}

/* The dependences of all data are found before any region is claimed: the work may read what it overwrites. */
static int enter_data(struct work *work, struct domain *domain, const struct datum *data, struct deferred *deferred)
{
    if (work->access_count > 0 && tprof_table_of(domain) == NULL) {
        work->access_count = 0;
        return -1;
    }
    const int failed = find_all_dependences(work, domain, data, deferred);
    for (uint32_t i = 0; i < work->access_count; i++) {
        struct region *region = work->accesses[i].region;
        work->accesses[i].region = NULL;
        if (region == NULL)
            continue;
        region->users--;
        if (failed)
            continue;
        if (work->accesses[i].mode == TPROF_WRITES)
            tprof_clear_poison(region, deferred);
        claim(&work->accesses[i], region);
    }
    return failed;
}

static int enter_needed(struct work *work, struct work *const *needed, size_t count, struct deferred *deferred)
{
    for (size_t i = 0; i < count; i++) {
        if (wait_for(work, needed[i], true, deferred) < 0)
            return -1;
        if (tprof_has_ended(needed[i]) && tprof_state_of(needed[i]) != TPROF_FINISHED)
            tprof_set_cause(work, tprof_root_cause(needed[i]));
    }
    return 0;
}

static void count_in(struct work *work, struct domain *domain)
{
    struct scheduler *scheduler = work->scheduler;
    struct group *group = tprof_waiting_group(work);
    tprof_latch_rise(&work->done);
    tprof_latch_rise(&domain->unfinished);
    if (group != NULL)
        tprof_latch_rise(&group->unfinished);
    if (++scheduler->unfinished > scheduler->peak)
        scheduler->peak = scheduler->unfinished;
    work->number = ++scheduler->spawned;
}

int tprof_graph_enter(struct work *work, const struct datum *data, struct work *const *needed, size_t needed_count,
                      struct deferred *deferred)
{
    struct domain *domain = tprof_domain_around(work);
    if (tprof_is_stopping(work->scheduler) && work->scheduler->unfinished == 0)
        return 1;
    count_in(work, domain);
    tprof_log_event(TPROF_EVENT_SPAWN, work, work->spawner, deferred);
    const int failed =
        enter_needed(work, needed, needed_count, deferred) < 0 || enter_data(work, domain, data, deferred) < 0;
    if (failed || tprof_cause_of(work) != NULL)
        tprof_request_cancel(work);
    if (work->unmet == 0)
        tprof_graph_released(work, deferred);
    return failed ? -1 : 0;
}
