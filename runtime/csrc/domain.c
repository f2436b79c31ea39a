/* What the program waits for: counters that wake the waiting threads, failures that are kept until the wait, and
 * domains, which are the works of one parent and the table of the data they touch. */
#include "core.h"
#include "regions.h"

#include <stdlib.h>

#define FEW 64 /* failures */

static void set_wake_below(struct latch *latch)
{
    size_t below = 0;
    for (const struct waiter *waiter = latch->waiters; waiter != NULL; waiter = waiter->next)
        if (waiter->enough >= below)
            below = waiter->enough + 1;
    atomic_store(&latch->wake_below, below);
}

/* Each thread sleeps on a semaphore of its own, since a signal (Ctrl-C) ends such a sleep and would not end the wait
 * for a condition variable. It is posted under the mutex: the waiter, which takes the mutex before it goes on, has it on
 * its stack. */
static void wake_satisfied(struct latch *latch)
{
    const size_t count = tprof_latch_count(latch);
    for (struct waiter **at = &latch->waiters; *at != NULL;) {
        struct waiter *waiter = *at;
        if (waiter->enough < count) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        waiter->woken = true;
        sem_post(&waiter->semaphore);
    }
    set_wake_below(latch);
}

void tprof_latch_fall(struct scheduler *scheduler, struct latch *latch)
{
    const size_t count = atomic_fetch_sub(&latch->count, 1) - 1;
    if (count >= atomic_load(&latch->wake_below))
        return;
    tprof_lock(scheduler);
    wake_satisfied(latch);
    tprof_unlock(scheduler);
}

bool tprof_latch_add_waiter(struct latch *latch, struct waiter *waiter, size_t enough)
{
    waiter->enough = enough;
    waiter->woken = false;
    waiter->next = latch->waiters;
    latch->waiters = waiter;
    set_wake_below(latch);
    /* Whoever lowered the count before could not know of the waiter. */
    if (tprof_latch_count(latch) > enough)
        return true;
    tprof_latch_remove_waiter(latch, waiter);
    return false;
}

void tprof_latch_remove_waiter(struct latch *latch, struct waiter *waiter)
{
    for (struct waiter **at = &latch->waiters; *at != NULL; at = &(*at)->next)
        if (*at == waiter) {
            *at = waiter->next;
            set_wake_below(latch);
            return;
        }
}

/* A program that asks each future for its result need not wait: without sweeping, the list of a long-lived runtime
 * would keep every exception. */
static void sweep(struct failures *failures, struct deferred *deferred)
{
    for (struct work **at = &failures->first; *at != NULL;) {
        struct work *work = *at;
        if (!tprof_is_acknowledged(work)) {
            at = &work->next_failed;
            continue;
        }
        *at = work->next_failed;
        work->next_failed = NULL;
        failures->count--;
        tprof_defer_unref(deferred, work);
    }
    failures->sweep_at = failures->count < FEW / 2 ? FEW : 2 * failures->count;
}

void tprof_failures_add(struct failures *failures, struct work *work, struct deferred *deferred)
{
    if (failures->count >= failures->sweep_at)
        sweep(failures, deferred);
    work->next_failed = failures->first;
    failures->first = tprof_ref(work);
    failures->count++;
}

struct domain *tprof_domain_of(struct scheduler *scheduler, struct work *parent)
{
    if (parent == NULL)
        return &scheduler->root;
    if (parent->children == NULL)
        parent->children = calloc(1, sizeof *parent->children);
    return parent->children;
}

struct domain *tprof_domain_around(const struct work *work)
{
    return work->parent != NULL ? work->parent->children : &work->scheduler->root;
}

void tprof_graph_mark_handled(struct scheduler *scheduler, struct domain *domain, struct deferred *deferred)
{
    tprof_acquire(&domain->lock);
    domain->handled_up_to = atomic_load(&scheduler->poison_count);
    /* No work depends on another here any more, so the table is not needed. */
    if (tprof_latch_count(&domain->unfinished) == 0 && atomic_load(&domain->entering) == 0) {
        deferred->table = domain->table;
        domain->table = NULL;
    }
    tprof_release(&domain->lock);
}

/* Takes over the reference. */
static void collect(struct works *works, struct work *work, struct deferred *deferred)
{
    if (works->count == works->capacity) {
        const size_t capacity = works->capacity == 0 ? 16 : works->capacity * 2;
        struct work **grown = realloc(works->list, capacity * sizeof *grown);
        if (grown == NULL) {
            works->failed = true;
            tprof_defer_unref(deferred, work);
            return;
        }
        works->list = grown;
        works->capacity = capacity;
    }
    works->list[works->count++] = work;
}

struct user_search {
    struct works *works;
    struct deferred *deferred;
};

static void collect_user(const struct user_search *search, const struct access *access)
{
    struct work *work = tprof_node_running(tprof_node_of(access));
    if (work != NULL)
        collect(search->works, work, search->deferred);
}

static void collect_users(struct region *region, void *context)
{
    if (region->writer != NULL)
        collect_user(context, region->writer);
    for (const struct access *reader = region->readers; reader != NULL; reader = reader->next)
        collect_user(context, reader);
}

static void visit_touching(struct domain *domain, const struct datum *datum, void (*visit)(struct region *, void *),
                           void *context)
{
    if (datum->region != NULL)
        visit(datum->region, context);
    else if (domain->table != NULL)
        tprof_regions_touching(domain->table, &datum->shape, visit, context);
}

void tprof_graph_touching(struct domain *domain, const struct datum *datum, struct works *works,
                          struct deferred *deferred)
{
    struct user_search search = {works, deferred};
    visit_touching(domain, datum, collect_users, &search);
}

struct poison_search {
    const struct domain *domain;
    struct deferred *deferred;
    struct work *cause;
};

static void find_cause(struct region *region, void *context)
{
    struct poison_search *poison_search = context;
    if (poison_search->cause == NULL)
        poison_search->cause = tprof_poisoned_by(region, poison_search->domain, poison_search->deferred);
}

struct work *tprof_graph_poisoned_by(struct domain *domain, const struct datum *datum, struct deferred *deferred)
{
    struct poison_search poison_search = {domain, deferred, NULL};
    visit_touching(domain, datum, find_cause, &poison_search);
    return tprof_ref(poison_search.cause);
}
