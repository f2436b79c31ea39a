/* What Python sees of the loops: functions that check their arrays, and run without the interpreter's lock. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "loops.h"

#define MOST_COLUMNS 64
#define MOST_ARRAYS (MOST_COLUMNS + 8)

/* Formats of the struct module, any of which an array may have. */
#define INT32 "i"
#define INT64 "lq"
#define UINT8 "B"
#define BOOL "?"
#define UINT64 "LQ"
#define FLOAT64 "d"

/* The arrays of one call; all are released together. */
struct arrays {
    Py_buffer views[MOST_ARRAYS];
    int taken;
};

static void release(struct arrays *arrays)
{
    while (arrays->taken > 0)
        PyBuffer_Release(&arrays->views[--arrays->taken]);
}

/* Return the elements of an array, or NULL with an error. `count` is how many there must be, -1: any. */
static void *take(struct arrays *arrays, PyObject *array, const char *name, const char *formats, int flags,
                  Py_ssize_t count)
{
    Py_buffer *view = &arrays->views[arrays->taken];
    if (PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) != 0)
        return NULL;
    arrays->taken++;
    const char *format = view->format == NULL ? UINT8 : view->format;
    if (strlen(format) != 1 || strchr(formats, *format) == NULL) {
        PyErr_Format(PyExc_ValueError, "%s must have the format %s, got %s", name, formats, format);
        return NULL;
    }
    if (count >= 0 && view->len / view->itemsize != count) {
        PyErr_Format(PyExc_ValueError, "%s must have %zd elements, got %zd", name, count, view->len / view->itemsize);
        return NULL;
    }
    return view->buf;
}

static bool take_keys(struct arrays *arrays, PyObject *array, Py_ssize_t groups, struct tprof_loops_keys *keys)
{
    keys->at = take(arrays, array, "the keys", INT32, PyBUF_SIMPLE, -1);
    if (keys->at == NULL)
        return false;
    keys->count = (size_t)arrays->views[arrays->taken - 1].len / sizeof *keys->at;
    keys->groups = (size_t)groups;
    return true;
}

static PyObject *finished(struct arrays *arrays, bool good)
{
    release(arrays);
    if (good)
        Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "a key is negative, or not less than the number of groups");
    return NULL;
}

static PyObject *add_by(PyObject *self, PyObject *args)
{
    PyObject *key, *columns, *sums;
    Py_ssize_t groups;
    struct arrays arrays = {.taken = 0};
    struct tprof_loops_keys keys;
    const double *column[MOST_COLUMNS];
    (void)self;
    if (!PyArg_ParseTuple(args, "OO!nO", &key, &PyTuple_Type, &columns, &groups, &sums))
        return NULL;
    const Py_ssize_t count = PyTuple_GET_SIZE(columns);
    if (count > MOST_COLUMNS || groups < 0 || groups > INT32_MAX)
        return PyErr_Format(PyExc_ValueError, "at most %d columns and %d groups, got %zd and %zd", MOST_COLUMNS,
                            INT32_MAX, count, groups);
    if (!take_keys(&arrays, key, groups, &keys))
        goto error;
    for (Py_ssize_t at = 0; at < count; at++) {
        column[at] =
            take(&arrays, PyTuple_GET_ITEM(columns, at), "a column", FLOAT64, PyBUF_SIMPLE, (Py_ssize_t)keys.count);
        if (column[at] == NULL)
            goto error;
    }
    double *of_groups = take(&arrays, sums, "the sums", FLOAT64, PyBUF_WRITABLE, count * groups);
    if (of_groups == NULL)
        goto error;
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_loops_add(&keys, column, (size_t)count, of_groups);
    Py_END_ALLOW_THREADS
    return finished(&arrays, good);
error:
    release(&arrays);
    return NULL;
}

static PyObject *add_products_by(PyObject *self, PyObject *args)
{
    PyObject *key, *of_x, *of_y, *of_centre_x, *of_centre_y, *sums;
    Py_ssize_t groups;
    struct arrays arrays = {.taken = 0};
    struct tprof_loops_keys keys;
    const double *x, *y, *centre_x, *centre_y;
    double *of_groups;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOOnO", &key, &of_x, &of_y, &of_centre_x, &of_centre_y, &groups, &sums))
        return NULL;
    if (groups < 0 || groups > INT32_MAX)
        return PyErr_Format(PyExc_ValueError, "at most %d groups, got %zd", INT32_MAX, groups);
    if (!take_keys(&arrays, key, groups, &keys))
        goto error;
    const Py_ssize_t count = (Py_ssize_t)keys.count;
    if ((x = take(&arrays, of_x, "x", FLOAT64, PyBUF_SIMPLE, count)) == NULL ||
        (y = take(&arrays, of_y, "y", FLOAT64, PyBUF_SIMPLE, count)) == NULL ||
        (centre_x = take(&arrays, of_centre_x, "the centres of x", FLOAT64, PyBUF_SIMPLE, groups)) == NULL ||
        (centre_y = take(&arrays, of_centre_y, "the centres of y", FLOAT64, PyBUF_SIMPLE, groups)) == NULL ||
        (of_groups = take(&arrays, sums, "the sums", FLOAT64, PyBUF_WRITABLE, 3 * groups)) == NULL)
        goto error;
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_loops_add_products(&keys, x, y, centre_x, centre_y, of_groups);
    Py_END_ALLOW_THREADS
    return finished(&arrays, good);
error:
    release(&arrays);
    return NULL;
}

static PyObject *find_extents(PyObject *self, PyObject *args)
{
    PyObject *slot, *kinds, *flags, *first, *last, *failed, *ended;
    struct arrays arrays = {.taken = 0};
    struct tprof_loops_keys keys;
    struct tprof_loops_extents found;
    const uint8_t *kind, *flag;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOOOO", &slot, &kinds, &flags, &first, &last, &failed, &ended))
        return NULL;
    found.first = take(&arrays, first, "the first samples", INT64, PyBUF_WRITABLE, -1);
    if (found.first == NULL)
        goto error;
    const Py_ssize_t groups = arrays.views[0].len / arrays.views[0].itemsize;
    if (!take_keys(&arrays, slot, groups, &keys))
        goto error;
    const Py_ssize_t count = (Py_ssize_t)keys.count;
    if ((kind = take(&arrays, kinds, "the kinds", UINT8, PyBUF_SIMPLE, count)) == NULL ||
        (flag = take(&arrays, flags, "the flags", UINT8, PyBUF_SIMPLE, count)) == NULL ||
        (found.last = take(&arrays, last, "the last samples", INT64, PyBUF_WRITABLE, groups)) == NULL ||
        (found.failed = take(&arrays, failed, "the failed ones", BOOL, PyBUF_WRITABLE, groups)) == NULL ||
        (found.ended = take(&arrays, ended, "the ended ones", BOOL, PyBUF_WRITABLE, groups)) == NULL)
        goto error;
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_loops_find_extents(&keys, kind, flag, &found);
    Py_END_ALLOW_THREADS
    return finished(&arrays, good);
error:
    release(&arrays);
    return NULL;
}

static PyObject *increase(PyObject *self, PyObject *args)
{
    PyObject *of_values, *of_increments;
    double scale;
    struct arrays arrays = {.taken = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OdO", &of_values, &scale, &of_increments))
        return NULL;
    double *increments = take(&arrays, of_increments, "the increments", FLOAT64, PyBUF_WRITABLE, -1);
    if (increments == NULL)
        goto error;
    const Py_ssize_t count = arrays.views[0].len / (Py_ssize_t)sizeof *increments;
    const uint64_t *values = take(&arrays, of_values, "the values", UINT64, PyBUF_SIMPLE, count + 1);
    if (values == NULL)
        goto error;
    Py_BEGIN_ALLOW_THREADS
    tprof_loops_increase(values, (size_t)count, scale, increments);
    Py_END_ALLOW_THREADS
    return finished(&arrays, true);
error:
    release(&arrays);
    return NULL;
}

static PyObject *weigh(PyObject *self, PyObject *args)
{
    PyObject *of_times, *of_cpu, *of_modelled;
    double nothing;
    struct arrays arrays = {.taken = 0};
    const int64_t *t_ns;
    const double *cpu_s;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOdO", &of_times, &of_cpu, &nothing, &of_modelled))
        return NULL;
    double *modelled = take(&arrays, of_modelled, "the modelled power", FLOAT64, PyBUF_WRITABLE, -1);
    if (modelled == NULL)
        goto error;
    const Py_ssize_t count = arrays.views[0].len / (Py_ssize_t)sizeof *modelled;
    if ((t_ns = take(&arrays, of_times, "the times", INT64, PyBUF_SIMPLE, count + 1)) == NULL ||
        (cpu_s = take(&arrays, of_cpu, "the CPU time", FLOAT64, PyBUF_SIMPLE, count)) == NULL)
        goto error;
    Py_BEGIN_ALLOW_THREADS
    tprof_loops_weigh(t_ns, cpu_s, (size_t)count, nothing, modelled);
    Py_END_ALLOW_THREADS
    return finished(&arrays, true);
error:
    release(&arrays);
    return NULL;
}

static PyObject *accumulate(PyObject *self, PyObject *args)
{
    PyObject *of_times, *of_cpu, *of_grid, *of_totals;
    double used_s;
    struct arrays arrays = {.taken = 0};
    const int64_t *grid_ns;
    double *total_s;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOdO", &of_times, &of_cpu, &of_grid, &used_s, &of_totals))
        return NULL;
    const double *cpu_s = take(&arrays, of_cpu, "the CPU time", FLOAT64, PyBUF_SIMPLE, -1);
    if (cpu_s == NULL)
        goto error;
    const Py_ssize_t count = arrays.views[0].len / (Py_ssize_t)sizeof *cpu_s;
    const int64_t *t_ns = take(&arrays, of_times, "the times", INT64, PyBUF_SIMPLE, count + 1);
    if (t_ns == NULL || (grid_ns = take(&arrays, of_grid, "the grid", INT64, PyBUF_SIMPLE, -1)) == NULL)
        goto error;
    const Py_ssize_t grid_count = arrays.views[2].len / (Py_ssize_t)sizeof *grid_ns;
    if ((total_s = take(&arrays, of_totals, "the totals", FLOAT64, PyBUF_WRITABLE, grid_count)) == NULL)
        goto error;
    bool ordered;
    Py_BEGIN_ALLOW_THREADS
    ordered = tprof_loops_accumulate(t_ns, cpu_s, (size_t)count, grid_ns, (size_t)grid_count, total_s, &used_s);
    Py_END_ALLOW_THREADS
    release(&arrays);
    if (ordered)
        return PyFloat_FromDouble(used_s);
    Py_RETURN_NONE;
error:
    release(&arrays);
    return NULL;
}

static PyMethodDef methods[] = {
    {"accumulate", accumulate, METH_VARARGS, NULL},
    {"add_by", add_by, METH_VARARGS, NULL},
    {"add_products_by", add_products_by, METH_VARARGS, NULL},
    {"find_extents", find_extents, METH_VARARGS, NULL},
    {"increase", increase, METH_VARARGS, NULL},
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
