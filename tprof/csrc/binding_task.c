/* Task: a callable around a function. Without a recording it only passes the call on. */
#include "binding.h"

#include "recorder.h"

#include <errno.h>
#include <structmember.h>
#include <time.h>

uint32_t tprof_pause_share;

#define LONGEST_PAUSE_NS 1000000000

/* Python's lock is released meanwhile. A signal ends the pause; its handler runs after the task. */
void tprof_pause_after(const struct tprof_frame *frame, uint64_t began_ns)
{
    const uint64_t share = __atomic_load_n(&tprof_pause_share, __ATOMIC_RELAXED);
    if (share == 0 || frame->outer_instance != 0)
        return;
    uint64_t pause_ns = (tprof_now_ns() - began_ns) / 1000 * share;
    if (pause_ns > LONGEST_PAUSE_NS)
        pause_ns = LONGEST_PAUSE_NS;
    const struct timespec pause = {.tv_sec = (time_t)(pause_ns / 1000000000), .tv_nsec = (long)(pause_ns % 1000000000)};
    const int saved_errno = errno;
    Py_BEGIN_ALLOW_THREADS;
    (void)nanosleep(&pause, NULL);
    Py_END_ALLOW_THREADS;
    errno = saved_errno;
}

PyObject *tprof_task_run(struct task *self, PyObject *const *args, size_t count, PyObject *names, uint64_t instance)
{
    struct tprof_frame frame;
    if (!tprof_recording() || !tprof_enter(&frame, self->number, instance, TPROF_START))
        return PyObject_Vectorcall(self->function, args, count, names);
    const bool slowed = __atomic_load_n(&tprof_pause_share, __ATOMIC_RELAXED) != 0;
    const uint64_t began_ns = slowed ? tprof_now_ns() : 0;
    PyObject *result = PyObject_Vectorcall(self->function, args, count, names);
    tprof_leave_call(&frame, TPROF_FINISH, result == NULL ? TPROF_FAILED : 0);
    if (slowed)
        tprof_pause_after(&frame, began_ns);
    return result;
}

/* The spawner gets the task and then its arguments. */
static PyObject *spawn(PyObject *spawner, PyObject *self, PyObject *const *args, size_t count, PyObject *names)
{
    PyObject *few[8], **all = few;
    const size_t positional = (size_t)PyVectorcall_NARGS(count);
    const size_t passed = positional + (names != NULL ? (size_t)PyTuple_GET_SIZE(names) : 0);
    if (passed + 1 > sizeof few / sizeof *few && (all = PyMem_Malloc((passed + 1) * sizeof *all)) == NULL)
        return PyErr_NoMemory();
    all[0] = self;
    for (size_t i = 0; i < passed; i++)
        all[i + 1] = args[i];
    PyObject *result = PyObject_Vectorcall(spawner, all, positional + 1, names);
    if (all != few)
        PyMem_Free(all);
    return result;
}

/* The function gets its arguments at once, so that wrong ones raise here, and they are held by its own frame only. */
static PyObject *call_resumed(struct task *self, PyObject *const *args, size_t count, PyObject *names)
{
    PyObject *body = PyObject_Vectorcall(self->function, args, count, names);
    PyObject *driver = body != NULL ? tprof_drive(self->state, body, self->number) : NULL;
    Py_XDECREF(body);
    return driver;
}

static PyObject *call(PyObject *callable, PyObject *const *args, size_t count, PyObject *names)
{
    struct task *self = (struct task *)callable;
    if (self->access != NULL) {
        PyObject *spawner = __atomic_load_n(&self->state->spawner, __ATOMIC_ACQUIRE);
        if (spawner != NULL)
            return spawn(spawner, callable, args, count, names);
    }
    if (!tprof_recording())
        return PyObject_Vectorcall(self->function, args, count, names);
    return self->resumed ? call_resumed(self, args, count, names) : tprof_task_run(self, args, count, names, 0);
}

/* Let calls by many threads, without Python's lock, not wait for each other to count references to a task: such a task is
 * freed by the garbage collector, as CPython's functions that are not nested. */
static void defer_counting(struct task *self)
{
#if defined(Py_GIL_DISABLED) && PY_VERSION_HEX >= 0x030E0000
    const PyObject *code = PyFunction_Check(self->function) ? PyFunction_GET_CODE(self->function) : NULL;
    if (code != NULL && (((const PyCodeObject *)code)->co_flags & CO_NESTED) == 0)
        (void)PyUnstable_Object_EnableDeferredRefcount((PyObject *)self);
#else
    (void)self;
#endif
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "number", "access", "original", "resumed", NULL};
    PyObject *function, *access = Py_None, *original = NULL;
    unsigned int number;
    int resumed = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OI|OOp", names, &function, &number, &access, &original, &resumed))
        return NULL;
    if (!PyCallable_Check(function)) {
        PyErr_Format(PyExc_TypeError, "a task is made of a callable, got %.100s", Py_TYPE(function)->tp_name);
        return NULL;
    }
    PyObject *module = tprof_module_of(type);
    struct task *self = module != NULL ? (struct task *)type->tp_alloc(type, 0) : NULL;
    if (self == NULL)
        return NULL;
    self->module = Py_NewRef(module);
    self->state = tprof_state_of(module);
    self->vectorcall = call;
    self->function = Py_NewRef(function);
    self->original = Py_NewRef(original != NULL ? original : function);
    self->access = access == Py_None ? NULL : Py_NewRef(access);
    self->number = number;
    self->resumed = resumed;
    defer_counting(self);
    return (PyObject *)self;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    struct task *self = (struct task *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->module);
    Py_VISIT(self->function);
    Py_VISIT(self->original);
    Py_VISIT(self->access);
    Py_VISIT(self->dict);
    return 0;
}

static int clear(PyObject *object)
{
    struct task *self = (struct task *)object;
    Py_CLEAR(self->function);
    Py_CLEAR(self->original);
    Py_CLEAR(self->access);
    Py_CLEAR(self->dict);
    return 0;
}

static void deallocate(PyObject *object)
{
    struct task *self = (struct task *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject *module = self->module;
    PyObject_GC_UnTrack(object);
    if (self->weak_references != NULL)
        PyObject_ClearWeakRefs(object);
    (void)clear(object);
    type->tp_free(object);
    Py_XDECREF(module);
    Py_DECREF(type);
}

static PyObject *bind(PyObject *self, PyObject *instance, PyObject *owner)
{
    (void)owner;
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

/* Each interpreter has its own type for tasks; they share the function that makes them methods. */
bool tprof_is_task(PyObject *object)
{
    return Py_TYPE(object)->tp_descr_get == bind;
}

static PyObject *represent(PyObject *object)
{
    return PyUnicode_FromFormat("<tprof.task %R>", ((struct task *)object)->original);
}

/* tprof/task.py pickles a task: by name, or with its function if it has no importable name. */
static PyObject *reduce(PyObject *self, PyObject *protocol)
{
    (void)protocol;
    PyObject *module = PyImport_ImportModule("tprof.task");
    if (module == NULL)
        return NULL;
    PyObject *result = PyObject_CallMethod(module, "reduce_task", "O", self);
    Py_DECREF(module);
    return result;
}

static PyMethodDef methods[] = {
    {"__reduce_ex__", reduce, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(struct task, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct task, weak_references), READONLY, NULL},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct task, vectorcall), READONLY, NULL},
    {"access", T_OBJECT, offsetof(struct task, access), READONLY, NULL},
    {"number", T_UINT, offsetof(struct task, number), READONLY, NULL},
    {"resumed", T_BOOL, offsetof(struct task, resumed), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static bool cloudpickle_asks(void)
{
    static const char name[] = "cloudpickle"; /* also as a part of joblib or Ray */
    PyObject *globals = PyEval_GetGlobals();
    PyObject *module = globals != NULL ? PyDict_GetItemString(globals, "__name__") : NULL;
    const char *text = module != NULL && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : NULL;
    if (text == NULL) {
        PyErr_Clear();
        return false;
    }
    const char *last = strrchr(text, '.');
    return strcmp(last != NULL ? last + 1 : text, name) == 0;
}

/* isinstance() accepts a task as a function, since it can be used as one. Only cloudpickle would decompose it, as it
 * does for functions outside importable modules; for it the answer is no, so that it calls __reduce_ex__. */
static PyObject *class_of(PyObject *object, void *unused)
{
    PyObject *function = ((struct task *)object)->original;
    (void)unused;
    if (!PyFunction_Check(function) || cloudpickle_asks())
        return Py_NewRef((PyObject *)Py_TYPE(object));
    return Py_NewRef((PyObject *)&PyFunction_Type);
}

static PyObject *get_of_function(PyObject *object, void *name)
{
    return PyObject_GetAttrString(((struct task *)object)->original, name);
}

static int set_of_function(PyObject *object, PyObject *value, void *name)
{
    PyObject *function = ((struct task *)object)->original;
    return value != NULL ? PyObject_SetAttrString(function, name, value) : PyObject_DelAttrString(function, name);
}

#define OF_FUNCTION(name) {name, get_of_function, set_of_function, NULL, name}
static PyGetSetDef attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {"__class__", class_of, NULL, NULL, NULL},
    OF_FUNCTION("__annotations__"),
    OF_FUNCTION("__builtins__"),
    OF_FUNCTION("__closure__"),
    OF_FUNCTION("__code__"),
    OF_FUNCTION("__defaults__"),
    OF_FUNCTION("__globals__"),
    OF_FUNCTION("__kwdefaults__"),
    OF_FUNCTION("__name__"),
    OF_FUNCTION("__qualname__"),
    OF_FUNCTION("__type_params__"),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, create},
    {Py_tp_dealloc, deallocate},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_descr_get, bind},
    {Py_tp_repr, represent},
    {Py_tp_members, members},
    {Py_tp_getset, attributes},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec tprof_task_spec = {
    .name = "tprof._core.Task",
    .basicsize = sizeof(struct task),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
             Py_TPFLAGS_METHOD_DESCRIPTOR,
    .slots = slots,
};

PyObject *tprof_py_set_pause(PyObject *module, PyObject *share)
{
    (void)module;
    const double requested = PyFloat_AsDouble(share);
    if (requested == -1.0 && PyErr_Occurred())
        return NULL;
    if (!(requested >= 0 && requested <= 1000)) {
        PyErr_SetString(PyExc_ValueError, "a pause is from 0 to 1000 times as long as the task before it");
        return NULL;
    }
    __atomic_store_n(&tprof_pause_share, (uint32_t)(requested * 1000), __ATOMIC_RELAXED);
    Py_RETURN_NONE;
}
