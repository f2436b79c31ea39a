/* The type Work of Python: the native half of a future, with the task's state. runtime/future.py is the other half. */
#include "binding.h"

#include <stdlib.h>
#include <structmember.h>

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    struct work *self = tprof_as_work(object);
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(tprof_object(self->scheduler));
    Py_VISIT(self->callable);
    Py_VISIT(self->args);
    Py_VISIT(self->result);
    Py_VISIT(self->error);
    Py_VISIT(self->callbacks);
    Py_VISIT(tprof_object(tprof_cause_of(self)));
    return 0;
}

static int clear(PyObject *object)
{
    struct work *self = tprof_as_work(object);
    Py_CLEAR(self->callable);
    Py_CLEAR(self->args);
    Py_CLEAR(self->names);
    Py_CLEAR(self->result);
    Py_CLEAR(self->error);
    Py_CLEAR(self->callbacks);
    TPROF_CLEAR(self->parent);
    TPROF_CLEAR(self->group);
    tprof_unref(atomic_exchange_explicit(&self->cause, NULL, memory_order_relaxed));
    TPROF_CLEAR(self->scheduler);
    return 0;
}

static void deallocate(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    (void)clear(object);
    struct work *self = tprof_as_work(object);
    if (self->node != NULL)
        tprof_node_drop(self->node);
    free(self->children);
    type->tp_free(object);
    Py_DECREF(type);
}

static bool outcome_is_known(const struct work *self)
{
    const enum state state = tprof_state_of(self);
    return state >= TPROF_FINISHED || state == TPROF_WITHDRAWN ||
           (state == TPROF_PENDING && tprof_is_cancel_requested(self));
}

#define LONGEST_S 1e9 /* a longer timeout is none: the kernel's seconds are integers */

double tprof_timeout_of(PyObject *object)
{
    if (object == NULL || object == Py_None)
        return -1;
    const double timeout_s = PyFloat_AsDouble(object);
    if (timeout_s == -1 && PyErr_Occurred())
        return -2;
    return timeout_s > LONGEST_S ? -1 : timeout_s > 0 ? timeout_s : 0;
}

/* A task that waits for itself or for an ancestor, which cannot end before it, would wait for ever. */
static int check_no_cycle(const struct work *self)
{
    const struct thread *thread = tprof_current_thread;
    if (thread == NULL || thread->scheduler != self->scheduler)
        return 0;
    for (const struct work *work = thread->work; work != NULL; work = work->parent)
        if (work == self) {
            PyErr_Format(PyExc_RuntimeError,
                         "%R waits for %R, which cannot end before it: wait for its children instead",
                         tprof_object(thread->work), tprof_object(self));
            return -1;
        }
    return 0;
}

static int wait_for_end(struct work *self, PyObject *timeout)
{
    const double timeout_s = tprof_timeout_of(timeout);
    if (timeout_s == -2)
        return -1;
    if (outcome_is_known(self))
        return 0;
    if (self->scheduler->dead) {
        PyErr_SetString(PyExc_RuntimeError, "this task belongs to a runtime of the parent process: it never ends here");
        return -1;
    }
    if (timeout_s < 0 && check_no_cycle(self) < 0)
        return -1;
    return tprof_wait(self->scheduler, &self->done, 0, self, timeout_s);
}

static PyObject *wait_method(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    const int outcome = wait_for_end(tprof_as_work(object), count > 0 ? args[0] : NULL);
    return outcome < 0 ? NULL : PyBool_FromLong(outcome == 0);
}

/* Returns the result of a finished task; other outcomes are handled in future.py. */
static PyObject *result_method(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    struct work *self = tprof_as_work(object);
    const Py_ssize_t named = names == NULL ? 0 : PyTuple_GET_SIZE(names);
    if (count + named > 1 ||
        (named == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "timeout") != 0)) {
        PyErr_SetString(PyExc_TypeError, "result() takes one argument, timeout");
        return NULL;
    }
    const int outcome = wait_for_end(self, count + named > 0 ? args[0] : NULL);
    if (outcome < 0)
        return NULL;
    if (outcome > 0) {
        PyErr_SetNone(PyExc_TimeoutError);
        return NULL;
    }
    if (tprof_state_of(self) == TPROF_FINISHED)
        return Py_NewRef(self->result);
    return PyObject_CallMethod(object, "_raise", NULL);
}

static PyObject *cancel_method(PyObject *object, PyObject *unused)
{
    struct work *self = tprof_as_work(object);
    struct scheduler *scheduler = self->scheduler;
    struct deferred deferred = {0};
    (void)unused;
    if (scheduler->dead)
        Py_RETURN_FALSE;
    const bool cancelled = tprof_graph_cancel(self, &deferred) || tprof_state_of(self) == TPROF_CANCELLED;
    tprof_run_deferred(scheduler, &deferred);
    return PyBool_FromLong(cancelled);
}

int tprof_work_call_back(struct work *self, PyObject *callback)
{
    bool called;
    int failed = 0;
    Py_BEGIN_CRITICAL_SECTION(tprof_object(self));
    called = self->callbacks_called;
    if (!called) {
        if (self->callbacks == NULL)
            self->callbacks = PyList_New(0);
        failed = self->callbacks == NULL || PyList_Append(self->callbacks, callback) < 0;
        atomic_store_explicit(&self->has_callbacks, true, memory_order_relaxed);
    }
    Py_END_CRITICAL_SECTION();
    if (failed)
        return -1;
    if (!called)
        return 0;
    PyObject *result = PyObject_CallOneArg(callback, tprof_object(self));
    if (result == NULL)
        PyErr_WriteUnraisable(callback);
    Py_XDECREF(result);
    return 0;
}

/* The futures among a work's arguments. Those of its own runtime are predecessors like any. Another runtime has another
 * mutex, so its futures call a callback at their end, as they do for Python. */
static bool is_future(const struct work *work, PyObject *argument)
{
    return Py_TYPE(argument) == work->scheduler->future_type;
}

static int put_needed(struct needed *needed, const struct work *work, struct work *future, size_t *last)
{
    if (future->scheduler == work->scheduler)
        needed->works[needed->ours++] = future;
    else if (future->scheduler->dead && !tprof_has_ended(future)) {
        PyErr_Format(PyExc_RuntimeError, "%R belongs to a runtime of the parent process: it never ends here",
                     tprof_object(future));
        return -1;
    } else
        needed->works[--*last] = future;
    return 0;
}

int tprof_needed_find(struct needed *needed, const struct work *work)
{
    needed->works = needed->few;
    needed->ours = needed->all = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(work->args); i++)
        needed->all += is_future(work, PyTuple_GET_ITEM(work->args, i));
    if (needed->all > sizeof needed->few / sizeof *needed->few &&
        (needed->works = malloc(needed->all * sizeof *needed->works)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    size_t last = needed->all;
    int failed = 0;
    for (Py_ssize_t i = 0; failed == 0 && i < PyTuple_GET_SIZE(work->args); i++)
        if (is_future(work, PyTuple_GET_ITEM(work->args, i)))
            failed = put_needed(needed, work, tprof_as_work(PyTuple_GET_ITEM(work->args, i)), &last);
    return failed;
}

void tprof_needed_free(struct needed *needed)
{
    if (needed->works != needed->few)
        free(needed->works);
}

/* Called by another runtime when one of its works has ended. */
static PyObject *on_future_ended(PyObject *object, PyObject *future)
{
    struct work *work = tprof_as_work(object);
    struct scheduler *scheduler = work->scheduler;
    struct deferred deferred = {0};
    tprof_graph_future_ended(work, tprof_as_work(future), &deferred);
    tprof_run_deferred(scheduler, &deferred);
    Py_RETURN_NONE;
}

static PyMethodDef on_future_ended_method = {"on_future_ended", on_future_ended, METH_O, NULL};

int tprof_needed_expect(struct work *work, const struct needed *needed)
{
    if (needed->ours == needed->all)
        return 0;
    PyObject *callback = PyCFunction_New(&on_future_ended_method, tprof_object(work));
    int failed = callback == NULL;
    for (size_t i = needed->ours; !failed && i < needed->all; i++)
        failed = tprof_work_call_back(needed->works[i], callback) < 0;
    Py_XDECREF(callback);
    return failed ? -1 : 0;
}

static PyObject *add_done_callback(PyObject *object, PyObject *callback)
{
    return tprof_work_call_back(tprof_as_work(object), callback) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *acknowledge(PyObject *object, PyObject *unused)
{
    (void)unused;
    tprof_acknowledge(tprof_as_work(object));
    Py_RETURN_NONE;
}

static PyObject *get_state(PyObject *object, void *unused)
{
    static const char *const names[] = {"pending", "cancelled", "queued", "running", "finished", "failed", "cancelled"};
    const struct work *self = tprof_as_work(object);
    (void)unused;
    const bool cancel_requested = tprof_is_cancel_requested(self);
    const enum state state = tprof_state_of(self);
    return PyUnicode_FromString(names[cancel_requested && state == TPROF_PENDING ? TPROF_CANCELLED : state]);
}

/* The error is written when the body ends, which may be long before the task ends. */
static PyObject *get_error(PyObject *object, void *unused)
{
    const struct work *self = tprof_as_work(object);
    (void)unused;
    return Py_NewRef(tprof_has_ended(self) && self->error != NULL ? self->error : Py_None);
}

static PyObject *get_cause(PyObject *object, void *unused)
{
    PyObject *cause = tprof_object(tprof_cause_of(tprof_as_work(object)));
    (void)unused;
    return Py_NewRef(cause != NULL ? cause : Py_None);
}

static PyMethodDef methods[] = {
    {"wait", (PyCFunction)(void (*)(void))wait_method, METH_FASTCALL, NULL},
    {"result", (PyCFunction)(void (*)(void))result_method, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"cancel", cancel_method, METH_NOARGS, NULL},
    {"add_done_callback", add_done_callback, METH_O, NULL},
    {"acknowledge", acknowledge, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"number", T_ULONGLONG, sizeof(PyObject) + offsetof(struct work, number), READONLY, NULL},
    {"callable", T_OBJECT, sizeof(PyObject) + offsetof(struct work, callable), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"state", get_state, NULL, NULL, NULL},
    {"error", get_error, NULL, NULL, NULL},
    {"cause", get_cause, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, deallocate},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, attributes},
    {0, NULL},
};

PyType_Spec tprof_work_spec = {
    .name = "tprof.runtime._scheduler.Work",
    .basicsize = sizeof(PyObject) + sizeof(struct work),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
