/* The type Scheduler of Python; runtime/runtime.py is its public interface. */
#include "binding.h"

#include "queues.h"
#include "regions.h"

#include <stdlib.h>

#define MOST_SLOTS 4096

static _Atomic uint32_t next_worker;

static int take_arguments(struct scheduler *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"slot_count",      "future_type",    "start_thread",
                            "on_slot_taken",   "group_variable", "note",
                            "most_unfinished", "graph",          NULL};
    PyObject *future_type, *start_thread, *on_slot_taken, *group_variable, *note, *graph;
    unsigned int slot_count;
    Py_ssize_t most;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "IO!OOOOnO", names, &slot_count, &PyType_Type, &future_type,
                                     &start_thread, &on_slot_taken, &group_variable, &note, &most, &graph))
        return -1;
    if (slot_count < 1 || slot_count > MOST_SLOTS) {
        PyErr_Format(PyExc_ValueError, "a runtime has from 1 to %d workers, got %u", MOST_SLOTS, slot_count);
        return -1;
    }
    if (!PyType_IsSubtype((PyTypeObject *)future_type, tprof_work_type)) {
        PyErr_SetString(PyExc_TypeError, "future_type must be a kind of Work");
        return -1;
    }
    self->slot_count = slot_count;
    atomic_init(&self->active, slot_count);
    self->first_worker = atomic_fetch_add_explicit(&next_worker, slot_count, memory_order_relaxed);
    self->starting = slot_count;
    self->future_type = (PyTypeObject *)Py_NewRef(future_type);
    self->start_thread = Py_NewRef(start_thread);
    self->on_slot_taken = Py_NewRef(on_slot_taken);
    self->group_variable = Py_NewRef(group_variable);
    self->note = Py_NewRef(note);
    self->most_unfinished = (size_t)most;
    self->graph = graph == Py_None ? NULL : Py_NewRef(graph);
    return 0;
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *object = type->tp_alloc(type, 0);
    if (object == NULL)
        return NULL;
    struct scheduler *self = tprof_as_scheduler(object);
    pthread_mutex_init(&self->mutex, NULL);
    if (take_arguments(self, args, kwargs) < 0) {
        Py_DECREF(object);
        return NULL;
    }
    self->slot_threads = calloc(self->slot_count, sizeof(struct thread *));
    if (self->slot_threads == NULL || tprof_queues_make(self) < 0) {
        PyErr_NoMemory();
        Py_CLEAR(object);
    }
    return object;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    struct scheduler *self = tprof_as_scheduler(object);
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->future_type);
    Py_VISIT(self->start_thread);
    Py_VISIT(self->on_slot_taken);
    Py_VISIT(self->group_variable);
    Py_VISIT(self->note);
    Py_VISIT(self->graph);
    Py_VISIT(self->gate);
    return 0;
}

static int clear(PyObject *object)
{
    struct scheduler *self = tprof_as_scheduler(object);
    Py_CLEAR(self->start_thread);
    Py_CLEAR(self->on_slot_taken);
    Py_CLEAR(self->group_variable);
    Py_CLEAR(self->note);
    Py_CLEAR(self->graph);
    Py_CLEAR(self->gate);
    return 0;
}

/* Every work and every thread holds a reference, so no work is queued and no thread waits any more. */
static void deallocate(PyObject *object)
{
    struct scheduler *self = tprof_as_scheduler(object);
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    tprof_failures_drop(&self->root.failures);
    struct deferred deferred = {0};
    if (self->root.table != NULL)
        tprof_table_free(self->root.table, &deferred);
    tprof_run_deferred(self, &deferred);
    (void)clear(object);
    Py_CLEAR(self->future_type);
    tprof_queues_free(self);
    free(self->slot_threads);
    pthread_mutex_destroy(&self->mutex);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *serve(PyObject *object, PyObject *unused)
{
    (void)unused;
    tprof_thread_serve(tprof_as_scheduler(object));
    Py_RETURN_NONE;
}

static PyObject *submit(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count < 2) {
        PyErr_SetString(PyExc_TypeError, "submit() needs a callable and the access that it declares");
        return NULL;
    }
    return tprof_submit(tprof_as_scheduler(object), args[0], args[1], args + 2, (size_t)count - 2, names);
}

/* The task that the calling thread runs in this scheduler, or NULL. */
static struct work *current_work(const struct scheduler *self)
{
    return tprof_current_thread == NULL || tprof_current_thread->scheduler != self ? NULL : tprof_current_thread->work;
}

static struct domain *current_domain(struct scheduler *self)
{
    struct domain *domain = tprof_domain_of(self, current_work(self));
    if (domain == NULL)
        PyErr_NoMemory();
    return domain;
}

static PyObject *wait_method(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    struct scheduler *self = tprof_as_scheduler(object);
    const double timeout_s = tprof_timeout_of(count > 0 ? args[0] : NULL);
    struct domain *domain = timeout_s == -2 ? NULL : current_domain(self);
    const int outcome = domain == NULL ? -1 : tprof_wait(self, &domain->unfinished, 0, NULL, timeout_s);
    return outcome < 0 ? NULL : PyBool_FromLong(outcome == 0);
}

static PyObject *take_failures(PyObject *object, PyObject *unused)
{
    struct scheduler *self = tprof_as_scheduler(object);
    struct domain *domain = current_domain(self);
    struct deferred deferred = {0};
    (void)unused;
    if (domain == NULL)
        return NULL;
    tprof_graph_mark_handled(self, domain, &deferred);
    tprof_run_deferred(self, &deferred);
    return tprof_failures_take(self, &domain->failures);
}

static int wait_for_works(struct scheduler *self, struct works *works)
{
    int outcome = 0;
    for (size_t i = 0; i < works->count; i++) {
        if (outcome == 0)
            outcome = tprof_wait(self, &works->list[i]->done, 0, works->list[i], -1);
        tprof_unref(works->list[i]);
    }
    free(works->list);
    if (works->failed && outcome == 0) {
        PyErr_NoMemory();
        outcome = -1;
    }
    return outcome;
}

static int wait_for_users(const struct reading *reading)
{
    struct works works = {0};
    struct deferred deferred = {0};
    tprof_acquire(&reading->domain->lock);
    for (size_t i = 0; i < reading->count; i++)
        tprof_graph_touching(reading->domain, &reading->data[i], &works, &deferred);
    tprof_release(&reading->domain->lock);
    tprof_run_deferred(reading->scheduler, &deferred);
    return wait_for_works(reading->scheduler, &works);
}

static struct work *find_poison(const struct reading *reading)
{
    struct deferred deferred = {0};
    struct work *cause = NULL;
    tprof_acquire(&reading->domain->lock);
    for (size_t i = 0; i < reading->count && cause == NULL; i++)
        cause = tprof_graph_poisoned_by(reading->domain, &reading->data[i], &deferred);
    tprof_release(&reading->domain->lock);
    tprof_run_deferred(reading->scheduler, &deferred);
    return cause;
}

static PyObject *wait_on(PyObject *object, PyObject *data)
{
    struct scheduler *self = tprof_as_scheduler(object);
    struct reading reading;
    struct work *cause = NULL;
    tprof_reading_begin(&reading, self, current_work(self));
    int outcome = reading.domain == NULL ? -1 : tprof_data_add(&reading, data, TPROF_UPDATES);
    if (reading.domain == NULL)
        PyErr_NoMemory();
    else if (outcome > 0)
        PyErr_Format(PyExc_ValueError,
                     "wait() got a %.100s: its strides lead out of memory; pass only the part that tasks touch",
                     Py_TYPE(data)->tp_name);
    else if (outcome == 0 && (outcome = wait_for_users(&reading)) == 0)
        cause = find_poison(&reading);
    tprof_reading_end(&reading);
    if (outcome != 0)
        return NULL;
    return cause != NULL ? tprof_object(cause) : Py_NewRef(Py_None);
}

static PyObject *cancel_method(PyObject *object, PyObject *unused)
{
    struct scheduler *self = tprof_as_scheduler(object);
    struct deferred deferred = {0};
    (void)unused;
    tprof_graph_cancel_all(self, NULL, &deferred);
    tprof_run_deferred(self, &deferred);
    Py_RETURN_NONE;
}

static PyObject *stop(PyObject *object, PyObject *unused)
{
    struct scheduler *self = tprof_as_scheduler(object);
    (void)unused;
    tprof_lock(self);
    atomic_store(&self->stopping, true);
    (void)tprof_close(self);
    tprof_wake_all(self);
    tprof_unlock(self);
    Py_RETURN_NONE;
}

/* In a forked child: the threads do not exist, and any of them may have held the locks. */
static PyObject *abandon(PyObject *object, PyObject *unused)
{
    struct scheduler *self = tprof_as_scheduler(object);
    (void)unused;
    pthread_mutex_init(&self->mutex, NULL);
    self->root.lock = self->queues->lock = (struct lock){TPROF_LOCK_FREE};
    self->dead = true;
    atomic_store(&self->stopping, true);
    Py_RETURN_NONE;
}

static PyObject *set_active(PyObject *object, PyObject *number)
{
    struct scheduler *self = tprof_as_scheduler(object);
    struct deferred deferred = {0};
    const long active = PyLong_AsLong(number);
    if (active == -1 && PyErr_Occurred())
        return NULL;
    if (active < 1 || active > (long)self->slot_count) {
        PyErr_Format(PyExc_ValueError, "from 1 to %u workers of this runtime can be active, got %ld", self->slot_count,
                     active);
        return NULL;
    }
    tprof_lock(self);
    tprof_slots_activate(self, (uint32_t)active, &deferred);
    tprof_unlock(self);
    tprof_run_deferred(self, &deferred);
    Py_RETURN_NONE;
}

static PyObject *active(PyObject *object, PyObject *unused)
{
    struct scheduler *self = tprof_as_scheduler(object);
    (void)unused;
    return PyLong_FromUnsignedLong(atomic_load(&self->active));
}

static PyObject *counts(PyObject *object, PyObject *unused)
{
    struct scheduler *self = tprof_as_scheduler(object);
    (void)unused;
    tprof_lock(self);
    const unsigned long long spawned = atomic_load(&self->spawned), executed = atomic_load(&self->executed);
    const unsigned long long peak = atomic_load(&self->peak), stolen = atomic_load(&self->stolen);
    const Py_ssize_t unfinished = (Py_ssize_t)tprof_unfinished(self), threads = (Py_ssize_t)self->threads;
    tprof_unlock(self);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:n,s:n}", "spawned", spawned, "executed", executed, "stolen", stolen,
                         "peak_unfinished", peak, "unfinished", unfinished, "threads", threads);
}

/* Before any thread serves. */
static PyObject *operate(PyObject *object, PyObject *gate)
{
    if (!PyObject_TypeCheck(gate, tprof_gate_type)) {
        PyErr_SetString(PyExc_TypeError, "a scheduler reports tasks to a Gate");
        return NULL;
    }
    Py_XSETREF(tprof_as_scheduler(object)->gate, Py_NewRef(gate));
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"operate", operate, METH_O, NULL},
    {"serve", serve, METH_NOARGS, NULL},
    {"submit", (PyCFunction)(void (*)(void))submit, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"wait", (PyCFunction)(void (*)(void))wait_method, METH_FASTCALL, NULL},
    {"wait_on", wait_on, METH_O, NULL},
    {"take_failures", take_failures, METH_NOARGS, NULL},
    {"cancel", cancel_method, METH_NOARGS, NULL},
    {"stop", stop, METH_NOARGS, NULL},
    {"abandon", abandon, METH_NOARGS, NULL},
    {"set_active", set_active, METH_O, NULL},
    {"active", active, METH_NOARGS, NULL},
    {"counts", counts, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, create},  {Py_tp_dealloc, deallocate}, {Py_tp_traverse, traverse},
    {Py_tp_clear, clear}, {Py_tp_methods, methods},    {0, NULL},
};

PyType_Spec tprof_scheduler_spec = {
    .name = "tprof.runtime._scheduler.Scheduler",
    .basicsize = sizeof(PyObject) + sizeof(struct scheduler),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
