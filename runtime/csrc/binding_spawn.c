/* Turns a call of a task into a work in the graph. The calling thread does all of it. If it is a worker that runs a
 * task, the new work is a child of that task. */
#include "binding.h"

#include <stdlib.h>

/* A task's declarations of its data, as packed by tprof/declarations.py. */
struct clauses {
    const unsigned char *modes; /* one for each parameter */
    Py_ssize_t count;
    PyObject *names, *defaults; /* tuples, one entry for each parameter; Ellipsis: no default */
    Py_ssize_t positional;      /* how many parameters may be positional */
    int rest;                   /* mode of further positional arguments */
    PyObject *priority;
};

static int unpack(PyObject *access, struct clauses *clauses)
{
    const char *modes;
    return PyArg_ParseTuple(access, "y#O!O!niO", &modes, &clauses->count, &PyTuple_Type, &clauses->names, &PyTuple_Type,
                            &clauses->defaults, &clauses->positional, &clauses->rest, &clauses->priority)
               ? (clauses->modes = (const unsigned char *)modes, 0)
               : -1;
}

static Py_ssize_t find_name(const struct clauses *clauses, PyObject *name)
{
    for (Py_ssize_t i = 0; i < clauses->count; i++)
        if (PyTuple_GET_ITEM(clauses->names, i) == name)
            return i;
    for (Py_ssize_t i = 0; i < clauses->count; i++)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(clauses->names, i), name) == 0)
            return i;
    return -1;
}

struct reader {
    const struct clauses *clauses;
    struct reading *reading;
    PyObject *callable;
};

static PyObject *name_of(PyObject *callable)
{
    struct tprof_task_view view;
    PyObject *name = tprof_api->view(callable, &view) ? PyObject_GetAttrString(view.function, "__qualname__") : NULL;
    if (name != NULL)
        return name;
    PyErr_Clear();
    return PyObject_Repr(callable);
}

static const char no_data[] =
    "that is neither an array nor hashable; pass an array, a list of arrays or a hashable handle";
static const char too_large[] = "its strides lead out of memory; pass only the part that the task touches";

static void refuse(const struct reader *reader, PyObject *object, Py_ssize_t parameter, PyObject *error,
                   const char *why)
{
    PyErr_Clear();
    PyObject *names = reader->clauses->names;
    PyObject *task = name_of(reader->callable);
    PyObject *which = parameter < 0 ? PyUnicode_FromString("one of its further arguments")
                                    : PyUnicode_FromFormat("its argument %R", PyTuple_GET_ITEM(names, parameter));
    if (task != NULL && which != NULL)
        PyErr_Format(error, "task %U declares access to %U, which got a %.100s: %s", task, which,
                     Py_TYPE(object)->tp_name, why);
    Py_XDECREF(task);
    Py_XDECREF(which);
}

static int add(const struct reader *reader, PyObject *object, int mode, Py_ssize_t parameter)
{
    const int outcome = mode == 0 ? 0 : tprof_data_add(reader->reading, object, (enum mode)mode);
    if (outcome == 0)
        return 0;
    if (outcome > 0)
        refuse(reader, object, parameter, PyExc_ValueError, too_large);
    else if (PyErr_ExceptionMatches(PyExc_TypeError))
        refuse(reader, object, parameter, PyExc_TypeError, no_data);
    return -1;
}

static int add_positional(const struct reader *reader, PyObject *const *args, Py_ssize_t count)
{
    const struct clauses *clauses = reader->clauses;
    for (Py_ssize_t i = 0; i < count; i++)
        if (add(reader, args[i], i < clauses->positional ? clauses->modes[i] : clauses->rest,
                i < clauses->positional ? i : -1) < 0)
            return -1;
    return 0;
}

static int add_named(const struct reader *reader, PyObject *const *values, PyObject *names, uint64_t *given)
{
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++) {
        const Py_ssize_t parameter = find_name(reader->clauses, PyTuple_GET_ITEM(names, i));
        if (parameter < 0)
            continue;
        *given |= parameter < 64 ? UINT64_C(1) << parameter : 0;
        if (add(reader, values[i], reader->clauses->modes[parameter], parameter) < 0)
            return -1;
    }
    return 0;
}

static int read_data(const struct reader *reader, PyObject *const *args, Py_ssize_t positional, PyObject *names)
{
    uint64_t given = 0;
    if (add_positional(reader, args, positional) < 0 || add_named(reader, args + positional, names, &given) < 0)
        return -1;
    if (positional > reader->clauses->positional)
        positional = reader->clauses->positional;
    for (Py_ssize_t i = positional; i < reader->clauses->count && i < 64; i++) {
        PyObject *value = PyTuple_GET_ITEM(reader->clauses->defaults, i);
        if ((given >> i & 1) == 0 && value != Py_Ellipsis && add(reader, value, reader->clauses->modes[i], i) < 0)
            return -1;
    }
    return 0;
}

/* The level of a priority: a number, or a function of the arguments. Returns -1 with an exception set. */
static int level_of(PyObject *priority, PyObject *const *args, size_t count, PyObject *names)
{
    PyObject *number =
        PyCallable_Check(priority) ? PyObject_Vectorcall(priority, args, count, names) : Py_NewRef(priority);
    const long value = number == NULL ? -1 : PyLong_AsLong(number);
    Py_XDECREF(number);
    if (value == -1 && PyErr_Occurred())
        return -1;
    if (value < -TPROF_LEVEL_OF_ZERO || value >= TPROF_LEVELS - TPROF_LEVEL_OF_ZERO) {
        PyErr_Format(PyExc_ValueError, "a priority is a whole number from %d to %d, got %ld", -TPROF_LEVEL_OF_ZERO,
                     TPROF_LEVELS - TPROF_LEVEL_OF_ZERO - 1, value);
        return -1;
    }
    return (int)value + TPROF_LEVEL_OF_ZERO;
}

/* Find the group whose block the spawner is in. A worker that waits in such a block may run another task on the same
 * stack; what that task spawns does not belong to the group. */
static int find_group(struct work *work)
{
    PyObject *value = NULL;
    if (tprof_open_groups(work->scheduler) == 0)
        return 0;
    if (PyContextVar_Get(work->scheduler->group_variable, NULL, &value) < 0)
        return -1;
    if (value != NULL && PyObject_TypeCheck(value, tprof_group_type))
        work->group = tprof_ref(tprof_open_group(tprof_as_group(value), work->scheduler, work->parent));
    Py_XDECREF(value);
    return 0;
}

static PyObject *pack(PyObject *const *args, Py_ssize_t count)
{
    PyObject *packed = PyTuple_New(count);
    for (Py_ssize_t i = 0; packed != NULL && i < count; i++)
        PyTuple_SET_ITEM(packed, i, Py_NewRef(args[i]));
    return packed;
}

static struct work *make_work(struct scheduler *scheduler, PyObject *callable, PyObject *const *args, size_t count,
                              PyObject *names)
{
    const Py_ssize_t passed = (Py_ssize_t)count + (names == NULL ? 0 : PyTuple_GET_SIZE(names));
    struct thread *thread = tprof_current_thread;
    struct tprof_task_view view = {.number = TPROF_NO_TASK};
    PyObject *future = scheduler->future_type->tp_alloc(scheduler->future_type, 0);
    if (future == NULL)
        return NULL;
    struct work *work = tprof_as_work(future);
    work->scheduler = tprof_ref(scheduler);
    work->callable = Py_NewRef(callable);
    work->names = Py_XNewRef(names);
    work->args = pack(args, passed);
    if (thread != NULL && thread->scheduler == scheduler && thread->work != NULL) {
        work->parent = tprof_ref(thread->work);
        work->depth = work->parent->depth + 1;
    }
    if (tprof_api->view(callable, &view))
        work->instance = tprof_api->number(&work->spawner);
    work->task = view.number;
    if (work->args == NULL || find_group(work) < 0) {
        Py_DECREF(future);
        return NULL;
    }
    return work;
}

/* Add to the kept graph: number, callable, the spawner's number, the predecessors' numbers. */
static int keep_node(struct scheduler *scheduler, const struct work *work, const struct deferred *deferred)
{
    PyObject *edges = PyTuple_New((Py_ssize_t)deferred->edge_count);
    for (size_t i = 0; edges != NULL && i < deferred->edge_count; i++)
        PyTuple_SET_ITEM(edges, (Py_ssize_t)i, PyLong_FromUnsignedLongLong(deferred->edges[i]));
    const unsigned long long parent = work->parent != NULL ? work->parent->number : 0;
    PyObject *node =
        edges == NULL ? NULL : Py_BuildValue("(KOKN)", (unsigned long long)work->number, work->callable, parent, edges);
    const int failed = node == NULL ? -1 : PyList_Append(scheduler->graph, node);
    Py_XDECREF(node);
    return failed;
}

/* Returns 1 if the runtime has ended, -1 with an exception set. */
static int enter(struct scheduler *scheduler, struct work *work, const struct reading *reading,
                 const struct needed *needed)
{
    struct deferred deferred = {.edges_wanted = scheduler->graph != NULL};
    if (tprof_node_make(work, reading->count) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    atomic_store_explicit(&work->unmet, (uint32_t)(needed->all - needed->ours), memory_order_relaxed);
    tprof_ref(work);
    int failed = tprof_graph_enter(work, reading->data, needed->works, needed->ours, &deferred);
    tprof_graph_settle(scheduler, false, &deferred);
    tprof_write_events(&deferred);
    if (failed < 0)
        PyErr_NoMemory();
    else if (!failed && scheduler->graph != NULL)
        failed = keep_node(scheduler, work, &deferred);
    if (!failed)
        failed = tprof_needed_expect(work, needed);
    tprof_unref(work);
    tprof_run_deferred(scheduler, &deferred);
    return failed;
}

static int enter_with_futures(struct scheduler *scheduler, struct work *work, const struct reading *reading)
{
    struct needed needed;
    const int outcome = tprof_needed_find(&needed, work) < 0 ? -1 : enter(scheduler, work, reading, &needed);
    tprof_needed_free(&needed);
    return outcome;
}

/* Make a spawner with too many unfinished works wait until some have ended; a worker runs some of them meanwhile. */
static int throttle(struct scheduler *scheduler, struct work *parent)
{
    struct domain *domain = parent == NULL ? &scheduler->root : parent->children;
    if (domain == NULL || scheduler->most_unfinished == 0 ||
        tprof_latch_count(&domain->unfinished) < scheduler->most_unfinished)
        return 0;
    return tprof_wait(scheduler, &domain->unfinished, scheduler->most_unfinished - (scheduler->most_unfinished + 3) / 4,
                      NULL, -1);
}

/* Returns the work, or NULL with an exception set, or NULL without one if the runtime has ended. */
static PyObject *submit(struct scheduler *scheduler, PyObject *callable, PyObject *access, PyObject *const *args,
                        size_t count, PyObject *names)
{
    struct clauses clauses;
    struct reading reading;
    const struct thread *thread = tprof_current_thread;
    struct work *parent = thread == NULL || thread->scheduler != scheduler ? NULL : thread->work;
    if (unpack(access, &clauses) < 0 || throttle(scheduler, parent) < 0)
        return NULL;
    const int level = level_of(clauses.priority, args, count, names);
    struct work *work = level < 0 ? NULL : make_work(scheduler, callable, args, count, names);
    if (work == NULL)
        return NULL;
    work->level = (uint8_t)level;
    tprof_reading_begin(&reading, scheduler, work->parent);
    const struct reader reader = {&clauses, &reading, callable};
    int failed = -1;
    if (reading.domain == NULL)
        PyErr_NoMemory();
    else if (read_data(&reader, args, (Py_ssize_t)count, names) == 0)
        failed = enter_with_futures(scheduler, work, &reading);
    tprof_reading_end(&reading);
    if (failed)
        TPROF_CLEAR(work);
    return tprof_object(work);
}

PyObject *tprof_submit(struct scheduler *scheduler, PyObject *callable, PyObject *access, PyObject *const *args,
                       size_t count, PyObject *names)
{
    PyObject *work = submit(scheduler, callable, access, args, count, names);
    return work != NULL || PyErr_Occurred() ? work : Py_NewRef(Py_None);
}

PyObject *tprof_spawn(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    (void)module;
    struct tprof_task_view view;
    if (count < 1 || !tprof_api->view(args[0], &view)) {
        PyErr_SetString(PyExc_TypeError, "the spawner gets a task and its arguments");
        return NULL;
    }
    /* Another thread may end the runtime meanwhile: the reference keeps it alive, and a task that it does not take any
     * more is called here. */
    struct scheduler *scheduler = tprof_current_scheduler();
    const bool spawns = scheduler != NULL && !scheduler->dead;
    PyObject *work = spawns ? submit(scheduler, args[0], view.access, args + 1, (size_t)count - 1, names) : NULL;
    tprof_unref(scheduler);
    if (work != NULL || (spawns && PyErr_Occurred()))
        return work;
    return tprof_api->run(args[0], args + 1, (size_t)count - 1, names, (struct tprof_instance){0, 0});
}
