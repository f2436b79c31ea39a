/* The data of one domain: who wrote each last, who reads it since. Guarded by the scheduler's mutex. */
#ifndef TPROF_REGIONS_H
#define TPROF_REGIONS_H

#include "core.h"

/* Where a region is found by those that may overlap it: cells of a grid whose mesh is the region's extent, rounded up
 * to a power of two, so that a region lies in two cells at most. */
struct place {
    struct region *region;
    uint64_t cell;
    struct place *next;
};

/* Exactly these bytes, or (without any) a handle, of which it is the only owner here. */
struct region {
    struct shape shape;
    PyObject *handle; /* with a reference */
    uint64_t hash;    /* of the bytes or of the handle */
    struct access *writer;  /* the last one, while it has not ended */
    struct access *readers; /* since then */
    struct work *cause;     /* whose failure left the data unwritten, with a reference */
    uint64_t poisoned_at;        /* the scheduler's event that this was */
    PyObject *keep;         /* the object while there is a cause: its memory must not become another's */
    struct region **neighbours;
    uint32_t neighbour_count, neighbour_capacity;
    uint32_t mesh;
    struct region *next;
    struct place places[2];
    int place_count;
    uint32_t users; /* who has found it and not done with it yet: works that enter, threads that read data */
};

#define TPROF_MESHES 61 /* of extents up to TPROF_MOST_BYTES */

struct table {
    struct region **buckets;
    struct place **cells;
    size_t bucket_count, cell_count;
    size_t count, prune_at;
    size_t at_mesh[TPROF_MESHES];
};

/* References that the table held go to `after`. */
void tprof_table_free(struct table *table, struct deferred *deferred);

/* The domain's table, made if there is none. NULL without memory. */
struct table *tprof_table_of(struct domain *domain);

/* The region of these bytes, made if it is new. NULL without memory. */
struct region *tprof_region_find(struct domain *domain, const struct shape *shape, struct deferred *deferred);
/* Of a handle. */
struct region *tprof_region_add(struct domain *domain, PyObject *handle, uint64_t hash, struct deferred *deferred);
/* A handle's region that has this hash and is none of these, or NULL. */
struct region *tprof_region_of_hash(const struct table *table, uint64_t hash, struct region *const *known, size_t count);
/* Somebody is done with it: a handle that nobody uses is forgotten. */
void tprof_region_left(struct table *table, struct region *region, struct deferred *deferred);

/* Call `visit` with each region that shares a byte with the shape, which need not be in the table. */
void tprof_regions_touching(struct table *table, const struct shape *shape, void (*visit)(struct region *, void *),
                            void *context);

#endif
