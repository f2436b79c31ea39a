/* State shared by the interpreters of this process: the tasks of each, the table of tasks, and the claim to begin a
 * recording. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "binding.h"
#include "definitions.h"
#include "recorder.h"

/* The process and the interpreter of the claim; 0: none. A forked child has no claim of its parent. */
static uint64_t claimed;

static uint64_t claimant(void)
{
    return (uint64_t)getpid() << 32 | (uint32_t)PyInterpreterState_GetID(PyInterpreterState_Get());
}

PyObject *tprof_py_claim(PyObject *module, PyObject *unused)
{
    uint64_t before = __atomic_load_n(&claimed, __ATOMIC_ACQUIRE);
    const uint64_t mine = claimant();
    (void)module;
    (void)unused;
    while (before == mine || before >> 32 != mine >> 32)
        if (__atomic_compare_exchange_n(&claimed, &before, mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            Py_RETURN_TRUE;
    Py_RETURN_FALSE;
}

PyObject *tprof_py_release(PyObject *module, PyObject *unused)
{
    uint64_t mine = claimant();
    (void)module;
    (void)unused;
    (void)__atomic_compare_exchange_n(&claimed, &mine, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    Py_RETURN_NONE;
}

bool tprof_is_main_interpreter(void)
{
    return PyInterpreterState_Get() == PyInterpreterState_Main();
}

PyObject *tprof_py_is_main_interpreter(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(tprof_is_main_interpreter());
}

/* Names may hold lone surrogates, as file names do. */
static bool keep_text(struct tprof_text *to, PyObject *from)
{
    *to = (struct tprof_text){NULL, 0};
    if (from == Py_None)
        return true;
    PyObject *bytes = PyUnicode_AsEncodedString(from, "utf-8", "surrogatepass");
    if (bytes == NULL)
        return false;
    to->length = (size_t)PyBytes_GET_SIZE(bytes);
    to->bytes = malloc(to->length + 1);
    if (to->bytes != NULL)
        memcpy(to->bytes, PyBytes_AS_STRING(bytes), to->length);
    else
        PyErr_NoMemory();
    Py_DECREF(bytes);
    return to->bytes != NULL;
}

static PyObject *text(const struct tprof_text *from)
{
    return from->bytes == NULL ? Py_NewRef(Py_None)
                               : PyUnicode_DecodeUTF8(from->bytes, (Py_ssize_t)from->length, "surrogatepass");
}

static PyObject *number_unless_nan(double value)
{
    return isnan(value) ? Py_NewRef(Py_None) : PyFloat_FromDouble(value);
}

PyObject *tprof_py_define(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"name", "file", "line", "flops", "bytes", "budget_j", NULL};
    struct tprof_definition given = {.flops = NAN, .traffic_bytes = NAN, .budget_j = NAN};
    PyObject *name, *file;
    char table[PATH_MAX];
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UOi|$ddd", names, &name, &file, &given.line, &given.flops,
                                     &given.traffic_bytes, &given.budget_j))
        return NULL;
    struct tprof_definition *kept = malloc(sizeof *kept);
    if (kept == NULL)
        return PyErr_NoMemory();
    if (!keep_text(&given.name, name) || !keep_text(&given.file, file)) {
        *kept = given;
        tprof_definitions_free(kept);
        return NULL;
    }
    *kept = given;
    tprof_define(&tprof_state_of(module)->definitions, kept, table);
    PyObject *path = table[0] == '\0' ? Py_NewRef(Py_None) : PyUnicode_DecodeFSDefault(table);
    return path == NULL ? NULL : Py_BuildValue("(IN)", kept->number, path);
}

static PyObject *describe(const struct tprof_definition *one)
{
    PyObject *line = one->line < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(one->line);
    return Py_BuildValue("(INNNNNN)", one->number, text(&one->name), text(&one->file), line,
                         number_unless_nan(one->flops), number_unless_nan(one->traffic_bytes),
                         number_unless_nan(one->budget_j));
}

PyObject *tprof_py_table_begin(PyObject *module, PyObject *path)
{
    struct tprof_definition *others;
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    const bool begun = tprof_table_begin(PyBytes_AS_STRING(bytes), &tprof_state_of(module)->definitions, &others);
    Py_DECREF(bytes);
    if (!begun)
        return PyErr_NoMemory();
    PyObject *list = PyList_New(0);
    for (const struct tprof_definition *one = others; list != NULL && one != NULL; one = one->next) {
        PyObject *described = describe(one);
        if (described == NULL || PyList_Append(list, described) < 0)
            Py_CLEAR(list);
        Py_XDECREF(described);
    }
    tprof_definitions_free(others);
    return list;
}

PyObject *tprof_py_table_end(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLong(tprof_table_end());
}

PyObject *tprof_py_table_lost(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    tprof_table_lost();
    Py_RETURN_NONE;
}
