/* Monitor: the callbacks of sys.monitoring (PEP 669, Python 3.12) for code objects that are tasks or that
 * tprof/launch/monitored.py observes. They run in the thread of the event, attached to Python. The mark of a code
 * object is in its co_extra, so it holds for every function with this code and is freed with the code. At its first
 * start, code without a mark is passed to Python once, unless its file is known to have no tasks.
 *
 * Each thread has a stack of open calls. Code and the interpreter's frame identify a call; the address of the frame
 * is unique to a generator during its lifetime. Events may be missing (another tool raised, Python 3.13.0 closes
 * generators silently), so the end of a call is searched down the stack, and stale entries are dropped when their frame
 * is reused. A suspended generator or coroutine is one instance, kept in the table of suspended ones (suspended.h). */
#include "binding.h"

#if PY_VERSION_HEX >= 0x030C0000
#include "recorder.h"
#include "suspended.h"

#include <pthread.h>
#include <stdlib.h>

/* Values in co_extra; from FIRST_TASK on the task's number is added. */
enum { UNMARKED, IGNORED, OBSERVED, UNDEFINED, FIRST_TASK };

struct monitor {
    PyObject_HEAD
    PyObject *define;  /* code -> number of its task; called before the first instance */
    PyObject *observe; /* (code, value): called when an observed code returns the value */
    PyObject *classify; /* code: called at its first start; may mark it */
    PyObject *files;   /* files without tasks, as keys of a dict */
    PyObject *disable; /* sys.monitoring.DISABLE: no more start events of this code until events are restarted */
    Py_ssize_t extra_index;
};

struct call {
    const void *frame, *code;
    struct tprof_frame entered;
    uint64_t began_ns; /* 0: no pause follows */
    struct tprof_suspended *generator;
};

struct stack {
    struct call *calls;
    size_t depth, capacity;
};

static _Thread_local struct stack *own_stack;
static pthread_key_t stack_key;

static const void *running_frame(void)
{
#if PY_VERSION_HEX < 0x030D0000
    return PyThreadState_Get()->cframe->current_frame;
#elif PY_VERSION_HEX < 0x030F0000
    return PyThreadState_Get()->current_frame;
#else
    return PyEval_GetFrame(); /* a generator's frame object also stays the same once it exists */
#endif
}

static void free_stack(void *object)
{
    struct stack *stack = object;
    for (size_t i = 0; i < stack->depth; i++)
        free(stack->calls[i].generator);
    free(stack->calls);
    free(stack);
    own_stack = NULL;
}

static int initialise_error;

static void initialise(void)
{
    initialise_error = pthread_key_create(&stack_key, free_stack);
}

static struct stack *make_stack(void)
{
    own_stack = calloc(1, sizeof *own_stack);
    if (own_stack != NULL)
        (void)pthread_setspecific(stack_key, own_stack);
    return own_stack;
}

/* Space for one more call, or NULL. */
static struct call *reserve(struct stack *stack)
{
    if (stack->depth == stack->capacity) {
        const size_t capacity = stack->capacity == 0 ? 64 : stack->capacity * 2;
        struct call *calls = realloc(stack->calls, capacity * sizeof *calls);
        if (calls == NULL)
            return NULL;
        stack->calls = calls;
        stack->capacity = capacity;
    }
    return &stack->calls[stack->depth];
}

static bool take_out(const PyObject *code, struct call *taken)
{
    struct stack *stack = own_stack;
    const void *frame = running_frame();
    for (size_t i = stack->depth; i-- > 0;) {
        if (stack->calls[i].frame != frame || stack->calls[i].code != (const void *)code)
            continue;
        *taken = stack->calls[i];
        stack->depth--;
        memmove(&stack->calls[i], &stack->calls[i + 1], (stack->depth - i) * sizeof *taken);
        return true;
    }
    return false;
}

/* Why the frame runs. */
enum entry { STARTS, RESUMES, THROWN };

/* Return the suspended call of the running frame, or a new one without an instance. NULL: no memory, or an exception
 * was thrown into a generator that has not begun, which will not run. */
static struct tprof_suspended *generator_of(const void *frame, const PyObject *code, enum entry entry, long offset)
{
    struct tprof_suspended *generator = tprof_suspended_take(frame);
    const bool known = generator != NULL && generator->code == (const void *)code && entry != STARTS;
    /* A silently closed generator may have left its frame to a new one, whose instruction is before any yield. */
    if (known && (entry != THROWN || offset + 2 >= generator->offset))
        return generator;
    if (entry == THROWN) {
        free(generator);
        return NULL;
    }
    if (generator == NULL && (generator = malloc(sizeof *generator)) == NULL)
        return NULL;
    *generator = (struct tprof_suspended){.frame = frame, .code = code};
    return generator;
}

static bool enter(struct call *call, uint32_t number)
{
    struct tprof_suspended *generator = call->generator;
    const uint64_t now = __atomic_load_n(&tprof_generation, __ATOMIC_ACQUIRE);
    if (generator != NULL && generator->instance != 0 && generator->generation == now)
        return tprof_continue(&call->entered, &generator->at);
    if (!tprof_enter(&call->entered, number, 0, TPROF_START))
        return false;
    if (generator != NULL) {
        generator->generation = call->entered.generation;
        generator->instance = call->entered.instance;
        tprof_step_began(&generator->at, &call->entered);
    }
    return true;
}

static void begin(PyObject *code, uint32_t number, enum entry entry, long offset)
{
    struct call call = {.frame = running_frame(), .code = code};
    struct stack *stack = own_stack != NULL ? own_stack : make_stack();
    if (stack == NULL)
        return;
    while (stack->depth > 0 && stack->calls[stack->depth - 1].frame == call.frame)
        free(stack->calls[--stack->depth].generator); /* its end had no event */
    struct call *slot = reserve(stack);
    if (slot == NULL)
        return;
    if (((PyCodeObject *)code)->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE)) {
        call.generator = generator_of(call.frame, code, entry, offset);
        if (call.generator == NULL)
            return;
    } else if (__atomic_load_n(&tprof_pause_share, __ATOMIC_RELAXED) != 0) {
        call.began_ns = tprof_now_ns();
    }
    if (!enter(&call, number)) {
        free(call.generator);
        return;
    }
    *slot = call;
    stack->depth++;
}

static uintptr_t mark_of(const struct monitor *self, PyObject *code)
{
    void *extra = NULL;
    if (PyUnstable_Code_GetExtra(code, self->extra_index, &extra) < 0)
        PyErr_Clear();
    return (uintptr_t)extra;
}

/* Neither other tools nor this one get events of tprof's own code. */
static PyObject *call_unseen(PyObject *function, PyObject *code, PyObject *value)
{
    PyThreadState *thread = PyThreadState_Get();
    PyThreadState_EnterTracing(thread);
    PyObject *result = PyObject_CallFunctionObjArgs(function, code, value, NULL);
    PyThreadState_LeaveTracing(thread);
    return result;
}

/* Define the task and return its mark. If Python cannot store the mark, the next call tries again. Returns 0 with the
 * exception of a signal handler. */
static uintptr_t define(const struct monitor *self, PyObject *code)
{
    PyObject *defined = call_unseen(self->define, code, NULL);
    const unsigned long number = defined != NULL ? PyLong_AsUnsignedLong(defined) : 0;
    Py_XDECREF(defined);
    if (PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_RecursionError) || PyErr_ExceptionMatches(PyExc_MemoryError))
            PyErr_Clear();
        return 0;
    }
    const uintptr_t mark = FIRST_TASK + (uintptr_t)number;
    return PyUnstable_Code_SetExtra(code, self->extra_index, (void *)mark) == 0 ? mark : 0;
}

static PyObject *observe(const struct monitor *self, PyObject *code, PyObject *value)
{
    PyObject *result = call_unseen(self->observe, code, value);
    if (result == NULL)
        return NULL;
    Py_DECREF(result);
    Py_RETURN_NONE;
}

static PyObject *begin_marked(const struct monitor *self, PyObject *const *args, uintptr_t mark, enum entry entry)
{
    if (mark < UNDEFINED || !tprof_recording())
        Py_RETURN_NONE;
    if (mark == UNDEFINED && (mark = define(self, args[0])) == 0)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    begin(args[0], (uint32_t)(mark - FIRST_TASK), entry, PyLong_AsLong(args[1]));
    Py_RETURN_NONE;
}

/* Return the mark of a new code object, or -1 with an exception. */
static intptr_t classify(const struct monitor *self, PyObject *code)
{
    const int known = PyDict_Contains(self->files, ((PyCodeObject *)code)->co_filename);
    if (known != 0)
        return known > 0 ? IGNORED : -1;
    PyObject *result = call_unseen(self->classify, code, NULL);
    if (result == NULL)
        return -1;
    Py_DECREF(result);
    return (intptr_t)mark_of(self, code);
}

static void end(PyObject *code, uint8_t flags)
{
    struct call call;
    if (!take_out(code, &call))
        return;
    tprof_leave(&call.entered, TPROF_FINISH, flags);
    free(call.generator);
    if (call.began_ns != 0)
        tprof_pause_after(&call.entered, call.began_ns);
}

static bool may_be_open(const struct monitor *self, PyObject *code)
{
    return own_stack != NULL && own_stack->depth > 0 && mark_of(self, code) >= UNDEFINED;
}

static PyObject *on_start(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    const struct monitor *self = (struct monitor *)object;
    (void)count;
    intptr_t mark = (intptr_t)mark_of(self, args[0]);
    if (mark == UNMARKED && (mark = classify(self, args[0])) < 0)
        return NULL;
    return mark < UNDEFINED ? Py_NewRef(self->disable) : begin_marked(self, args, (uintptr_t)mark, STARTS);
}

static PyObject *on_resume(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    const struct monitor *self = (struct monitor *)object;
    (void)count;
    return begin_marked(self, args, mark_of(self, args[0]), RESUMES);
}

static PyObject *on_throw(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    const struct monitor *self = (struct monitor *)object;
    (void)count;
    return begin_marked(self, args, mark_of(self, args[0]), THROWN);
}

static PyObject *on_yield(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct call call;
    (void)count;
    if (!may_be_open((struct monitor *)self, args[0]) || !take_out(args[0], &call))
        Py_RETURN_NONE;
    if (tprof_frame_holds(&call.entered))
        tprof_suspend(&call.entered, &call.generator->at);
    call.generator->offset = PyLong_AsLong(args[1]);
    tprof_suspended_put(call.generator);
    Py_RETURN_NONE;
}

static PyObject *on_return(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    const struct monitor *self = (struct monitor *)object;
    (void)count;
    const uintptr_t mark = mark_of(self, args[0]);
    if (mark == OBSERVED)
        return observe(self, args[0], args[2]);
    if (may_be_open(self, args[0]))
        end(args[0], 0);
    Py_RETURN_NONE;
}

static PyObject *on_unwind(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)count;
    if (!may_be_open((struct monitor *)self, args[0]))
        Py_RETURN_NONE;
    const bool generator = ((PyCodeObject *)args[0])->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
    const bool closed = generator && PyErr_GivenExceptionMatches(args[2], PyExc_GeneratorExit);
    end(args[0], closed ? 0 : TPROF_FAILED);
    Py_RETURN_NONE;
}

static PyObject *mark(PyObject *object, PyObject *args)
{
    PyObject *code;
    unsigned long mark;
    if (!PyArg_ParseTuple(args, "O!k", &PyCode_Type, &code, &mark))
        return NULL;
    if (PyUnstable_Code_SetExtra(code, ((struct monitor *)object)->extra_index, (void *)(uintptr_t)mark) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *marked(PyObject *object, PyObject *code)
{
    if (!PyCode_Check(code)) {
        PyErr_SetString(PyExc_TypeError, "only code objects are marked");
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(mark_of((struct monitor *)object, code));
}

static PyObject *unseen(PyObject *object, PyObject *args)
{
    PyObject *function, *first, *second = NULL;
    (void)object;
    if (!PyArg_ParseTuple(args, "OO|O", &function, &first, &second))
        return NULL;
    return call_unseen(function, first, second);
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"define", "observe", "classify", "files", "disable", NULL};
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    PyObject *define, *observe, *classify, *files, *disable;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOO!O", names, &define, &observe, &classify, &PyDict_Type, &files,
                                     &disable))
        return NULL;
    pthread_once(&once, initialise);
    const Py_ssize_t extra_index = PyUnstable_Eval_RequestCodeExtraIndex(NULL);
    if (initialise_error != 0 || extra_index < 0) {
        PyErr_SetString(PyExc_RuntimeError, "neither thread keys nor places in code objects are left");
        return NULL;
    }
    struct monitor *self = (struct monitor *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->define = Py_NewRef(define);
    self->observe = Py_NewRef(observe);
    self->classify = Py_NewRef(classify);
    self->files = Py_NewRef(files);
    self->disable = Py_NewRef(disable);
    self->extra_index = extra_index;
    return (PyObject *)self;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    const struct monitor *self = (struct monitor *)object;
    Py_VISIT(self->define);
    Py_VISIT(self->observe);
    Py_VISIT(self->classify);
    Py_VISIT(self->files);
    Py_VISIT(self->disable);
    return 0;
}

static void deallocate(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    struct monitor *self = (struct monitor *)object;
    Py_CLEAR(self->define);
    Py_CLEAR(self->observe);
    Py_CLEAR(self->classify);
    Py_CLEAR(self->files);
    Py_CLEAR(self->disable);
    type->tp_free(object);
    Py_DECREF(type);
}

#define CALLBACK(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}
static PyMethodDef methods[] = {
    CALLBACK(on_start),
    CALLBACK(on_resume),
    CALLBACK(on_throw),
    CALLBACK(on_yield),
    CALLBACK(on_return),
    CALLBACK(on_unwind),
    {"mark", mark, METH_VARARGS, NULL},
    {"marked", marked, METH_O, NULL},
    {"unseen", unseen, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, create}, {Py_tp_dealloc, deallocate}, {Py_tp_traverse, traverse}, {Py_tp_methods, methods}, {0, NULL},
};

PyType_Spec tprof_monitor_spec = {
    .name = "tprof._core.Monitor",
    .basicsize = sizeof(struct monitor),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
#endif
