/* Arrays that Python gives to a loop. See arrays.h. */
#include "arrays.h"

#include <string.h>

void tprof_arrays_release(struct tprof_arrays *arrays)
{
    while (arrays->taken > 0)
        PyBuffer_Release(&arrays->views[--arrays->taken]);
}

void *tprof_arrays_take(struct tprof_arrays *arrays, PyObject *array, const char *name, const char *formats, int flags,
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

PyObject *tprof_arrays_finished(struct tprof_arrays *arrays, bool good)
{
    tprof_arrays_release(arrays);
    if (good)
        Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "a key is negative, or not less than the number of groups");
    return NULL;
}
