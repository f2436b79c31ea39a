/* The type for following a running recording: the records of a stream that were committed since the last read. Each is
 * used by one thread at a time (the lock of tprof/live's meters). Python's lock is held throughout: see tail.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "binding.h"
#include "clock.h"
#include "live.h"
#include "tail.h"

/* CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED of the kernel's posix-timers.h */
#define THREAD_CLOCK 6

struct tail {
    PyObject_HEAD
    struct tprof_tail tail;
    struct tprof_tail_state state;
    PyObject *fetch; /* NULL: the file has no compressed records */
};

static int set_tail(struct tprof_tail *tail, PyObject *path)
{
    PyObject *bytes;
    if (!PyUnicode_FSConverter(path, &bytes))
        return -1;
    const int fits = PyBytes_GET_SIZE(bytes) < (Py_ssize_t)sizeof tail->path;
    if (fits)
        strcpy(tail->path, PyBytes_AS_STRING(bytes));
    else
        PyErr_Format(PyExc_ValueError, "a path longer than %d bytes", (int)sizeof tail->path - 1);
    Py_DECREF(bytes);
    return fits ? 0 : -1;
}

static ssize_t call_fetch(void *packed, uint64_t first, void *records, size_t most)
{
    const struct tail *self = packed;
    const size_t size = self->tail.record_bytes;
    PyObject *bytes = PyObject_CallFunction(self->fetch, "Kn", (unsigned long long)first, (Py_ssize_t)most);
    ssize_t count = -1;
    if (bytes != NULL && PyBytes_Check(bytes) && (size_t)PyBytes_GET_SIZE(bytes) <= most * size) {
        count = PyBytes_GET_SIZE(bytes) / (Py_ssize_t)size;
        memcpy(records, PyBytes_AS_STRING(bytes), (size_t)count * size);
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "`fetch` returns the bytes of at most so many records");
    }
    Py_XDECREF(bytes);
    return count;
}

static PyObject *create_tail(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "record_bytes", "body_at", "first", "fetch", NULL};
    PyObject *path, *fetch = Py_None;
    unsigned int record_bytes;
    unsigned long long body_at, first = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OIK|KO", names, &path, &record_bytes, &body_at, &first, &fetch))
        return NULL;
    struct tail *self = (struct tail *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->tail.record_bytes = record_bytes;
    self->tail.body_at = body_at;
    self->tail.done = first;
    if (record_bytes == 0 || set_tail(&self->tail, path) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    if (fetch != Py_None) {
        self->fetch = Py_NewRef(fetch);
        self->tail.fetch = call_fetch;
        self->tail.packed = self;
    }
    return (PyObject *)self;
}

static PyObject *read_new(struct tail *self, int fd, uint64_t most)
{
    struct tprof_tail *tail = &self->tail;
    struct tprof_tail_state *state = &self->state;
    const uint64_t left = state->committed > tail->done ? state->committed - tail->done : 0;
    const uint64_t limit = left < most ? left : most;
    PyObject *records = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(limit * tail->record_bytes));
    uint64_t count = 0;
    ssize_t got = 1;
    while (records != NULL && count < limit && got > 0) {
        char *to = PyBytes_AS_STRING(records) + count * tail->record_bytes;
        got = tprof_tail_read(tail, fd, state, to, (size_t)(limit - count));
        if (got > 0) {
            count += (uint64_t)got;
            tail->done += (uint64_t)got;
        }
    }
    if (got < 0) {
        Py_XDECREF(records);
        if (!PyErr_Occurred()) /* `fetch` sets its own */
            PyErr_SetFromErrnoWithFilename(PyExc_OSError, tail->path);
        return NULL;
    }
    if (records != NULL && count < limit)
        (void)_PyBytes_Resize(&records, (Py_ssize_t)(count * tail->record_bytes));
    return records;
}

static PyObject *read_tail(PyObject *object, PyObject *most)
{
    struct tail *self = (struct tail *)object;
    const unsigned long long limit = PyLong_AsUnsignedLongLong(most);
    if (PyErr_Occurred())
        return NULL;
    const int fd = tprof_tail_open(&self->tail, &self->state);
    if (fd < 0)
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, self->tail.path);
    PyObject *records = read_new(self, fd, limit);
    close(fd);
    if (records == NULL)
        return NULL;
    return Py_BuildValue("(NO)", records,
                         self->tail.done < self->state.committed && PyBytes_GET_SIZE(records) > 0 ? Py_True : Py_False);
}

static void free_tail(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(((struct tail *)object)->fetch);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *tail_done(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((struct tail *)object)->tail.done);
}

static PyObject *tail_end(PyObject *object, void *unused)
{
    const struct tprof_tail_state *state = &((struct tail *)object)->state;
    (void)unused;
    if (state->first_drop_ns == 0 && state->end_reason == TPROF_OPEN)
        Py_RETURN_NONE;
    PyObject *columns = state->first_drop_ns != 0 ? Py_NewRef(Py_None) : PyTuple_New(TPROF_MAX_COLUMNS);
    for (Py_ssize_t i = 0; columns != NULL && columns != Py_None && i < TPROF_MAX_COLUMNS; i++)
        PyTuple_SET_ITEM(columns, i, PyLong_FromUnsignedLongLong(state->end_columns[i]));
    const uint64_t end_ns = state->first_drop_ns != 0 ? state->first_drop_ns : state->end_ns;
    return Py_BuildValue("(KN)", (unsigned long long)end_ns, columns);
}

PyObject *tprof_py_session_threads(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    const struct tprof_live *live = tprof_session_page();
    return PyLong_FromUnsignedLong(live == NULL ? 0 : __atomic_load_n(&live->next_thread, __ATOMIC_ACQUIRE));
}

PyObject *tprof_py_used_ns(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLongLong(tprof_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
}

/* CPU time of a thread by now; 0 if its clock cannot be read. */
static uint64_t thread_clock_ns(unsigned int pid, unsigned int tid, bool own)
{
    char path[64], text[64];
    if (own)
        return tprof_clock_ns((clockid_t)((~tid << 3) | THREAD_CLOCK));
    snprintf(path, sizeof path, "/proc/%u/task/%u/schedstat", pid, tid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const ssize_t count = read(fd, text, sizeof text - 1);
    close(fd);
    text[count < 0 ? 0 : count] = '\0';
    return strtoull(text, NULL, 10);
}

PyObject *tprof_py_thread_used_ns(PyObject *module, PyObject *args)
{
    unsigned int pid, tid;
    int own;
    (void)module;
    if (!PyArg_ParseTuple(args, "IIp", &pid, &tid, &own))
        return NULL;
    return PyLong_FromUnsignedLongLong(thread_clock_ns(pid, tid, own != 0));
}

static PyGetSetDef tail_attributes[] = {
    {"done", tail_done, NULL, NULL, NULL},
    {"end", tail_end, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef tail_methods[] = {
    {"read", read_tail, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot tail_slots[] = {
    {Py_tp_new, create_tail},
    {Py_tp_dealloc, free_tail},
    {Py_tp_methods, tail_methods},
    {Py_tp_getset, tail_attributes},
    {0, NULL},
};

PyType_Spec tprof_tail_spec = {
    .name = "tprof._core.Tail",
    .basicsize = sizeof(struct tail),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = tail_slots,
};
