/* Samples the Python stacks of this interpreter's threads into a file. Called by a thread of tprof's own
 * (tprof/session/stack_sampling.py), which holds Python's lock from the first frame to the last: no thread runs on and
 * no frame ends meanwhile, so nothing of the program's is ever let go here. Free-threaded builds have no such lock. */
#include "binding.h"

#ifndef Py_GIL_DISABLED

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "stacks.h"

#define MAX_DEPTH 1024
#define NO_THREAD 1ul /* no thread has this identifier */
#define CUT_KEY 1 /* no object has this address */
#define THREAD_CLOCK 6u /* CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED of the kernel's posix-timers.h */

struct stack_file {
    PyObject_HEAD
    struct tprof_stacks stacks;
    PyObject *codes; /* keeps the code objects whose addresses are keys */
    PyObject *own;
    pid_t owner; /* a forked child has no mapping of the file */
    bool open;
};

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "process", "own", NULL};
    PyObject *own, *path = NULL;
    unsigned int process;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&IU", names, PyUnicode_FSConverter, &path, &process, &own))
        return NULL;
    struct stack_file *self = (struct stack_file *)type->tp_alloc(type, 0);
    if (self == NULL)
        goto error;
    self->owner = getpid();
    self->own = Py_NewRef(own);
    self->codes = PyList_New(0);
    if (self->codes == NULL)
        goto error;
    errno = tprof_stacks_create(&self->stacks, PyBytes_AS_STRING(path), process);
    if (errno != 0) {
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, PyBytes_AS_STRING(path));
        goto error;
    }
    self->open = true;
    Py_DECREF(path);
    return (PyObject *)self;

error:
    Py_XDECREF(self);
    Py_DECREF(path);
    return NULL;
}

/* Its name, line and file, with line feeds between; NULL with an error set. */
static PyObject *text_of(const PyCodeObject *code)
{
    PyObject *text = PyUnicode_FromFormat("%U\n%d\n%U", code->co_qualname, code->co_firstlineno, code->co_filename);
    if (text == NULL)
        return NULL;
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
    Py_DECREF(text);
    return bytes;
}

static uint32_t add_function(struct stack_file *self, PyCodeObject *code)
{
    if (self->stacks.functions.count >= TPROF_MAX_FUNCTIONS)
        return TPROF_NO_STACK; /* its code object need not be kept */
    const Py_ssize_t is_own = PyUnicode_Tailmatch(code->co_filename, self->own, 0, PY_SSIZE_T_MAX, -1);
    PyObject *text = is_own < 0 ? NULL : text_of(code);
    uint32_t number = TPROF_NO_STACK;
    if (text != NULL && PyList_Append(self->codes, (PyObject *)code) == 0)
        number = tprof_stacks_add_function(&self->stacks, (uint64_t)(uintptr_t)code, PyBytes_AS_STRING(text),
                                           is_own ? TPROF_STACK_OWN : 0);
    Py_XDECREF(text);
    PyErr_Clear();
    return number;
}

/* A function without a number is left out of the stack. */
static uint32_t called(struct stack_file *self, uint32_t caller, PyCodeObject *code)
{
    uint32_t function = tprof_stacks_function(&self->stacks, (uint64_t)(uintptr_t)code);
    if (function == TPROF_NO_STACK)
        function = add_function(self, code);
    return function == TPROF_NO_STACK ? caller : tprof_stacks_call(&self->stacks, caller, function);
}

static uint32_t cut_stack(struct tprof_stacks *stacks)
{
    uint32_t function = tprof_stacks_function(stacks, CUT_KEY);
    if (function == TPROF_NO_STACK)
        function = tprof_stacks_add_function(stacks, CUT_KEY, "\n0\n", TPROF_STACK_CUT);
    return function == TPROF_NO_STACK ? function : tprof_stacks_call(stacks, TPROF_NO_STACK, function);
}

static void sample_thread(struct stack_file *self, PyThreadState *thread, uint64_t now_ns)
{
    PyCodeObject *codes[MAX_DEPTH];
    int depth = 0;
    PyFrameObject *frame = PyThreadState_GetFrame(thread);
    if (frame == NULL)
        return;
    while (frame != NULL && depth < MAX_DEPTH) {
        PyFrameObject *caller = PyFrame_GetBack(frame);
        codes[depth++] = PyFrame_GetCode(frame);
        Py_DECREF(frame);
        frame = caller;
    }
    uint32_t stack = frame == NULL ? TPROF_NO_STACK : cut_stack(&self->stacks);
    Py_XDECREF(frame);
    while (depth > 0) {
        stack = called(self, stack, codes[--depth]);
        Py_DECREF(codes[depth]);
    }
    const uint32_t tid = (uint32_t)thread->native_thread_id;
    const struct tprof_stack sample = {
        .t_ns = now_ns,
        .cpu_ns = tprof_clock_ns((clockid_t)((~tid << 3) | THREAD_CLOCK)),
        .tid = tid,
        .number = stack,
        .kind = TPROF_STACK_SAMPLE,
    };
    if (stack != TPROF_NO_STACK)
        tprof_stacks_sample(&self->stacks, &sample);
}

/* The newest thread state, whole. A thread of a C library makes its state without Python's lock, and links it before it
 * is whole (3.11), both under the lock of the list. PyThreadState_SetAsyncExc takes that lock: it waits for the rest. */
static PyThreadState *newest_thread(PyInterpreterState *interpreter)
{
    PyThreadState *thread = PyInterpreterState_ThreadHead(interpreter);
    PyThreadState_SetAsyncExc(NO_THREAD, NULL);
    return thread;
}

static PyObject *sample(PyObject *object, PyObject *unused)
{
    struct stack_file *self = (struct stack_file *)object;
    const uint64_t now_ns = tprof_now_ns(), begin_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    (void)unused;
    if (!self->open || self->owner != getpid())
        return PyLong_FromLong(0);
    /* A collection that a new frame object starts would run the program's finalizers on this thread. */
    const int collects = PyGC_Disable();
    PyThreadState *own = PyThreadState_Get();
    PyThreadState *thread = newest_thread(PyThreadState_GetInterpreter(own));
    for (; thread != NULL; thread = PyThreadState_Next(thread))
        if (thread != own)
            sample_thread(self, thread, now_ns);
    if (collects)
        PyGC_Enable();
    /* Not the time that passed: while another program has the processor, a sample costs nothing. */
    return PyLong_FromUnsignedLongLong(tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns);
}

static void end(struct stack_file *self)
{
    if (self->open)
        tprof_stacks_close(&self->stacks, self->owner == getpid());
    self->open = false;
}

static PyObject *close_file(PyObject *object, PyObject *unused)
{
    (void)unused;
    end((struct stack_file *)object);
    Py_RETURN_NONE;
}

static void free_file(PyObject *object)
{
    struct stack_file *self = (struct stack_file *)object;
    PyTypeObject *type = Py_TYPE(object);
    end(self);
    Py_XDECREF(self->codes);
    Py_XDECREF(self->own);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"sample", sample, METH_NOARGS, NULL},
    {"close", close_file, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, create},
    {Py_tp_dealloc, free_file},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec tprof_stack_file_spec = {
    .name = "tprof._core.StackFile",
    .basicsize = sizeof(struct stack_file),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

#else
typedef int tprof_no_stacks; /* a source holds something */
#endif
