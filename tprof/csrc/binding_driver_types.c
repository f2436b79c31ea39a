/* A driver has what its body has: all attributes, also its class, its errors and its representation. Like generators, a
 * driver cannot be cleared by the garbage collector, which closes the body instead. */
#include "binding_driver.h"

#include <structmember.h>

static PyObject *make(struct tprof_state *state, PyTypeObject *type, PyObject *body, struct driver *whole)
{
    struct driver *self = (struct driver *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->body = Py_NewRef(body);
    self->whole = whole;
    Py_XINCREF(whole);
    self->state = state;
    self->module = Py_NewRef(PyType_GetModule(type));
    return (PyObject *)self;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    const struct driver *self = (struct driver *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->module);
    Py_VISIT(self->body);
    if (self->whole != self)
        Py_VISIT(self->whole);
    return 0;
}

static PyObject *get(PyObject *object, PyObject *name)
{
    const int own = PyDict_Contains(Py_TYPE(object)->tp_dict, name);
    if (own < 0)
        return NULL;
    return own ? PyObject_GenericGetAttr(object, name) : PyObject_GetAttr(((struct driver *)object)->body, name);
}

static int set(PyObject *object, PyObject *name, PyObject *value)
{
    return PyObject_SetAttr(((struct driver *)object)->body, name, value);
}

static PyObject *represent(PyObject *object)
{
    return PyObject_Repr(((struct driver *)object)->body);
}

static bool code_has(PyObject *code, int flags)
{
    const bool has = code != NULL && PyCode_Check(code) && (((PyCodeObject *)code)->co_flags & flags) != 0;
    Py_XDECREF(code);
    return has;
}

/* `await` of a generator: permitted by types.coroutine. */
static PyObject *await_generator(PyObject *object)
{
    PyObject *code = PyObject_GetAttrString(((struct driver *)object)->body, "gi_code");
    if (code == NULL)
        return NULL;
    if (code_has(code, CO_ITERABLE_COROUTINE))
        return Py_NewRef(object);
    return PyErr_Format(PyExc_TypeError, "object %.100s can't be used in 'await' expression", Py_TYPE(object)->tp_name);
}

static PyObject *await_coroutine(PyObject *object)
{
    const struct driver *self = (struct driver *)object;
    if (self->started && !self->done) {
        PyObject *awaited = PyObject_GetAttrString(self->body, "cr_await");
        if (awaited == NULL)
            return NULL;
        Py_DECREF(awaited);
        if (!Py_IsNone(awaited)) {
            PyErr_SetString(PyExc_RuntimeError, "coroutine is being awaited already");
            return NULL;
        }
    }
    return Py_NewRef(object);
}

/* `yield from` of a coroutine: permitted in coroutines and by types.coroutine. */
static PyObject *iterate_coroutine(PyObject *object)
{
    PyFrameObject *frame = PyEval_GetFrame();
    PyCodeObject *code = frame != NULL ? PyFrame_GetCode(frame) : NULL;
    const int flags = code != NULL ? code->co_flags : 0;
    Py_XDECREF(code);
    if (flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE))
        return Py_NewRef(object);
    if (flags & CO_GENERATOR)
        PyErr_SetString(PyExc_TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator");
    else
        PyErr_Format(PyExc_TypeError, "'%.200s' object is not iterable", Py_TYPE(object)->tp_name);
    return NULL;
}

static PyObject *make_step(PyObject *object, const char *name, PyObject *const *args, Py_ssize_t count)
{
    struct driver *self = (struct driver *)object;
    PyObject *body = tprof_driver_call(self, name, args, count);
    if (body == NULL)
        return NULL;
    struct driver *step = (struct driver *)make(self->state, self->state->driver_types[STEP], body, self);
    Py_DECREF(body);
    if (step != NULL) {
        step->sends = strcmp(name, "asend") == 0 && args[0] != Py_None;
        step->throws = strcmp(name, "athrow") == 0 || strcmp(name, "aclose") == 0;
        step->closes = strcmp(name, "aclose") == 0 || strcmp(name, "__await__") == 0;
    }
    return (PyObject *)step;
}

static PyObject *iterator_of_coroutine(PyObject *object, PyObject *unused)
{
    (void)unused;
    return make_step(object, "__await__", NULL, 0);
}

/* The event loop is told of this generator at its first step, and not of its body too. It is the body that tells the
 * loop of its end, for which Python may take it before this object. */
static PyObject *take_step(PyObject *object, const char *name, PyObject *const *args, Py_ssize_t count)
{
    struct driver *self = (struct driver *)object;
    PyThreadState *thread = PyThreadState_Get();
    PyObject *hook = thread->async_gen_firstiter;
    if (self->known || hook == NULL) {
        self->known = true;
        return make_step(object, name, args, count);
    }
    self->known = true;
    thread->async_gen_firstiter = NULL;
    PyObject *step = make_step(object, name, args, count);
    Py_XSETREF(thread->async_gen_firstiter, hook);
    PyObject *told = step != NULL ? PyObject_CallOneArg(hook, object) : NULL;
    if (told == NULL)
        Py_CLEAR(step);
    Py_XDECREF(told);
    return step;
}

static PyObject *anext(PyObject *object)
{
    return take_step(object, "__anext__", NULL, 0);
}

static PyObject *asend(PyObject *object, PyObject *value)
{
    return take_step(object, "asend", &value, 1);
}

static PyObject *athrow(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    return take_step(object, "athrow", args, count);
}

static PyObject *aclose(PyObject *object, PyObject *unused)
{
    (void)unused;
    return take_step(object, "aclose", NULL, 0);
}

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct driver, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

#define STEPPED                                                                                                        \
    {"send", tprof_driver_send_value, METH_O, NULL},                                                                   \
        {"throw", (PyCFunction)(void (*)(void))tprof_driver_throw, METH_FASTCALL, NULL},                               \
    {                                                                                                                  \
        "close", tprof_driver_close, METH_NOARGS, NULL                                                                 \
    }
static PyMethodDef methods[] = {STEPPED, {NULL, NULL, 0, NULL}};
static PyMethodDef coroutine_methods[] = {
    STEPPED,
    {"__await__", iterator_of_coroutine, METH_NOARGS | METH_COEXIST, NULL},
    {NULL, NULL, 0, NULL},
};
static PyMethodDef async_generator_methods[] = {
    {"asend", asend, METH_O, NULL},
    {"athrow", (PyCFunction)(void (*)(void))athrow, METH_FASTCALL, NULL},
    {"aclose", aclose, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

#define OF_ALL                                                                                                         \
    {Py_tp_dealloc, tprof_driver_deallocate}, {Py_tp_traverse, traverse}, {Py_tp_getattro, get},                       \
        {Py_tp_setattro, set}, {Py_tp_repr, represent},                                                                \
    {                                                                                                                  \
        Py_tp_members, members                                                                                         \
    }
static PyType_Slot generator_slots[] = {
    OF_ALL,
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, tprof_driver_next},
    {Py_am_send, tprof_driver_send},
    {Py_tp_methods, methods},
    {0, NULL},
};
static PyType_Slot coroutine_slots[] = {
    OF_ALL,    {Py_am_await, await_coroutine}, {Py_am_send, tprof_driver_send}, {Py_tp_methods, coroutine_methods},
    {0, NULL},
};
static PyType_Slot async_generator_slots[] = {
    OF_ALL, {Py_am_aiter, PyObject_SelfIter}, {Py_am_anext, anext}, {Py_tp_methods, async_generator_methods}, {0, NULL},
};
static PyType_Slot step_slots[] = {
    OF_ALL,
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, tprof_driver_next},
    {Py_am_await, PyObject_SelfIter},
    {Py_am_send, tprof_driver_send},
    {Py_tp_methods, methods},
    {0, NULL},
};

#define SPEC(python_name, its_slots)                                                                                   \
    {                                                                                                                  \
        .name = "tprof._core." python_name,                                                                            \
        .basicsize = sizeof(struct driver),                                                                            \
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,                          \
        .slots = its_slots,                                                                                            \
    }
static PyType_Spec specs[TPROF_DRIVERS] = {
    [GENERATOR] = SPEC("generator", generator_slots),
    [COROUTINE] = SPEC("coroutine", coroutine_slots),
    [ASYNC_GENERATOR] = SPEC("async_generator", async_generator_slots),
    [STEP] = SPEC("async_generator_asend", step_slots),
};

static PyTypeObject *make_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    PyObject *name = type != NULL ? PyObject_GetAttrString(type, "__name__") : NULL;
    /* Once set, it also stands in messages of Python, without the module. */
    if (name != NULL && PyObject_SetAttrString(type, "__name__", name) < 0)
        Py_CLEAR(type);
    Py_XDECREF(name);
    return (PyTypeObject *)type;
}

int tprof_add_driver_types(PyObject *module)
{
    PyTypeObject **types = tprof_state_of(module)->driver_types;
    for (int kind = 0; kind < TPROF_DRIVERS; kind++)
        if ((types[kind] = make_type(module, &specs[kind])) == NULL)
            return -1;
    /* What Python does with a generator and a coroutine by their type, although they have no such methods. */
    types[GENERATOR]->tp_as_async->am_await = await_generator;
    types[COROUTINE]->tp_iter = iterate_coroutine;
    types[COROUTINE]->tp_iternext = tprof_driver_next;
    return 0;
}

static PyTypeObject *type_for(const struct tprof_state *state, PyObject *body)
{
    PyTypeObject *type = Py_TYPE(body);
    if (type->tp_dealloc == tprof_driver_deallocate)
        return type; /* of another task */
    const PyAsyncMethods *async = type->tp_as_async;
    if (async == NULL)
        return NULL;
    if (async->am_anext != NULL)
        return state->driver_types[ASYNC_GENERATOR];
    if (async->am_send == NULL)
        return NULL;
    return state->driver_types[async->am_await != NULL ? COROUTINE : GENERATOR];
}

PyObject *tprof_drive(struct tprof_state *state, PyObject *body, uint32_t number)
{
    PyTypeObject *type = type_for(state, body);
    if (type == NULL)
        return Py_NewRef(body);
    struct driver *self = (struct driver *)make(state, type, body, NULL);
    if (self != NULL) {
        self->whole = self;
        self->number = number;
    }
    return (PyObject *)self;
}

PyObject *tprof_py_drive(PyObject *module, PyObject *args)
{
    PyObject *body;
    unsigned int number;
    if (!PyArg_ParseTuple(args, "OI", &body, &number))
        return NULL;
    return tprof_drive(tprof_state_of(module), body, number);
}
