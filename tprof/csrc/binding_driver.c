/* Driver: the iterator of a generator or coroutine that is a task. It wraps the body: each resumption records a sample
 * (start or resume), and so does each suspension (suspend). A suspended instance is not running, and a body that is
 * resumed on another thread runs there. Regions that were open at the suspension continue with the resumption. */
#include "binding.h"
#include "recorder.h"

#include <structmember.h>

struct driver {
    PyObject_HEAD
    PyObject *body;
    uint32_t number;
    uint64_t generation;     /* the recording of this instance; another recording starts a new instance */
    uint64_t instance;
    struct tprof_suspension at;
    bool stepwise; /* the body is one step of an asynchronous generator: its end only suspends the instance */
    bool done;     /* the instance has ended; a late close does not count */
};

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"body", "number", NULL};
    PyObject *body;
    unsigned int number;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OI", names, &body, &number))
        return NULL;
    struct driver *self = (struct driver *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->body = Py_NewRef(body);
    self->number = number;
    self->stepwise = body == Py_None;
    return (PyObject *)self;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((struct driver *)object)->body);
    return 0;
}

static int clear(PyObject *object)
{
    Py_CLEAR(((struct driver *)object)->body);
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

static void resume(struct driver *self, struct tprof_frame *frame)
{
    frame->generation = 0;
    if (self->done || !tprof_recording())
        return;
    if (self->instance != 0 && self->generation == __atomic_load_n(&tprof_generation, __ATOMIC_ACQUIRE)) {
        (void)tprof_continue(frame, &self->at);
        return;
    }
    if (tprof_enter(frame, self->number, 0, TPROF_START)) {
        self->generation = frame->generation;
        self->instance = frame->instance;
        tprof_step_began(&self->at, frame);
    }
}

static void suspend(struct driver *self, const struct tprof_frame *frame)
{
    if (tprof_frame_holds(frame))
        tprof_suspend(frame, &self->at);
}

static void finish(struct driver *self, const struct tprof_frame *frame, bool failed)
{
    if (tprof_frame_holds(frame)) {
        /* Regions that an exception left open inside end with their task. */
        frame->thread->instance = self->instance;
        tprof_leave(frame, TPROF_FINISH, failed ? TPROF_FAILED : 0);
    }
    self->instance = 0;
    self->done = true;
}

/* After a call on the body that returned NULL: success if it only raised the end of iteration. */
static bool ended_well(void)
{
    return !PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_StopIteration) ||
           PyErr_ExceptionMatches(PyExc_StopAsyncIteration) || PyErr_ExceptionMatches(PyExc_GeneratorExit);
}

static PySendResult step(PyObject *object, PyObject *value, PyObject **result)
{
    struct driver *self = (struct driver *)object;
    struct tprof_frame frame;
    resume(self, &frame);
    const PySendResult outcome = PyIter_Send(self->body, value, result);
    if (outcome == PYGEN_NEXT || (outcome == PYGEN_RETURN && self->stepwise))
        suspend(self, &frame);
    else
        finish(self, &frame, outcome == PYGEN_ERROR && !ended_well());
    return outcome;
}

static PyObject *send_value(PyObject *object, PyObject *value)
{
    PyObject *result = NULL;
    if (step(object, value, &result) != PYGEN_RETURN)
        return result;
    PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, result);
    Py_XDECREF(result);
    if (stop != NULL) {
        PyErr_SetObject(PyExc_StopIteration, stop);
        Py_DECREF(stop);
    }
    return NULL;
}

static PyObject *next(PyObject *object)
{
    return send_value(object, Py_None);
}

static PyObject *call_body(struct driver *self, const char *method, PyObject *args)
{
    struct tprof_frame frame;
    PyObject *bound = PyObject_GetAttrString(self->body, method);
    if (bound == NULL)
        return NULL;
    resume(self, &frame);
    PyObject *result = PyObject_Call(bound, args, NULL);
    if (result != NULL && method[0] == 't')
        suspend(self, &frame);
    else
        finish(self, &frame, result == NULL && !ended_well());
    Py_DECREF(bound);
    return result;
}

static PyObject *throw_exception(PyObject *object, PyObject *args)
{
    return call_body((struct driver *)object, "throw", args);
}

static PyObject *close_body(PyObject *object, PyObject *unused)
{
    (void)unused;
    PyObject *no_args = PyTuple_New(0);
    if (no_args == NULL)
        return NULL;
    PyObject *result = call_body((struct driver *)object, "close", no_args);
    Py_DECREF(no_args);
    return result;
}

static PyObject *take(PyObject *object, PyObject *body, bool stepwise)
{
    struct driver *self = (struct driver *)object;
    Py_XSETREF(self->body, Py_NewRef(body));
    self->stepwise = stepwise;
    return Py_NewRef(object);
}

static PyObject *step_of(PyObject *object, PyObject *body)
{
    return take(object, body, true);
}

static PyObject *last_step_of(PyObject *object, PyObject *body)
{
    return take(object, body, false);
}

static PyMethodDef methods[] = {
    {"step", step_of, METH_O, NULL},          {"last", last_step_of, METH_O, NULL},
    {"send", send_value, METH_O, NULL},       {"throw", throw_exception, METH_VARARGS, NULL},
    {"close", close_body, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, create},
    {Py_tp_dealloc, deallocate},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, next},
    {Py_am_await, PyObject_SelfIter},
    {Py_am_send, step},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec tprof_driver_spec = {
    .name = "tprof._core.Driver",
    .basicsize = sizeof(struct driver),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
