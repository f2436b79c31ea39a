/* A task as C sees it: a callable around a function. */
#ifndef TPROF_BINDING_TASK_H
#define TPROF_BINDING_TASK_H

#include "binding.h"

struct task {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function;
    PyObject *access; /* what it says of its data, for runtimes; NULL: a runtime leaves its calls alone */
    PyObject *dict;
    PyObject *weak_references;
    uint32_t number;
};

extern PyTypeObject *tprof_task_type;

/* binding_runtime.c: what takes over the calls of tasks while a runtime runs, or NULL. */
extern PyObject *tprof_spawner;

/* Nanoseconds that a thread sleeps after a task for each 1000 that the task took, where nothing runs around it. */
extern uint32_t tprof_pause_share;
struct tprof_frame;
void tprof_pause_after(const struct tprof_frame *frame, uint64_t began_ns);

/* Run it here as an instance: with this number, or with a new one where it is 0. */
PyObject *tprof_task_run(struct task *self, PyObject *const *args, size_t count, PyObject *names, uint64_t instance);

#endif
