/* What stands for a generator or coroutine that is a task: binding_driver.c records its steps, binding_driver_types.c makes
 * it look like what it stands for. */
#ifndef TPROF_BINDING_DRIVER_H
#define TPROF_BINDING_DRIVER_H

#include "binding.h"
#include "recorder.h"

/* The types of drivers, as in tprof_state. A step drives the body of an asynchronous generator by one asend(), athrow()
 * or aclose(), or is the iterator that a coroutine's __await__() returns. */
enum { GENERATOR, COROUTINE, ASYNC_GENERATOR, STEP };

struct driver {
    PyObject_HEAD
    PyObject *body;
    struct driver *whole; /* whose instance runs: itself; of a step, what it is a step of */
    PyObject *weak_references;
    struct tprof_state *state;
    PyObject *module; /* lives longer than its drivers */
    uint32_t number;
    uint64_t generation; /* the recording of this instance; another recording starts a new instance */
    uint64_t instance;
    struct tprof_suspension at;
    const struct driver *step; /* of an asynchronous generator: the one that has begun and not ended */
    bool known; /* its event loop, if any, was told of it */
    bool running; /* the body is, on some thread */
    bool started, done; /* of the body; of a step: it has ended */
    bool sends, throws, closes; /* a step: with a value, with an exception, to the end */
};

void tprof_driver_deallocate(PyObject *object);
/* Call a method of the body. */
PyObject *tprof_driver_call(const struct driver *self, const char *name, PyObject *const *args, Py_ssize_t count);

/* As of generators and coroutines; each is a step of the instance. */
PySendResult tprof_driver_send(PyObject *object, PyObject *value, PyObject **result);
PyObject *tprof_driver_send_value(PyObject *object, PyObject *value);
PyObject *tprof_driver_next(PyObject *object);
PyObject *tprof_driver_throw(PyObject *object, PyObject *const *args, Py_ssize_t count);
PyObject *tprof_driver_close(PyObject *object, PyObject *unused);

#endif
