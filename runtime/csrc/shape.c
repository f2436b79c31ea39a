/* Two arrays share a byte if a sum of bounded multiples of their strides falls into an interval: the bounded linear
 * Diophantine problem that `numpy.shares_memory` solves too. With strides in descending order a search has one or two
 * choices at each step for usual arrays; contrived ones reach the limit. */
#include "shape.h"

#include <string.h>

#define MOST_DIMENSIONS 64
#define MOST_STEPS 20000

struct axis {
    size_t stride, count;
};

static bool has_no_byte(size_t item_bytes, int dimensions, const ptrdiff_t *lengths)
{
    bool none = item_bytes == 0;
    for (int i = 0; i < dimensions; i++)
        none |= lengths[i] == 0;
    return none;
}

/* Bytes from the first item to the last along this axis; SIZE_MAX on overflow. */
static size_t reach_of(struct axis axis)
{
    size_t reach;
    return __builtin_mul_overflow(axis.stride, axis.count - 1, &reach) ? SIZE_MAX : reach;
}

/* Collect axes of more than one item, with positive strides in ascending order. Returns how many, or -1 if they reach
 * beyond any memory; so later arithmetic cannot overflow. */
static int collect(struct axis *axes, struct shape *shape, int dimensions, const ptrdiff_t *lengths,
                   const ptrdiff_t *strides)
{
    int count = 0;
    size_t extent = shape->width;
    for (int i = 0; i < dimensions; i++) {
        if (lengths[i] == 1 || strides[i] == 0)
            continue;
        struct axis axis = {(size_t)strides[i], (size_t)lengths[i]};
        if (strides[i] < 0)
            axis.stride = 0 - axis.stride;
        const size_t reach = reach_of(axis);
        if (reach > TPROF_MOST_BYTES || (extent += reach) > TPROF_MOST_BYTES)
            return -1;
        if (strides[i] < 0 && __builtin_sub_overflow(shape->start, reach, &shape->start))
            return -1;
        int at = count++;
        for (; at > 0 && axes[at - 1].stride > axis.stride; at--)
            axes[at] = axes[at - 1];
        axes[at] = axis;
    }
    return shape->start > UINTPTR_MAX - extent ? -1 : count;
}

/* Merge dense axes into the width, and axes of one regular step into one. Returns how many remain, ascending. */
static int merge(struct axis *axes, int count, size_t *width)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (kept == 0 && axes[i].stride <= *width)
            *width += axes[i].stride * (axes[i].count - 1);
        else if (kept > 0 && axes[i].stride == axes[kept - 1].stride * axes[kept - 1].count)
            axes[kept - 1].count *= axes[i].count;
        else
            axes[kept++] = axes[i];
    }
    return kept;
}

/* Returns whether the product is no more than TPROF_MOST_BYTES. */
static bool multiply(size_t *bytes, int dimensions, const ptrdiff_t *lengths)
{
    for (int i = 0; i < dimensions; i++)
        if (__builtin_mul_overflow(*bytes, (size_t)lengths[i], bytes))
            return false;
    return *bytes <= TPROF_MOST_BYTES;
}

bool tprof_shape_make(struct shape *shape, uintptr_t data, size_t item_bytes, int dimensions, const ptrdiff_t *lengths,
                      const ptrdiff_t *strides)
{
    struct axis axes[MOST_DIMENSIONS];
    memset(shape, 0, sizeof *shape);
    shape->start = data;
    if (has_no_byte(item_bytes, dimensions, lengths))
        return true;
    shape->width = item_bytes;
    if (!multiply(&shape->width, strides == NULL ? dimensions : 0, lengths))
        return false;
    int count = collect(axes, shape, strides == NULL ? 0 : dimensions, lengths, strides);
    if (count < 0)
        return false;
    count = merge(axes, count, &shape->width);
    struct axis *first = axes;
    for (; count > TPROF_SHAPE_DIMENSIONS; count--, first++)
        shape->width += first->stride * (first->count - 1);
    shape->extent = shape->width;
    shape->dimensions = (uint32_t)count;
    for (int i = 0; i < count; i++) {
        const struct axis axis = first[count - 1 - i];
        shape->dimension[i].stride = axis.stride;
        shape->dimension[i].count = axis.count;
        shape->extent += axis.stride * (axis.count - 1);
    }
    return true;
}

bool tprof_shapes_equal(const struct shape *one, const struct shape *other)
{
    return memcmp(one, other, sizeof *one) == 0;
}

uint64_t tprof_shape_hash(const struct shape *shape)
{
    uint64_t hash = shape->start * 0x9e3779b97f4a7c15u ^ shape->width;
    for (uint32_t i = 0; i < shape->dimensions; i++) {
        hash = (hash ^ shape->dimension[i].stride) * 0xff51afd7ed558ccdu;
        hash = (hash ^ shape->dimension[i].count) * 0xc4ceb9fe1a85ec53u;
    }
    return hash ^ hash >> 32;
}

struct search {
    struct axis axes[2 * TPROF_SHAPE_DIMENSIONS];
    int64_t rest[2 * TPROF_SHAPE_DIMENSIONS + 1]; /* the largest sum of the axes from this one on */
    int count, steps;
};

static void add_axis(struct search *search, size_t stride, size_t count)
{
    int at = 0;
    while (at < search->count && search->axes[at].stride > stride)
        at++;
    if (at < search->count && search->axes[at].stride == stride) {
        search->axes[at].count += count - 1;
        return;
    }
    memmove(search->axes + at + 1, search->axes + at, (size_t)(search->count - at) * sizeof *search->axes);
    search->axes[at] = (struct axis){stride, count};
    search->count++;
}

/* Whether multiples of the strides from axis `at` on have a sum in [low, high]. */
static bool reaches(struct search *search, int at, int64_t low, int64_t high)
{
    if (low > search->rest[at] || high < 0)
        return false;
    if (low <= 0)
        return true;
    if (at == search->count)
        return false;
    if (++search->steps > MOST_STEPS)
        return true;
    const int64_t stride = (int64_t)search->axes[at].stride, last = (int64_t)search->axes[at].count - 1;
    const int64_t needed = low - search->rest[at + 1];
    int64_t most = high / stride;
    if (most > last)
        most = last;
    for (int64_t times = needed > 0 ? (needed + stride - 1) / stride : 0; times <= most; times++)
        if (reaches(search, at + 1, low - times * stride, high - times * stride))
            return true;
    return false;
}

bool tprof_shapes_overlap(const struct shape *one, const struct shape *other)
{
    if (one->width == 0 || other->width == 0 || one->start >= other->start + other->extent ||
        other->start >= one->start + one->extent)
        return false;
    struct search search = {.count = 0, .steps = 0};
    /* Measured from the last row of `one`, so that all strides count as positive. */
    int64_t distance = (int64_t)(other->start - one->start);
    for (uint32_t i = 0; i < one->dimensions; i++) {
        add_axis(&search, one->dimension[i].stride, one->dimension[i].count);
        distance -= (int64_t)(one->dimension[i].stride * (one->dimension[i].count - 1));
    }
    for (uint32_t i = 0; i < other->dimensions; i++)
        add_axis(&search, other->dimension[i].stride, other->dimension[i].count);
    search.rest[search.count] = 0;
    for (int i = search.count - 1; i >= 0; i--)
        search.rest[i] = search.rest[i + 1] + (int64_t)(search.axes[i].stride * (search.axes[i].count - 1));
    return reaches(&search, 0, 1 - (int64_t)other->width - distance, (int64_t)one->width - 1 - distance);
}
