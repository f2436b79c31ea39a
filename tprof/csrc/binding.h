/* The Python bindings of the core. Only module.c and the files named binding_* include Python.h. */
#ifndef TPROF_BINDING_H
#define TPROF_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include "definitions.h"

/* Critical section of an object, for free-threaded builds; elsewhere Python's lock suffices. The code inside takes no
 * lock and calls no Python code: either may let another thread in. */
#if PY_VERSION_HEX < 0x030D0000
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

struct tprof_live;

/* The state of one interpreter: each executes the module itself, and they may run at the same time. All other state of
 * the core belongs to the process. */
#define TPROF_DRIVERS 4
struct tprof_state {
    PyTypeObject *driver_types[TPROF_DRIVERS];
    PyObject *spawner; /* takes over the calls of tasks while a runtime runs, or NULL */
    PyObject *fork_work; /* pause, resume, reset, join: functions of session/process_state.py */
    struct tprof_definitions definitions;
};
static inline struct tprof_state *tprof_state_of(PyObject *module)
{
    return PyModule_GetState(module);
}
/* module.c: the module of a type of ours, or of one that is derived from it; borrowed. NULL with an error set. */
PyObject *tprof_module_of(PyTypeObject *type);

extern PyType_Spec tprof_task_spec;   /* binding_task.c: a callable that is a task */
extern PyType_Spec tprof_region_spec; /* binding_region.c: a with-block that is a task */
#if PY_VERSION_HEX >= 0x030C0000
extern PyType_Spec tprof_monitor_spec; /* binding_monitor.c: unchanged code objects that are tasks */
#endif
extern PyType_Spec tprof_span_spec;        /* binding_spans.c: a span of OpenTelemetry that is an instance */
extern PyType_Spec tprof_span_context_spec; /* binding_contexts.c: attaches and detaches OpenTelemetry's context */
extern PyType_Spec tprof_thread_task_spec; /* binding_thread.c: the run of a thread as a task */

#ifndef Py_GIL_DISABLED
extern PyType_Spec tprof_stack_file_spec; /* binding_stacks.c: the stacks of a process's threads, sampled into a file */
#endif

/* binding_driver_types.c */
int tprof_add_driver_types(PyObject *module);
/* Return what stands for a generator, coroutine or asynchronous generator that is a task; other objects as they are. */
PyObject *tprof_drive(struct tprof_state *state, PyObject *body, uint32_t number);
PyObject *tprof_py_drive(PyObject *module, PyObject *args);

/* binding_contexts.c */
PyObject *tprof_py_follow_spans(PyObject *module, PyObject *args);

/* binding_tail.c */
extern PyType_Spec tprof_tail_spec, tprof_energy_observer_spec, tprof_reading_file_spec;
extern PyType_Spec tprof_count_spec; /* binding_increments.c: the count of a domain, reading by reading */
PyObject *tprof_py_session_threads(PyObject *module, PyObject *unused);
PyObject *tprof_py_used_ns(PyObject *module, PyObject *unused);
PyObject *tprof_py_thread_used_ns(PyObject *module, PyObject *args);

/* binding_forks.c */
PyObject *tprof_py_set_fork_work(PyObject *module, PyObject *functions);
PyObject *tprof_py_fork_before(PyObject *module, PyObject *unused);
PyObject *tprof_py_fork_in_parent(PyObject *module, PyObject *unused);
PyObject *tprof_py_fork_in_child(PyObject *module, PyObject *unused);
PyObject *tprof_py_hold_signals(PyObject *module, PyObject *unused);
PyObject *tprof_py_release_signals(PyObject *module, PyObject *unused);
PyObject *tprof_py_await_thread_end(PyObject *module, PyObject *native_id);

/* binding_papi.c */
struct tprof_papi_events;
int tprof_parse_papi_events(PyObject *names, struct tprof_papi_events *events);
PyObject *tprof_py_papi_load(PyObject *module, PyObject *args);
PyObject *tprof_py_papi_try(PyObject *module, PyObject *names);

/* binding_session.c */
extern struct tprof_live *tprof_session_live; /* of this process's session, or NULL */
static inline struct tprof_live *tprof_session_page(void) /* for threads that neither begin nor end one */
{
    return __atomic_load_n(&tprof_session_live, __ATOMIC_ACQUIRE);
}
PyObject *tprof_py_session_create(PyObject *module, PyObject *directory);
PyObject *tprof_py_session_join(PyObject *module, PyObject *directory);
PyObject *tprof_py_session_rejoin(PyObject *module, PyObject *unused);
PyObject *tprof_py_session_watch(PyObject *module, PyObject *directory);
PyObject *tprof_py_await_at_exit(PyObject *module, PyObject *args);
PyObject *tprof_py_session_processes(PyObject *module, PyObject *unused);
PyObject *tprof_py_session_leave(PyObject *module, PyObject *process);
PyObject *tprof_py_session_leave_at_exit(PyObject *module, PyObject *process);
PyObject *tprof_py_session_end(PyObject *module, PyObject *unused);
PyObject *tprof_py_start(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *tprof_py_stop(PyObject *module, PyObject *unused);
PyObject *tprof_py_fail_at_exit(PyObject *module, PyObject *status);

/* binding_thread.c: the thread that `threading` is starting here and has not listed yet, or NULL */
extern _Thread_local PyObject *tprof_starting_thread;

/* binding_libraries.c: redirect the calls of libraries that are imported from now on */
void tprof_follow_imports(void);
PyObject *tprof_py_follow_mpi(PyObject *module, PyObject *functions);

/* binding_main.c */
PyObject *tprof_py_run_main(PyObject *module, PyObject *args);

/* binding_interpreters.c */
bool tprof_is_main_interpreter(void);
PyObject *tprof_py_is_main_interpreter(PyObject *module, PyObject *unused);
PyObject *tprof_py_claim(PyObject *module, PyObject *unused);
PyObject *tprof_py_release(PyObject *module, PyObject *unused);
PyObject *tprof_py_define(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *tprof_py_table_begin(PyObject *module, PyObject *path);
PyObject *tprof_py_table_end(PyObject *module, PyObject *unused);
PyObject *tprof_py_table_lost(PyObject *module, PyObject *unused);

/* binding_task.c: a callable around a function */
struct task {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function;
    PyObject *original; /* whose attributes it has: the function, or the one that the function calls */
    PyObject *access; /* its declared data accesses, for runtimes; NULL: a runtime does not spawn its calls */
    PyObject *dict;
    PyObject *weak_references;
    PyObject *module; /* lives longer than the interpreter's tasks */
    struct tprof_state *state;
    uint32_t number;
    bool resumed; /* it returns a generator or coroutine, whose steps are the instance */
};

bool tprof_is_task(PyObject *object);

/* Pause of a thread after an outermost task, in nanoseconds per 1000 of the task. */
extern uint32_t tprof_pause_share;
struct tprof_frame;
void tprof_pause_after(const struct tprof_frame *frame, uint64_t began_ns);

/* Run it here as an instance: with this number, or with a new one if it is 0. */
PyObject *tprof_task_run(struct task *self, PyObject *const *args, size_t count, PyObject *names, uint64_t instance);
PyObject *tprof_py_set_pause(PyObject *module, PyObject *share);

/* binding_runtime.c */
PyObject *tprof_py_set_spawner(PyObject *module, PyObject *spawner);
int tprof_add_runtime_api(PyObject *module);

/* binding_sensors.c */
PyObject *tprof_py_sensors_start(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *tprof_py_sensors_refused(PyObject *module, PyObject *unused);
PyObject *tprof_py_sensors_stop(PyObject *module, PyObject *unused);
PyObject *tprof_py_drawn_uj(PyObject *module, PyObject *unused);
PyObject *tprof_py_perf_open_probe(PyObject *module, PyObject *args, PyObject *kwargs);

#endif
