/* Functions that check the arrays of graphs, and run without the interpreter's lock. See graphs_module.h. */
#include "graphs_module.h"

#include "graphs.h"

/* How many elements the array has that was taken last. */
static Py_ssize_t taken_count(const struct tprof_arrays *arrays)
{
    const Py_buffer *view = &arrays->views[arrays->taken - 1];
    return view->len / view->itemsize;
}

PyObject *tprof_graphs_module_count_edges(PyObject *self, PyObject *args)
{
    PyObject *of_target, *of_missing;
    struct tprof_arrays arrays = {.taken = 0};
    int32_t *missing;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO", &of_target, &of_missing))
        return NULL;
    const int32_t *target = tprof_arrays_take(&arrays, of_target, "the targets", INT32, PyBUF_SIMPLE, -1);
    const Py_ssize_t edges = target == NULL ? 0 : taken_count(&arrays);
    if (target == NULL ||
        (missing = tprof_arrays_take(&arrays, of_missing, "the missing ones", INT32, PyBUF_WRITABLE, -1)) == NULL) {
        tprof_arrays_release(&arrays);
        return NULL;
    }
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_graphs_count_edges(target, (size_t)edges, missing, (size_t)arrays.views[1].len / sizeof *missing);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
}

/* Take the arrays of a net in the order of `given`: first, row, target, share, weight. */
static bool take_net(struct tprof_arrays *arrays, PyObject *const given[5], struct tprof_graphs_net *net)
{
    if ((net->row = tprof_arrays_take(arrays, given[1], "the rows", INT32, PyBUF_SIMPLE, -1)) == NULL)
        return false;
    const Py_ssize_t nodes = taken_count(arrays);
    net->first = tprof_arrays_take(arrays, given[0], "the first edges", INT32, PyBUF_SIMPLE, nodes + 1);
    if (net->first == NULL ||
        (net->target = tprof_arrays_take(arrays, given[2], "the targets", INT32, PyBUF_SIMPLE, -1)) == NULL)
        return false;
    const Py_ssize_t edges = taken_count(arrays);
    if (nodes >= INT32_MAX || edges > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "too many nodes or edges");
        return false;
    }
    if ((net->share = tprof_arrays_take(arrays, given[3], "the shares", FLOAT64, PyBUF_SIMPLE, edges)) == NULL ||
        (net->weight = tprof_arrays_take(arrays, given[4], "the weights", FLOAT64, PyBUF_SIMPLE, -1)) == NULL)
        return false;
    net->nodes = (size_t)nodes;
    net->edges = (size_t)edges;
    net->rows = (size_t)taken_count(arrays) / WEIGHTS;
    return true;
}

/* Take the arrays of paths in the order of `given`: reached, came, missing, queue. */
static bool take_paths(struct tprof_arrays *arrays, PyObject *const given[4], Py_ssize_t nodes,
                       struct tprof_graphs_paths *paths)
{
    const int flags = PyBUF_WRITABLE;
    return (paths->reached = tprof_arrays_take(arrays, given[0], "what is reached", FLOAT64, flags, nodes * WEIGHTS)) !=
               NULL &&
           (paths->came = tprof_arrays_take(arrays, given[1], "the last edges", INT32, flags, nodes * WEIGHTS)) !=
               NULL &&
           (paths->missing = tprof_arrays_take(arrays, given[2], "the missing ones", INT32, flags, nodes)) != NULL &&
           (paths->queue = tprof_arrays_take(arrays, given[3], "the queue", INT32, flags, nodes)) != NULL;
}

PyObject *tprof_graphs_module_advance_paths(PyObject *self, PyObject *args)
{
    PyObject *of_net[5], *of_paths[4], *of_progress;
    Py_ssize_t steps;
    struct tprof_arrays arrays = {.taken = 0};
    struct tprof_graphs_net net;
    struct tprof_graphs_paths paths;
    (void)self;
    if (!PyArg_ParseTuple(args, "(OOOOO)(OOOO)On", &of_net[0], &of_net[1], &of_net[2], &of_net[3], &of_net[4],
                          &of_paths[0], &of_paths[1], &of_paths[2], &of_paths[3], &of_progress, &steps))
        return NULL;
    struct tprof_graphs_progress *at;
    const Py_ssize_t fields = (Py_ssize_t)(sizeof *at / sizeof(int64_t));
    if (!take_net(&arrays, of_net, &net) || !take_paths(&arrays, of_paths, (Py_ssize_t)net.nodes, &paths) ||
        (at = tprof_arrays_take(&arrays, of_progress, "the progress", INT64, PyBUF_WRITABLE, fields)) == NULL) {
        tprof_arrays_release(&arrays);
        return NULL;
    }
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_graphs_advance(&net, &paths, steps < 0 ? 0 : (size_t)steps, at);
    Py_END_ALLOW_THREADS
    const bool ended = good && at->node < 0 && at->taken == at->queued && at->passed >= (int64_t)net.nodes;
    PyObject *nothing = tprof_arrays_finished(&arrays, good);
    if (nothing == NULL)
        return NULL;
    Py_DECREF(nothing);
    return PyBool_FromLong(ended);
}

PyObject *tprof_graphs_module_raise_parents(PyObject *self, PyObject *args)
{
    PyObject *of_parents, *of_times;
    Py_ssize_t first_row;
    int backwards;
    struct tprof_arrays arrays = {.taken = 0};
    int64_t *t_ns;
    size_t raised = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "OnpO", &of_parents, &first_row, &backwards, &of_times))
        return NULL;
    const int32_t *parent = tprof_arrays_take(&arrays, of_parents, "the parents", INT32, PyBUF_SIMPLE, -1);
    const Py_ssize_t count = parent == NULL ? 0 : taken_count(&arrays);
    if (parent == NULL ||
        (t_ns = tprof_arrays_take(&arrays, of_times, "the times", INT64, PyBUF_WRITABLE, -1)) == NULL) {
        tprof_arrays_release(&arrays);
        return NULL;
    }
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_graphs_raise_parents(parent, (size_t)count, (size_t)first_row, backwards != 0, t_ns,
                                      (size_t)arrays.views[1].len / sizeof *t_ns, &raised);
    Py_END_ALLOW_THREADS
    PyObject *nothing = tprof_arrays_finished(&arrays, good);
    if (nothing == NULL)
        return NULL;
    Py_DECREF(nothing);
    return PyLong_FromSize_t(raised);
}

PyObject *tprof_graphs_module_find_last(PyObject *self, PyObject *args)
{
    PyObject *of_rows, *of_others, *of_done, *of_last;
    struct tprof_arrays arrays = {.taken = 0};
    struct tprof_graphs_waits waits;
    const int64_t *done_ns;
    int32_t *last;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO", &of_rows, &of_others, &of_done, &of_last))
        return NULL;
    if ((waits.row = tprof_arrays_take(&arrays, of_rows, "the rows", INT32, PyBUF_SIMPLE, -1)) == NULL)
        goto error;
    const Py_ssize_t count = taken_count(&arrays);
    waits.count = (size_t)count;
    if ((waits.other = tprof_arrays_take(&arrays, of_others, "the others", INT32, PyBUF_SIMPLE, count)) == NULL ||
        (done_ns = tprof_arrays_take(&arrays, of_done, "the times", INT64, PyBUF_SIMPLE, -1)) == NULL)
        goto error;
    const Py_ssize_t rows = taken_count(&arrays);
    if ((last = tprof_arrays_take(&arrays, of_last, "the last ones", INT32, PyBUF_WRITABLE, rows)) == NULL)
        goto error;
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_graphs_find_last(&waits, done_ns, last, (size_t)rows);
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
