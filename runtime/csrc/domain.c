/* Domains: the works of one parent, and the table of the data they touch. */
#include "core.h"

#include "ending.h"
#include "regions.h"

#include <stdlib.h>

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
    domain->handled_up_to = scheduler->poison_count;
    /* No work depends on another here any more, so the table is not needed. */
    if (tprof_latch_count(&domain->unfinished) > 0 || scheduler->entering > 0)
        return;
    if (domain->table != NULL)
        tprof_table_free(domain->table, deferred);
    domain->table = NULL;
}

static void collect(struct works *works, struct work *work)
{
    if (works->count == works->capacity) {
        const size_t capacity = works->capacity == 0 ? 16 : works->capacity * 2;
        struct work **grown = realloc(works->list, capacity * sizeof *grown);
        if (grown == NULL) {
            works->failed = true;
            return;
        }
        works->list = grown;
        works->capacity = capacity;
    }
    works->list[works->count++] = (struct work *)Py_NewRef((PyObject *)work);
}

static void collect_users(struct region *region, void *context)
{
    if (region->writer != NULL)
        collect(context, region->writer->work);
    for (struct access *reader = region->readers; reader != NULL; reader = reader->next)
        collect(context, reader->work);
}

static void visit_touching(struct domain *domain, const struct datum *datum, void (*visit)(struct region *, void *),
                           void *context)
{
    if (datum->region != NULL)
        visit(datum->region, context);
    else if (domain->table != NULL)
        tprof_regions_touching(domain->table, &datum->shape, visit, context);
}

void tprof_graph_touching(struct domain *domain, const struct datum *datum, struct works *works)
{
    visit_touching(domain, datum, collect_users, works);
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
    return (struct work *)Py_XNewRef((PyObject *)poison_search.cause);
}
