/* The data of one domain, each with its last writer and the readers since. Guarded by the domain's lock. */
#ifndef TPROF_REGIONS_H
#define TPROF_REGIONS_H

#include "core.h"

/* A region's entry in a cell, where regions that may overlap it find it. The grid's mesh is the region's extent,
 * rounded up to a power of two, so a region lies in two cells at most. */
struct place {
    struct region *region;
    uint64_t cell;
    struct place *next;
};

/* Exactly these bytes, or (without any) a handle. */
struct region {
    struct shape shape;
    PyObject *handle; /* with a reference */
    uint64_t hash;    /* of the bytes or of the handle */
    struct access *writer;  /* the last one, which may have ended; NULL: none so far */
    struct access *readers; /* since the last writer; some may have ended */
    uint32_t reader_count, sweep_at;
    struct work *cause;     /* the work whose failure left the data unwritten, with a reference */
    uint64_t poisoned_at;   /* the scheduler's `poison_count` at that failure */
    PyObject *keep;         /* the object while there is a cause, so that its memory is not reused */
    struct region **neighbours;
    uint32_t neighbour_count, neighbour_capacity;
    uint32_t mesh;
    struct region *next;
    struct place places[2];
    int place_count;
    /* Works that enter, threads that use it without the lock and, of a handle, works that have not ended: it must not be
     * freed. It falls without the lock. */
    _Atomic uint32_t users;
};

#define TPROF_MESHES 61 /* of extents up to TPROF_MOST_BYTES */

struct table {
    struct region **buckets;
    struct place **cells;
    size_t bucket_count, cell_count;
    size_t count, prune_at;
    size_t at_mesh[TPROF_MESHES];
};

/* The table's references are deferred. */
void tprof_table_free(struct table *table, struct deferred *deferred);

/* The domain's table, made if there is none. NULL without memory. */
struct table *tprof_table_of(struct domain *domain);

/* The region of these bytes, made if there is none. NULL without memory. */
struct region *tprof_region_find(struct domain *domain, const struct shape *shape, struct deferred *deferred);
/* A new region of a handle, with one user. NULL without memory. */
struct region *tprof_region_add(struct domain *domain, PyObject *handle, uint64_t hash, struct deferred *deferred);
/* A handle's region of this hash that is not among the known ones, or NULL. */
struct region *tprof_region_of_hash(const struct table *table, uint64_t hash, struct region *const *known,
                                    size_t count);
/* Without a lock. One user less of a handle's region, which is freed with the last one. */
void tprof_region_leave(struct domain *domain, struct region *region, struct deferred *deferred);
/* Let the region refer to the access, and not to those whose place it takes. */
void tprof_region_claim(struct region *region, struct access *access);

/* Call `visit` with each region that shares a byte with the shape. The shape need not be in the table. */
void tprof_regions_touching(struct table *table, const struct shape *shape, void (*visit)(struct region *, void *),
                            void *context);

#endif
