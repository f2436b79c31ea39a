/* What Python sees of the loops: functions that check their arrays, and run without the interpreter's lock. */
#include "arrays.h"

static void take_groups(struct tprof_arrays *arrays, PyObject *key, Py_ssize_t groups, struct tprof_loops_keys *keys)
{
    if (groups < 0 || groups > INT32_MAX)
        tprof_arrays_refuse(arrays, "at most 2147483647 groups");
    keys->at = tprof_arrays_take_any(arrays, key, "the keys", INT32, READ, &keys->count);
    keys->groups = (size_t)groups;
}

static PyObject *add_by(PyObject *self, PyObject *args)
{
    PyObject *key, *columns, *sums;
    Py_ssize_t groups;
    struct tprof_arrays arrays;
    struct tprof_loops_keys keys;
    const double *column[MOST_COLUMNS];
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "OO!nO", &key, &PyTuple_Type, &columns, &groups, &sums))
        return NULL;
    const Py_ssize_t count = PyTuple_GET_SIZE(columns);
    if (count > MOST_COLUMNS)
        return PyErr_Format(PyExc_ValueError, "at most %d columns, got %zd", MOST_COLUMNS, count);
    take_groups(&arrays, key, groups, &keys);
    for (Py_ssize_t at = 0; at < count; at++)
        column[at] = tprof_arrays_take(&arrays, PyTuple_GET_ITEM(columns, at), "a column", FLOAT64, READ,
                                       (Py_ssize_t)keys.count);
    double *of_groups = tprof_arrays_take(&arrays, sums, "the sums", FLOAT64, WRITABLE, count * groups);
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = !arrays.failed && tprof_loops_add(&keys, column, (size_t)count, of_groups);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
}

static PyObject *add_products_by(PyObject *self, PyObject *args)
{
    PyObject *key, *of_x, *of_y, *of_centre_x, *of_centre_y, *sums;
    Py_ssize_t groups;
    struct tprof_arrays arrays;
    struct tprof_loops_keys keys;
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "OOOOOnO", &key, &of_x, &of_y, &of_centre_x, &of_centre_y, &groups, &sums))
        return NULL;
    take_groups(&arrays, key, groups, &keys);
    const Py_ssize_t count = (Py_ssize_t)keys.count;
    const double *x = tprof_arrays_take(&arrays, of_x, "x", FLOAT64, READ, count);
    const double *y = tprof_arrays_take(&arrays, of_y, "y", FLOAT64, READ, count);
    const double *centre_x = tprof_arrays_take(&arrays, of_centre_x, "the centres of x", FLOAT64, READ, groups);
    const double *centre_y = tprof_arrays_take(&arrays, of_centre_y, "the centres of y", FLOAT64, READ, groups);
    double *of_groups = tprof_arrays_take(&arrays, sums, "the sums", FLOAT64, WRITABLE, 3 * groups);
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = !arrays.failed && tprof_loops_add_products(&keys, x, y, centre_x, centre_y, of_groups);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
}

static PyObject *locate(PyObject *self, PyObject *args)
{
    PyObject *of_times, *of_edges, *of_places;
    struct tprof_arrays arrays;
    size_t count, edges;
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "OOO", &of_times, &of_edges, &of_places))
        return NULL;
    int32_t *places = tprof_arrays_take_any(&arrays, of_places, "the places", INT32, WRITABLE, &count);
    const int64_t *t_ns = tprof_arrays_take(&arrays, of_times, "the times", INT64, READ, (Py_ssize_t)count);
    const int64_t *edges_ns = tprof_arrays_take_any(&arrays, of_edges, "the edges", INT64, READ, &edges);
    if (edges > INT32_MAX)
        tprof_arrays_refuse(&arrays, "at most 2147483647 edges");
    Py_BEGIN_ALLOW_THREADS
    if (!arrays.failed)
        tprof_loops_locate(t_ns, count, edges_ns, edges, places);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, true);
}

static PyObject *weigh(PyObject *self, PyObject *args)
{
    PyObject *of_times, *of_cpu, *of_modelled;
    double nothing;
    struct tprof_arrays arrays;
    size_t count;
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "OOdO", &of_times, &of_cpu, &nothing, &of_modelled))
        return NULL;
    double *modelled = tprof_arrays_take_any(&arrays, of_modelled, "the modelled power", FLOAT64, WRITABLE, &count);
    const int64_t *t_ns = tprof_arrays_take(&arrays, of_times, "the times", INT64, READ, (Py_ssize_t)count + 1);
    const double *cpu_s = tprof_arrays_take(&arrays, of_cpu, "the CPU time", FLOAT64, READ, (Py_ssize_t)count);
    Py_BEGIN_ALLOW_THREADS
    if (!arrays.failed)
        tprof_loops_weigh(t_ns, cpu_s, count, nothing, modelled);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, true);
}

static PyObject *accumulate(PyObject *self, PyObject *args)
{
    PyObject *of_times, *of_cpu, *of_grid, *of_totals;
    long long before_ns, end_ns;
    unsigned long long before_cpu_ns;
    struct tprof_loops_used used;
    struct tprof_loops_samples samples;
    struct tprof_loops_grid grid;
    struct tprof_arrays arrays;
    Py_ssize_t count;
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "OO(LKd)LOO", &of_times, &of_cpu, &before_ns, &before_cpu_ns, &used.sum_s,
                            &end_ns, &of_grid, &of_totals))
        return NULL;
    used.t_ns = before_ns;
    used.cpu_ns = before_cpu_ns;
    samples.t_ns = tprof_arrays_take_spread(&arrays, of_times, "the times", &count, &samples.t_stride);
    samples.count = (size_t)count;
    samples.cpu_ns = tprof_arrays_take_spread(&arrays, of_cpu, "the CPU time", &count, &samples.cpu_stride);
    if (samples.count != (size_t)count)
        tprof_arrays_refuse(&arrays, "as many times as CPU times");
    grid.t_ns = tprof_arrays_take_any(&arrays, of_grid, "the grid", INT64, READ, &grid.count);
    grid.used_s = tprof_arrays_take(&arrays, of_totals, "the totals", FLOAT64, WRITABLE, (Py_ssize_t)grid.count);
    Py_BEGIN_ALLOW_THREADS
    if (!arrays.failed)
        tprof_loops_accumulate(&samples, end_ns, &grid, &used);
    Py_END_ALLOW_THREADS
    return tprof_arrays_release(&arrays, true)
               ? Py_BuildValue("LKd", (long long)used.t_ns, (unsigned long long)used.cpu_ns, used.sum_s)
               : NULL;
}

static PyMethodDef methods[] = {
    {"accumulate", accumulate, METH_VARARGS, NULL},
    {"add_by", add_by, METH_VARARGS, NULL},
    {"add_products_by", add_products_by, METH_VARARGS, NULL},
    {"locate", locate, METH_VARARGS, NULL},
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
