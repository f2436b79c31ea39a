/* Passes over a graph of instances. See graphs.h. */
#include "graphs.h"

#include <string.h>

bool tprof_graphs_sort(const struct tprof_graphs_edges *edges, const struct tprof_graphs_by_source *sorted,
                       int32_t *missing, int32_t *order, size_t *ordered)
{
    int32_t *const first = sorted->first;
    memset(first, 0, (edges->nodes + 1) * sizeof *first);
    memset(missing, 0, edges->nodes * sizeof *missing);
    for (size_t edge = 0; edge < edges->count; edge++) {
        const uint32_t source = (uint32_t)edges->source[edge], target = (uint32_t)edges->target[edge];
        if (source >= edges->nodes || target >= edges->nodes)
            return false;
        first[source + 1]++;
        missing[target]++;
    }
    for (size_t node = 0; node < edges->nodes; node++)
        first[node + 1] += first[node];
    /* Counting sort: first[node] goes on to where the edges of the next node begin, and is set back below. */
    for (size_t edge = 0; edge < edges->count; edge++)
        sorted->by_source[first[edges->source[edge]]++] = (int32_t)edge;
    memmove(first + 1, first, edges->nodes * sizeof *first);
    first[0] = 0;
    size_t found = 0;
    for (size_t node = 0; node < edges->nodes; node++)
        if (missing[node] == 0)
            order[found++] = (int32_t)node;
    for (size_t done = 0; done < found; done++) {
        const int32_t node = order[done];
        for (int32_t at = first[node]; at < first[node + 1]; at++) {
            const int32_t follower = edges->target[sorted->by_source[at]];
            if (--missing[follower] == 0)
                order[found++] = follower;
        }
    }
    *ordered = found;
    return true;
}

bool tprof_graphs_longest(const struct tprof_graphs_edges *edges, const struct tprof_graphs_by_source *sorted,
                          const struct tprof_graphs_weights *weights, const int32_t *order, size_t ordered,
                          double *reached, int32_t *came)
{
    for (size_t done = 0; done < ordered; done++) {
        const uint32_t node = (uint32_t)order[done];
        if (node >= edges->nodes || (uint32_t)weights->row[node] >= weights->rows)
            return false;
        const double here = reached[node], weight = weights->weight[weights->row[node]];
        for (int32_t at = sorted->first[node]; at < sorted->first[node + 1]; at++) {
            const uint32_t edge = (uint32_t)sorted->by_source[at];
            if (edge >= edges->count || (uint32_t)edges->target[edge] >= edges->nodes)
                return false;
            const int32_t follower = edges->target[edge];
            const double total = here + weights->share[edge] * weight;
            if (total > reached[follower] || came[follower] < 0) {
                reached[follower] = total;
                came[follower] = (int32_t)edge;
            }
        }
    }
    return true;
}

bool tprof_graphs_raise_parents(const int32_t *row, const int32_t *parent, size_t count, int64_t *t_ns, size_t rows)
{
    for (size_t at = 0; at < count; at++) {
        if ((uint32_t)row[at] >= rows || (uint32_t)parent[at] >= rows)
            return false;
        if (t_ns[parent[at]] < t_ns[row[at]])
            t_ns[parent[at]] = t_ns[row[at]];
    }
    return true;
}

bool tprof_graphs_count_until(const int32_t *first, size_t rows, const int64_t *t_ns, size_t times, const int32_t *row,
                              const int64_t *until_ns, size_t queries, bool inclusive, int32_t *counts)
{
    for (size_t query = 0; query < queries; query++) {
        if ((uint32_t)row[query] >= rows)
            return false;
        const int32_t begin = first[row[query]];
        int32_t low = begin, high = first[row[query] + 1];
        if (low < 0 || (low < high && (size_t)high > times))
            return false;
        while (low < high) {
            const int32_t middle = low + (high - low) / 2;
            const bool counts_here = inclusive ? t_ns[middle] <= until_ns[query] : t_ns[middle] < until_ns[query];
            if (counts_here)
                low = middle + 1;
            else
                high = middle;
        }
        counts[query] = low - begin;
    }
    return true;
}
