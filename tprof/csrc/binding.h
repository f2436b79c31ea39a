/* What Python sees of the core. Only module.c and the files named binding_* know Python; all else compiles without. */
#ifndef TPROF_BINDING_H
#define TPROF_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

/* Of an object, where threads run Python at the same time; elsewhere Python's lock does the same. What is inside takes no
 * lock and calls no Python code: either may let another thread in. */
#if PY_VERSION_HEX < 0x030D0000
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

struct tprof_live;

extern PyType_Spec tprof_task_spec;   /* binding_task.c: a callable that is a task */
extern PyType_Spec tprof_region_spec; /* binding_region.c: a with-block that is a task */
extern PyType_Spec tprof_driver_spec; /* binding_driver.c: a generator or coroutine that is a task */
extern PyType_Spec tprof_thread_task_spec; /* binding_thread.c: what a thread runs, as a task */

/* binding_follow.c */
extern PyType_Spec tprof_tail_spec, tprof_follower_spec;
PyObject *tprof_py_session_threads(PyObject *module, PyObject *unused);
PyObject *tprof_py_used_ns(PyObject *module, PyObject *unused);

/* binding_forks.c */
PyObject *tprof_py_set_fork_work(PyObject *module, PyObject *functions);
PyObject *tprof_py_fork_before(PyObject *module, PyObject *unused);
PyObject *tprof_py_fork_in_parent(PyObject *module, PyObject *unused);
PyObject *tprof_py_fork_in_child(PyObject *module, PyObject *unused);
PyObject *tprof_py_hold_signals(PyObject *module, PyObject *unused);
PyObject *tprof_py_release_signals(PyObject *module, PyObject *unused);
PyObject *tprof_py_await_thread_end(PyObject *module, PyObject *native_id);

/* binding_session.c */
extern struct tprof_live *tprof_session_live; /* of the session this process takes part in, or NULL */
static inline struct tprof_live *tprof_session_page(void) /* for threads that neither begin nor end one */
{
    return __atomic_load_n(&tprof_session_live, __ATOMIC_ACQUIRE);
}
PyObject *tprof_py_session_create(PyObject *module, PyObject *directory);
PyObject *tprof_py_session_join(PyObject *module, PyObject *directory);
PyObject *tprof_py_session_rejoin(PyObject *module, PyObject *unused);
PyObject *tprof_py_session_leave(PyObject *module, PyObject *process);
PyObject *tprof_py_session_end(PyObject *module, PyObject *unused);
PyObject *tprof_py_start(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *tprof_py_stop(PyObject *module, PyObject *unused);
PyObject *tprof_py_set_threads(PyObject *module, PyObject *threads);

/* binding_task.c */
PyObject *tprof_py_set_pause(PyObject *module, PyObject *share);

/* binding_runtime.c */
PyObject *tprof_py_set_spawner(PyObject *module, PyObject *spawner);
int tprof_add_runtime_api(PyObject *module);

/* binding_sensors.c */
PyObject *tprof_py_sensors_start(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *tprof_py_sensors_stop(PyObject *module, PyObject *unused);
PyObject *tprof_py_drawn_uj(PyObject *module, PyObject *unused);
PyObject *tprof_py_perf_open_probe(PyObject *module, PyObject *args, PyObject *kwargs);

#endif
