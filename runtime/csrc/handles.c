/* Equal handles are the same data. Python code decides equality, so handles are compared without the mutex; each is
 * marked as used meanwhile and so is not freed. Handles that other threads add in between are compared in the next
 * round. If a round finds none, the handle is new and is added before the mutex is released. */
#include "handles.h"

#include "regions.h"

#include <stdlib.h>

/* The regions of the same hash and another handle; each is marked as used. */
struct others {
    struct region **regions, *few[4];
    size_t count, capacity;
};

static bool note_other(struct others *others, struct region *region)
{
    if (others->count == others->capacity) {
        const size_t capacity = others->capacity * 2;
        struct region **grown = others->regions == others->few ? NULL : others->regions;
        grown = realloc(grown, capacity * sizeof *grown);
        if (grown == NULL)
            return false;
        for (size_t i = 0; others->regions == others->few && i < others->count; i++)
            grown[i] = others->few[i];
        others->regions = grown;
        others->capacity = capacity;
    }
    others->regions[others->count++] = region;
    return true;
}

static uint64_t spread(Py_hash_t hash)
{
    const uint64_t product = (uint64_t)hash * 0x9e3779b97f4a7c15u;
    return product ^ product >> 32;
}

/* Under the mutex, which it releases to compare. 1: found. 0: there is none. -1: an exception is set. -2: no memory. */
static int search(struct scheduler *scheduler, struct domain *domain, PyObject *object, uint64_t hash,
                  struct others *others, struct region **found)
{
    int equal = 0;
    while (equal == 0 && (*found = tprof_region_of_hash(domain->table, hash, others->regions, others->count)) != NULL) {
        (*found)->users++;
        if ((*found)->handle == object)
            return 1;
        tprof_unlock(scheduler);
        equal = PyObject_RichCompareBool((*found)->handle, object, Py_EQ);
        tprof_lock(scheduler);
        if (equal == 0 && !note_other(others, *found))
            equal = -2;
    }
    return equal;
}

struct region *tprof_handle_find(struct scheduler *scheduler, struct domain *domain, PyObject *object)
{
    struct deferred deferred = {0};
    struct others others = {.capacity = sizeof others.few / sizeof *others.few};
    struct region *region = NULL;
    const Py_hash_t hash = PyObject_Hash(object);
    if (hash == -1)
        return NULL;
    others.regions = others.few;
    tprof_lock(scheduler);
    int outcome = -2;
    if (tprof_table_of(domain) != NULL)
        outcome = search(scheduler, domain, object, spread(hash), &others, &region);
    if (outcome < 0 && region != NULL)
        tprof_handle_leave(domain, region, &deferred);
    if (outcome == 0) {
        region = tprof_region_add(domain, object, spread(hash), &deferred);
        outcome = region == NULL ? -2 : 1;
        if (region != NULL)
            region->users++;
    }
    for (size_t i = 0; i < others.count; i++)
        tprof_handle_leave(domain, others.regions[i], &deferred);
    tprof_unlock(scheduler);
    if (outcome == -2)
        PyErr_NoMemory();
    tprof_run_deferred(scheduler, &deferred);
    if (others.regions != others.few)
        free(others.regions);
    return outcome < 0 ? NULL : region;
}

void tprof_handle_leave(struct domain *domain, struct region *region, struct deferred *deferred)
{
    region->users--;
    tprof_region_left(domain->table, region, deferred);
}
