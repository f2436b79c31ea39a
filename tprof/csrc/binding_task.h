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
    PyObject *module; /* as long as there is a task, there is the state of its interpreter */
    struct tprof_state *state;
    uint32_t number;
};

bool tprof_is_task(PyObject *object);

/* Nanoseconds that a thread sleeps after a task for each 1000 that the task took, where nothing runs around it. */
extern uint32_t tprof_pause_share;
struct tprof_frame;
void tprof_pause_after(const struct tprof_frame *frame, uint64_t began_ns);

/* Run it here as an instance: with this number, or with a new one where it is 0. */
PyObject *tprof_task_run(struct task *self, PyObject *const *args, size_t count, PyObject *names, uint64_t instance);

#endif
