/* Passes over a graph of instances whose steps depend on each other, so that NumPy cannot make them.
 *
 * Called by graphs_module.c, which checks sizes, from any thread and without the interpreter's lock. No array overlaps one
 * that is written. A function returns false at an index that is none of the array that it leads into. */
#ifndef TPROF_GRAPHS_H
#define TPROF_GRAPHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Edges between nodes. */
struct tprof_graphs_edges {
    const int32_t *source;
    const int32_t *target;
    size_t count;
    size_t nodes;
};

/* Edges by source: those of a node are by_source[first[node]] to before by_source[first[node + 1]]. */
struct tprof_graphs_by_source {
    int32_t *first;
    int32_t *by_source;
};

/* Sort edges by source, and write the nodes into `order` so that each comes after all from which edges lead to it (Kahn,
 * 1962); nodes on cycles, and those behind them, are left out. `missing` is space for a number for each node. */
bool tprof_graphs_sort(const struct tprof_graphs_edges *edges, const struct tprof_graphs_by_source *sorted,
                       int32_t *missing, int32_t *order, size_t *ordered);

/* What a path gains by an edge: `share` of it times the weight of the row of its source. */
struct tprof_graphs_weights {
    const double *share;
    const int32_t *row;
    const double *weight;
    size_t rows;
};

/* Set reached[node], 0 before, to the greatest sum of weights along a path to each node, and came[node], -1 before, to the
 * path's last edge. */
bool tprof_graphs_longest(const struct tprof_graphs_edges *edges, const struct tprof_graphs_by_source *sorted,
                          const struct tprof_graphs_weights *weights, const int32_t *order, size_t ordered,
                          double *reached, int32_t *came);

/* Raise, in this order, the time of each of some rows' parents to that of the row itself, if it is later. */
bool tprof_graphs_raise_parents(const int32_t *row, const int32_t *parent, size_t count, int64_t *t_ns, size_t rows);

/* Count for each query the times of its row that are before it, or at it if `inclusive`; those of a row are t_ns[first[row]]
 * to before t_ns[first[row + 1]], and do not decrease. */
bool tprof_graphs_count_until(const int32_t *first, size_t rows, const int64_t *t_ns, size_t times, const int32_t *row,
                              const int64_t *until_ns, size_t queries, bool inclusive, int32_t *counts);

#endif
