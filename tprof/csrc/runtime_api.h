/* What a task runtime, which is another extension, asks of the core: one capsule, `tprof._core.runtime_api`.
 * All functions are called by a thread that is attached to Python; none of them raises, except `run` as its function
 * does. Where nothing is recorded they do nothing. */
#ifndef TPROF_RUNTIME_API_H
#define TPROF_RUNTIME_API_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

#include "layout.h"

#define TPROF_RUNTIME_API_NAME "tprof._core.runtime_api"

/* A task as its decorator made it; `access` is what it says of its data, NULL for nothing. */
struct tprof_task_view {
    PyObject *function;
    PyObject *access;
    uint32_t number;
};

/* An instance that was numbered before it runs, in the recording of that generation; 0: not numbered. */
struct tprof_instance {
    uint64_t generation, number;
};

struct tprof_paused {
    uint64_t generation, instance;
    uint32_t task;
};

struct tprof_runtime_api {
    uint64_t (*now_ns)(void);
    /* The recording that runs, 0: none. Joins the thread, which may ask Python for its name: hold no lock. */
    uint64_t (*join)(void);
    struct tprof_instance (*number)(void);
    uint64_t (*running)(void); /* the instance that this thread runs, 0: none */
    void (*tell)(const struct tprof_graph_event *event);
    /* Returns whether it is a task, and if so what it is made of, borrowed. */
    int (*view)(PyObject *callable, struct tprof_task_view *view);
    /* Run the callable here; as this instance if it is a task. */
    PyObject *(*run)(PyObject *callable, PyObject *const *args, size_t count, PyObject *names,
                     struct tprof_instance instance);
    /* The thread pauses what it runs, and goes on with it; `paused` is the caller's. */
    void (*pause)(struct tprof_paused *paused);
    void (*resume)(const struct tprof_paused *paused);
};

#endif
