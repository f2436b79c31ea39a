/* What the bindings of the scheduler share. Only they include Python.h. */
#ifndef TPROF_RUNTIME_BINDING_H
#define TPROF_RUNTIME_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <assert.h>

#include "core.h"
#include "gate.h"

#if PY_VERSION_HEX < 0x030D0000
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

extern PyType_Spec tprof_work_spec, tprof_group_spec, tprof_scheduler_spec, tprof_gate_spec;
extern PyTypeObject *tprof_work_type, *tprof_group_type, *tprof_scheduler_type, *tprof_gate_type;

/* A work, a group and a scheduler is the body of an object of Python, whose head is in front of it. */
#define TPROF_FOLLOWS_HEAD(body)                                                                                       \
    static_assert(sizeof(PyObject) % _Alignof(struct body) == 0, "a body must not need padding after the head")
TPROF_FOLLOWS_HEAD(work);
TPROF_FOLLOWS_HEAD(group);
TPROF_FOLLOWS_HEAD(scheduler);

/* NULL for NULL. */
static inline PyObject *tprof_object(const void *body)
{
    return body == NULL ? NULL : (PyObject *)((uintptr_t)body - sizeof(PyObject));
}

static inline struct work *tprof_as_work(PyObject *object)
{
    return (struct work *)((uintptr_t)object + sizeof(PyObject));
}

static inline struct group *tprof_as_group(PyObject *object)
{
    return (struct group *)((uintptr_t)object + sizeof(PyObject));
}

static inline struct scheduler *tprof_as_scheduler(PyObject *object)
{
    return (struct scheduler *)((uintptr_t)object + sizeof(PyObject));
}

/* Without the mutex; may be NULL. */
static inline void tprof_unref(const void *body)
{
    Py_XDECREF(tprof_object(body));
}

#define TPROF_CLEAR(body)                                                                                              \
    do {                                                                                                               \
        const void *former = (body);                                                                                   \
        (body) = NULL;                                                                                                 \
        tprof_unref(former);                                                                                           \
    } while (0)

/* binding_deferred.c; attached to Python, without a lock */
/* Before any other event of this thread; `tprof_run_deferred` does it first. */
void tprof_write_events(struct deferred *deferred);
/* Settles first. */
void tprof_run_deferred(struct scheduler *scheduler, struct deferred *deferred);
/* Empties the list and acknowledges its works. Returns those that were not acknowledged before, in the order of
 * failure, or NULL with an exception set. */
PyObject *tprof_failures_take(struct scheduler *scheduler, struct failures *failures);
/* No other thread can reach the list. */
void tprof_failures_drop(struct failures *failures);

/* binding_work.c; attached to Python, without the mutex */
/* Call the callback with this work once it has ended, or at once if it has. */
int tprof_work_call_back(struct work *work, PyObject *callback);
/* The futures among a work's arguments, borrowed; those of other runtimes come last. */
struct needed {
    struct work **works, *few[8];
    size_t ours, all;
};
/* Returns -1 with an exception set. */
int tprof_needed_find(struct needed *needed, const struct work *work);
/* After the work has entered, with futures of other runtimes counted as unmet: add the callbacks to these. */
int tprof_needed_expect(struct work *work, const struct needed *needed);
void tprof_needed_free(struct needed *needed);

/* binding_threads.c; attached to Python, without the mutex */
void tprof_run(struct thread *thread, struct work *work, int victim);
void tprof_thread_serve(struct scheduler *scheduler);
void tprof_thread_sleep(struct thread *thread);
void tprof_thread_report_slot(struct thread *thread); /* if the slot has changed */
/* Report to the policy's gate. An exception that is set stays. */
void tprof_report(const struct thread *thread, const struct work *work, enum moment moment);
PyObject *tprof_take_exception(void);
void tprof_put_exception(PyObject *error);

/* binding_gate.c; attached to Python, without the mutex. The last two take NULL too. */
void tprof_report_to_gate(PyObject *gate, const struct tprof_event *event);
uint32_t tprof_place_at_gate(PyObject *gate);
void tprof_leave_gate(PyObject *gate, uint32_t place);

/* binding_waiting.c; attached to Python, without the mutex. Returns 0, 1 after the timeout, or -1 with an exception set.
 * A worker meanwhile runs works that the wait depends on: the wanted one, and descendants of its own. A timeout below 0
 * is none. In a forked child it returns at once. */
int tprof_wait(struct scheduler *scheduler, struct latch *latch, size_t enough, struct work *wanted, double timeout_s);

/* Seconds; -1 (no timeout) for NULL and None; -2 with an exception set. binding_work.c */
double tprof_timeout_of(PyObject *object);

/* binding_data.c; attached to Python, without the mutex */
struct reading {
    struct scheduler *scheduler;
    struct domain *domain; /* NULL without memory */
    struct datum *data;
    size_t count, capacity;
    struct datum few[6];
};
/* Regions found between the two calls are not freed. */
void tprof_reading_begin(struct reading *reading, struct scheduler *scheduler, struct work *parent);
void tprof_reading_end(struct reading *reading);
/* Returns -1 with an exception set if the object can carry no dependence, and 1 if it is an array whose extent exceeds
 * any memory. */
int tprof_data_add(struct reading *reading, PyObject *object, enum mode mode);

/* binding_current.c; attached to Python */
struct scheduler *tprof_current_scheduler(void); /* with a reference, NULL: none */
void tprof_initialise_current(void);
PyObject *tprof_enter_scheduler(PyObject *module, PyObject *scheduler);
PyObject *tprof_leave_scheduler(PyObject *module, PyObject *scheduler);
PyObject *tprof_set_default(PyObject *module, PyObject *scheduler);
PyObject *tprof_current_scheduler_method(PyObject *module, PyObject *unused);

/* binding_spawn.c */
PyObject *tprof_spawn(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
/* Returns None if the runtime has ended. */
PyObject *tprof_submit(struct scheduler *scheduler, PyObject *callable, PyObject *access, PyObject *const *args,
                       size_t count, PyObject *names);

#endif
