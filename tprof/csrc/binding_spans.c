/* Spans of OpenTelemetry as instances. A span runs on a thread while it is the current one there: while it is attached,
 * and the thread is in a context (contextvars) in which it is. So its instance is resumed and suspended whenever the
 * current span of a thread may have changed: after each attach and detach, and where a thread enters a context and leaves
 * it (binding_contexts.c). Each time the current span is asked of the context, and nothing is inferred from the order of
 * calls, which programs do not keep.
 *
 * All functions run in the thread of the event, attached to Python. What a thread's spans need is in its own `place`. */
#include "binding_spans.h"

#include "recorder.h"

#include <structmember.h>

#if PY_VERSION_HEX < 0x030D0000
#define PyObject_GetOptionalAttr _PyObject_LookupAttr
#endif

struct running {
    uint64_t instance;
    uint32_t task;
};

struct span {
    PyObject_HEAD
    uint32_t number;
    bool ended;
    uint64_t generation; /* the recording of this instance; 0: none yet */
    uint64_t instance;
    uint64_t cpu_ns; /* in which it was current */
    struct running outer; /* what ran where it was attached */
    uint64_t outer_span; /* the instance of the span that was current there; 0: none */
};

/* A context that the thread is in, and what ran when it was entered. */
struct entry {
    const void *context;
    struct span *span;
    struct running before;
};

struct place {
    uint64_t generation;
    struct span *current;
    uint64_t since_cpu_ns; /* the thread's CPU time when it became the current one */
    struct entry *entries;
    size_t depth, capacity;
};

struct tprof_span_source tprof_span_source;
static _Thread_local struct place *own;

static void forget(struct place *place)
{
    Py_CLEAR(place->current);
    while (place->depth > 0)
        Py_CLEAR(place->entries[--place->depth].span);
}

/* Called with the thread's last Python state; in a forked child by another thread. */
static void free_place(PyObject *capsule)
{
    struct place *place = PyCapsule_GetPointer(capsule, NULL);
    if (own == place)
        own = NULL;
    forget(place);
    PyMem_Free(place->entries);
    PyMem_Free(place);
}

static struct place *make_place(void)
{
    PyObject *dict = PyThreadState_GetDict();
    struct place *place = dict != NULL ? PyMem_Calloc(1, sizeof *place) : NULL;
    if (place == NULL)
        return NULL;
    PyObject *capsule = PyCapsule_New(place, NULL, free_place);
    if (capsule == NULL) {
        PyErr_Clear();
        PyMem_Free(place);
        return NULL;
    }
    if (PyDict_SetItemString(dict, "tprof.spans", capsule) == 0)
        own = place;
    else
        PyErr_Clear();
    Py_DECREF(capsule);
    return own;
}

/* NULL: nothing is recorded, or there is no memory. */
static struct place *place_in_recording(void)
{
    const uint64_t generation = __atomic_load_n(&tprof_generation, __ATOMIC_ACQUIRE);
    if (generation == 0 || PyInterpreterState_Get() != tprof_span_source.interpreter)
        return NULL;
    struct place *place = own != NULL ? own : make_place();
    if (place != NULL && place->generation != generation) {
        forget(place);
        place->generation = generation;
    }
    return place;
}

static struct tprof_thread *thread_of(const struct place *place)
{
    struct tprof_thread *thread = tprof_current_thread(place->generation);
    return thread != NULL && thread->generation == place->generation ? thread : NULL;
}

static struct span *taken(PyObject *state)
{
    struct span *span = NULL;
    if (state != NULL && Py_IS_TYPE(state, tprof_span_source.type) && !((struct span *)state)->ended)
        span = (struct span *)Py_NewRef(state);
    Py_XDECREF(state);
    return span;
}

/* The span that is current in the thread's context: a new reference, or NULL. */
static struct span *current_span(void)
{
    PyObject *context = NULL, *state = NULL;
    if (PyContextVar_Get(tprof_span_source.variable, NULL, &context) < 0)
        PyErr_Clear();
    PyObject *span = NULL;
    if (context != NULL && PyDict_Check(context))
        span = Py_XNewRef(PyDict_GetItemWithError(context, tprof_span_source.key));
    Py_XDECREF(context);
    if (span == NULL) {
        PyErr_Clear();
        return NULL;
    }
    if (PyObject_GetOptionalAttr(span, tprof_span_source.attribute, &state) < 0)
        PyErr_Clear();
    Py_DECREF(span);
    return taken(state);
}

/* From now on the thread runs this instance, and the span is the current one. */
static void run(struct place *place, struct tprof_thread *thread, struct span *span, struct running next, uint8_t kind,
                uint8_t flags)
{
    struct span *before = place->current;
    const bool runs_already = thread->instance == next.instance;
    place->current = (struct span *)Py_XNewRef((PyObject *)span);
    thread->instance = next.instance;
    thread->task = next.task;
    thread->span = span != NULL ? span->instance : 0;
    if (!runs_already)
        tprof_sample(thread, kind, flags);
    const uint64_t cpu_ns = thread->counters.last_cpu_ns;
    if (before != NULL && cpu_ns > place->since_cpu_ns)
        __atomic_add_fetch(&before->cpu_ns, cpu_ns - place->since_cpu_ns, __ATOMIC_RELAXED);
    place->since_cpu_ns = cpu_ns;
    Py_XDECREF(before);
}

static void run_span(struct place *place, struct tprof_thread *thread, struct span *span)
{
    bool begins;
    Py_BEGIN_CRITICAL_SECTION((PyObject *)span);
    begins = span->generation != thread->generation;
    if (begins) {
        span->generation = thread->generation;
        span->instance = thread->next_instance++;
        span->cpu_ns = 0;
    }
    Py_END_CRITICAL_SECTION();
    run(place, thread, span, (struct running){span->instance, span->number}, begins ? TPROF_START : TPROF_RESUME, 0);
}

/* What ran where the thread entered its context. */
static struct running ran_outside(const struct place *place)
{
    if (place->depth == 0)
        return (struct running){0, TPROF_NO_TASK};
    return place->entries[place->depth - 1].before;
}

/* The current span is no longer `place->current` but this one, or none, in which it was attached. */
static void go_back(struct place *place, struct tprof_thread *thread, struct span *span)
{
    struct span *left = place->current;
    const uint64_t back = span != NULL && span->generation == thread->generation ? span->instance : 0;
    const bool covered = left != NULL && thread->instance != left->instance;
    struct running outer = {0, TPROF_NO_TASK};
    uint64_t outer_span = 0;
    if (left != NULL) {
        Py_BEGIN_CRITICAL_SECTION((PyObject *)left);
        outer = left->outer;
        outer_span = left->outer_span;
        Py_END_CRITICAL_SECTION();
    }
    if (covered || (left == NULL && back != 0 && thread->span == back)) {
        /* A task inside runs still, or the span that was left has ended before. */
        run(place, thread, span, (struct running){thread->instance, thread->task}, TPROF_RESUME, 0);
    } else if (left != NULL && outer_span == back) {
        run(place, thread, span, outer, TPROF_SUSPEND, 0);
    } else if (span != NULL) {
        run_span(place, thread, span);
    } else {
        run(place, thread, NULL, ran_outside(place), TPROF_SUSPEND, 0);
    }
}

void tprof_span_attached(void)
{
    struct place *place = place_in_recording();
    if (place == NULL)
        return;
    struct span *span = current_span();
    struct tprof_thread *thread = span != place->current ? thread_of(place) : NULL;
    if (thread != NULL && span == NULL) {
        go_back(place, thread, NULL);
    } else if (thread != NULL) {
        Py_BEGIN_CRITICAL_SECTION((PyObject *)span);
        span->outer = (struct running){thread->instance, thread->task};
        span->outer_span = thread->span;
        Py_END_CRITICAL_SECTION();
        run_span(place, thread, span);
    }
    Py_XDECREF(span);
}

void tprof_span_detached(void)
{
    struct place *place = place_in_recording();
    if (place == NULL)
        return;
    struct span *span = current_span();
    struct tprof_thread *thread = span != place->current ? thread_of(place) : NULL;
    if (thread != NULL)
        go_back(place, thread, span);
    Py_XDECREF(span);
}

static bool reserve(struct place *place)
{
    if (place->depth < place->capacity)
        return true;
    const size_t capacity = place->capacity * 2 + 8;
    struct entry *entries = PyMem_Realloc(place->entries, capacity * sizeof *entries);
    if (entries == NULL)
        return false;
    place->entries = entries;
    place->capacity = capacity;
    return true;
}

/* A thread without spans does not join the recording by this. */
void tprof_span_context_entered(const PyObject *context)
{
    struct place *place = place_in_recording();
    if (place == NULL || !reserve(place))
        return;
    struct span *span = current_span();
    struct tprof_thread *thread = tprof_self;
    if (span != NULL)
        thread = thread_of(place);
    else if (thread != NULL && thread->generation != place->generation)
        thread = NULL;
    struct entry *entry = &place->entries[place->depth++];
    *entry = (struct entry){.context = context, .before = {0, TPROF_NO_TASK}};
    entry->span = (struct span *)Py_XNewRef((PyObject *)place->current);
    if (thread != NULL)
        entry->before = (struct running){thread->instance, thread->task};
    if (thread != NULL && span != place->current) {
        if (span != NULL)
            run_span(place, thread, span);
        else
            go_back(place, thread, NULL);
    }
    Py_XDECREF(span);
}

/* An exception may be set: this asks nothing of Python. */
void tprof_span_context_left(const PyObject *context)
{
    struct place *place = place_in_recording();
    if (place == NULL || place->depth == 0 || place->entries[place->depth - 1].context != context)
        return;
    struct entry entry = place->entries[--place->depth];
    struct tprof_thread *thread = entry.span != place->current ? tprof_self : NULL;
    if (thread != NULL && thread->generation == place->generation)
        run(place, thread, entry.span, entry.before, TPROF_SUSPEND, 0);
    Py_XDECREF(entry.span);
}

static void finish_here(struct place *place, struct tprof_thread *thread, const struct span *span, uint8_t flags)
{
    const struct running now = {thread->instance, thread->task};
    if (place->current == span && thread->instance == span->instance) {
        run(place, thread, NULL, span->outer, TPROF_FINISH, flags);
        thread->span = span->outer_span;
    } else if (flags != 0) {
        /* It has been suspended, and a failure is said by what follows on its own samples. */
        thread->instance = span->instance;
        thread->task = span->number;
        tprof_sample(thread, TPROF_RESUME, 0);
        thread->instance = now.instance;
        thread->task = now.task;
        tprof_sample(thread, TPROF_FINISH, flags);
    }
}

static PyObject *finish(PyObject *object, PyObject *failed)
{
    struct span *span = (struct span *)object;
    struct place *place = place_in_recording();
    span->ended = true;
    if (place == NULL || span->generation != place->generation)
        Py_RETURN_NONE;
    struct tprof_thread *thread = thread_of(place);
    Py_INCREF(span);
    if (thread != NULL)
        finish_here(place, thread, span, failed == Py_True ? TPROF_FAILED : 0);
    Py_DECREF(span);
    Py_RETURN_NONE;
}

/* Its next instance is of another task: the span got another name. */
static PyObject *rename_to(PyObject *object, PyObject *number)
{
    struct span *span = (struct span *)object;
    const unsigned long task = PyLong_AsUnsignedLong(number);
    if (task == (unsigned long)-1 && PyErr_Occurred())
        return NULL;
    struct place *place = span->number != task ? place_in_recording() : NULL;
    span->number = (uint32_t)task;
    struct tprof_thread *thread = place != NULL && span->generation == place->generation ? thread_of(place) : NULL;
    if (thread == NULL)
        Py_RETURN_NONE;
    const uint64_t cpu_ns = span->cpu_ns;
    span->generation = 0;
    if (place->current == span && thread->instance == span->instance)
        run_span(place, thread, span);
    span->cpu_ns = cpu_ns;
    Py_RETURN_NONE;
}

/* What it took on this thread since its last sample counts too. */
static PyObject *cpu_s(PyObject *object, PyObject *unused)
{
    const struct span *span = (struct span *)object;
    const struct place *place = own;
    uint64_t cpu_ns = __atomic_load_n(&span->cpu_ns, __ATOMIC_RELAXED);
    (void)unused;
    if (place != NULL && place->current == span) {
        const uint64_t now_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        cpu_ns += now_ns > place->since_cpu_ns ? now_ns - place->since_cpu_ns : 0;
    }
    return PyFloat_FromDouble((double)cpu_ns * 1e-9);
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"number", NULL};
    unsigned int number;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "I", names, &number))
        return NULL;
    struct span *self = (struct span *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->number = number;
    return (PyObject *)self;
}

static void deallocate(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"finish", finish, METH_O, NULL},
    {"rename", rename_to, METH_O, NULL},
    {"cpu_s", cpu_s, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"number", T_UINT, offsetof(struct span, number), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, create}, {Py_tp_dealloc, deallocate}, {Py_tp_methods, methods}, {Py_tp_members, members}, {0, NULL},
};

PyType_Spec tprof_span_spec = {
    .name = "tprof._core.Span",
    .basicsize = sizeof(struct span),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};
