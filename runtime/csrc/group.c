/* A group as Python sees it; runtime/group.py makes a with-block of it. */
#include "core.h"

#include "failures.h"

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"scheduler", NULL};
    PyObject *scheduler;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!", names, tprof_scheduler_type, &scheduler))
        return NULL;
    struct group *self = (struct group *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->scheduler = (struct scheduler *)Py_NewRef(scheduler);
    return (PyObject *)self;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((struct group *)object)->scheduler);
    return 0;
}

static int clear(PyObject *object)
{
    Py_CLEAR(((struct group *)object)->scheduler);
    return 0;
}

static void deallocate(PyObject *object)
{
    struct group *self = (struct group *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    for (struct work *failed = self->failed, *next; failed != NULL; failed = next) {
        next = failed->next_failed;
        failed->next_failed = NULL;
        Py_DECREF(failed);
    }
    (void)clear(object);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *count_open(PyObject *object, PyObject *by)
{
    struct group *self = (struct group *)object;
    struct scheduler *scheduler = self->scheduler;
    const struct thread *thread = tprof_thread_here;
    const long step = PyLong_AsLong(by);
    if (step == -1 && PyErr_Occurred())
        return NULL;
    if (step > 0 && thread != NULL && thread->scheduler == scheduler && thread->work != NULL)
        self->inside = thread->work->number;
    tprof_lock(scheduler);
    scheduler->groups += (size_t)step;
    tprof_unlock(scheduler);
    Py_RETURN_NONE;
}

static PyObject *wait_method(PyObject *object, PyObject *unused)
{
    struct group *self = (struct group *)object;
    (void)unused;
    return tprof_wait(self->scheduler, &self->unfinished, 0, NULL, -1) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *cancel_method(PyObject *object, PyObject *unused)
{
    struct group *self = (struct group *)object;
    struct aftermath after = {0};
    (void)unused;
    if (self->scheduler->dead)
        Py_RETURN_NONE;
    (void)tprof_api->join();
    tprof_lock(self->scheduler);
    tprof_graph_cancel_all(self->scheduler, self, &after);
    tprof_wake_for(self->scheduler, after.readied, &after);
    tprof_unlock(self->scheduler);
    tprof_settle(self->scheduler, &after);
    Py_RETURN_NONE;
}

static PyObject *take_failures(PyObject *object, PyObject *unused)
{
    struct group *self = (struct group *)object;
    (void)unused;
    return tprof_failures_take(self->scheduler, &self->failed);
}

static PyMethodDef methods[] = {
    {"count_open", count_open, METH_O, NULL},
    {"wait", wait_method, METH_NOARGS, NULL},
    {"cancel", cancel_method, METH_NOARGS, NULL},
    {"take_failures", take_failures, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, create},   {Py_tp_dealloc, deallocate}, {Py_tp_traverse, traverse},
    {Py_tp_clear, clear},  {Py_tp_methods, methods},    {0, NULL},
};

PyType_Spec tprof_group_spec = {
    .name = "tprof.runtime._scheduler.Group",
    .basicsize = sizeof(struct group),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
