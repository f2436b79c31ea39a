/* Executes a program's code for `tprof run` as the interpreter does, with no frame below. */
#include "binding.h"

/* The place of the thread's current frame. */
static struct _PyInterpreterFrame **running(PyThreadState *thread)
{
#if PY_VERSION_HEX < 0x030D0000
    return &thread->cframe->current_frame;
#else
    return &thread->current_frame;
#endif
}

/* While the program runs, its recursion limit grows by the frames below; up to 3.11 also by the call of C. */
#define CALLS_OF_C (PY_VERSION_HEX < 0x030C0000)

static int *remaining_depth(PyThreadState *thread)
{
#if PY_VERSION_HEX < 0x030C0000
    return &thread->recursion_remaining;
#else
    return &thread->py_recursion_remaining;
#endif
}

/* Whether frames below may be hidden: the collector of 3.14's free-threaded build searches all frames for references.
 */
static bool may_hide(void)
{
#ifdef Py_GIL_DISABLED
    return PY_VERSION_HEX < 0x030E0000;
#else
    return true;
#endif
}

PyObject *tprof_py_run_main(PyObject *module, PyObject *args)
{
    PyObject *code, *names;
    int depth;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!i", &PyCode_Type, &code, &PyDict_Type, &names, &depth))
        return NULL;
    depth += CALLS_OF_C;
    if (!may_hide())
        return PyEval_EvalCode(code, names, names);
    PyThreadState *thread = PyThreadState_Get();
    struct _PyInterpreterFrame *below = *running(thread);
    *running(thread) = NULL;
    *remaining_depth(thread) += depth;
    PyObject *result = PyEval_EvalCode(code, names, names);
    *remaining_depth(thread) -= depth;
    *running(thread) = below;
    return result;
}
