/* What Python sees of columns.c: one function, which checks its arrays and runs without the interpreter's lock. */
#include "binding.h"
#include "columns.h"

#define MOST_COLUMNS 64

/* The arrays of one call; all are released together. */
struct taken {
    Py_buffer records, views[MOST_COLUMNS];
    struct tprof_column columns[MOST_COLUMNS];
    Py_ssize_t count;
};

static void release(struct taken *taken)
{
    while (taken->count > 0)
        PyBuffer_Release(&taken->views[--taken->count]);
    PyBuffer_Release(&taken->records);
}

static int refuse(const char *what)
{
    PyErr_Format(PyExc_ValueError, "cannot copy columns: %s", what);
    return -1;
}

static int take_column(struct taken *taken, PyObject *pair, Py_ssize_t record_bytes, Py_ssize_t at, Py_ssize_t count)
{
    PyObject *array;
    Py_ssize_t offset;
    Py_buffer *view = &taken->views[taken->count];
    if (!PyTuple_Check(pair) || !PyArg_ParseTuple(pair, "nO", &offset, &array) ||
        PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) != 0)
        return -1;
    const Py_ssize_t bytes = view->itemsize;
    taken->columns[taken->count++] =
        (struct tprof_column){(size_t)offset, (size_t)bytes, (char *)view->buf + at * bytes};
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
        return refuse("a value has 1, 2, 4 or 8 bytes");
    if (offset < 0 || offset > record_bytes - bytes)
        return refuse("a field is not inside the record");
    return count > view->len / bytes - at ? refuse("an array is too short") : 0;
}

PyObject *tprof_py_copy_columns(PyObject *module, PyObject *args)
{
    PyObject *records, *pairs;
    Py_ssize_t record_bytes, at;
    struct taken taken = {.count = 0};
    (void)module;
    if (!PyArg_ParseTuple(args, "OnnO!", &records, &record_bytes, &at, &PyTuple_Type, &pairs) ||
        PyObject_GetBuffer(records, &taken.records, PyBUF_C_CONTIGUOUS) != 0)
        return NULL;
    const Py_ssize_t column_count = PyTuple_GET_SIZE(pairs);
    if (record_bytes <= 0 || taken.records.len % record_bytes != 0 || at < 0 || column_count > MOST_COLUMNS) {
        (void)refuse("the records are not whole, or the columns too many");
        goto error;
    }
    const Py_ssize_t count = taken.records.len / record_bytes;
    for (Py_ssize_t column = 0; column < column_count; column++)
        if (take_column(&taken, PyTuple_GET_ITEM(pairs, column), record_bytes, at, count) < 0)
            goto error;
    Py_BEGIN_ALLOW_THREADS
    tprof_columns_copy(taken.records.buf, (size_t)record_bytes, (size_t)count, taken.columns, (size_t)column_count);
    Py_END_ALLOW_THREADS
    release(&taken);
    Py_RETURN_NONE;
error:
    release(&taken);
    return NULL;
}
