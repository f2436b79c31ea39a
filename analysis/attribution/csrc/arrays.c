/* Arrays that Python gives to a loop. See arrays.h. */
#include "arrays.h"

#include <string.h>

void tprof_arrays_release(struct tprof_arrays *arrays)
{
    while (arrays->taken > 0)
        PyBuffer_Release(&arrays->views[--arrays->taken]);
}

static Py_buffer *take(struct tprof_arrays *arrays, PyObject *array, const char *name, const char *formats, int flags)
{
    Py_buffer *view = &arrays->views[arrays->taken];
    if (PyObject_GetBuffer(array, view, PyBUF_FORMAT | flags) != 0)
        return NULL;
    arrays->taken++;
    const char *format = view->format == NULL ? UINT8 : view->format;
    if (strlen(format) == 1 && strchr(formats, *format) != NULL)
        return view;
    PyErr_Format(PyExc_ValueError, "%s must have the format %s, got %s", name, formats, format);
    return NULL;
}

static bool has_count(const Py_buffer *view, const char *name, Py_ssize_t count)
{
    if (count < 0 || view->len / view->itemsize == count)
        return true;
    PyErr_Format(PyExc_ValueError, "%s must have %zd elements, got %zd", name, count, view->len / view->itemsize);
    return false;
}

void *tprof_arrays_take(struct tprof_arrays *arrays, PyObject *array, const char *name, const char *formats, int flags,
                        Py_ssize_t count)
{
    const Py_buffer *view = take(arrays, array, name, formats, PyBUF_C_CONTIGUOUS | flags);
    return view != NULL && has_count(view, name, count) ? view->buf : NULL;
}

const char *tprof_arrays_take_spread(struct tprof_arrays *arrays, PyObject *array, const char *name,
                                     const char *formats, Py_ssize_t count)
{
    const Py_buffer *view = take(arrays, array, name, formats, PyBUF_STRIDES);
    if (view == NULL || !has_count(view, name, count))
        return NULL;
    if (view->ndim == 1)
        return view->buf;
    PyErr_Format(PyExc_ValueError, "%s must have one dimension, got %d", name, view->ndim);
    return NULL;
}

PyObject *tprof_arrays_finished(struct tprof_arrays *arrays, bool good)
{
    tprof_arrays_release(arrays);
    if (good)
        Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "a key is negative, or not less than the number of groups");
    return NULL;
}
