/* ThreadTask: a method of threading.Thread whose calls are instances of the task for that thread. It is called between
 * Python's own frames, and adds no frame to a printed stack. */
#include "binding.h"
#include "recorder.h"

#include <structmember.h>

struct thread_task {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *method;
    PyObject *number_of; /* thread -> number of its task, or None: no task stands for it */
};

_Thread_local PyObject *tprof_starting_thread;

static bool find_number(PyObject *number_of, PyObject *thread, uint32_t *number)
{
    PyObject *found = PyObject_CallOneArg(number_of, thread);
    const unsigned long value = found == NULL || found == Py_None ? (unsigned long)-1 : PyLong_AsUnsignedLong(found);
    Py_XDECREF(found);
    if (PyErr_Occurred() != NULL) {
        PyErr_WriteUnraisable(number_of);
        return false;
    }
    *number = (uint32_t)value;
    return value <= UINT32_MAX;
}

static PyObject *call(PyObject *callable, PyObject *const *args, size_t count, PyObject *names)
{
    struct thread_task *self = (struct thread_task *)callable;
    struct tprof_frame frame;
    uint32_t number;
    bool entered = PyVectorcall_NARGS(count) > 0 && tprof_recording() && find_number(self->number_of, args[0], &number);
    if (entered) {
        tprof_starting_thread = args[0];
        entered = tprof_enter(&frame, number, 0, TPROF_START);
        tprof_starting_thread = NULL;
    }
    if (!entered)
        return PyObject_Vectorcall(self->method, args, count, names);
    PyObject *result = PyObject_Vectorcall(self->method, args, count, names);
    tprof_leave_call(&frame, TPROF_FINISH, result == NULL ? TPROF_FAILED : 0);
    return result;
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"method", "number_of", NULL};
    PyObject *method, *number_of;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO", names, &method, &number_of))
        return NULL;
    struct thread_task *self = (struct thread_task *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->vectorcall = call;
        self->method = Py_NewRef(method);
        self->number_of = Py_NewRef(number_of);
    }
    return (PyObject *)self;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    struct thread_task *self = (struct thread_task *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->method);
    Py_VISIT(self->number_of);
    return 0;
}

static int clear(PyObject *object)
{
    struct thread_task *self = (struct thread_task *)object;
    Py_CLEAR(self->method);
    Py_CLEAR(self->number_of);
    return 0;
}

static void deallocate(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    (void)clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *bind(PyObject *self, PyObject *instance, PyObject *owner)
{
    (void)owner;
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct thread_task, vectorcall), READONLY, NULL},
    {"__wrapped__", T_OBJECT, offsetof(struct thread_task, method), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, create},
    {Py_tp_dealloc, deallocate},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_descr_get, bind},
    {Py_tp_members, members},
    {0, NULL},
};

PyType_Spec tprof_thread_task_spec = {
    .name = "tprof._core.ThreadTask",
    .basicsize = sizeof(struct thread_task),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .slots = slots,
};
