/* Functions that check the arrays of graphs, and run without the interpreter's lock. See graphs_module.h. */
#include "graphs_module.h"

#include "graphs.h"

PyObject *tprof_graphs_module_count_edges(PyObject *self, PyObject *args)
{
    PyObject *of_target, *of_missing;
    struct tprof_arrays arrays;
    size_t edges, nodes;
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "OO", &of_target, &of_missing))
        return NULL;
    const int32_t *target = tprof_arrays_take_any(&arrays, of_target, "the targets", INT32, READ, &edges);
    int32_t *missing = tprof_arrays_take_any(&arrays, of_missing, "the missing ones", INT32, WRITABLE, &nodes);
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = !arrays.failed && tprof_graphs_count_edges(target, edges, missing, nodes);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
}

/* Take the arrays of a net in the order of `given`: first, row, target, share, weight. */
static void take_net(struct tprof_arrays *arrays, PyObject *const given[5], struct tprof_graphs_net *net)
{
    size_t weights;
    net->row = tprof_arrays_take_any(arrays, given[1], "the rows", INT32, READ, &net->nodes);
    net->first = tprof_arrays_take(arrays, given[0], "the first edges", INT32, READ, (Py_ssize_t)net->nodes + 1);
    net->target = tprof_arrays_take_any(arrays, given[2], "the targets", INT32, READ, &net->edges);
    if (net->nodes >= INT32_MAX || net->edges > INT32_MAX)
        tprof_arrays_refuse(arrays, "too many nodes or edges");
    net->share = tprof_arrays_take(arrays, given[3], "the shares", FLOAT64, READ, (Py_ssize_t)net->edges);
    net->weight = tprof_arrays_take_any(arrays, given[4], "the weights", FLOAT64, READ, &weights);
    net->rows = weights / WEIGHTS;
}

/* Take the arrays of paths in the order of `given`: reached, came, missing, queue. */
static void take_paths(struct tprof_arrays *arrays, PyObject *const given[4], Py_ssize_t nodes,
                       struct tprof_graphs_paths *paths)
{
    paths->reached = tprof_arrays_take(arrays, given[0], "what is reached", FLOAT64, WRITABLE, nodes * WEIGHTS);
    paths->came = tprof_arrays_take(arrays, given[1], "the last edges", INT32, WRITABLE, nodes * WEIGHTS);
    paths->missing = tprof_arrays_take(arrays, given[2], "the missing ones", INT32, WRITABLE, nodes);
    paths->queue = tprof_arrays_take(arrays, given[3], "the queue", INT32, WRITABLE, nodes);
}

PyObject *tprof_graphs_module_advance_paths(PyObject *self, PyObject *args)
{
    PyObject *of_net[5], *of_paths[4], *of_progress;
    Py_ssize_t steps;
    struct tprof_arrays arrays;
    struct tprof_graphs_net net;
    struct tprof_graphs_paths paths;
    struct tprof_graphs_progress *at;
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "(OOOOO)(OOOO)On", &of_net[0], &of_net[1], &of_net[2], &of_net[3],
                            &of_net[4], &of_paths[0], &of_paths[1], &of_paths[2], &of_paths[3], &of_progress, &steps))
        return NULL;
    take_net(&arrays, of_net, &net);
    take_paths(&arrays, of_paths, (Py_ssize_t)net.nodes, &paths);
    at = tprof_arrays_take(&arrays, of_progress, "the progress", INT64, WRITABLE, sizeof *at / sizeof(int64_t));
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = !arrays.failed && tprof_graphs_advance(&net, &paths, steps < 0 ? 0 : (size_t)steps, at);
    Py_END_ALLOW_THREADS
    const bool ended = good && at->node < 0 && at->taken == at->queued && at->passed >= (int64_t)net.nodes;
    return tprof_arrays_release(&arrays, good) ? PyBool_FromLong(ended) : NULL;
}

PyObject *tprof_graphs_module_raise_parents(PyObject *self, PyObject *args)
{
    PyObject *of_parents, *of_times;
    Py_ssize_t first_row;
    int backwards;
    struct tprof_arrays arrays;
    size_t count, times, raised = 0;
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "OnpO", &of_parents, &first_row, &backwards, &of_times))
        return NULL;
    const int32_t *parent = tprof_arrays_take_any(&arrays, of_parents, "the parents", INT32, READ, &count);
    int64_t *t_ns = tprof_arrays_take_any(&arrays, of_times, "the times", INT64, WRITABLE, &times);
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = !arrays.failed &&
           tprof_graphs_raise_parents(parent, count, (size_t)first_row, backwards != 0, t_ns, times, &raised);
    Py_END_ALLOW_THREADS
    return tprof_arrays_release(&arrays, good) ? PyLong_FromSize_t(raised) : NULL;
}

PyObject *tprof_graphs_module_find_last(PyObject *self, PyObject *args)
{
    PyObject *of_rows, *of_others, *of_done, *of_last;
    struct tprof_arrays arrays;
    struct tprof_graphs_waits waits;
    size_t rows;
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "OOOO", &of_rows, &of_others, &of_done, &of_last))
        return NULL;
    waits.row = tprof_arrays_take_any(&arrays, of_rows, "the rows", INT32, READ, &waits.count);
    waits.other = tprof_arrays_take(&arrays, of_others, "the others", INT32, READ, (Py_ssize_t)waits.count);
    const int64_t *done_ns = tprof_arrays_take_any(&arrays, of_done, "the times", INT64, READ, &rows);
    int32_t *last = tprof_arrays_take(&arrays, of_last, "the last ones", INT32, WRITABLE, (Py_ssize_t)rows);
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = !arrays.failed && tprof_graphs_find_last(&waits, done_ns, last, rows);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
}

PyObject *tprof_graphs_module_count_until(PyObject *self, PyObject *args)
{
    PyObject *of_first, *of_times, *of_rows, *of_until, *of_counts;
    int inclusive;
    struct tprof_arrays arrays;
    size_t firsts, times, queries;
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "OOOOpO", &of_first, &of_times, &of_rows, &of_until, &inclusive, &of_counts))
        return NULL;
    const int32_t *first = tprof_arrays_take_any(&arrays, of_first, "the first times", INT32, READ, &firsts);
    const int64_t *t_ns = tprof_arrays_take_any(&arrays, of_times, "the times", INT64, READ, &times);
    int32_t *counts = tprof_arrays_take_any(&arrays, of_counts, "the counts", INT32, WRITABLE, &queries);
    const int32_t *row = tprof_arrays_take(&arrays, of_rows, "the rows", INT32, READ, (Py_ssize_t)queries);
    const int64_t *until_ns = tprof_arrays_take(&arrays, of_until, "the ends", INT64, READ, (Py_ssize_t)queries);
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = !arrays.failed && tprof_graphs_count_until(first, firsts == 0 ? 0 : firsts - 1, t_ns, times, row, until_ns,
                                                      queries, inclusive != 0, counts);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
}
