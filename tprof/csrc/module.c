/* tprof._core: the method table and the initialisation of the module. _core.pyi documents each function. */
#include "binding.h"
#include "clock.h"
#include "descriptor.h"
#include "increments.h"
#include "native_threads.h"
#include "process.h"
#include "recorder.h"

static PyObject *now_ns(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLongLong(tprof_now_ns());
}

static PyObject *suspended_ns(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLongLong(tprof_suspended_ns(0));
}

static PyObject *raise_descriptor(PyObject *module, PyObject *number)
{
    (void)module;
    const long fd = PyLong_AsLong(number);
    if (fd == -1 && PyErr_Occurred())
        return NULL;
    return PyLong_FromLong(tprof_descriptor_raise((int)fd));
}

static PyObject *generation(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLongLong(tprof_generation);
}

/* The instance that runs on the calling thread, and its task; 0 if none does or nothing is recorded. */
static PyObject *next_instance(PyObject *module, PyObject *unused)
{
    const uint64_t generation = __atomic_load_n(&tprof_generation, __ATOMIC_ACQUIRE);
    const struct tprof_thread *thread = generation == 0 ? NULL : tprof_current_thread(generation);
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLongLong(thread == NULL ? 0 : thread->next_instance);
}

static PyObject *running(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    const struct tprof_thread *thread = tprof_self;
    const bool records = thread != NULL && tprof_recording() && thread->generation == tprof_generation;
    return Py_BuildValue("KI", records ? (unsigned long long)thread->instance : 0ULL,
                         records ? thread->task : TPROF_NO_TASK);
}

/* For the test that compares the three descriptions of the format (C, Python, prose). */
static PyObject *layout(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
#define AT(type, field) #field, (int)offsetof(struct type, field)
    return Py_BuildValue(
        "{s:i,s:i,s:i,s:i,s:{s:i,s:i,s:i,s:i,s:i,s:i,s:i},s:{s:i,s:i,s:i,s:i,s:i,s:i},"
        "s:{s:i,s:i,s:i,s:i,s:i,s:i,s:i},s:{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i},"
        "s:{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i},"
        "s:{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i}}",
        "sample_bytes", 64, "reading_bytes", (int)sizeof(struct tprof_reading), "event_bytes",
        (int)sizeof(struct tprof_graph_event), "native_bytes", (int)sizeof(struct tprof_native), "sample",
        AT(tprof_sample, t_ns), AT(tprof_sample, instance), AT(tprof_sample, task), AT(tprof_sample, cpu),
        AT(tprof_sample, kind), AT(tprof_sample, flags), AT(tprof_sample, columns), "reading", AT(tprof_reading, t_ns),
        AT(tprof_reading, value), AT(tprof_reading, window_ns), AT(tprof_reading, flags), AT(tprof_reading, error),
        AT(tprof_reading, suspended_ns), "event", AT(tprof_graph_event, t_ns), AT(tprof_graph_event, instance),
        AT(tprof_graph_event, other), AT(tprof_graph_event, task), AT(tprof_graph_event, worker),
        AT(tprof_graph_event, kind), AT(tprof_graph_event, flags), "native", AT(tprof_native, t_ns),
        AT(tprof_native, value), AT(tprof_native, tid), AT(tprof_native, task), AT(tprof_native, thread),
        AT(tprof_native, part), AT(tprof_native, kind), AT(tprof_native, flags), "stack", AT(tprof_stack, t_ns),
        AT(tprof_stack, cpu_ns), AT(tprof_stack, tid), AT(tprof_stack, other), AT(tprof_stack, number),
        AT(tprof_stack, part), AT(tprof_stack, kind), AT(tprof_stack, flags), "header", AT(tprof_header, process),
        AT(tprof_header, start_ns), AT(tprof_header, absent), AT(tprof_header, committed), AT(tprof_header, flushed),
        AT(tprof_header, dropped_enospc), AT(tprof_header, dropped_io), AT(tprof_header, dropped_reentrant),
        AT(tprof_header, first_drop_ns), AT(tprof_header, end_reason), AT(tprof_header, end_ns),
        AT(tprof_header, end_columns), AT(tprof_header, modulus), AT(tprof_header, unit), AT(tprof_header, thread_name),
        AT(tprof_header, description_bytes));
#undef AT
}

static PyObject *leave_out_thread(PyObject *module, PyObject *begins)
{
    (void)module;
    tprof_native_leave_out(begins == Py_True);
    Py_RETURN_NONE;
}

static PyObject *set_segment_bytes(PyObject *module, PyObject *bytes)
{
    const unsigned long long given = PyLong_AsUnsignedLongLong(bytes);
    (void)module;
    if (PyErr_Occurred())
        return NULL;
    tprof_stream_set_segment_bytes(given);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"now_ns", now_ns, METH_NOARGS, NULL},
    {"raise_descriptor", raise_descriptor, METH_O, NULL},
    {"suspended_ns", suspended_ns, METH_NOARGS, NULL},
    {"generation", generation, METH_NOARGS, NULL},
    {"running", running, METH_NOARGS, NULL},
    {"next_instance", next_instance, METH_NOARGS, NULL},
    {"layout", layout, METH_NOARGS, NULL},
    {"set_segment_bytes", set_segment_bytes, METH_O, NULL},
    {"follow_mpi", tprof_py_follow_mpi, METH_O, NULL},
    {"leave_out_thread", leave_out_thread, METH_O, NULL},
    {"session_create", tprof_py_session_create, METH_O, NULL},
    {"session_join", tprof_py_session_join, METH_O, NULL},
    {"session_rejoin", tprof_py_session_rejoin, METH_NOARGS, NULL},
    {"session_watch", tprof_py_session_watch, METH_O, NULL},
    {"await_at_exit", tprof_py_await_at_exit, METH_VARARGS, NULL},
    {"session_processes", tprof_py_session_processes, METH_NOARGS, NULL},
    {"session_leave", tprof_py_session_leave, METH_O, NULL},
    {"session_leave_at_exit", tprof_py_session_leave_at_exit, METH_O, NULL},
    {"session_end", tprof_py_session_end, METH_NOARGS, NULL},
    {"session_threads", tprof_py_session_threads, METH_NOARGS, NULL},
    {"used_ns", tprof_py_used_ns, METH_NOARGS, NULL},
    {"thread_used_ns", tprof_py_thread_used_ns, METH_VARARGS, NULL},
    {"start", (PyCFunction)(void (*)(void))tprof_py_start, METH_VARARGS | METH_KEYWORDS, NULL},
    {"stop", tprof_py_stop, METH_NOARGS, NULL},
    {"run_main", tprof_py_run_main, METH_VARARGS, NULL},
    {"drive", tprof_py_drive, METH_VARARGS, NULL},
    {"set_pause", tprof_py_set_pause, METH_O, NULL},
    {"set_spawner", tprof_py_set_spawner, METH_O, NULL},
    {"is_main_interpreter", tprof_py_is_main_interpreter, METH_NOARGS, NULL},
    {"claim", tprof_py_claim, METH_NOARGS, NULL},
    {"release", tprof_py_release, METH_NOARGS, NULL},
    {"define", (PyCFunction)(void (*)(void))tprof_py_define, METH_VARARGS | METH_KEYWORDS, NULL},
    {"table_begin", tprof_py_table_begin, METH_O, NULL},
    {"table_end", tprof_py_table_end, METH_NOARGS, NULL},
    {"table_lost", tprof_py_table_lost, METH_NOARGS, NULL},
    {"fail_at_exit", tprof_py_fail_at_exit, METH_O, NULL},
    {"set_fork_work", tprof_py_set_fork_work, METH_O, NULL},
    {"fork_before", tprof_py_fork_before, METH_NOARGS, NULL},
    {"fork_in_parent", tprof_py_fork_in_parent, METH_NOARGS, NULL},
    {"fork_in_child", tprof_py_fork_in_child, METH_NOARGS, NULL},
    {"hold_signals", tprof_py_hold_signals, METH_NOARGS, NULL},
    {"release_signals", tprof_py_release_signals, METH_NOARGS, NULL},
    {"await_thread_end", tprof_py_await_thread_end, METH_O, NULL},
    {"sensors_start", (PyCFunction)(void (*)(void))tprof_py_sensors_start, METH_VARARGS | METH_KEYWORDS, NULL},
    {"sensors_refused", tprof_py_sensors_refused, METH_NOARGS, NULL},
    {"sensors_stop", tprof_py_sensors_stop, METH_NOARGS, NULL},
    {"drawn_uj", tprof_py_drawn_uj, METH_NOARGS, NULL},
    {"follow_spans", tprof_py_follow_spans, METH_VARARGS, NULL},
    {"papi_load", tprof_py_papi_load, METH_VARARGS, NULL},
    {"papi_try", tprof_py_papi_try, METH_O, NULL},
    {"perf_open_probe", (PyCFunction)(void (*)(void))tprof_py_perf_open_probe, METH_VARARGS | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};

static int add_type(PyObject *module, PyType_Spec *spec)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type == NULL)
        return -1;
    const int failed = PyModule_AddType(module, (PyTypeObject *)type);
    Py_DECREF(type);
    return failed;
}

static int execute(PyObject *module)
{
    if (tprof_process_initialise() != 0) {
        PyErr_SetString(PyExc_ImportError, "tprof._core: pthread_key_create or pthread_atfork failed");
        return -1;
    }
    tprof_definitions_list(&tprof_state_of(module)->definitions);
    if (add_type(module, &tprof_task_spec) < 0 || add_type(module, &tprof_region_spec) < 0 ||
        tprof_add_driver_types(module) < 0 || add_type(module, &tprof_thread_task_spec) < 0 ||
        add_type(module, &tprof_span_spec) < 0 || add_type(module, &tprof_span_context_spec) < 0 ||
        add_type(module, &tprof_tail_spec) < 0 || add_type(module, &tprof_energy_observer_spec) < 0 ||
        add_type(module, &tprof_reading_file_spec) < 0 || add_type(module, &tprof_count_spec) < 0)
        return -1;
#ifndef Py_GIL_DISABLED
    if (add_type(module, &tprof_stack_file_spec) < 0)
        return -1;
#endif
#if PY_VERSION_HEX >= 0x030C0000
    if (add_type(module, &tprof_monitor_spec) < 0)
        return -1;
#endif
    if (PyModule_AddStringConstant(module, "VERSION", TPROF_VERSION) < 0 ||
        PyModule_AddIntConstant(module, "LATE_NS", TPROF_LATE_NS) < 0 ||
        PyModule_AddIntConstant(module, "STILL_NS", TPROF_STILL_NS) < 0 ||
        PyModule_AddIntConstant(module, "USUAL_UPDATES", TPROF_USUAL_UPDATES) < 0)
        return -1;
    return tprof_add_runtime_api(module);
}

/* The state is NULL before the module is executed. */
static int traverse(PyObject *module, visitproc visit, void *arg)
{
    const struct tprof_state *state = tprof_state_of(module);
    if (state == NULL)
        return 0;
    for (int i = 0; i < TPROF_DRIVERS; i++)
        Py_VISIT(state->driver_types[i]);
    Py_VISIT(state->spawner);
    Py_VISIT(state->fork_work);
    return 0;
}

static int clear(PyObject *module)
{
    struct tprof_state *state = tprof_state_of(module);
    if (state == NULL)
        return 0;
    for (int i = 0; i < TPROF_DRIVERS; i++)
        Py_CLEAR(state->driver_types[i]);
    Py_CLEAR(state->spawner);
    Py_CLEAR(state->fork_work);
    return 0;
}

static void release(void *module)
{
    struct tprof_state *state = tprof_state_of(module);
    (void)clear(module);
    if (state != NULL)
        tprof_definitions_unlist(&state->definitions);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tprof._core",
    .m_doc = "The recorder's native core.",
    .m_methods = methods,
    .m_size = sizeof(struct tprof_state),
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = release,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}

PyObject *tprof_module_of(PyTypeObject *type)
{
    return PyType_GetModuleByDef(type, &definition);
}
