/* The libraries of this process: those that imports load, and calls of MPI that are tasks. */
#include <stdlib.h>
#include <string.h>

#include "binding.h"
#include "mpi_calls.h"
#include "native_threads.h"

/* `genuine` is the interpreter's function that loads an extension. */
static PyObject *load_extension(PyObject *genuine, PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    struct tprof_native_load load;
    Py_BEGIN_ALLOW_THREADS
    tprof_native_before_load(&load);
    Py_END_ALLOW_THREADS
    PyObject *extension = PyObject_Vectorcall(genuine, args, (size_t)count, names);
    Py_BEGIN_ALLOW_THREADS
    tprof_native_after_load(&load);
    Py_END_ALLOW_THREADS
    return extension;
}

/* The calls of a library that is loaded while recording are redirected before the program can call it. Written in C, so
 * that no traceback of a failed import shows it; it stays, and passes calls on while nothing is recorded. */
void tprof_follow_imports(void)
{
    static PyMethodDef definition = {"create_dynamic", (PyCFunction)(void (*)(void))load_extension,
                                     METH_FASTCALL | METH_KEYWORDS, NULL};
    PyObject *importer = PyImport_ImportModule("_imp");
    PyObject *genuine = importer != NULL ? PyObject_GetAttrString(importer, definition.ml_name) : NULL;
    const bool is_ours =
        genuine != NULL && PyCFunction_Check(genuine) && PyCFunction_GetFunction(genuine) == definition.ml_meth;
    PyObject *ours = genuine != NULL && !is_ours ? PyCFunction_New(&definition, genuine) : NULL;
    if (ours != NULL)
        (void)PyObject_SetAttrString(importer, definition.ml_name, ours);
    PyErr_Clear();
    Py_XDECREF(ours);
    Py_XDECREF(genuine);
    Py_XDECREF(importer);
}

static bool read_function(struct tprof_mpi_function *function, PyObject *name, PyObject *number)
{
    const char *text = PyUnicode_AsUTF8(name);
    const unsigned long task = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred())
        return false;
    function->name = strdup(text);
    function->task = (uint32_t)task;
    if (function->name == NULL)
        PyErr_NoMemory();
    return function->name != NULL;
}

/* A list of (name, number of its task), sorted by name, which stays for good. */
PyObject *tprof_py_follow_mpi(PyObject *module, PyObject *functions)
{
    (void)module;
    if (!PyList_Check(functions)) {
        PyErr_SetString(PyExc_TypeError, "the functions are a list");
        return NULL;
    }
    const Py_ssize_t count = PyList_GET_SIZE(functions);
    struct tprof_mpi_function *table = calloc((size_t)count + 1, sizeof *table);
    if (table == NULL)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name, *number;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(functions, i), "UO", &name, &number) ||
            !read_function(&table[i], name, number))
            return NULL;
    }
    tprof_mpi_follow(table, (size_t)count);
    tprof_follow_imports();
    Py_BEGIN_ALLOW_THREADS
    tprof_native_follow_mpi();
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}
