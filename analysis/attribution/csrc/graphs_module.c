/* Functions that check the arrays of graphs, and run without the interpreter's lock. See graphs_module.h. */
#include "graphs_module.h"

#include "graphs.h"

/* Take edges, and where they are sorted by source; the arrays of the latter are written if `flags` say so. */
static bool take_edges(struct tprof_arrays *arrays, PyObject *const given[4], int flags,
                       struct tprof_graphs_edges *edges, struct tprof_graphs_by_source *sorted)
{
    edges->source = tprof_arrays_take(arrays, given[0], "the sources", INT32, PyBUF_SIMPLE, -1);
    if (edges->source == NULL)
        return false;
    const Py_ssize_t count = arrays->views[arrays->taken - 1].len / (Py_ssize_t)sizeof(int32_t);
    if ((edges->target = tprof_arrays_take(arrays, given[1], "the targets", INT32, PyBUF_SIMPLE, count)) == NULL ||
        (sorted->by_source = tprof_arrays_take(arrays, given[3], "the sorted edges", INT32, flags, count)) == NULL ||
        (sorted->first = tprof_arrays_take(arrays, given[2], "the first edges", INT32, flags, -1)) == NULL)
        return false;
    const Py_ssize_t firsts = arrays->views[arrays->taken - 1].len / (Py_ssize_t)sizeof(int32_t);
    if (firsts < 1 || firsts - 1 > INT32_MAX || count > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "too many nodes or edges, or no place for the end of the edges");
        return false;
    }
    edges->count = (size_t)count;
    edges->nodes = (size_t)(firsts - 1);
    return true;
}

PyObject *tprof_graphs_module_sort_graph(PyObject *self, PyObject *args)
{
    PyObject *given[4], *of_missing, *of_order;
    struct tprof_arrays arrays = {.taken = 0};
    struct tprof_graphs_edges edges;
    struct tprof_graphs_by_source sorted;
    int32_t *missing, *order;
    size_t ordered = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOOO", &given[0], &given[1], &given[2], &given[3], &of_missing, &of_order))
        return NULL;
    if (!take_edges(&arrays, given, PyBUF_WRITABLE, &edges, &sorted) ||
        (missing = tprof_arrays_take(&arrays, of_missing, "the missing ones", INT32, PyBUF_WRITABLE,
                                     (Py_ssize_t)edges.nodes)) == NULL ||
        (order = tprof_arrays_take(&arrays, of_order, "the order", INT32, PyBUF_WRITABLE, (Py_ssize_t)edges.nodes)) ==
            NULL) {
        tprof_arrays_release(&arrays);
        return NULL;
    }
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_graphs_sort(&edges, &sorted, missing, order, &ordered);
    Py_END_ALLOW_THREADS
    if (good) {
        tprof_arrays_release(&arrays);
        return PyLong_FromSize_t(ordered);
    }
    return tprof_arrays_finished(&arrays, good);
}

PyObject *tprof_graphs_module_longest_paths(PyObject *self, PyObject *args)
{
    PyObject *given[4], *of_share, *of_row, *of_weight, *of_order, *of_reached, *of_came;
    struct tprof_arrays arrays = {.taken = 0};
    struct tprof_graphs_edges edges;
    struct tprof_graphs_by_source sorted;
    struct tprof_graphs_weights weights;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOO", &given[0], &given[1], &given[2], &given[3], &of_share, &of_row,
                          &of_weight, &of_order, &of_reached, &of_came))
        return NULL;
    if (!take_edges(&arrays, given, PyBUF_SIMPLE, &edges, &sorted))
        goto error;
    const Py_ssize_t count = (Py_ssize_t)edges.count, nodes = (Py_ssize_t)edges.nodes;
    double *reached = tprof_arrays_take(&arrays, of_reached, "what is reached", FLOAT64, PyBUF_WRITABLE, nodes);
    int32_t *came =
        reached == NULL ? NULL : tprof_arrays_take(&arrays, of_came, "the last edges", INT32, PyBUF_WRITABLE, nodes);
    if (came == NULL ||
        (weights.share = tprof_arrays_take(&arrays, of_share, "the shares", FLOAT64, PyBUF_SIMPLE, count)) == NULL ||
        (weights.row = tprof_arrays_take(&arrays, of_row, "the rows", INT32, PyBUF_SIMPLE, nodes)) == NULL ||
        (weights.weight = tprof_arrays_take(&arrays, of_weight, "the weights", FLOAT64, PyBUF_SIMPLE, -1)) == NULL)
        goto error;
    weights.rows = (size_t)arrays.views[arrays.taken - 1].len / sizeof(double);
    const int32_t *order = tprof_arrays_take(&arrays, of_order, "the order", INT32, PyBUF_SIMPLE, -1);
    if (order == NULL)
        goto error;
    const size_t ordered = (size_t)arrays.views[arrays.taken - 1].len / sizeof(int32_t);
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_graphs_longest(&edges, &sorted, &weights, order, ordered, reached, came);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

PyObject *tprof_graphs_module_raise_parents(PyObject *self, PyObject *args)
{
    PyObject *of_rows, *of_parents, *of_times;
    struct tprof_arrays arrays = {.taken = 0};
    const int32_t *parent;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO", &of_rows, &of_parents, &of_times))
        return NULL;
    const int32_t *row = tprof_arrays_take(&arrays, of_rows, "the rows", INT32, PyBUF_SIMPLE, -1);
    if (row == NULL)
        goto error;
    const Py_ssize_t count = arrays.views[0].len / (Py_ssize_t)sizeof *row;
    if ((parent = tprof_arrays_take(&arrays, of_parents, "the parents", INT32, PyBUF_SIMPLE, count)) == NULL)
        goto error;
    int64_t *t_ns = tprof_arrays_take(&arrays, of_times, "the times", INT64, PyBUF_WRITABLE, -1);
    if (t_ns == NULL)
        goto error;
    const size_t rows = (size_t)arrays.views[2].len / sizeof *t_ns;
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_graphs_raise_parents(row, parent, (size_t)count, t_ns, rows);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

PyObject *tprof_graphs_module_count_until(PyObject *self, PyObject *args)
{
    PyObject *of_first, *of_times, *of_rows, *of_until, *of_counts;
    int inclusive;
    struct tprof_arrays arrays = {.taken = 0};
    const int32_t *row;
    const int64_t *until_ns;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOpO", &of_first, &of_times, &of_rows, &of_until, &inclusive, &of_counts))
        return NULL;
    const int32_t *first = tprof_arrays_take(&arrays, of_first, "the first times", INT32, PyBUF_SIMPLE, -1);
    const int64_t *t_ns =
        first == NULL ? NULL : tprof_arrays_take(&arrays, of_times, "the times", INT64, PyBUF_SIMPLE, -1);
    int32_t *counts =
        t_ns == NULL ? NULL : tprof_arrays_take(&arrays, of_counts, "the counts", INT32, PyBUF_WRITABLE, -1);
    if (counts == NULL)
        goto error;
    const size_t firsts = (size_t)arrays.views[0].len / sizeof *first;
    const size_t times = (size_t)arrays.views[1].len / sizeof *t_ns;
    const Py_ssize_t queries = arrays.views[2].len / (Py_ssize_t)sizeof *counts;
    if ((row = tprof_arrays_take(&arrays, of_rows, "the rows", INT32, PyBUF_SIMPLE, queries)) == NULL ||
        (until_ns = tprof_arrays_take(&arrays, of_until, "the ends", INT64, PyBUF_SIMPLE, queries)) == NULL)
        goto error;
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_graphs_count_until(first, firsts == 0 ? 0 : firsts - 1, t_ns, times, row, until_ns, (size_t)queries,
                                    inclusive != 0, counts);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}
