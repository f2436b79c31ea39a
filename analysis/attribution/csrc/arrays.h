/* Arrays that Python gives to a loop: checked, and released together. */
#ifndef TPROF_ARRAYS_H
#define TPROF_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#define MOST_COLUMNS 64
#define MOST_ARRAYS (MOST_COLUMNS + 8)

/* Formats of the struct module, any of which an array may have. */
#define INT32 "i"
#define INT64 "lq"
#define UINT8 "B"
#define BOOL "?"
#define UINT64 "LQ"
#define FLOAT64 "d"

/* The arrays of one call. */
struct tprof_arrays {
    Py_buffer views[MOST_ARRAYS];
    int taken;
};

void tprof_arrays_release(struct tprof_arrays *arrays);

/* Return the elements of an array, or NULL with an error. `count` is how many there must be, -1: any. */
void *tprof_arrays_take(struct tprof_arrays *arrays, PyObject *array, const char *name, const char *formats, int flags,
                        Py_ssize_t count);

/* The same of one dimension whose elements may be any number of bytes apart, `strides[0]` of its view. */
const char *tprof_arrays_take_spread(struct tprof_arrays *arrays, PyObject *array, const char *name,
                                     const char *formats, Py_ssize_t count);

/* Release the arrays, and return None, or NULL with an error if an index was none. */
PyObject *tprof_arrays_finished(struct tprof_arrays *arrays, bool good);

#endif
