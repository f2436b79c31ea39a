/* Passes over a graph of instances. See graphs.h. */
#include "graphs.h"

bool tprof_graphs_count_edges(const int32_t *target, size_t edges, int32_t *missing, size_t nodes)
{
    for (size_t edge = 0; edge < edges; edge++) {
        if ((uint32_t)target[edge] >= nodes)
            return false;
        missing[target[edge]]++;
    }
    return true;
}

/* Lengthen, by an edge, the paths that end in its source. */
static void lengthen(const struct tprof_graphs_net *net, const struct tprof_graphs_paths *paths, size_t source,
                     size_t edge)
{
    const size_t target = (size_t)net->target[edge];
    const double *const weight = net->weight + WEIGHTS * (size_t)net->row[source];
    for (size_t which = 0; which < WEIGHTS; which++) {
        const double total = paths->reached[WEIGHTS * source + which] + net->share[edge] * weight[which];
        double *const reached = &paths->reached[WEIGHTS * target + which];
        int32_t *const came = &paths->came[WEIGHTS * target + which];
        if (total > *reached || *came < 0) {
            *reached = total;
            *came = (int32_t)edge;
        }
    }
}

/* Whether a node and its next edge lead nowhere else. */
static bool is_sound(const struct tprof_graphs_net *net, int64_t node, int64_t edge)
{
    return (uint64_t)node < net->nodes && (uint32_t)net->row[node] < net->rows && edge >= 0 &&
           (uint64_t)net->first[node + 1] <= net->edges;
}

/* Take the next node whose paths are known, if there is one. */
static bool take_node(const struct tprof_graphs_net *net, const struct tprof_graphs_paths *paths,
                      struct tprof_graphs_progress *at)
{
    if (at->taken < at->queued)
        at->node = paths->queue[at->taken++];
    else if (paths->missing[at->passed++] == 0)
        at->node = at->passed - 1;
    else
        return true;
    if ((uint64_t)at->node >= net->nodes)
        return false;
    at->edge = net->first[at->node];
    return is_sound(net, at->node, at->edge);
}

bool tprof_graphs_advance(const struct tprof_graphs_net *net, const struct tprof_graphs_paths *paths, size_t steps,
                          struct tprof_graphs_progress *at)
{
    if (at->passed < 0 || at->taken < 0 || at->taken > at->queued || at->queued > (int64_t)net->nodes ||
        (at->node >= 0 && !is_sound(net, at->node, at->edge)))
        return false;
    for (; steps > 0; steps--) {
        if (at->node < 0) {
            if (at->taken == at->queued && (uint64_t)at->passed >= net->nodes)
                return true;
            if (!take_node(net, paths, at))
                return false;
            continue;
        }
        if (at->edge >= net->first[at->node + 1]) {
            at->node = -1;
            continue;
        }
        const int64_t edge = at->edge++;
        const int32_t target = net->target[edge];
        if ((uint32_t)target >= net->nodes)
            return false;
        lengthen(net, paths, (size_t)at->node, (size_t)edge);
        if (--paths->missing[target] == 0 && target < at->passed) {
            if ((uint64_t)at->queued >= net->nodes)
                return false;
            paths->queue[at->queued++] = target;
        }
    }
    return true;
}

bool tprof_graphs_raise_parents(const int32_t *parent, size_t count, size_t first_row, bool backwards, int64_t *t_ns,
                                size_t rows, size_t *raised)
{
    for (size_t step = 0; step < count; step++) {
        const size_t at = backwards ? count - 1 - step : step;
        if (parent[at] < 0)
            continue;
        if ((uint32_t)parent[at] >= rows || first_row + at >= rows)
            return false;
        if (t_ns[parent[at]] < t_ns[first_row + at]) {
            t_ns[parent[at]] = t_ns[first_row + at];
            ++*raised;
        }
    }
    return true;
}

bool tprof_graphs_find_last(const struct tprof_graphs_waits *waits, const int64_t *done_ns, int32_t *last, size_t rows)
{
    for (size_t edge = 0; edge < waits->count; edge++) {
        const int32_t row = waits->row[edge], other = waits->other[edge];
        if ((uint32_t)row >= rows || (uint32_t)other >= rows || last[row] >= (int64_t)rows)
            return false;
        if (last[row] < 0 || done_ns[other] >= done_ns[last[row]])
            last[row] = other;
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
