/* Arrays that Python gives to a loop: checked, and released together. */
#ifndef TPROF_ARRAYS_H
#define TPROF_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "loops.h"

#include <stdbool.h>

#define MOST_COLUMNS 64
#define MOST_ARRAYS (MOST_COLUMNS + 8)

/* Formats of the struct module, any of which an array may have. */
#define INT32 "i"
#define INT64 "lq"
#define UINT8 "B"
#define UINT16 "H"
#define UINT32 "I"
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

/* Take the group, of so many, of each element. */
bool tprof_arrays_take_keys(struct tprof_arrays *arrays, PyObject *array, Py_ssize_t groups,
                            struct tprof_loops_keys *keys);

/* Take where threads are among so many places. */
bool tprof_arrays_take_threads(struct tprof_arrays *arrays, PyObject *begins, PyObject *ends, Py_ssize_t count,
                               struct tprof_loops_threads *threads);

/* Release the arrays, and return None, or NULL with an error if an index was none. */
PyObject *tprof_arrays_finished(struct tprof_arrays *arrays, bool good);

/* Return NULL with the error that places of threads are none of so many. */
PyObject *tprof_arrays_refuse_places(Py_ssize_t count);

#endif
