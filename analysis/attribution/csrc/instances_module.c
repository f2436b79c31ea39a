/* What Python sees of the loops over instances. See instances_module.h. */
#include "instances_module.h"

#include "instances.h"

PyObject *tprof_instances_module_number(PyObject *self, PyObject *args)
{
    PyObject *of_ids, *of_begins, *of_ends, *of_slots;
    Py_ssize_t most;
    struct tprof_loops_threads threads;
    struct tprof_arrays arrays = {.taken = 0};
    const uint64_t *ids;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOnO", &of_ids, &of_begins, &of_ends, &most, &of_slots))
        return NULL;
    if (most < 0 || most > INT32_MAX)
        return PyErr_Format(PyExc_ValueError, "at most %d numbers, got %zd", INT32_MAX, most);
    int32_t *slots = tprof_arrays_take(&arrays, of_slots, "the slots", INT32, PyBUF_WRITABLE, -1);
    const Py_ssize_t count = slots == NULL ? 0 : arrays.views[0].len / (Py_ssize_t)sizeof *slots;
    if (slots == NULL || (ids = tprof_arrays_take(&arrays, of_ids, "the ids", UINT64, PyBUF_SIMPLE, count)) == NULL ||
        !tprof_arrays_take_threads(&arrays, of_begins, of_ends, count, &threads)) {
        tprof_arrays_release(&arrays);
        return NULL;
    }
    int64_t numbers;
    Py_BEGIN_ALLOW_THREADS
    numbers = tprof_instances_number(ids, &threads, (uint64_t)most, slots);
    Py_END_ALLOW_THREADS
    tprof_arrays_release(&arrays);
    if (numbers >= 0)
        return PyLong_FromLongLong(numbers);
    if (numbers == -1)
        return tprof_arrays_refuse_places(count);
    Py_RETURN_NONE;
}

/* A column, in whichever of the formats. */
struct column {
    const char *name;
    const char *formats;
};

static const struct column of_samples[] = {
    {"the ids", UINT64}, {"the tasks", UINT32}, {"the processors", UINT16}, {"the kinds", UINT8}, {"the flags", UINT8},
};
static const struct column of_rows[] = {
    {"the first samples", INT64},  {"the instances", UINT64},          {"the parents", UINT64},
    {"the tasks of rows", UINT32}, {"the processors of rows", UINT16}, {"the starts", INT64},
    {"the ends", INT64},           {"the last times", INT64},          {"the begun ones", BOOL},
    {"the failed ones", BOOL},     {"the ended ones", BOOL},
};
#define SAMPLE_COLUMNS (sizeof of_samples / sizeof *of_samples)
#define ROW_COLUMNS (sizeof of_rows / sizeof *of_rows)

/* Take columns of `count` elements each from a tuple; -1: of as many as the first has. */
static bool take_columns(struct tprof_arrays *arrays, PyObject *tuple, const struct column *columns, size_t many,
                         int flags, Py_ssize_t count, void **found)
{
    if ((size_t)PyTuple_GET_SIZE(tuple) != many) {
        PyErr_Format(PyExc_ValueError, "expected %zu columns, got %zd", many, PyTuple_GET_SIZE(tuple));
        return false;
    }
    for (size_t at = 0; at < many; at++) {
        found[at] = tprof_arrays_take(arrays, PyTuple_GET_ITEM(tuple, (Py_ssize_t)at), columns[at].name,
                                      columns[at].formats, flags, count);
        if (found[at] == NULL)
            return false;
        const Py_buffer *view = &arrays->views[arrays->taken - 1];
        count = count < 0 ? view->len / view->itemsize : count;
    }
    return true;
}

PyObject *tprof_instances_module_fill(PyObject *self, PyObject *args)
{
    PyObject *of_slots, *samples, *of_times, *rows;
    struct tprof_arrays arrays = {.taken = 0};
    struct tprof_loops_keys keys;
    void *sample[SAMPLE_COLUMNS], *row[ROW_COLUMNS];
    const int64_t *t_ns;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO!OO!", &of_slots, &PyTuple_Type, &samples, &of_times, &PyTuple_Type, &rows))
        return NULL;
    if (!tprof_arrays_take_keys(&arrays, of_slots, 0, &keys))
        goto error;
    const Py_ssize_t count = (Py_ssize_t)keys.count;
    if (!take_columns(&arrays, samples, of_samples, SAMPLE_COLUMNS, PyBUF_SIMPLE, count, sample) ||
        (t_ns = tprof_arrays_take(&arrays, of_times, "the times", INT64, PyBUF_SIMPLE, count + 1)) == NULL ||
        !take_columns(&arrays, rows, of_rows, ROW_COLUMNS, PyBUF_WRITABLE, -1, row))
        goto error;
    keys.groups = (size_t)(arrays.views[arrays.taken - 1].len / arrays.views[arrays.taken - 1].itemsize);
    const struct tprof_instances_samples from = {.instance = sample[0],
                                                 .task = sample[1],
                                                 .cpu = sample[2],
                                                 .kind = sample[3],
                                                 .flags = sample[4],
                                                 .t_ns = t_ns};
    const struct tprof_instances_rows to = {.first = row[0],
                                            .instance = row[1],
                                            .parent = row[2],
                                            .task = row[3],
                                            .cpu = row[4],
                                            .start_ns = row[5],
                                            .end_ns = row[6],
                                            .last_ns = row[7],
                                            .begun = row[8],
                                            .failed = row[9],
                                            .ended = row[10]};
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_instances_fill(&keys, &from, &to);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

PyObject *tprof_instances_module_find_members(PyObject *self, PyObject *args)
{
    PyObject *of_slots, *of_members, *of_found;
    struct tprof_arrays arrays = {.taken = 0};
    struct tprof_loops_keys keys;
    int64_t *found;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO", &of_slots, &of_members, &of_found))
        return NULL;
    const bool *is_member = tprof_arrays_take(&arrays, of_members, "the members", BOOL, PyBUF_SIMPLE, -1);
    if (is_member == NULL || !tprof_arrays_take_keys(&arrays, of_slots, arrays.views[0].len, &keys) ||
        (found = tprof_arrays_take(&arrays, of_found, "the places", INT64, PyBUF_WRITABLE, (Py_ssize_t)keys.count)) ==
            NULL) {
        tprof_arrays_release(&arrays);
        return NULL;
    }
    int64_t count;
    Py_BEGIN_ALLOW_THREADS
    count = tprof_instances_find_members(&keys, is_member, found);
    Py_END_ALLOW_THREADS
    if (count < 0)
        return tprof_arrays_finished(&arrays, false);
    tprof_arrays_release(&arrays);
    return PyLong_FromLongLong(count);
}
