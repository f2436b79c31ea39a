/* What is done around forks of the program, for tprof/forks.py: os.register_at_fork calls the three hooks, with Python's
 * lock, in the thread that forks.
 *
 * The hooks themselves hardly do anything. Python prints and drops what is raised in a hook, a Ctrl-C too; and it counts
 * the process's threads, to warn of forks beside them, after the hooks have run (until cpython's gh-137109). So signals
 * that the program handles are held from before the fork until it has returned to its caller, and what takes long or
 * starts threads is done then: by a pending call, which the interpreter makes before the caller's next instruction.
 *
 * A pending call may come too early, in a hook that somebody else wrote in Python. It sees that from the frame that
 * forked, which is then not the running one but further out, and asks to be called again.
 *
 * All of it concerns the main interpreter only: no other one can fork, nor does any other run handlers of signals. So what
 * is static here belongs to that one, and pending calls, which only it makes, find its module. */
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "binding.h"
#include "clock.h"
#include "recorder.h"
#include "sensor_thread.h"
#include "signals.h"

/* Of CPU time: a fork that raises, with warnings that are errors, may be taken for a hook until then. */
#define LONGEST_HOOKS_NS UINT64_C(20000000)
#define LOOK_AGAIN_NS UINT64_C(20000)

static _Thread_local PyObject *forking; /* the frame whose call forks, or NULL */
static _Thread_local bool concerned;    /* whether there is anything to do for this fork */
static _Thread_local bool holds;        /* whether signals are held for it */
static struct {
    PyObject *type, *value, *trace;
} raised; /* by a handler of a signal that came just before: it waits until the fork has returned */
static bool in_child;
static uint64_t forked_cpu_ns, looked_ns;

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

/* Leaves out of `which` what Python has no handler for: a handler in C may need more than the signal's number. */
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

/* Whether the frame that forked called, however indirectly, the one that runs; takes over the reference to that. */
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
    /* Pending calls that ask for one more are made many times in a row. */
    if (has_returned || now_ns - looked_ns < LOOK_AGAIN_NS) {
        Py_XDECREF(frame);
        return !has_returned;
    }
    looked_ns = now_ns;
    return has_called(frame) && tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID) - forked_cpu_ns < LONGEST_HOOKS_NS;
}

/* Returns -1 with what is to be raised where the fork was called. */
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

/* The pending call may borrow the module: os.register_at_fork keeps its functions for good. */
static void finish_later(PyObject *module)
{
    forked_cpu_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    looked_ns = 0;
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
    /* What came before is handled now: afterwards no handler runs. */
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
