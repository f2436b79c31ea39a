/* Arrays that Python gives to a loop. See arrays.h. */
#include "arrays.h"

#include <stdarg.h>
#include <string.h>

static bool parse(struct tprof_arrays *arrays, PyObject *tuple, const char *format, va_list places)
{
    if (!arrays->failed && !PyTuple_Check(tuple)) {
        PyErr_Format(PyExc_TypeError, "a tuple, got %R", tuple);
        arrays->failed = true;
    }
    if (!arrays->failed)
        arrays->failed = !PyArg_VaParse(tuple, format, places);
    return !arrays->failed;
}

bool tprof_arrays_begin(struct tprof_arrays *arrays, PyObject *args, const char *format, ...)
{
    va_list places;
    arrays->taken = 0;
    arrays->failed = false;
    va_start(places, format);
    const bool good = parse(arrays, args, format, places);
    va_end(places);
    return good;
}

bool tprof_arrays_parse(struct tprof_arrays *arrays, PyObject *tuple, const char *format, ...)
{
    va_list places;
    va_start(places, format);
    const bool good = parse(arrays, tuple, format, places);
    va_end(places);
    return good;
}

static Py_buffer *view_of(struct tprof_arrays *arrays, PyObject *array, const char *name, const char *formats,
                          int flags)
{
    Py_buffer *view = &arrays->views[arrays->taken];
    if (arrays->failed)
        return NULL;
    arrays->failed = PyObject_GetBuffer(array, view, PyBUF_FORMAT | flags) != 0;
    if (arrays->failed)
        return NULL;
    arrays->taken++;
    const char *format = view->format == NULL ? UINT8 : view->format;
    if (strlen(format) == 1 && strchr(formats, *format) != NULL)
        return view;
    PyErr_Format(PyExc_ValueError, "%s must have the format %s, got %s", name, formats, format);
    arrays->failed = true;
    return NULL;
}

static bool has_count(struct tprof_arrays *arrays, const Py_buffer *view, const char *name, Py_ssize_t count)
{
    if (view->len / view->itemsize == count)
        return true;
    PyErr_Format(PyExc_ValueError, "%s must have %zd elements, got %zd", name, count, view->len / view->itemsize);
    arrays->failed = true;
    return false;
}

void *tprof_arrays_take(struct tprof_arrays *arrays, PyObject *array, const char *name, const char *formats, int flags,
                        Py_ssize_t count)
{
    const Py_buffer *view = view_of(arrays, array, name, formats, PyBUF_C_CONTIGUOUS | flags);
    return view != NULL && has_count(arrays, view, name, count) ? view->buf : NULL;
}

void *tprof_arrays_take_any(struct tprof_arrays *arrays, PyObject *array, const char *name, const char *formats,
                            int flags, size_t *count)
{
    const Py_buffer *view = view_of(arrays, array, name, formats, PyBUF_C_CONTIGUOUS | flags);
    *count = view == NULL ? 0 : (size_t)(view->len / view->itemsize);
    return view == NULL ? NULL : view->buf;
}

void *tprof_arrays_take_records(struct tprof_arrays *arrays, PyObject *array, const char *name, size_t bytes,
                                size_t *count)
{
    size_t length;
    void *found = tprof_arrays_take_any(arrays, array, name, UINT8, PyBUF_WRITABLE, &length);
    *count = length / bytes;
    if (length % bytes == 0 && *count <= INT32_MAX)
        return found;
    PyErr_Format(PyExc_ValueError, "%s must have records of %zu bytes, at most %d", name, bytes, INT32_MAX);
    arrays->failed = true;
    return NULL;
}

void tprof_arrays_refuse(struct tprof_arrays *arrays, const char *text)
{
    if (!arrays->failed)
        PyErr_SetString(PyExc_ValueError, text);
    arrays->failed = true;
}

bool tprof_arrays_release(struct tprof_arrays *arrays, bool good)
{
    while (arrays->taken > 0)
        PyBuffer_Release(&arrays->views[--arrays->taken]);
    if (!good)
        tprof_arrays_refuse(arrays, "a key is negative, or not less than the number of groups");
    return !arrays->failed;
}

PyObject *tprof_arrays_finished(struct tprof_arrays *arrays, bool good)
{
    return tprof_arrays_release(arrays, good) ? Py_NewRef(Py_None) : NULL;
}
