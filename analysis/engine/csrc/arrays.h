/* Arrays that Python gives to a loop: checked, and released together. */
#ifndef TPROF_ARRAYS_H
#define TPROF_ARRAYS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

#define MOST_ARRAYS 72

/* Formats of the struct module, any of which an array may have. */
#define INT32 "i"
#define INT64 "lq"
#define UINT8 "B"
#define UINT16 "H"
#define UINT32 "I"
#define UINT64 "LQ"
#define FLOAT64 "d"

/* What is done with an array. */
#define READ PyBUF_SIMPLE
#define WRITABLE PyBUF_WRITABLE

/* The arrays of one call. Once taking one has failed, which sets an error, nothing more is taken: so it is enough to ask
 * `failed` when all were asked for. */
struct tprof_arrays {
    Py_buffer views[MOST_ARRAYS];
    int taken;
    bool failed;
};

/* Begin a call with its arguments, as PyArg_ParseTuple. Returns false with an error. */
bool tprof_arrays_begin(struct tprof_arrays *arrays, PyObject *args, const char *format, ...);

/* Take apart a tuple that is among them. Returns false if anything failed. */
bool tprof_arrays_parse(struct tprof_arrays *arrays, PyObject *tuple, const char *format, ...);

/* Return the elements of an array, or NULL if anything failed. `count` is how many there must be. */
void *tprof_arrays_take(struct tprof_arrays *arrays, PyObject *array, const char *name, const char *formats, int flags,
                        Py_ssize_t count);

/* The same of any number of elements, which is set; 0 if anything failed. */
void *tprof_arrays_take_any(struct tprof_arrays *arrays, PyObject *array, const char *name, const char *formats,
                            int flags, size_t *count);

/* The same of any number of records of so many bytes each, at most 2^31 - 1. */
void *tprof_arrays_take_records(struct tprof_arrays *arrays, PyObject *array, const char *name, size_t bytes,
                                size_t *count);

/* Refuse what was given, unless something failed before. */
void tprof_arrays_refuse(struct tprof_arrays *arrays, const char *text);

/* Release the arrays. Returns false with an error if anything failed, or if an index was none: `good` is false. */
bool tprof_arrays_release(struct tprof_arrays *arrays, bool good);

/* The same, but returns None, or NULL with an error. */
PyObject *tprof_arrays_finished(struct tprof_arrays *arrays, bool good);

#endif
