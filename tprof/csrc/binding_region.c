/* Region: a with-block as a task. Each entry is an instance. A region object may be entered several times at once, also
 * by several threads, so it has a small list of entries; each thread exits its own last one. An entry must end on the
 * thread that made it. */
#include "binding.h"
#include "recorder.h"

#include <structmember.h>

struct entry {
    unsigned long thread;
    struct tprof_frame frame;
};

struct region {
    PyObject_HEAD
    uint32_t number;
    int depth, capacity;
    struct entry *entries;
    struct entry first;
};

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"number", NULL};
    unsigned int number;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "I", names, &number))
        return NULL;
    struct region *self = (struct region *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->number = number;
        self->entries = &self->first;
        self->capacity = 1;
    }
    return (PyObject *)self;
}

static void deallocate(PyObject *object)
{
    struct region *self = (struct region *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->entries != &self->first)
        PyMem_Free(self->entries);
    type->tp_free(object);
    Py_DECREF(type);
}

static bool reserve(struct region *self)
{
    if (self->depth < self->capacity)
        return true;
    const int capacity = self->capacity * 4;
    struct entry *entries = PyMem_Malloc((size_t)capacity * sizeof *entries);
    if (entries == NULL)
        return false;
    memcpy(entries, self->entries, (size_t)self->depth * sizeof *entries);
    if (self->entries != &self->first)
        PyMem_Free(self->entries);
    self->entries = entries;
    self->capacity = capacity;
    return true;
}

static PyObject *enter(PyObject *object, PyObject *unused)
{
    struct region *self = (struct region *)object;
    struct entry entry = {.thread = PyThread_get_thread_ident()};
    bool kept;
    (void)unused;
    if (tprof_recording() && self->number != TPROF_NO_TASK)
        (void)tprof_enter(&entry.frame, self->number, 0, TPROF_START);
    Py_BEGIN_CRITICAL_SECTION(object);
    kept = reserve(self);
    if (kept)
        self->entries[self->depth++] = entry;
    Py_END_CRITICAL_SECTION();
    if (kept)
        return Py_NewRef(object);
    tprof_leave(&entry.frame, TPROF_FINISH, TPROF_FAILED);
    return PyErr_NoMemory();
}

/* Remove this thread's last entry, or the last of all if the exit is on a wrong thread. */
static bool take_out(struct region *self, struct entry *taken)
{
    const unsigned long here = PyThread_get_thread_ident();
    int at = self->depth - 1;
    while (at >= 0 && self->entries[at].thread != here)
        at--;
    if (at < 0)
        at = self->depth - 1;
    if (at < 0)
        return false;
    *taken = self->entries[at];
    self->depth--;
    memmove(&self->entries[at], &self->entries[at + 1], (size_t)(self->depth - at) * sizeof *taken);
    return true;
}

static PyObject *leave(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    struct region *self = (struct region *)object;
    struct entry entry;
    bool found;
    Py_BEGIN_CRITICAL_SECTION(object);
    found = take_out(self, &entry);
    Py_END_CRITICAL_SECTION();
    if (!found) {
        PyErr_SetString(PyExc_RuntimeError, "this region is left more often than it was entered");
        return NULL;
    }
    tprof_leave(&entry.frame, TPROF_FINISH, count > 0 && args[0] != Py_None ? TPROF_FAILED : 0);
    Py_RETURN_FALSE;
}

/* For a constant of a function that cloudpickle sends by value; tprof/task.py creates it again. */
static PyObject *reduce(PyObject *self, PyObject *protocol)
{
    (void)protocol;
    PyObject *module = PyImport_ImportModule("tprof.task");
    if (module == NULL)
        return NULL;
    PyObject *result = PyObject_CallMethod(module, "reduce_region", "O", self);
    Py_DECREF(module);
    return result;
}

static PyObject *silence(PyObject *self, PyObject *unused)
{
    (void)unused;
    ((struct region *)self)->number = TPROF_NO_TASK;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"silence", silence, METH_NOARGS, NULL},
    {"__reduce_ex__", reduce, METH_O, NULL},
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))leave, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"number", T_UINT, offsetof(struct region, number), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, create}, {Py_tp_dealloc, deallocate}, {Py_tp_methods, methods}, {Py_tp_members, members}, {0, NULL},
};

PyType_Spec tprof_region_spec = {
    .name = "tprof._core.Region",
    .basicsize = sizeof(struct region),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};
