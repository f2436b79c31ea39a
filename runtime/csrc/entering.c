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

static int wait_for(struct work *work, const struct access *access, bool needs, struct deferred *deferred)
{
    return tprof_node_add_successor(tprof_node_of(access), work, needs, deferred) < 0 ? -1 : 0;
}

static int wait_for_region(struct work *work, struct region *region, enum mode mode, struct deferred *deferred)
{
    if (region->writer != NULL && wait_for(work, region->writer, mode != TPROF_WRITES, deferred) < 0)
        return -1;
    if (mode != TPROF_READS)
        for (const struct access *reader = region->readers; reader != NULL; reader = reader->next)
            if (wait_for(work, reader, false, deferred) < 0)
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

/* Wait for the users of the region and its neighbours, and find out whether it is poisoned. */
static int find_dependences(struct work *work, struct region *region, enum mode mode, const struct domain *domain,
                            struct deferred *deferred)
{
    if (wait_for_region(work, region, mode, deferred) < 0)
        return -1;
    for (uint32_t i = 0; i < region->neighbour_count; i++)
        if (wait_for_region(work, region->neighbours[i], mode, deferred) < 0)
            return -1;
    if (mode != TPROF_WRITES)
        tprof_set_cause(work, poisoned_nearby(region, domain, deferred));
    return 0;
}

/* Find the regions; those of bytes must not be pruned while others are made. */
static int find_regions(struct node *node, struct domain *domain, const struct datum *data, struct deferred *deferred)
{
    for (uint32_t i = 0; i < node->access_count; i++)
        tprof_accesses_of(node)[i] = (struct access){.object = data[i].object, .mode = data[i].mode, .index = i};
    for (uint32_t i = 0; i < node->access_count; i++) {
        struct region *region = data[i].region;
        if (region == NULL && (region = tprof_region_find(domain, &data[i].shape, deferred)) == NULL)
            return -1;
        (void)atomic_fetch_add(&region->users, 1);
        tprof_accesses_of(node)[i].region = region;
    }
    return 0;
}

static int find_all_dependences(struct work *work, struct domain *domain, const struct datum *data,
                                struct deferred *deferred)
{
    const struct node *node = work->node;
    if (find_regions(work->node, domain, data, deferred) < 0)
        return -1;
    for (uint32_t i = 0; i < node->access_count; i++)
        if (find_dependences(work, tprof_accesses_of(node)[i].region, tprof_accesses_of(node)[i].mode, domain,
                             deferred) < 0)
            return -1;
    return 0;
}

/* The work's access takes over the handle's user that the datum was, which keeps the region until the work ends. */
static void claim(struct access *access, struct region *region, struct datum *datum, struct deferred *deferred)
{
    access->handle = datum->region;
    datum->region = NULL;
    if (access->mode == TPROF_WRITES)
        tprof_clear_poison(region, deferred);
    tprof_region_claim(region, access);
}

/* Under the domain's lock. The dependences of all data are found before any region is claimed: the work may read what it
 * overwrites. */
static int enter_data_locked(struct work *work, struct domain *domain, struct datum *data, struct deferred *deferred)
{
    struct node *node = work->node;
    if (tprof_table_of(domain) == NULL)
        return -1;
    const int failed = find_all_dependences(work, domain, data, deferred);
    for (uint32_t i = 0; i < node->access_count; i++) {
        struct region *region = tprof_accesses_of(node)[i].region;
        tprof_accesses_of(node)[i].region = NULL;
        if (region == NULL)
            continue;
        (void)atomic_fetch_sub(&region->users, 1);
        if (!failed)
            claim(&tprof_accesses_of(node)[i], region, &data[i], deferred);
    }
    return failed;
}

static int enter_data(struct work *work, struct domain *domain, struct datum *data, struct deferred *deferred)
{
    if (work->node->access_count == 0)
        return 0;
    tprof_acquire(&domain->lock);
    const int failed = enter_data_locked(work, domain, data, deferred);
    tprof_release(&domain->lock);
    return failed;
}

/* The program needs the results of these works, which may be in other domains. */
static int enter_needed(struct work *work, struct work *const *needed, size_t count, struct deferred *deferred)
{
    for (size_t i = 0; i < count; i++) {
        struct node *node = needed[i]->node;
        if (tprof_node_add_successor(node, work, true, deferred) < 0)
            return -1;
        if (tprof_node_has_ended(node) && node->failed)
            tprof_set_cause(work, tprof_root_cause(needed[i]));
    }
    return 0;
}

static void raise_peak(struct scheduler *scheduler, uint64_t unfinished)
{
    uint64_t peak = atomic_load_explicit(&scheduler->peak, memory_order_relaxed);
    while (peak < unfinished && !atomic_compare_exchange_weak_explicit(&scheduler->peak, &peak, unfinished,
                                                                       memory_order_relaxed, memory_order_relaxed))
        ;
}

/* Returns whether the runtime still takes works. It is counted before it gets its number: what is cancelled up to a
 * number stays so until all of these have ended. */
static bool count_in(struct work *work, struct domain *domain)
{
    struct scheduler *scheduler = work->scheduler;
    const size_t before = atomic_fetch_add(&scheduler->unfinished, 1);
    if (before >= TPROF_CLOSED) {
        (void)atomic_fetch_sub(&scheduler->unfinished, 1);
        return false;
    }
    raise_peak(scheduler, before + 1);
    struct group *group = tprof_waiting_group(work);
    tprof_latch_rise(&work->done);
    tprof_latch_rise(&domain->unfinished);
    if (group != NULL)
        tprof_latch_rise(&group->unfinished);
    work->number = atomic_fetch_add(&scheduler->spawned, 1) + 1;
    return true;
}

int tprof_graph_enter(struct work *work, struct datum *data, struct work *const *needed, size_t needed_count,
                      struct deferred *deferred)
{
    struct domain *domain = tprof_domain_around(work);
    if (!count_in(work, domain))
        return 1;
    tprof_log_event(TPROF_EVENT_SPAWN, work, work->spawner, deferred);
    (void)atomic_fetch_add(&work->unmet, 1);
    const int failed =
        enter_needed(work, needed, needed_count, deferred) < 0 || enter_data(work, domain, data, deferred) < 0;
    if (failed || tprof_cause_of(work) != NULL)
        tprof_request_cancel(work);
    tprof_graph_released(work, 0, deferred);
    return failed ? -1 : 0;
}
