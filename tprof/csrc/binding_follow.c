/* Types for following a running recording: tails of readings, and threads with their rows. Each is used by one thread
 * at a time (the lock of tprof/live's meters). Python's lock is held throughout: see tail.h. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "binding.h"
#include "clock.h"
#include "follow.h"
#include "live.h"

struct tail {
    PyObject_HEAD
    struct tprof_tail tail;
};

struct follower {
    PyObject_HEAD
    struct tprof_follower follower;
    Py_buffer packages;
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

static PyObject *create_tail(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "record_bytes", "body_at", "first", NULL};
    PyObject *path;
    unsigned int record_bytes;
    unsigned long long body_at, first = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OIK|K", names, &path, &record_bytes, &body_at, &first))
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
    return (PyObject *)self;
}

static PyObject *read_new(struct tprof_tail *tail, int fd, struct tprof_tail_state *state, uint64_t most)
{
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
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, tail->path);
    }
    if (records != NULL && count < limit)
        (void)_PyBytes_Resize(&records, (Py_ssize_t)(count * tail->record_bytes));
    return records;
}

static PyObject *read_tail(PyObject *object, PyObject *most)
{
    struct tprof_tail *tail = &((struct tail *)object)->tail;
    struct tprof_tail_state state;
    const unsigned long long limit = PyLong_AsUnsignedLongLong(most);
    if (PyErr_Occurred())
        return NULL;
    const int fd = tprof_tail_open(tail, &state);
    if (fd < 0)
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, tail->path);
    PyObject *records = read_new(tail, fd, &state, limit);
    close(fd);
    if (records == NULL)
        return NULL;
    return Py_BuildValue("(NO)", records,
                         tail->done < state.committed && PyBytes_GET_SIZE(records) > 0 ? Py_True : Py_False);
}

static void free_tail(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
}

static bool call_learn(void *owner, struct tprof_known *known)
{
    PyObject *answer = PyObject_CallFunction(owner, "I", known->number);
    long long index;
    int watched;
    const bool good = answer != NULL && PyTuple_Check(answer) && PyArg_ParseTuple(answer, "Lp", &index, &watched);
    Py_XDECREF(answer);
    if (!good) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "`learn` returns a task's index and whether it is watched");
        return false;
    }
    known->index = index;
    known->watched = watched;
    return true;
}

static ssize_t call_fetch(void *packed, uint64_t first, void *records, size_t most)
{
    const struct follower *self = packed;
    const size_t size = self->follower.tail.record_bytes;
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

static PyObject *create_follower(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path",  "record_bytes", "body_at",  "process", "pid",        "tid",
                            "own",   "column",       "packages", "end_ns",  "cut_off_ns", "fetch",
                            "first", "moments",      "resumes",  "stop",    NULL};
    PyObject *path, *end_ns = Py_None, *fetch = Py_None, *stop = Py_None;
    struct tprof_follower given = {.learn = call_learn, .cut_off_ns = HUGE_VAL};
    int own, moments = 0, resumes = 0;
    unsigned int process;
    Py_buffer packages;
    unsigned long long body_at, first = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OIKIIIpiy*|OdOKppO", names, &path, &given.tail.record_bytes,
                                     &body_at, &process, &given.pid, &given.tid, &own, &given.cpu_column, &packages,
                                     &end_ns, &given.cut_off_ns, &fetch, &first, &moments, &resumes, &stop))
        return NULL;
    given.finished = end_ns != Py_None;
    given.end_ns = given.finished ? PyLong_AsUnsignedLongLong(end_ns) : 0;
    given.stops = stop != Py_None;
    given.stop = given.stops && !PyErr_Occurred() ? PyLong_AsUnsignedLongLong(stop) : 0;
    const int columns = ((int)given.tail.record_bytes - (int)sizeof(struct tprof_sample)) / 8;
    struct follower *self = NULL;
    if (PyErr_Occurred()) {
        PyBuffer_Release(&packages);
        return NULL;
    }
    if (given.tail.record_bytes % 8 != 0 || given.cpu_column >= columns || columns > TPROF_MAX_COLUMNS)
        PyErr_SetString(PyExc_ValueError, "samples of this size do not hold such a column");
    else
        self = (struct follower *)type->tp_alloc(type, 0);
    if (self == NULL) {
        PyBuffer_Release(&packages);
        return NULL;
    }
    given.tail.body_at = body_at;
    given.tail.done = first;
    given.process = process;
    given.own = own != 0;
    given.notes_moments = moments != 0;
    given.resumes = resumes != 0;
    given.packages = packages.buf;
    given.cpus = (uint32_t)(packages.len / (Py_ssize_t)sizeof(int16_t));
    self->follower = given;
    self->packages = packages;
    if (fetch != Py_None) {
        self->fetch = Py_NewRef(fetch);
        self->follower.tail.fetch = call_fetch;
        self->follower.tail.packed = self;
    }
    if (set_tail(&self->follower.tail, path) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static PyObject *starts_of(struct tprof_follower *follower)
{
    PyObject *starts = PyList_New(0);
    for (size_t i = 0; starts != NULL && i < follower->capacity; i++) {
        struct tprof_known *known = &follower->known[i];
        if (!known->used || known->starts == 0)
            continue;
        PyObject *entry = Py_BuildValue("(LK)", (long long)known->index, (unsigned long long)known->starts);
        known->starts = 0;
        if (entry == NULL || PyList_Append(starts, entry) < 0)
            Py_CLEAR(starts);
        Py_XDECREF(entry);
    }
    return starts;
}

static int check_edges(const Py_buffer *edges)
{
    const int64_t *edges_ns = edges->buf;
    const Py_ssize_t count = edges->len / (Py_ssize_t)sizeof *edges_ns;
    bool good = count >= 2 && edges_ns[0] >= 0;
    for (Py_ssize_t i = 1; good && i < count; i++)
        good = edges_ns[i] > edges_ns[i - 1];
    if (!good)
        PyErr_SetString(PyExc_ValueError, "edges are two or more moments, each after the one before");
    return good ? 0 : -1;
}

static PyObject *follow(PyObject *object, PyObject *args)
{
    struct tprof_follower *follower = &((struct follower *)object)->follower;
    Py_buffer edges;
    unsigned long long now_ns;
    PyObject *learn, *result = NULL;
    if (!PyArg_ParseTuple(args, "y*KO", &edges, &now_ns, &learn))
        return NULL;
    if (check_edges(&edges) < 0)
        goto done;
    follower->owner = learn;
    switch (tprof_follow(follower, edges.buf, (size_t)edges.len / sizeof(int64_t), now_ns)) {
    case TPROF_FOLLOW_GONE:
        if (!PyErr_Occurred()) /* `fetch` sets its own */
            PyErr_SetFromErrnoWithFilename(PyExc_OSError, follower->tail.path);
        break;
    case TPROF_FOLLOW_NO_MEMORY:
        PyErr_NoMemory();
        break;
    case TPROF_FOLLOW_REFUSED:
        break;
    case TPROF_FOLLOWED:
        result = Py_BuildValue("(y#Ny#)", follower->row_count != 0 ? (const char *)follower->rows : "",
                               (Py_ssize_t)(follower->row_count * sizeof *follower->rows), starts_of(follower),
                               follower->moment_count != 0 ? (const char *)follower->moments : "",
                               (Py_ssize_t)(follower->moment_count * sizeof *follower->moments));
    }
    follower->owner = NULL;
done:
    PyBuffer_Release(&edges);
    return result;
}

static PyObject *first_ns(PyObject *object, void *unused)
{
    const struct tprof_follower *follower = &((struct follower *)object)->follower;
    (void)unused;
    if (!follower->begun)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(follower->first_ns);
}

static PyObject *running(PyObject *object, void *unused)
{
    struct tprof_running now;
    (void)unused;
    if (!tprof_follower_running(&((struct follower *)object)->follower, &now))
        Py_RETURN_NONE;
    return Py_BuildValue("(KLKd)", (unsigned long long)now.t_ns, (long long)now.task, (unsigned long long)now.since_ns,
                         now.cpu_ns * 1e-9);
}

static PyObject *done(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((struct follower *)object)->follower.tail.done);
}

static PyObject *ended(PyObject *object, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct follower *)object)->follower.ended);
}

static void free_follower(PyObject *object)
{
    struct follower *self = (struct follower *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyBuffer_Release(&self->packages);
    Py_XDECREF(self->fetch);
    tprof_follower_free(&self->follower);
    type->tp_free(object);
    Py_DECREF(type);
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

static PyObject *tail_done(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((struct tail *)object)->tail.done);
}

static PyGetSetDef tail_attributes[] = {
    {"done", tail_done, NULL, NULL, NULL},
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

static PyMethodDef follower_methods[] = {
    {"follow", follow, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef follower_attributes[] = {
    {"first_ns", first_ns, NULL, NULL, NULL}, {"running", running, NULL, NULL, NULL},
    {"ended", ended, NULL, NULL, NULL},       {"done", done, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot follower_slots[] = {
    {Py_tp_new, create_follower},
    {Py_tp_dealloc, free_follower},
    {Py_tp_methods, follower_methods},
    {Py_tp_getset, follower_attributes},
    {0, NULL},
};

PyType_Spec tprof_follower_spec = {
    .name = "tprof._core.Follower",
    .basicsize = sizeof(struct follower),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = follower_slots,
};
