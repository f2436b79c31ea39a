/* Loops over samples and instances for which NumPy needs several passes and temporary arrays.
 *
 * Called by loops_module.c, which checks sizes, from any thread and without the interpreter's lock. No array overlaps one
 * that is written. Sums are taken in the order of the elements, as by np.bincount. */
#ifndef TPROF_LOOPS_H
#define TPROF_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* To which of `groups` each element belongs. */
struct tprof_loops_keys {
    const int32_t *at;
    size_t count;
    size_t groups;
};

/* Add elements to the sums of their groups, sums[column * groups + group]. Returns false at a key that is no group. */
bool tprof_loops_add(const struct tprof_loops_keys *keys, const double *const *columns, size_t column_count,
                     double *sums);

/* Add to three rows of sums the products (x - cx)², (y - cy)² and (x - cx)(y - cy), where the centres are by group.
 * Returns false at a key that is no group. */
bool tprof_loops_add_products(const struct tprof_loops_keys *keys, const double *x, const double *y,
                              const double *centre_x, const double *centre_y, double *sums);

/* Set places[i] to how many edges, which increase, are at or before t_ns[i]. It is quick where times mostly increase. */
void tprof_loops_locate(const int64_t *t_ns, size_t count, const int64_t *edges_ns, size_t edges, int32_t *places);

/* Give segments without modelled power `nothing` of their CPU time instead, and those of no length none; `t_ns` has one
 * place more, the last end. */
void tprof_loops_weigh(const int64_t *t_ns, const double *cpu_s, size_t count, double nothing, double *modelled);

/* Samples of a thread: a uint64 each, so many bytes apart. */
struct tprof_loops_samples {
    const char *t_ns, *cpu_ns;
    ptrdiff_t t_stride, cpu_stride;
    size_t count;
};

/* Times that do not decrease, and for each the CPU seconds up to it. */
struct tprof_loops_grid {
    const int64_t *t_ns;
    double *used_s;
    size_t count;
};

/* A sample, and the CPU seconds of all segments up to it. */
struct tprof_loops_used {
    int64_t t_ns;
    uint64_t cpu_ns;
    double sum_s;
};

/* Add up the CPU time of the segments from the sample in `used` through all others, which becomes the last of them. Times
 * after end_ns (0 or later) count as that, and one before that of the sample before it as this; segments of no length count
 * nothing, nor does CPU time that falls. Set the seconds at times of the grid from the first sample to before the last. */
void tprof_loops_accumulate(const struct tprof_loops_samples *samples, int64_t end_ns,
                            const struct tprof_loops_grid *grid, struct tprof_loops_used *used);

#endif
