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

bool tprof_arrays_take_keys(struct tprof_arrays *arrays, PyObject *array, Py_ssize_t groups,
                            struct tprof_loops_keys *keys)
{
    keys->at = tprof_arrays_take(arrays, array, "the keys", INT32, PyBUF_SIMPLE, -1);
    if (keys->at == NULL)
        return false;
    keys->count = (size_t)arrays->views[arrays->taken - 1].len / sizeof *keys->at;
    keys->groups = (size_t)groups;
    return true;
}

bool tprof_arrays_take_threads(struct tprof_arrays *arrays, PyObject *begins, PyObject *ends, Py_ssize_t count,
                               struct tprof_loops_threads *threads)
{
    threads->count = (size_t)count;
    threads->begin = tprof_arrays_take(arrays, begins, "the begins", INT64, PyBUF_SIMPLE, -1);
    if (threads->begin == NULL)
        return false;
    threads->threads = (size_t)arrays->views[arrays->taken - 1].len / sizeof *threads->begin;
    threads->end = tprof_arrays_take(arrays, ends, "the ends", INT64, PyBUF_SIMPLE, (Py_ssize_t)threads->threads);
    return threads->end != NULL;
}

PyObject *tprof_arrays_finished(struct tprof_arrays *arrays, bool good)
{
    tprof_arrays_release(arrays);
    if (good)
        Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "a key is negative, or not less than the number of groups");
    return NULL;
}

PyObject *tprof_arrays_refuse_places(Py_ssize_t count)
{
    return PyErr_Format(PyExc_ValueError, "threads must have places among %zd samples, one after the other", count);
}
