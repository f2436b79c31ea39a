/* What Python sees of the loops: functions that check their arrays, and run without the interpreter's lock. */
#include "arrays.h"
#include "graphs_module.h"
#include "instances_module.h"

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

static PyObject *multiply_by(PyObject *self, PyObject *args)
{
    PyObject *key, *of_factors, *of_values, *of_products;
    struct tprof_arrays arrays = {.taken = 0};
    struct tprof_loops_keys keys;
    const double *factors, *values;
    double *products;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO", &key, &of_factors, &of_values, &of_products))
        return NULL;
    if ((factors = tprof_arrays_take(&arrays, of_factors, "the factors", FLOAT64, PyBUF_SIMPLE, -1)) == NULL ||
        !tprof_arrays_take_keys(&arrays, key, arrays.views[0].len / (Py_ssize_t)sizeof *factors, &keys))
        goto error;
    const Py_ssize_t count = (Py_ssize_t)keys.count;
    if ((values = tprof_arrays_take(&arrays, of_values, "the values", FLOAT64, PyBUF_SIMPLE, count)) == NULL ||
        (products = tprof_arrays_take(&arrays, of_products, "the products", FLOAT64, PyBUF_WRITABLE, count)) == NULL)
        goto error;
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_loops_multiply(&keys, factors, values, products);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

/* Copy the parts into `target`, with `gap` bytes of zero between them. */
static void copy_parts(char *target, const Py_buffer *parts, Py_ssize_t count, size_t gap)
{
    for (Py_ssize_t at = 0; at < count; at++) {
        if (at > 0) {
            memset(target, 0, gap);
            target += gap;
        }
        memcpy(target, parts[at].buf, (size_t)parts[at].len);
        target += parts[at].len;
    }
}

static PyObject *join(PyObject *self, PyObject *args)
{
    PyObject *parts;
    Py_buffer target;
    Py_ssize_t gap, taken = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nw*", &PyTuple_Type, &parts, &gap, &target))
        return NULL;
    const Py_ssize_t count = PyTuple_GET_SIZE(parts);
    Py_buffer *of_parts = PyMem_Calloc((size_t)count + 1, sizeof *of_parts);
    if (of_parts == NULL)
        PyErr_NoMemory();
    /* So no sum of lengths is larger than what fits. */
    const bool is_gap = gap >= 0 && (count < 2 || gap <= target.len / (count - 1));
    Py_ssize_t room = is_gap ? target.len - (count > 1 ? gap * (count - 1) : 0) : -1;
    for (; of_parts != NULL && room >= 0 && taken < count; taken++) {
        if (PyObject_GetBuffer(PyTuple_GET_ITEM(parts, taken), &of_parts[taken], PyBUF_SIMPLE) < 0)
            break;
        room -= of_parts[taken].len;
    }
    if (!PyErr_Occurred() && room != 0)
        PyErr_Format(PyExc_ValueError, "the parts and %zd bytes between them do not fill %zd", gap, target.len);
    if (!PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        copy_parts(target.buf, of_parts, count, (size_t)gap);
        Py_END_ALLOW_THREADS
    }
    while (taken > 0)
        PyBuffer_Release(&of_parts[--taken]);
    PyMem_Free(of_parts);
    PyBuffer_Release(&target);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
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

static PyObject *increase(PyObject *self, PyObject *args)
{
    PyObject *of_values, *of_increments;
    double scale;
    struct tprof_arrays arrays = {.taken = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OdO", &of_values, &scale, &of_increments))
        return NULL;
    double *increments = tprof_arrays_take(&arrays, of_increments, "the increments", FLOAT64, PyBUF_WRITABLE, -1);
    if (increments == NULL)
        goto error;
    const Py_ssize_t count = arrays.views[0].len / (Py_ssize_t)sizeof *increments;
    const uint64_t *values = tprof_arrays_take(&arrays, of_values, "the values", UINT64, PyBUF_SIMPLE, count + 1);
    if (values == NULL)
        goto error;
    Py_BEGIN_ALLOW_THREADS
    tprof_loops_increase(values, (size_t)count, scale, increments);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, true);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

static PyObject *search(PyObject *self, PyObject *args)
{
    PyObject *of_times, *of_begins, *of_ends, *of_found;
    long long first, second;
    struct tprof_loops_threads threads;
    struct tprof_arrays arrays = {.taken = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO(LL)O", &of_times, &of_begins, &of_ends, &first, &second, &of_found))
        return NULL;
    int64_t *found;
    const int64_t *t_ns = tprof_arrays_take(&arrays, of_times, "the times", INT64, PyBUF_SIMPLE, -1);
    const Py_ssize_t count = t_ns == NULL ? 0 : arrays.views[0].len / (Py_ssize_t)sizeof *t_ns;
    if (t_ns == NULL || !tprof_arrays_take_threads(&arrays, of_begins, of_ends, count, &threads) ||
        (found = tprof_arrays_take(&arrays, of_found, "what is found", INT64, PyBUF_WRITABLE,
                                   2 * (Py_ssize_t)threads.threads)) == NULL) {
        tprof_arrays_release(&arrays);
        return NULL;
    }
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_loops_search(t_ns, &threads, first, second, found);
    Py_END_ALLOW_THREADS
    tprof_arrays_release(&arrays);
    return good ? Py_NewRef(Py_None) : tprof_arrays_refuse_places(count);
}

static PyObject *limit(PyObject *self, PyObject *args)
{
    PyObject *of_times, *of_begins, *of_ends, *of_limits, *of_limited, *of_falls;
    struct tprof_loops_threads threads;
    struct tprof_arrays arrays = {.taken = 0};
    int64_t *falls;
    const int64_t *ends_ns;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOOO", &of_times, &of_begins, &of_ends, &of_limits, &of_limited, &of_falls))
        return NULL;
    const uint64_t *t_ns = tprof_arrays_take(&arrays, of_times, "the times", UINT64, PyBUF_SIMPLE, -1);
    const Py_ssize_t count = t_ns == NULL ? 0 : arrays.views[0].len / (Py_ssize_t)sizeof *t_ns;
    if (t_ns == NULL || !tprof_arrays_take_threads(&arrays, of_begins, of_ends, count, &threads))
        goto error;
    const Py_ssize_t thread_count = (Py_ssize_t)threads.threads;
    int64_t *limited = tprof_arrays_take(&arrays, of_limited, "the limited times", INT64, PyBUF_WRITABLE, count);
    if (limited == NULL ||
        (ends_ns = tprof_arrays_take(&arrays, of_limits, "the last times", INT64, PyBUF_SIMPLE, thread_count)) ==
            NULL ||
        (falls = tprof_arrays_take(&arrays, of_falls, "the falls", INT64, PyBUF_WRITABLE, thread_count)) == NULL)
        goto error;
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_loops_limit(t_ns, &threads, ends_ns, limited, falls);
    Py_END_ALLOW_THREADS
    tprof_arrays_release(&arrays);
    return good ? Py_NewRef(Py_None) : tprof_arrays_refuse_places(count);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

/* Take the columns, of as many elements each. */
static bool take_columns(struct tprof_arrays *arrays, PyObject *columns, Py_ssize_t *count)
{
    for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(columns); at++) {
        Py_buffer *view = &arrays->views[arrays->taken];
        if (PyObject_GetBuffer(PyTuple_GET_ITEM(columns, at), view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0)
            return false;
        arrays->taken++;
        const Py_ssize_t length = view->itemsize > 0 ? view->len / view->itemsize : 0;
        if (at > 0 && length != *count) {
            PyErr_Format(PyExc_ValueError, "columns must be of one length, got %zd and %zd", *count, length);
            return false;
        }
        *count = length;
    }
    return true;
}

static PyObject *compact(PyObject *self, PyObject *args)
{
    PyObject *columns, *of_begins, *of_ends;
    struct tprof_loops_threads threads;
    struct tprof_arrays arrays = {.taken = 0};
    Py_ssize_t count = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!OO", &PyTuple_Type, &columns, &of_begins, &of_ends))
        return NULL;
    const Py_ssize_t column_count = PyTuple_GET_SIZE(columns);
    if (column_count > MOST_COLUMNS)
        return PyErr_Format(PyExc_ValueError, "at most %d columns, got %zd", MOST_COLUMNS, column_count);
    if (!take_columns(&arrays, columns, &count) ||
        !tprof_arrays_take_threads(&arrays, of_begins, of_ends, count, &threads)) {
        tprof_arrays_release(&arrays);
        return NULL;
    }
    bool good = true;
    int64_t done = 0;
    for (size_t thread = 0; good && thread < threads.threads; thread++) {
        good = threads.begin[thread] >= done && threads.end[thread] >= threads.begin[thread] &&
               threads.end[thread] <= (int64_t)count;
        done = threads.end[thread];
    }
    if (good) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t at = 0; at < column_count; at++)
            tprof_loops_compact(arrays.views[at].buf, (size_t)arrays.views[at].itemsize, &threads);
        Py_END_ALLOW_THREADS
    }
    tprof_arrays_release(&arrays);
    return good ? Py_NewRef(Py_None) : tprof_arrays_refuse_places(count);
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
    bool ordered;
    Py_BEGIN_ALLOW_THREADS
    ordered = tprof_loops_accumulate(&samples, end_ns, &grid, &used);
    Py_END_ALLOW_THREADS
    tprof_arrays_release(&arrays);
    if (ordered)
        return Py_BuildValue("LKd", (long long)used.t_ns, (unsigned long long)used.cpu_ns, used.sum_s);
    Py_RETURN_NONE;
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

static PyMethodDef methods[] = {
    {"accumulate", accumulate, METH_VARARGS, NULL},
    {"add_by", add_by, METH_VARARGS, NULL},
    {"add_products_by", add_products_by, METH_VARARGS, NULL},
    {"advance_paths", tprof_graphs_module_advance_paths, METH_VARARGS, NULL},
    {"compact", compact, METH_VARARGS, NULL},
    {"count_edges", tprof_graphs_module_count_edges, METH_VARARGS, NULL},
    {"count_until", tprof_graphs_module_count_until, METH_VARARGS, NULL},
    {"fill_instances", tprof_instances_module_fill, METH_VARARGS, NULL},
    {"find_last", tprof_graphs_module_find_last, METH_VARARGS, NULL},
    {"find_members", tprof_instances_module_find_members, METH_VARARGS, NULL},
    {"increase", increase, METH_VARARGS, NULL},
    {"join", join, METH_VARARGS, NULL},
    {"limit", limit, METH_VARARGS, NULL},
    {"locate", locate, METH_VARARGS, NULL},
    {"multiply_by", multiply_by, METH_VARARGS, NULL},
    {"number", tprof_instances_module_number, METH_VARARGS, NULL},
    {"raise_parents", tprof_graphs_module_raise_parents, METH_VARARGS, NULL},
    {"search", search, METH_VARARGS, NULL},
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
