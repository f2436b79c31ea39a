/* The work around forks of the program, for tprof/session/process_state.py: os.register_at_fork calls the three hooks,
 * with Python's lock, in the forking thread. What the core does without Python is in process.c.
 *
 * The hooks do little. Python prints and drops an exception of a hook, even of Ctrl-C, and it counts the process's
 * threads after the hooks, for its warning of forks with threads (until cpython's gh-137109). So signals with a Python
 * handler are held from before the fork until it has returned to its caller, and slow work and the start of threads
 * happen then: in a pending call, which the interpreter makes before the caller's next instruction.
 *
 * A pending call may come too early, in another package's hook in Python. In this case the forking frame is not the
 * running one but further out, and the pending call schedules itself again.
 *
 * This concerns the main interpreter only: no other one can fork or run signal handlers. So the static variables belong
 * to the main interpreter, and pending calls, which only it makes, find its module. */
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "binding.h"
#include "clock.h"
#include "recorder.h"
#include "sensor_thread.h"
#include "signals.h"

/* CPU time: until then a fork that raises, when warnings are errors, looks like a running hook. */
#define LONGEST_HOOKS_NS UINT64_C(20000000)
#define ASK_AGAIN_NS UINT64_C(20000)

static _Thread_local PyObject *forking; /* the frame whose call forks, or NULL */
static _Thread_local bool concerned; /* whether this fork needs any work */
static _Thread_local bool holds; /* whether signals are held for it */
static struct {
    PyObject *type, *value, *trace;
} raised; /* by a signal handler just before: it waits until the fork has returned */
static bool in_child;
static uint64_t forked_cpu_ns, asked_ns;

/* Only there does Python run the handlers of signals. */
static bool runs_handlers(void)
{
    return syscall(SYS_gettid) == getpid() && tprof_is_main_interpreter();
}

static void call(PyObject *module, Py_ssize_t which)
{
    PyObject *function = PyTuple_GET_ITEM(tprof_state_of(module)->fork_work, which);
    PyObject *result = PyObject_CallNoArgs(function);
    if (result == NULL)
        PyErr_WriteUnraisable(function);
    Py_XDECREF(result);
}

/* Removes signals without a Python handler from `which`: a handler in C may need more than the signal's number. */
static int drop_foreign(uint64_t *which)
{
    PyObject *module = *which != 0 ? PyImport_ImportModule("_signal") : NULL;
    if (module == NULL)
        return *which != 0 ? -1 : 0;
    for (int number = 1; number <= 64; number++) {
        if ((*which & TPROF_SIGNAL_BIT(number)) == 0)
            continue;
        PyObject *handler = PyObject_CallMethod(module, "getsignal", "i", number);
        if (handler == NULL || !PyCallable_Check(handler))
            *which &= ~TPROF_SIGNAL_BIT(number);
        PyErr_Clear();
        Py_XDECREF(handler);
    }
    Py_DECREF(module);
    return 0;
}

/* Returns whether signals are held now, or -1. */
static int hold(void)
{
    if (!runs_handlers())
        return 0;
    uint64_t which = tprof_signals_are_held() ? 0 : tprof_signals_handled();
    if (drop_foreign(&which) < 0)
        return -1;
    tprof_signals_hold(which);
    return 1;
}

static void hold_for_fork(PyObject *module)
{
    const int held = hold();
    if (held < 0)
        PyErr_WriteUnraisable(module);
    holds = held > 0;
    if (holds && raised.type == NULL && PyErr_CheckSignals() < 0)
        PyErr_Fetch(&raised.type, &raised.value, &raised.trace);
}

/* Whether the forking frame called the running one, directly or not; takes ownership of the latter's reference. */
static bool has_called(PyFrameObject *frame)
{
    bool found = false;
    while (frame != NULL && !found) {
        PyFrameObject *caller = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = caller;
        found = (PyObject *)frame == forking;
    }
    Py_XDECREF(frame);
    return found;
}

static bool is_in_hook(void)
{
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    const uint64_t now_ns = tprof_now_ns();
    const bool has_returned = forking == NULL || (PyObject *)frame == forking;
    /* A pending call that schedules itself again is repeated many times in a row. */
    if (has_returned || now_ns - asked_ns < ASK_AGAIN_NS) {
        Py_XDECREF(frame);
        return !has_returned;
    }
    asked_ns = now_ns;
    return has_called(frame) && tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID) - forked_cpu_ns < LONGEST_HOOKS_NS;
}

/* Returns -1 with the exception to raise in the caller of the fork. */
static int finish(PyObject *module)
{
    concerned = false;
    Py_CLEAR(forking);
    if (in_child) {
        in_child = false;
        call(module, 3);
    } else {
        tprof_sensors_resume();
        call(module, 1);
    }
    if (holds)
        tprof_signals_release();
    holds = false;
    if (raised.type == NULL)
        return 0;
    PyErr_Restore(raised.type, raised.value, raised.trace);
    raised.type = raised.value = raised.trace = NULL;
    return -1;
}

static int finish_unless_in_hook(void *module)
{
    if (!concerned || (is_in_hook() && Py_AddPendingCall(finish_unless_in_hook, module) == 0))
        return 0;
    return finish(module);
}

/* The pending call may borrow the module: os.register_at_fork never releases its functions. */
static void finish_later(PyObject *module)
{
    forked_cpu_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    asked_ns = 0;
    if (runs_handlers() && Py_AddPendingCall(finish_unless_in_hook, module) == 0)
        return;
    if (finish(module) < 0)
        PyErr_WriteUnraisable(module);
}

PyObject *tprof_py_fork_before(PyObject *module, PyObject *unused)
{
    (void)unused;
    concerned = tprof_generation != 0 || tprof_sensors_run();
    if (!concerned)
        Py_RETURN_NONE;
    hold_for_fork(module);
    Py_XSETREF(forking, (PyObject *)PyThreadState_GetFrame(PyThreadState_Get()));
    call(module, 0);
    tprof_sensors_pause();
    Py_RETURN_NONE;
}

PyObject *tprof_py_fork_in_parent(PyObject *module, PyObject *unused)
{
    (void)unused;
    if (concerned)
        finish_later(module);
    Py_RETURN_NONE;
}

PyObject *tprof_py_fork_in_child(PyObject *module, PyObject *unused)
{
    (void)unused;
    Py_CLEAR(raised.type);
    Py_CLEAR(raised.value);
    Py_CLEAR(raised.trace);
    if (concerned && !holds)
        hold_for_fork(module);
    call(module, 2);
    if (concerned) {
        in_child = true;
        finish_later(module);
    }
    Py_RETURN_NONE;
}

PyObject *tprof_py_set_fork_work(PyObject *module, PyObject *functions)
{
    if (!PyTuple_Check(functions) || PyTuple_GET_SIZE(functions) != 4) {
        PyErr_SetString(PyExc_TypeError, "set_fork_work() takes a tuple of four functions");
        return NULL;
    }
    Py_XSETREF(tprof_state_of(module)->fork_work, Py_NewRef(functions));
    Py_RETURN_NONE;
}

PyObject *tprof_py_hold_signals(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    if (hold() < 0)
        return NULL;
    /* Earlier signals are handled now: afterwards no handler runs. */
    if (PyErr_CheckSignals() < 0) {
        (void)tprof_py_release_signals(module, NULL);
        return NULL;
    }
    Py_RETURN_NONE;
}

PyObject *tprof_py_release_signals(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    if (runs_handlers())
        tprof_signals_release();
    Py_RETURN_NONE;
}

PyObject *tprof_py_await_thread_end(PyObject *module, PyObject *native_id)
{
    (void)module;
    const long id = PyLong_AsLong(native_id);
    if (id == -1 && PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    tprof_await_thread_end((pid_t)id);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
