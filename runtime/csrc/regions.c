/* Regions are found by their exact bytes in a hash table, and by their place in grids of cells whose mesh is a power of
 * two. A new region is linked once to those it overlaps, its neighbours, so a repeated access costs one look-up,
 * whatever the number of regions. Unused regions of memory are kept, since programs come back to their tiles, and freed
 * when the table would double. The region of a handle is freed with the last work that uses it: it owns the handle,
 * which may be any object of the program, and making it again costs no more than finding it.
 *
 * Works that have ended stay in the lists of regions until a later access takes their place or the list would double:
 * their nodes say that they have ended. */
#include "regions.h"

#include <stdlib.h>
#include <string.h>

#define FEW 256u
#define FEW_READERS 8u

static struct table *make_table(void)
{
    struct table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return NULL;
    table->bucket_count = table->cell_count = FEW;
    table->prune_at = FEW;
    table->buckets = calloc(FEW, sizeof(struct region *));
    table->cells = calloc(FEW, sizeof(struct place *));
    if (table->buckets != NULL && table->cells != NULL)
        return table;
    free(table->buckets);
    free(table->cells);
    free(table);
    return NULL;
}

struct table *tprof_table_of(struct domain *domain)
{
    if (domain->table == NULL)
        domain->table = make_table();
    return domain->table;
}

static struct region **bucket_of(const struct table *table, uint64_t hash)
{
    return &table->buckets[hash & (table->bucket_count - 1)];
}

static void put_into_bucket(struct region **head, struct region *region)
{
    region->next = *head;
    *head = region;
}

static uint64_t cell_hash(uint32_t mesh, uint64_t cell)
{
    return ((cell + mesh) * 0x9e3779b97f4a7c15u) >> 24;
}

static uint32_t mesh_of(size_t extent)
{
    return extent <= 1 ? 0 : 64 - (uint32_t)__builtin_clzll(extent - 1);
}

static void put_into_cells(struct table *table, struct region *region)
{
    const uintptr_t last = region->shape.start + region->shape.extent - 1;
    const uint64_t cells[2] = {region->shape.start >> region->mesh, last >> region->mesh};
    region->place_count = cells[0] == cells[1] ? 1 : 2;
    for (int i = 0; i < region->place_count; i++) {
        struct place **head = &table->cells[cell_hash(region->mesh, cells[i]) & (table->cell_count - 1)];
        region->places[i] = (struct place){region, cells[i], *head};
        *head = &region->places[i];
    }
    table->at_mesh[region->mesh]++;
}

static void take_from_cells(struct table *table, struct region *region)
{
    for (int i = 0; i < region->place_count; i++) {
        struct place **at = &table->cells[cell_hash(region->mesh, region->places[i].cell) & (table->cell_count - 1)];
        while (*at != &region->places[i])
            at = &(*at)->next;
        *at = region->places[i].next;
    }
    if (region->place_count > 0)
        table->at_mesh[region->mesh]--;
}

static void remove_neighbour(struct region *region, const struct region *gone)
{
    for (uint32_t i = 0; i < region->neighbour_count; i++)
        if (region->neighbours[i] == gone) {
            region->neighbours[i] = region->neighbours[--region->neighbour_count];
            return;
        }
}

/* The region that refers to the access does so no more. */
static void unlink_access(struct access *access)
{
    access->region = NULL;
    access->next = access->previous = NULL;
    tprof_node_drop(tprof_node_of(access));
}

static void drop_reader(struct region *region, struct access *reader)
{
    if (reader->previous != NULL)
        reader->previous->next = reader->next;
    else
        region->readers = reader->next;
    if (reader->next != NULL)
        reader->next->previous = reader->previous;
    region->reader_count--;
    unlink_access(reader);
}

static void drop_readers(struct region *region, bool only_ended)
{
    for (struct access *reader = region->readers, *next; reader != NULL; reader = next) {
        next = reader->next;
        if (!only_ended || tprof_node_has_ended(tprof_node_of(reader)))
            drop_reader(region, reader);
    }
}

static void drop_accesses(struct region *region)
{
    drop_readers(region, false);
    if (region->writer != NULL)
        unlink_access(region->writer);
    region->writer = NULL;
}

static void add_reader(struct region *region, struct access *access)
{
    if (region->reader_count >= region->sweep_at) {
        drop_readers(region, true);
        region->sweep_at = region->reader_count < FEW_READERS / 2 ? FEW_READERS : 2 * region->reader_count;
    }
    access->next = region->readers;
    if (region->readers != NULL)
        region->readers->previous = access;
    region->readers = access;
    region->reader_count++;
}

void tprof_region_claim(struct region *region, struct access *access)
{
    access->region = region;
    access->next = access->previous = NULL;
    (void)atomic_fetch_add_explicit(&tprof_node_of(access)->references, 1, memory_order_relaxed);
    if (access->mode == TPROF_READS) {
        add_reader(region, access);
        return;
    }
    /* Later works wait for this writer, which waits for the readers. */
    drop_accesses(region);
    region->writer = access;
}

static void free_region(struct table *table, struct region *region, struct deferred *deferred)
{
    drop_accesses(region);
    take_from_cells(table, region);
    for (uint32_t i = 0; i < region->neighbour_count; i++)
        remove_neighbour(region->neighbours[i], region);
    tprof_defer_decref(deferred, region->handle);
    free(region->neighbours);
    free(region);
    table->count--;
}

static bool is_idle(struct region *region)
{
    if (region->cause != NULL || atomic_load(&region->users) > 0)
        return false;
    drop_readers(region, true);
    return region->readers == NULL && (region->writer == NULL || tprof_node_has_ended(tprof_node_of(region->writer)));
}

/* Handled failures are cleared here too: it may be that no work touches their data again. */
static void prune(struct domain *domain, struct deferred *deferred)
{
    struct table *table = domain->table;
    for (size_t i = 0; i < table->bucket_count; i++)
        for (struct region **at = &table->buckets[i]; *at != NULL;) {
            struct region *region = *at;
            (void)tprof_poisoned_by(region, domain, deferred);
            if (!is_idle(region)) {
                at = &region->next;
                continue;
            }
            *at = region->next;
            free_region(table, region, deferred);
        }
}

/* Free the region if it is still there and still unused: once its users are 0, another thread may find or free it. */
static void free_unused(struct table *table, const struct region *region, uint64_t hash, struct deferred *deferred)
{
    struct region **at = bucket_of(table, hash);
    while (*at != NULL && *at != region)
        at = &(*at)->next;
    struct region *found = *at;
    if (found == NULL || found->handle == NULL || !is_idle(found))
        return;
    *at = found->next;
    free_region(table, found, deferred);
}

void tprof_region_leave(struct domain *domain, struct region *region, struct deferred *deferred)
{
    const uint64_t hash = region->hash;
    if (atomic_fetch_sub(&region->users, 1) > 1)
        return;
    tprof_acquire(&domain->lock);
    if (domain->table != NULL)
        free_unused(domain->table, region, hash, deferred);
    tprof_release(&domain->lock);
}

/* Double the buckets. Without memory the chains grow longer, and nothing is lost. */
static void grow(struct table *table)
{
    const size_t count = table->bucket_count * 2;
    struct region **buckets = calloc(count, sizeof *buckets);
    struct place **cells = calloc(count, sizeof *cells);
    if (buckets == NULL || cells == NULL) {
        free(buckets);
        free(cells);
        return;
    }
    struct region **old = table->buckets;
    const size_t old_count = table->bucket_count;
    free(table->cells);
    table->buckets = buckets;
    table->cells = cells;
    table->bucket_count = table->cell_count = count;
    memset(table->at_mesh, 0, sizeof table->at_mesh);
    for (size_t i = 0; i < old_count; i++)
        for (struct region *region = old[i], *next; region != NULL; region = next) {
            next = region->next;
            put_into_bucket(bucket_of(table, region->hash), region);
            if (region->handle == NULL)
                put_into_cells(table, region);
        }
    free(old);
}

void tprof_table_free(struct table *table, struct deferred *deferred)
{
    for (size_t i = 0; i < table->bucket_count; i++)
        for (struct region *region = table->buckets[i], *next; region != NULL; region = next) {
            next = region->next;
            drop_accesses(region);
            tprof_clear_poison(region, deferred);
            tprof_defer_decref(deferred, region->handle);
            free(region->neighbours);
            free(region);
        }
    free(table->buckets);
    free(table->cells);
    free(table);
}

static bool in_cell(const struct place *place, uint32_t mesh, uint64_t cell)
{
    return place->cell == cell && place->region->mesh == mesh;
}

static void visit_mesh(struct table *table, const struct shape *shape, uint32_t mesh,
                       void (*visit)(struct region *, void *), void *context)
{
    const uint64_t first = shape->start >> mesh, last = (shape->start + shape->extent - 1) >> mesh;
    for (uint64_t cell = first; cell <= last; cell++)
        for (struct place *place = table->cells[cell_hash(mesh, cell) & (table->cell_count - 1)]; place != NULL;
             place = place->next) {
            /* A region in two cells is visited in the first of those that are searched. */
            const bool again = place == &place->region->places[1] && cell > first;
            if (in_cell(place, mesh, cell) && !again && tprof_shapes_overlap(shape, &place->region->shape))
                visit(place->region, context);
        }
}

static void visit_all(struct table *table, const struct shape *shape, void (*visit)(struct region *, void *),
                      void *context)
{
    for (size_t i = 0; i < table->bucket_count; i++)
        for (struct region *region = table->buckets[i], *next; region != NULL; region = next) {
            next = region->next;
            if (region->handle == NULL && tprof_shapes_overlap(shape, &region->shape))
                visit(region, context);
        }
}

void tprof_regions_touching(struct table *table, const struct shape *shape, void (*visit)(struct region *, void *),
                            void *context)
{
    uint64_t cells = 0;
    if (shape->width == 0)
        return;
    for (uint32_t mesh = 0; mesh < TPROF_MESHES; mesh++)
        if (table->at_mesh[mesh] > 0)
            cells += (shape->extent >> mesh) + 2;
    if (cells > 2 * table->count + 64) {
        visit_all(table, shape, visit, context);
        return;
    }
    for (uint32_t mesh = 0; mesh < TPROF_MESHES; mesh++)
        if (table->at_mesh[mesh] > 0)
            visit_mesh(table, shape, mesh, visit, context);
}

static bool add_neighbour(struct region *one, struct region *other)
{
    if (one->neighbour_count == one->neighbour_capacity) {
        const uint32_t capacity = one->neighbour_capacity == 0 ? 4 : one->neighbour_capacity * 2;
        struct region **grown = realloc(one->neighbours, capacity * sizeof *grown);
        if (grown == NULL)
            return false;
        one->neighbours = grown;
        one->neighbour_capacity = capacity;
    }
    one->neighbours[one->neighbour_count++] = other;
    return true;
}

struct linking {
    struct region *region;
    bool failed;
};

static void link_regions(struct region *other, void *context)
{
    struct linking *linking = context;
    if (linking->failed)
        return;
    if (!add_neighbour(linking->region, other))
        linking->failed = true;
    else if (!add_neighbour(other, linking->region)) {
        linking->region->neighbour_count--;
        linking->failed = true;
    }
}

/* Make room for one more region; pruning may free any that is not in use. */
static void make_room(struct domain *domain, struct deferred *deferred)
{
    struct table *table = domain->table;
    if (table->count >= table->prune_at) {
        prune(domain, deferred);
        table->prune_at = table->count < FEW / 2 ? FEW : 2 * table->count;
    }
    if (table->count >= table->bucket_count)
        grow(table);
}

static struct region *make_region(struct domain *domain, uint64_t hash, struct deferred *deferred)
{
    make_room(domain, deferred);
    struct region *region = calloc(1, sizeof *region);
    if (region == NULL)
        return NULL;
    region->hash = hash;
    domain->table->count++;
    return region;
}

struct region *tprof_region_add(struct domain *domain, PyObject *handle, uint64_t hash, struct deferred *deferred)
{
    struct region *region = make_region(domain, hash, deferred);
    if (region == NULL)
        return NULL;
    region->handle = tprof_ref_object(handle);
    atomic_init(&region->users, 1);
    put_into_bucket(bucket_of(domain->table, hash), region);
    return region;
}

struct region *tprof_region_of_hash(const struct table *table, uint64_t hash, struct region *const *known, size_t count)
{
    for (struct region *region = *bucket_of(table, hash); region != NULL; region = region->next) {
        bool is_known = region->handle == NULL || region->hash != hash;
        for (size_t i = 0; i < count && !is_known; i++)
            is_known = known[i] == region;
        if (!is_known)
            return region;
    }
    return NULL;
}

static struct region *add_bytes(struct domain *domain, const struct shape *shape, uint64_t hash,
                                struct deferred *deferred)
{
    struct table *table = domain->table;
    struct region *region = make_region(domain, hash, deferred);
    if (region == NULL)
        return NULL;
    struct linking linking = {region, false};
    tprof_regions_touching(table, shape, link_regions, &linking);
    region->shape = *shape;
    region->mesh = mesh_of(shape->extent);
    put_into_cells(table, region);
    if (linking.failed) {
        free_region(table, region, deferred);
        return NULL;
    }
    put_into_bucket(bucket_of(table, hash), region);
    return region;
}

struct region *tprof_region_find(struct domain *domain, const struct shape *shape, struct deferred *deferred)
{
    const uint64_t hash = tprof_shape_hash(shape);
    struct region *region = *bucket_of(domain->table, hash);
    while (region != NULL &&
           (region->hash != hash || region->handle != NULL || !tprof_shapes_equal(&region->shape, shape)))
        region = region->next;
    return region != NULL ? region : add_bytes(domain, shape, hash, deferred);
}
