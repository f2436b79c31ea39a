/* Which bytes an array covers, and whether two arrays share one. Knows no Python. */
#ifndef TPROF_SHAPE_H
#define TPROF_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TPROF_SHAPE_DIMENSIONS 4
/* No processor addresses as much. Sums and differences of a few extents fit into 64 bits. */
#define TPROF_MOST_BYTES (UINT64_C(1) << 60)

/* Rows of `width` bytes, repeated at strides larger than a row; the largest stride first. An array with more than
 * four dimensions that do not merge is taken for larger than it is: its innermost ones count as filled. */
struct shape {
    uintptr_t start; /* of the first byte in memory, whatever the signs of the strides */
    size_t width;    /* 0: no byte at all */
    size_t extent;   /* from the first byte to behind the last */
    uint32_t dimensions;
    struct {
        size_t stride, count;
    } dimension[TPROF_SHAPE_DIMENSIONS];
};

/* Of `dimensions` (at most 64) lengths and strides in bytes, as the buffer protocol has them; without strides (ctypes
 * never gives any) the items lie close together. False: strides that nobody checked (NumPy's `as_strided` takes any)
 * lead out of memory. */
bool tprof_shape_make(struct shape *shape, uintptr_t data, size_t item_bytes, int dimensions, const ptrdiff_t *lengths,
                      const ptrdiff_t *strides);

bool tprof_shapes_equal(const struct shape *one, const struct shape *other);
uint64_t tprof_shape_hash(const struct shape *shape);

/* Exact for all but contrived strides: a search that takes too long answers that they do. */
bool tprof_shapes_overlap(const struct shape *one, const struct shape *other);

#endif
