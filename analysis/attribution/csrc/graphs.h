/* Passes over a graph of instances whose steps depend on each other, so that NumPy cannot make them.
 *
 * Called by graphs_module.c, which checks sizes, from any thread and without the interpreter's lock. No array overlaps one
 * that is written. A function returns false at an index that is none of the array that it leads into. */
#ifndef TPROF_GRAPHS_H
#define TPROF_GRAPHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sums of weights along paths are found for so many weights at a time. */
#define WEIGHTS 2

/* Nodes and edges; those from a node are first[node] to before first[node + 1]. What a path gains by an edge is `share` of it
 * times the weights of the row of its source. */
struct tprof_graphs_net {
    const int32_t *first;
    const int32_t *row;
    size_t nodes;
    const int32_t *target;
    const double *share;
    size_t edges;
    const double *weight;
    size_t rows;
};

/* What is known of paths: `reached`, 0 before, is the greatest sum of each weight along a path to each node, and `came`, -1
 * before, its last edge. `missing` is how many edges lead to a node from nodes that were not taken yet; `queue` has space for
 * all nodes. */
struct tprof_graphs_paths {
    double *reached;
    int32_t *came;
    int32_t *missing;
    int32_t *queue;
};

/* How far paths are known: `passed` nodes were looked at in their order, `queued` of them had to wait for later ones, of which
 * `taken` were taken since. `node`, unless it is -1, is taken up to its edge `edge`. */
struct tprof_graphs_progress {
    int64_t passed, taken, queued, node, edge;
};

/* Count the edges into each node. */
bool tprof_graphs_count_edges(const int32_t *target, size_t edges, int32_t *missing, size_t nodes);

/* Go on by so many steps. A node is taken when all from which edges lead to it are (Kahn, 1962): in its turn, or, if it was
 * passed by then, as soon as it can be. So arrays are read nearly in order if most edges lead to later nodes. Nodes on cycles,
 * and those behind them, are never taken. */
bool tprof_graphs_advance(const struct tprof_graphs_net *net, const struct tprof_graphs_paths *paths, size_t steps,
                          struct tprof_graphs_progress *at);

/* Raise the time of each of some rows' parents, -1: none, to that of the row itself, if it is later: row after row, or
 * backwards. `raised` grows by how many were. */
bool tprof_graphs_raise_parents(const int32_t *parent, size_t count, size_t first_row, bool backwards, int64_t *t_ns,
                                size_t rows, size_t *raised);

/* Pairs of a row and another one for which it waits. */
struct tprof_graphs_waits {
    const int32_t *row;
    const int32_t *other;
    size_t count;
};

/* Set last[row], -1 before, to the one of those for which it waits that was done last; of several to the last of them. */
bool tprof_graphs_find_last(const struct tprof_graphs_waits *waits, const int64_t *done_ns, int32_t *last, size_t rows);

/* Count for each query the times of its row that are before it, or at it if `inclusive`; those of a row are t_ns[first[row]]
 * to before t_ns[first[row + 1]], and do not decrease. */
bool tprof_graphs_count_until(const int32_t *first, size_t rows, const int64_t *t_ns, size_t times, const int32_t *row,
                              const int64_t *until_ns, size_t queries, bool inclusive, int32_t *counts);

#endif
