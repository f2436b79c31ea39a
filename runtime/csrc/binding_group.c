/* The type Group of Python; runtime/group.py makes a with-block of it. */
#include "binding.h"

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"scheduler", NULL};
    PyObject *scheduler;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!", names, tprof_scheduler_type, &scheduler))
        return NULL;
    PyObject *self = type->tp_alloc(type, 0);
    if (self != NULL)
        tprof_as_group(self)->scheduler = tprof_ref(tprof_as_scheduler(scheduler));
    return self;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(tprof_object(tprof_as_group(object)->scheduler));
    Py_VISIT(tprof_object(tprof_as_group(object)->outer));
    return 0;
}

static int clear(PyObject *object)
{
    TPROF_CLEAR(tprof_as_group(object)->scheduler);
    TPROF_CLEAR(tprof_as_group(object)->outer);
    return 0;
}

static void deallocate(PyObject *object)
{
    struct group *self = tprof_as_group(object);
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    tprof_failures_drop(&self->failures);
    (void)clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

static const struct work *current_work(const struct scheduler *scheduler)
{
    const struct thread *thread = tprof_current_thread;
    return thread != NULL && thread->scheduler == scheduler ? thread->work : NULL;
}

/* Spawning looks for groups only while the scheduler's count is not 0. */
static void count_open(struct group *self, bool open)
{
    tprof_lock(self->scheduler);
    if (atomic_exchange_explicit(&self->open, open, memory_order_relaxed) != open) {
        const size_t others = tprof_open_groups(self->scheduler);
        atomic_store_explicit(&self->scheduler->groups, open ? others + 1 : others - 1, memory_order_relaxed);
    }
    tprof_unlock(self->scheduler);
}

/* Succeeds once, whichever thread calls it; `outer` is the former value of the group variable. */
static PyObject *open_method(PyObject *object, PyObject *args)
{
    struct group *self = tprof_as_group(object);
    PyObject *outer;
    int waits;
    if (!PyArg_ParseTuple(args, "Op", &outer, &waits))
        return NULL;
    if (atomic_exchange_explicit(&self->begun, true, memory_order_relaxed)) {
        PyErr_SetString(PyExc_RuntimeError, "this group's block has begun already: make one group for each block");
        return NULL;
    }
    struct group *around = PyObject_TypeCheck(outer, tprof_group_type) ? tprof_as_group(outer) : NULL;
    while (around != NULL && !tprof_is_open(around))
        around = around->outer;
    const struct work *work = current_work(self->scheduler);
    self->inside = work == NULL ? 0 : work->number;
    self->outer = tprof_ref(around);
    self->waits = waits;
    count_open(self, true);
    Py_RETURN_NONE;
}

static PyObject *close_method(PyObject *object, PyObject *unused)
{
    (void)unused;
    count_open(tprof_as_group(object), false);
    Py_RETURN_NONE;
}

static PyObject *is_around(PyObject *object, PyObject *unused)
{
    struct group *self = tprof_as_group(object);
    (void)unused;
    return PyBool_FromLong(tprof_is_open(self) &&
                           tprof_group_around(self, self->scheduler, current_work(self->scheduler)) == self);
}

static PyObject *outer(PyObject *object, void *unused)
{
    struct group *around = tprof_as_group(object)->outer;
    (void)unused;
    return Py_NewRef(around != NULL ? tprof_object(around) : Py_None);
}

static PyObject *wait_method(PyObject *object, PyObject *unused)
{
    struct group *self = tprof_as_group(object);
    (void)unused;
    return tprof_wait(self->scheduler, &self->unfinished, 0, NULL, -1) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *cancel_method(PyObject *object, PyObject *unused)
{
    struct group *self = tprof_as_group(object);
    struct deferred deferred = {0};
    (void)unused;
    if (self->scheduler->dead)
        Py_RETURN_NONE;
    tprof_graph_cancel_all(self->scheduler, self, &deferred);
    tprof_run_deferred(self->scheduler, &deferred);
    Py_RETURN_NONE;
}

static PyObject *take_failures(PyObject *object, PyObject *unused)
{
    struct group *self = tprof_as_group(object);
    (void)unused;
    return tprof_failures_take(self->scheduler, &self->failures);
}

static PyMethodDef methods[] = {
    {"open", open_method, METH_VARARGS, NULL},
    {"close", close_method, METH_NOARGS, NULL},
    {"is_around", is_around, METH_NOARGS, NULL},
    {"wait", wait_method, METH_NOARGS, NULL},
    {"cancel", cancel_method, METH_NOARGS, NULL},
    {"take_failures", take_failures, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef fields[] = {{"outer", outer, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_new, create},
    {Py_tp_dealloc, deallocate},
    {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, fields},
    {0, NULL},
};

PyType_Spec tprof_group_spec = {
    .name = "tprof.runtime._scheduler.Group",
    .basicsize = sizeof(PyObject) + sizeof(struct group),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
