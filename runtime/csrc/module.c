/* tprof.runtime._scheduler: the method table and the module's creation. _scheduler.pyi documents each name. */
#include "binding.h"

const struct tprof_runtime_api *tprof_api;
PyTypeObject *tprof_work_type, *tprof_group_type, *tprof_scheduler_type, *tprof_gate_type;

static PyObject *current_slot(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    if (tprof_current_thread == NULL)
        Py_RETURN_NONE;
    return PyLong_FromLong(tprof_current_thread->slot);
}

static PyObject *forget_thread(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    tprof_current_thread = NULL;
    Py_RETURN_NONE;
}

static int shape_of(PyObject *object, struct shape *shape)
{
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_STRIDES) < 0)
        return -1;
    const bool fits =
        tprof_shape_make(shape, (uintptr_t)view.buf, (size_t)view.itemsize, view.ndim, view.shape, view.strides);
    PyBuffer_Release(&view);
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "the array's strides lead out of memory");
    return fits ? 0 : -1;
}

static PyObject *share_memory(PyObject *module, PyObject *args)
{
    PyObject *one, *other;
    struct shape first, second;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &one, &other) || shape_of(one, &first) < 0 || shape_of(other, &second) < 0)
        return NULL;
    return PyBool_FromLong(tprof_shapes_overlap(&first, &second));
}

static PyMethodDef methods[] = {
    {"spawn", (PyCFunction)(void (*)(void))tprof_spawn, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"enter_scheduler", tprof_enter_scheduler, METH_O, NULL},
    {"leave_scheduler", tprof_leave_scheduler, METH_O, NULL},
    {"set_default", tprof_set_default, METH_O, NULL},
    {"current_scheduler", tprof_current_scheduler_method, METH_NOARGS, NULL},
    {"current_slot", current_slot, METH_NOARGS, NULL},
    {"forget_thread", forget_thread, METH_NOARGS, NULL},
    {"share_memory", share_memory, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **kept)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type == NULL)
        return -1;
    *kept = (PyTypeObject *)type;
    return PyModule_AddType(module, (PyTypeObject *)type);
}

static int execute(PyObject *module)
{
    tprof_api = PyCapsule_Import(TPROF_RUNTIME_API_NAME, 0);
    if (tprof_api == NULL)
        return -1;
    tprof_initialise_current();
    if (add_type(module, &tprof_work_spec, &tprof_work_type) < 0 ||
        add_type(module, &tprof_group_spec, &tprof_group_type) < 0 ||
        add_type(module, &tprof_scheduler_spec, &tprof_scheduler_type) < 0 ||
        add_type(module, &tprof_gate_spec, &tprof_gate_type) < 0)
        return -1;
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tprof.runtime._scheduler",
    .m_doc = "The task runtime's native core.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__scheduler(void)
{
    return PyModuleDef_Init(&definition);
}
