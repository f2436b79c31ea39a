/* What Python sees of the loops: functions that check their arrays, and run without the interpreter's lock. */
#include "arrays.h"
#include "graphs_module.h"

static PyObject *add_by(PyObject *self, PyObject *args)
{
    PyObject *key, *columns, *sums;
    Py_ssize_t groups;
    struct tprof_arrays arrays = {.taken = 0};
    struct tprof_loops_keys keys;
    const double *column[MOST_COLUMNS];
    (void)self;
    if (!PyArg_ParseTuple(args, "OO!nO", &key, &PyTuple_Type, &columns, &groups, &sums))
        return NULL;
    const Py_ssize_t count = PyTuple_GET_SIZE(columns);
    if (count > MOST_COLUMNS || groups < 0 || groups > INT32_MAX)
        return PyErr_Format(PyExc_ValueError, "at most %d columns and %d groups, got %zd and %zd", MOST_COLUMNS,
                            INT32_MAX, count, groups);
    if (!tprof_arrays_take_keys(&arrays, key, groups, &keys))
        goto error;
    for (Py_ssize_t at = 0; at < count; at++) {
        column[at] = tprof_arrays_take(&arrays, PyTuple_GET_ITEM(columns, at), "a column", FLOAT64, PyBUF_SIMPLE,
                                       (Py_ssize_t)keys.count);
        if (column[at] == NULL)
            goto error;
    }
    double *of_groups = tprof_arrays_take(&arrays, sums, "the sums", FLOAT64, PyBUF_WRITABLE, count * groups);
    if (of_groups == NULL)
        goto error;
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_loops_add(&keys, column, (size_t)count, of_groups);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

static PyObject *add_products_by(PyObject *self, PyObject *args)
{
    PyObject *key, *of_x, *of_y, *of_centre_x, *of_centre_y, *sums;
    Py_ssize_t groups;
    struct tprof_arrays arrays = {.taken = 0};
    struct tprof_loops_keys keys;
    const double *x, *y, *centre_x, *centre_y;
    double *of_groups;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOOnO", &key, &of_x, &of_y, &of_centre_x, &of_centre_y, &groups, &sums))
        return NULL;
    if (groups < 0 || groups > INT32_MAX)
        return PyErr_Format(PyExc_ValueError, "at most %d groups, got %zd", INT32_MAX, groups);
    if (!tprof_arrays_take_keys(&arrays, key, groups, &keys))
        goto error;
    const Py_ssize_t count = (Py_ssize_t)keys.count;
    if ((x = tprof_arrays_take(&arrays, of_x, "x", FLOAT64, PyBUF_SIMPLE, count)) == NULL ||
        (y = tprof_arrays_take(&arrays, of_y, "y", FLOAT64, PyBUF_SIMPLE, count)) == NULL ||
        (centre_x = tprof_arrays_take(&arrays, of_centre_x, "the centres of x", FLOAT64, PyBUF_SIMPLE, groups)) ==
            NULL ||
        (centre_y = tprof_arrays_take(&arrays, of_centre_y, "the centres of y", FLOAT64, PyBUF_SIMPLE, groups)) ==
            NULL ||
        (of_groups = tprof_arrays_take(&arrays, sums, "the sums", FLOAT64, PyBUF_WRITABLE, 3 * groups)) == NULL)
        goto error;
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_loops_add_products(&keys, x, y, centre_x, centre_y, of_groups);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

static PyObject *locate(PyObject *self, PyObject *args)
{
    PyObject *of_times, *of_edges, *of_places;
    struct tprof_arrays arrays = {.taken = 0};
    const int64_t *t_ns, *edges_ns;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO", &of_times, &of_edges, &of_places))
        return NULL;
    int32_t *places = tprof_arrays_take(&arrays, of_places, "the places", INT32, PyBUF_WRITABLE, -1);
    if (places == NULL)
        goto error;
    const Py_ssize_t count = arrays.views[0].len / (Py_ssize_t)sizeof *places;
    if ((t_ns = tprof_arrays_take(&arrays, of_times, "the times", INT64, PyBUF_SIMPLE, count)) == NULL ||
        (edges_ns = tprof_arrays_take(&arrays, of_edges, "the edges", INT64, PyBUF_SIMPLE, -1)) == NULL)
        goto error;
    const Py_ssize_t edges = arrays.views[2].len / (Py_ssize_t)sizeof *edges_ns;
    if (edges > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "at most %d edges, got %zd", INT32_MAX, edges);
        goto error;
    }
    Py_BEGIN_ALLOW_THREADS
    tprof_loops_locate(t_ns, (size_t)count, edges_ns, (size_t)edges, places);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, true);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

static PyObject *weigh(PyObject *self, PyObject *args)
{
    PyObject *of_times, *of_cpu, *of_modelled;
    double nothing;
    struct tprof_arrays arrays = {.taken = 0};
    const int64_t *t_ns;
    const double *cpu_s;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOdO", &of_times, &of_cpu, &nothing, &of_modelled))
        return NULL;
    double *modelled = tprof_arrays_take(&arrays, of_modelled, "the modelled power", FLOAT64, PyBUF_WRITABLE, -1);
    if (modelled == NULL)
        goto error;
    const Py_ssize_t count = arrays.views[0].len / (Py_ssize_t)sizeof *modelled;
    if ((t_ns = tprof_arrays_take(&arrays, of_times, "the times", INT64, PyBUF_SIMPLE, count + 1)) == NULL ||
        (cpu_s = tprof_arrays_take(&arrays, of_cpu, "the CPU time", FLOAT64, PyBUF_SIMPLE, count)) == NULL)
        goto error;
    Py_BEGIN_ALLOW_THREADS
    tprof_loops_weigh(t_ns, cpu_s, (size_t)count, nothing, modelled);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, true);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

static PyObject *accumulate(PyObject *self, PyObject *args)
{
    PyObject *of_times, *of_cpu, *of_grid, *of_totals;
    long long before_ns, end_ns;
    unsigned long long before_cpu_ns;
    struct tprof_loops_used used;
    struct tprof_loops_samples samples;
    struct tprof_loops_grid grid;
    struct tprof_arrays arrays = {.taken = 0};
    Py_ssize_t count, grid_count;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO(LKd)LOO", &of_times, &of_cpu, &before_ns, &before_cpu_ns, &used.sum_s, &end_ns,
                          &of_grid, &of_totals))
        return NULL;
    if ((samples.t_ns = tprof_arrays_take_spread(&arrays, of_times, "the times", UINT64, -1)) == NULL)
        goto error;
    count = arrays.views[0].shape[0];
    samples.t_stride = arrays.views[0].strides[0];
    if ((samples.cpu_ns = tprof_arrays_take_spread(&arrays, of_cpu, "the CPU time", UINT64, count)) == NULL)
        goto error;
    samples.cpu_stride = arrays.views[1].strides[0];
    samples.count = (size_t)count;
    if ((grid.t_ns = tprof_arrays_take(&arrays, of_grid, "the grid", INT64, PyBUF_SIMPLE, -1)) == NULL)
        goto error;
    grid_count = arrays.views[2].len / (Py_ssize_t)sizeof *grid.t_ns;
    grid.count = (size_t)grid_count;
    if ((grid.used_s = tprof_arrays_take(&arrays, of_totals, "the totals", FLOAT64, PyBUF_WRITABLE, grid_count)) ==
        NULL)
        goto error;
    used.t_ns = before_ns;
    used.cpu_ns = before_cpu_ns;
    Py_BEGIN_ALLOW_THREADS
    tprof_loops_accumulate(&samples, end_ns, &grid, &used);
    Py_END_ALLOW_THREADS
    tprof_arrays_release(&arrays);
    return Py_BuildValue("LKd", (long long)used.t_ns, (unsigned long long)used.cpu_ns, used.sum_s);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

static PyMethodDef methods[] = {
    {"accumulate", accumulate, METH_VARARGS, NULL},
    {"add_by", add_by, METH_VARARGS, NULL},
    {"add_products_by", add_products_by, METH_VARARGS, NULL},
    {"advance_paths", tprof_graphs_module_advance_paths, METH_VARARGS, NULL},
    {"count_edges", tprof_graphs_module_count_edges, METH_VARARGS, NULL},
    {"count_until", tprof_graphs_module_count_until, METH_VARARGS, NULL},
    {"find_last", tprof_graphs_module_find_last, METH_VARARGS, NULL},
    {"locate", locate, METH_VARARGS, NULL},
    {"raise_parents", tprof_graphs_module_raise_parents, METH_VARARGS, NULL},
    {"weigh", weigh, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "tprof.analysis.attribution._loops",
                                        .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__loops(void)
{
    return PyModuleDef_Init(&definition);
}
