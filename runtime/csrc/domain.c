/* Domains: the works of one parent, and what is known of the data they touch. */
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

void tprof_graph_forgive(struct scheduler *scheduler, struct domain *domain, struct aftermath *after)
{
    domain->forgiven = scheduler->spoils;
    /* Nothing depends on anything here: the table would only grow old. */
    if (tprof_latch_count(&domain->unfinished) > 0 || scheduler->entering > 0)
        return;
    if (domain->table != NULL)
        tprof_table_free(domain->table, after);
    domain->table = NULL;
}

static void collect(struct works *works, struct work *work)
{
    if (works->count == works->room) {
        const size_t room = works->room == 0 ? 16 : works->room * 2;
        struct work **grown = realloc(works->list, room * sizeof *grown);
        if (grown == NULL) {
            works->failed = true;
            return;
        }
        works->list = grown;
        works->room = room;
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

struct blaming {
    const struct domain *domain;
    struct aftermath *after;
    struct work *cause;
};

static void find_cause(struct region *region, void *context)
{
    struct blaming *blaming = context;
    if (blaming->cause == NULL)
        blaming->cause = tprof_spoilt(region, blaming->domain, blaming->after);
}

struct work *tprof_graph_spoilt(struct domain *domain, const struct datum *datum, struct aftermath *after)
{
    struct blaming blaming = {domain, after, NULL};
    visit_touching(domain, datum, find_cause, &blaming);
    return (struct work *)Py_XNewRef((PyObject *)blaming.cause);
}
