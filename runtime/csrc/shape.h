/* Which bytes an array covers, and whether two arrays share one. Independent of Python. */
#ifndef TPROF_SHAPE_H
#define TPROF_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TPROF_SHAPE_DIMENSIONS 4
/* More than any processor addresses. Sums and differences of a few extents fit into 64 bits. */
#define TPROF_MOST_BYTES (UINT64_C(1) << 60)

/* Rows of `width` bytes, repeated at strides larger than a row; the largest stride first. If more than four dimensions
 * remain after merging, the innermost count as filled, so the shape covers more than the array. */
struct shape {
    uintptr_t start; /* of the lowest byte in memory, whatever the signs of the strides */
    size_t width;    /* 0: no bytes */
    size_t extent;   /* from the first byte to the end of the last */
    uint32_t dimensions;
    struct {
        size_t stride, count;
    } dimension[TPROF_SHAPE_DIMENSIONS];
};

/* Make a shape of `dimensions` (at most 64) lengths and strides in bytes, as in the buffer protocol; without strides
 * (ctypes gives none) the items are contiguous. Returns false if the strides lead out of memory, which NumPy's
 * `as_strided` does not check. */
bool tprof_shape_make(struct shape *shape, uintptr_t data, size_t item_bytes, int dimensions, const ptrdiff_t *lengths,
                      const ptrdiff_t *strides);

bool tprof_shapes_equal(const struct shape *one, const struct shape *other);
uint64_t tprof_shape_hash(const struct shape *shape);

/* Exact except for contrived strides, for which a search that takes too long returns true. */
bool tprof_shapes_overlap(const struct shape *one, const struct shape *other);

#endif
