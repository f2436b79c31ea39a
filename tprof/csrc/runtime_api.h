/* The core's interface for a task runtime, which is another extension: one capsule, `tprof._core.runtime_api`.
 * All functions are called by a thread attached to Python; only `run` raises, if its function does. Without a recording
 * they do nothing. */
#ifndef TPROF_RUNTIME_API_H
#define TPROF_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#include "layout.h"

typedef struct _object PyObject; /* as in Python.h, which only bindings include */

#define TPROF_RUNTIME_API_NAME "tprof._core.runtime_api"

/* A decorated task; `access` is its declaration of data accesses, NULL without one. */
struct tprof_task_view {
    PyObject *function;
    PyObject *access;
    uint32_t number;
};

/* An instance with a number before it runs, in the recording of that generation; 0: not numbered. */
struct tprof_instance {
    uint64_t generation, number;
};

struct tprof_paused {
    uint64_t generation, instance;
    uint32_t task;
};

struct tprof_runtime_api {
    uint64_t (*now_ns)(void);
    uint64_t (*generation)(void); /* of the current recording, 0: none */
    /* The same. Joins the thread, which may call Python for its name: hold no lock. */
    uint64_t (*join)(void);
    /* `running` becomes the instance that this thread runs, 0: none. */
    struct tprof_instance (*number)(uint64_t *running);
    /* Of the recording of that generation, if it still runs. */
    void (*write_event)(uint64_t generation, const struct tprof_graph_event *event);
    /* Returns whether it is a task, and if so its parts, borrowed. */
    int (*view)(PyObject *callable, struct tprof_task_view *view);
    /* Run the callable here; as this instance if it is a task. */
    PyObject *(*run)(PyObject *callable, PyObject *const *args, size_t count, PyObject *names,
                     struct tprof_instance instance);
    /* Pause and resume the running instance of the thread; `paused` is the caller's. */
    void (*pause)(struct tprof_paused *paused);
    void (*resume)(const struct tprof_paused *paused);
    /* Keep the runtime's lock free in forked children, see process.h. */
    void (*follow_forks)(void (*take)(void), void (*release)(void));
};

#endif
