/* The count of a domain for tprof/trace/increments.py, which follows it through a file of readings. */
#include "binding.h"
#include "increments.h"

struct followed_count {
    PyObject_HEAD
    struct tprof_count count;
};

static PyObject *create_count(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"unit_j", "modulus", "limit_w", "is_calculated", NULL};
    struct tprof_count count = {0};
    unsigned long long modulus;
    int is_calculated;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "dKdp", names, &count.unit_j, &modulus, &count.limit_w,
                                     &is_calculated))
        return NULL;
    struct followed_count *self = (struct followed_count *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    count.modulus = modulus;
    count.is_calculated = is_calculated != 0;
    self->count = count;
    return (PyObject *)self;
}

static Py_ssize_t follow(struct tprof_count *count, const Py_buffer *records, struct tprof_increment *ended,
                         double longest_ns)
{
    const struct tprof_reading *readings = records->buf;
    const Py_ssize_t number = records->len / (Py_ssize_t)sizeof *readings;
    Py_ssize_t found = 0;
    for (Py_ssize_t i = 0; i < number; i++)
        found += tprof_count_take(count, &readings[i], &ended[found]);
    return found + tprof_count_still(count, longest_ns, &ended[found]);
}

static PyObject *follow_readings(PyObject *object, PyObject *args)
{
    struct followed_count *self = (struct followed_count *)object;
    Py_buffer records, ended;
    double longest_ns;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*w*d", &records, &ended, &longest_ns))
        return NULL;
    const size_t most = (size_t)records.len / sizeof(struct tprof_reading) + 1;
    if ((size_t)records.len % sizeof(struct tprof_reading) != 0 ||
        (size_t)ended.len < most * sizeof(struct tprof_increment)) {
        PyErr_SetString(PyExc_ValueError, "the readings are not whole, or there is no room for their increments");
    } else {
        Py_ssize_t found;
        Py_BEGIN_CRITICAL_SECTION(object);
        found = follow(&self->count, &records, ended.buf, longest_ns);
        Py_END_CRITICAL_SECTION();
        result = Py_BuildValue("(nK)", found, (unsigned long long)self->count.unordered);
    }
    PyBuffer_Release(&records);
    PyBuffer_Release(&ended);
    return result;
}

static PyMethodDef count_methods[] = {
    {"follow", follow_readings, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot count_slots[] = {
    {Py_tp_new, create_count},
    {Py_tp_methods, count_methods},
    {0, NULL},
};

PyType_Spec tprof_count_spec = {
    .name = "tprof._core.Count",
    .basicsize = sizeof(struct followed_count),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = count_slots,
};
