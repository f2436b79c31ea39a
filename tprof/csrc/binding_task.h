/* The struct of a task: a callable around a function. */
#ifndef TPROF_BINDING_TASK_H
#define TPROF_BINDING_TASK_H

#include "binding.h"

struct task {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function;
    PyObject *access; /* its declared data accesses, for runtimes; NULL: a runtime does not spawn its calls */
    PyObject *dict;
    PyObject *weak_references;
    PyObject *module; /* lives longer than the interpreter's tasks */
    struct tprof_state *state;
    uint32_t number;
};

bool tprof_is_task(PyObject *object);

/* Pause of a thread after an outermost task, in nanoseconds per 1000 of the task. */
extern uint32_t tprof_pause_share;
struct tprof_frame;
void tprof_pause_after(const struct tprof_frame *frame, uint64_t began_ns);

/* Run it here as an instance: with this number, or with a new one if it is 0. */
PyObject *tprof_task_run(struct task *self, PyObject *const *args, size_t count, PyObject *names, uint64_t instance);

#endif
