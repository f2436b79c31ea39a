/* PAPI from Python: which library to load, and which of its events count here. Recorded threads call papi.c. */
#include "binding.h"

#include <string.h>

#include "papi.h"

int tprof_parse_papi_events(PyObject *names, struct tprof_papi_events *events)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(names);
    if (count > TPROF_PAPI_EVENTS) {
        PyErr_Format(PyExc_ValueError, "at most %d events fit a sample, got %zd", TPROF_PAPI_EVENTS, count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t bytes;
        const char *name = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(names, i), &bytes);
        if (name == NULL)
            return -1;
        if (bytes >= TPROF_PAPI_NAME_BYTES || strlen(name) != (size_t)bytes) {
            PyErr_Format(PyExc_ValueError, "an event's name has less than %d bytes and no zero", TPROF_PAPI_NAME_BYTES);
            return -1;
        }
        memcpy(events->names[i], name, (size_t)bytes + 1);
    }
    events->count = (int)count;
    return 0;
}

PyObject *tprof_py_papi_load(PyObject *module, PyObject *args)
{
    PyObject *path = NULL;
    int version;
    const char *problem;
    (void)module;
    if (!PyArg_ParseTuple(args, "O&i", PyUnicode_FSConverter, &path, &version))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    problem = tprof_papi_load(PyBytes_AS_STRING(path), version);
    Py_END_ALLOW_THREADS
    PyObject *result = problem == NULL ? Py_NewRef(Py_None) : PyUnicode_DecodeFSDefault(problem);
    Py_DECREF(path);
    return result;
}

PyObject *tprof_py_papi_try(PyObject *module, PyObject *names)
{
    struct tprof_papi_events events = {0};
    struct tprof_papi_set set;
    const char *problems[TPROF_PAPI_EVENTS] = {NULL};
    uint64_t values[TPROF_PAPI_EVENTS] = {0};
    (void)module;
    if (!PyTuple_Check(names)) {
        PyErr_SetString(PyExc_TypeError, "the names of events are a tuple");
        return NULL;
    }
    if (tprof_parse_papi_events(names, &events) != 0)
        return NULL;
    const uint64_t absent = tprof_papi_open(&set, &events, problems);
    for (volatile int i = 0; i < 100000; i++)
        ;
    const bool read = set.open && tprof_papi_read(&set, values);
    tprof_papi_close(&set);
    PyObject *found = PyTuple_New(events.count);
    for (int i = 0; found != NULL && i < events.count; i++) {
        const char *problem = problems[i];
        if (problem == NULL && ((absent >> i & 1) != 0 || !read))
            problem = "PAPI has no event set for this thread, or cannot read it";
        PyObject *one = problem != NULL ? PyUnicode_DecodeFSDefault(problem) : PyLong_FromUnsignedLongLong(values[i]);
        if (one == NULL)
            Py_CLEAR(found);
        else
            PyTuple_SET_ITEM(found, i, one);
    }
    return found;
}
