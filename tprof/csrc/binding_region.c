/* Region: a with-block as a task. Each entry is an instance; a region object may be entered again, also while it is
 * open, so its frames form a small stack. It must be left on the thread that entered it; threads that use one at a time
 * get one another's frames, but the stack stays whole: where Python has no lock of its own a critical section guards it. */
#include "binding.h"
#include "recorder.h"

#if PY_VERSION_HEX < 0x030D0000
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

struct region {
    PyObject_HEAD
    uint32_t number;
    int depth, room;
    struct tprof_frame *frames;
    struct tprof_frame first;
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
        self->frames = &self->first;
        self->room = 1;
    }
    return (PyObject *)self;
}

static void deallocate(PyObject *object)
{
    struct region *self = (struct region *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->frames != &self->first)
        PyMem_Free(self->frames);
    type->tp_free(object);
    Py_DECREF(type);
}

static bool make_room(struct region *self)
{
    if (self->depth < self->room)
        return true;
    const int room = self->room * 4;
    struct tprof_frame *frames = PyMem_Malloc((size_t)room * sizeof *frames);
    if (frames == NULL)
        return false;
    for (int i = 0; i < self->depth; i++)
        frames[i] = self->frames[i];
    if (self->frames != &self->first)
        PyMem_Free(self->frames);
    self->frames = frames;
    self->room = room;
    return true;
}

static bool push(struct region *self, const struct tprof_frame *frame)
{
    bool pushed;
    Py_BEGIN_CRITICAL_SECTION(self);
    pushed = make_room(self);
    if (pushed)
        self->frames[self->depth++] = *frame;
    Py_END_CRITICAL_SECTION();
    return pushed;
}

static bool pop(struct region *self, struct tprof_frame *frame)
{
    bool popped;
    Py_BEGIN_CRITICAL_SECTION(self);
    popped = self->depth > 0;
    if (popped)
        *frame = self->frames[--self->depth];
    Py_END_CRITICAL_SECTION();
    return popped;
}

static PyObject *enter(PyObject *object, PyObject *unused)
{
    struct region *self = (struct region *)object;
    struct tprof_frame frame = {.generation = 0};
    (void)unused;
    if (tprof_recording())
        (void)tprof_enter(&frame, self->number, 0, TPROF_START);
    if (push(self, &frame))
        return Py_NewRef(object);
    tprof_leave(&frame, TPROF_FINISH, TPROF_FAILED);
    return PyErr_NoMemory();
}

static PyObject *leave(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    struct tprof_frame frame;
    if (!pop((struct region *)object, &frame)) {
        PyErr_SetString(PyExc_RuntimeError, "this region is left more often than it was entered");
        return NULL;
    }
    tprof_leave(&frame, TPROF_FINISH, count > 0 && args[0] != Py_None ? TPROF_FAILED : 0);
    Py_RETURN_FALSE;
}

static PyMethodDef methods[] = {
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))leave, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, create},
    {Py_tp_dealloc, deallocate},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec tprof_region_spec = {
    .name = "tprof._core.Region",
    .basicsize = sizeof(struct region),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};
