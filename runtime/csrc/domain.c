/* Domains: the works of one parent, and what is known of the data they touch. */
#include "core.h"

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

void tprof_graph_forgive(struct scheduler *scheduler, struct domain *domain, struct aftermath *after)
{
    domain->forgiven = scheduler->spawned;
    /* Nothing depends on anything here: handles that come no more need not be kept for ever. */
    if (domain->unfinished.count > 0 || scheduler->entering > 0)
        return;
    if (domain->table != NULL)
        tprof_table_free(domain->table, after);
    tprof_loosen(after, domain->handles);
    domain->table = NULL;
    domain->handles = NULL;
}

struct collection {
    struct work **works;
    size_t count, room;
    bool failed;
};

static void collect(struct collection *collection, struct work *work)
{
    if (collection->count == collection->room) {
        const size_t room = collection->room == 0 ? 16 : collection->room * 2;
        struct work **grown = realloc(collection->works, room * sizeof *grown);
        if (grown == NULL) {
            collection->failed = true;
            return;
        }
        collection->works = grown;
        collection->room = room;
    }
    collection->works[collection->count++] = (struct work *)Py_NewRef((PyObject *)work);
}

static void collect_users(struct region *region, void *context)
{
    if (region->writer != NULL)
        collect(context, region->writer->work);
    for (struct access *reader = region->readers; reader != NULL; reader = reader->next)
        collect(context, reader->work);
}

int tprof_graph_touching(struct domain *domain, const struct datum *datum, struct work ***works, size_t *count)
{
    struct collection collection = {0};
    if (domain->table != NULL && datum->handle != NULL) {
        struct region *region = tprof_region_find(domain->table, &datum->shape, datum->handle);
        if (region != NULL)
            collect_users(region, &collection);
    } else if (domain->table != NULL)
        tprof_regions_touching(domain->table, &datum->shape, collect_users, &collection);
    *works = collection.works;
    *count = collection.count;
    return collection.failed ? -1 : 0;
}
