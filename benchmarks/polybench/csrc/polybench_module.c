/* What Python sees of the kernels: run(name, arrays, steps), which checks every array before the lock is released. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "polybench.h"

/* `arrays` are the names and, after a colon, the dimensions of each, in the order of polybench_problem.array; the
 * dimension t is the steps of time. */
struct entry {
    const char *name;
    polybench_kernel *run;
    const char *arrays;
    bool has_steps;
    Py_ssize_t least_rows; /* of the dimension k, where one is not enough */
};

static const struct entry entries[] = {
    {"gemm", polybench_gemm, "C:ij A:ik B:kj", false, 1},
    {"mm2", polybench_mm2, "T:ij A:ik B:kj C:jl D:il", false, 1},
    {"mm3", polybench_mm3, "E:ij A:ik B:kj F:jl C:jm D:ml G:il", false, 1},
    {"symm", polybench_symm, "C:ij A:ii B:ij", false, 1},
    {"syrk", polybench_syrk, "C:ii A:ik", false, 1},
    {"trmm", polybench_trmm, "A:ii B:ij", false, 1},
    {"gemver", polybench_gemver, "A:ii u1:i v1:i u2:i v2:i w:i x:i y:i z:i", false, 1},
    {"mvt", polybench_mvt, "x1:i x2:i y1:i y2:i A:ii", false, 1},
    {"atax", polybench_atax, "A:ij x:j y:j t:i", false, 1},
    {"bicg", polybench_bicg, "A:ij s:j q:i p:j r:i", false, 1},
    {"jacobi1d", polybench_jacobi1d, "A:i B:i", true, 1},
    {"jacobi2d", polybench_jacobi2d, "A:ii B:ii", true, 1},
    {"fdtd2d", polybench_fdtd2d, "ex:ij ey:ij hz:ij drive:t", true, 1},
    {"seidel2d", polybench_seidel2d, "A:ii", true, 1},
    {"adi", polybench_adi, "u:ii v:ii p:ii q:ii", true, 1},
    {"correlation", polybench_correlation, "data:ki corr:ii mean:i deviation:i", false, 1},
    {"covariance", polybench_covariance, "data:ki cov:ii mean:i", false, 2},
};

/* One array as it is named in an entry; `dimensions` end at a space or at the end. */
struct named {
    char name[16];
    const char *dimensions;
    int dimension_count;
};

static struct named next_named(const char **rest)
{
    struct named found = {.dimensions = strchr(*rest, ':') + 1};
    memcpy(found.name, *rest, (size_t)(found.dimensions - *rest) - 1); /* the longest is "deviation" */
    found.dimension_count = (int)strcspn(found.dimensions, " ");
    *rest = found.dimensions + found.dimension_count;
    *rest += strspn(*rest, " ");
    return found;
}

static size_t *size_of(struct polybench_problem *problem, char dimension)
{
    return dimension == 't' ? &problem->steps : &problem->size[dimension - 'i'];
}

/* Refuse an array of another kind; the sentence names it as the entry does. */
static int check_kind(const struct entry *entry, const struct named *named, const Py_buffer *view)
{
    const char *wrong = NULL;
    if (view->format == NULL || strcmp(view->format, "d") != 0)
        wrong = "must hold float64 numbers of this machine's byte order";
    else if (!PyBuffer_IsContiguous(view, 'C') || (uintptr_t)view->buf % sizeof(double) != 0)
        wrong = "must be contiguous, row by row, and aligned: pass numpy.ascontiguousarray of it";
    else if (view->readonly)
        wrong = "must be writable";
    if (wrong == NULL)
        return 0;
    PyErr_Format(PyExc_ValueError, "array %s of %s %s", named->name, entry->name, wrong);
    return -1;
}

/* Take a dimension's size from the first array that has it, and refuse another size in a later one. */
static int check_shape(const struct entry *entry, const struct named *named, const Py_buffer *view,
                       struct polybench_problem *problem)
{
    if (view->ndim != named->dimension_count) {
        PyErr_Format(PyExc_ValueError, "array %s of %s must have %d dimensions, got %d", named->name, entry->name,
                     named->dimension_count, view->ndim);
        return -1;
    }
    for (int place = 0; place < view->ndim; place++) {
        const char dimension = named->dimensions[place];
        const Py_ssize_t got = view->shape[place], least = dimension == 'k' ? entry->least_rows : 1;
        size_t *known = size_of(problem, dimension);
        if (got < least) {
            PyErr_Format(PyExc_ValueError, "array %s of %s needs at least %zd in its dimension %d, got %zd",
                         named->name, entry->name, least, place, got);
            return -1;
        }
        if (*known != 0 && *known != (size_t)got) {
            PyErr_Format(PyExc_ValueError, "array %s of %s must have %zu in its dimension %d, as the others, got %zd",
                         named->name, entry->name, *known, place, got);
            return -1;
        }
        *known = (size_t)got;
    }
    return 0;
}

/* Kernels are compiled for arrays that do not overlap. */
static int check_apart(const struct entry *entry, const Py_buffer *views, int taken)
{
    const char *begin = views[taken].buf, *end = begin + views[taken].len;
    for (int other = 0; other < taken; other++) {
        const char *from = views[other].buf, *to = from + views[other].len;
        if (begin < to && from < end) {
            PyErr_Format(PyExc_ValueError, "arrays %d and %d of %s share memory: pass arrays of their own", other,
                         taken, entry->name);
            return -1;
        }
    }
    return 0;
}

/* Fill `views` and the problem; `taken` counts the views to be released, on failure too. */
static int take_arrays(const struct entry *entry, PyObject *arrays, struct polybench_problem *problem, Py_buffer *views,
                       int *taken)
{
    const char *rest = entry->arrays;
    const Py_ssize_t given = PyTuple_GET_SIZE(arrays);
    Py_ssize_t place = 0;
    for (; *rest != '\0' && place < given; place++) {
        const struct named named = next_named(&rest);
        Py_buffer *view = &views[*taken];
        if (PyObject_GetBuffer(PyTuple_GET_ITEM(arrays, place), view, PyBUF_FULL_RO) != 0)
            return -1;
        *taken += 1;
        if (check_kind(entry, &named, view) != 0 || check_shape(entry, &named, view, problem) != 0 ||
            check_apart(entry, views, *taken - 1) != 0)
            return -1;
        problem->array[place] = view->buf;
    }
    if (*rest != '\0' || place != given) {
        PyErr_Format(PyExc_ValueError, "%s takes the arrays %s, got %zd", entry->name, entry->arrays, given);
        return -1;
    }
    return 0;
}

static const struct entry *find_entry(const char *name)
{
    for (size_t place = 0; place < sizeof entries / sizeof *entries; place++)
        if (strcmp(entries[place].name, name) == 0)
            return &entries[place];
    PyErr_Format(PyExc_ValueError, "there is no kernel \"%s\"", name);
    return NULL;
}

static int check_steps(const struct entry *entry, Py_ssize_t steps)
{
    if (steps >= 1 && (entry->has_steps || steps == 1))
        return 0;
    PyErr_Format(PyExc_ValueError, entry->has_steps ? "%s takes 1 step or more, got %zd" : "%s has no steps, got %zd",
                 entry->name, steps);
    return -1;
}

static PyObject *run(PyObject *self, PyObject *args)
{
    const char *name;
    PyObject *arrays, *done = NULL;
    Py_ssize_t steps = 1;
    Py_buffer views[POLYBENCH_MOST_ARRAYS];
    int taken = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "sO!|n", &name, &PyTuple_Type, &arrays, &steps))
        return NULL;
    const struct entry *entry = find_entry(name);
    if (entry == NULL || check_steps(entry, steps) != 0)
        return NULL;
    struct polybench_problem problem = {.steps = (size_t)steps};
    if (take_arrays(entry, arrays, &problem, views, &taken) == 0) {
        Py_BEGIN_ALLOW_THREADS
        entry->run(&problem);
        Py_END_ALLOW_THREADS
        done = Py_NewRef(Py_None);
    }
    for (int place = 0; place < taken; place++)
        PyBuffer_Release(&views[place]);
    return done;
}

static PyObject *signatures(PyObject *self, PyObject *unused)
{
    (void)self, (void)unused;
    PyObject *found = PyDict_New();
    for (size_t place = 0; found != NULL && place < sizeof entries / sizeof *entries; place++) {
        PyObject *arrays = PyUnicode_FromString(entries[place].arrays);
        if (arrays == NULL || PyDict_SetItemString(found, entries[place].name, arrays) != 0)
            Py_CLEAR(found);
        Py_XDECREF(arrays);
    }
    return found;
}

static PyMethodDef methods[] = {
    {"run", run, METH_VARARGS, NULL},
    {"signatures", signatures, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "tprof.benchmarks.polybench._polybench",
                                        .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__polybench(void)
{
    return PyModuleDef_Init(&definition);
}
