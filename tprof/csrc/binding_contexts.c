/* Where a thread enters a context (contextvars) and leaves it, for spans. An event loop runs each step of a task in the
 * task's own context, and so do executors that pass a context on; nobody attaches a span then. Python tells nobody
 * before 3.14, so `Context.run` is given another C function here: the one of its method's definition is replaced, which
 * all calls of the method go through. It stays replaced, and without a recording it calls the former one.
 *
 * Libraries that enter contexts by PyContext_Enter (uvloop, asyncio's eager tasks) get ours through their tables of
 * addresses (redirection.c).
 *
 * SpanContext is what OpenTelemetry attaches and detaches by. */
#include "binding_spans.h"

#include "native_threads.h"
#include "recorder.h"
#include "redirection.h"

typedef PyObject *run_function(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

static run_function *genuine_run;

static int enter_context(PyObject *context)
{
    const int failed = PyContext_Enter(context);
    if (failed == 0 && tprof_recording())
        tprof_span_context_entered(context);
    return failed;
}

static int leave_context(PyObject *context)
{
    const int failed = PyContext_Exit(context);
    if (failed == 0 && tprof_recording())
        tprof_span_context_left(context);
    return failed;
}

/* As Python's own: enter, call, exit. */
static PyObject *run_in(PyObject *context, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (!tprof_recording() || count < 1)
        return genuine_run(context, args, count, names);
    if (enter_context(context) != 0)
        return NULL;
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)(count - 1), names);
    if (leave_context(context) != 0)
        Py_CLEAR(result);
    return result;
}

static void follow_libraries(void)
{
    const struct tprof_redirected functions[] = {
        {"PyContext_Enter", (uintptr_t)PyContext_Enter, (uintptr_t)enter_context},
        {"PyContext_Exit", (uintptr_t)PyContext_Exit, (uintptr_t)leave_context},
    };
    tprof_follow_imports();
    Py_BEGIN_ALLOW_THREADS
    tprof_native_redirect(functions, sizeof functions / sizeof *functions);
    Py_END_ALLOW_THREADS
}

/* Returns 1, 0 if the method is defined in an unknown way, or -1 with an exception. */
static int follow_method(void)
{
    PyObject *method = PyObject_GetAttrString((PyObject *)&PyContext_Type, "run");
    if (method == NULL)
        return -1;
    PyMethodDef *definition =
        Py_IS_TYPE(method, &PyMethodDescr_Type) ? ((PyMethodDescrObject *)method)->d_method : NULL;
    if (genuine_run == NULL && definition != NULL && definition->ml_flags == (METH_FASTCALL | METH_KEYWORDS)) {
        genuine_run = (run_function *)(void (*)(void))definition->ml_meth;
        __atomic_store_n(&definition->ml_meth, (PyCFunction)(void (*)(void))run_in, __ATOMIC_RELEASE);
    }
    Py_DECREF(method);
    return genuine_run != NULL;
}

struct span_context {
    PyObject_HEAD
    PyObject *attach, *detach; /* of the context that is followed */
};

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"attach", "detach", NULL};
    PyObject *attach, *detach;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO", names, &attach, &detach))
        return NULL;
    struct span_context *self = (struct span_context *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->attach = Py_NewRef(attach);
    self->detach = Py_NewRef(detach);
    return (PyObject *)self;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((struct span_context *)object)->attach);
    Py_VISIT(((struct span_context *)object)->detach);
    return 0;
}

static int clear(PyObject *object)
{
    Py_CLEAR(((struct span_context *)object)->attach);
    Py_CLEAR(((struct span_context *)object)->detach);
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

static PyObject *attach(PyObject *object, PyObject *context)
{
    PyObject *token = PyObject_CallOneArg(((struct span_context *)object)->attach, context);
    if (token != NULL && tprof_recording())
        tprof_span_attached();
    return token;
}

static PyObject *detach(PyObject *object, PyObject *token)
{
    PyObject *result = PyObject_CallOneArg(((struct span_context *)object)->detach, token);
    if (result != NULL && tprof_recording())
        tprof_span_detached();
    return result;
}

static PyMethodDef methods[] = {
    {"attach", attach, METH_O, NULL},
    {"detach", detach, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, create},  {Py_tp_dealloc, deallocate}, {Py_tp_traverse, traverse},
    {Py_tp_clear, clear}, {Py_tp_methods, methods},    {0, NULL},
};

PyType_Spec tprof_span_context_spec = {
    .name = "tprof._core.SpanContext",
    .basicsize = sizeof(struct span_context),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

PyObject *tprof_py_follow_spans(PyObject *module, PyObject *args)
{
    struct tprof_span_source *source = &tprof_span_source;
    PyObject *variable, *key, *attribute;
    if (!PyArg_ParseTuple(args, "O!OU", &PyContextVar_Type, &variable, &key, &attribute))
        return NULL;
    if (source->interpreter != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "those of another interpreter or context are followed already");
        return NULL;
    }
    PyObject *type = PyObject_GetAttrString(module, "Span");
    if (type == NULL)
        return NULL;
    const int follows = follow_method();
    if (follows < 0) {
        Py_DECREF(type);
        return NULL;
    }
    source->type = (PyTypeObject *)type;
    source->variable = Py_NewRef(variable);
    source->key = Py_NewRef(key);
    source->attribute = Py_NewRef(attribute);
    source->interpreter = PyInterpreterState_Get();
    follow_libraries();
    return PyBool_FromLong(follows);
}
