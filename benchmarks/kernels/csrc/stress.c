/* Kernels that load one part of a core each, for a given time, without Python's lock.
 *
 * They are not meant to be fast but to be unlike each other: what a calibration needs is runs in which instructions,
 * L2 and LLC traffic vary apart. Each returns the work it did, so that nothing can be optimised away unseen. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <time.h>

#define LINE 64
#define ROUND 4096

/* The same loop for the widest vectors of the processor it meets. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What comes in is not known when this is compiled, so no loop can be folded. */
static volatile double unknown = 0.999999;

WIDEST static double multiply_add(double *lanes, double m)
{
    for (int i = 0; i < ROUND; i++)
        for (int k = 0; k < 32; k++)
            lanes[k] = lanes[k] * m + 1e-6;
    return lanes[0];
}

static double run_pipeline(double seconds, double *sum)
{
    double lanes[32] = {0}, operations = 0;
    for (const double end = now_s() + seconds; now_s() < end; operations += 32.0 * ROUND)
        *sum += multiply_add(lanes, unknown);
    return operations;
}

static double run_chain(double seconds, double *sum)
{
    double x = 1, operations = 0;
    for (const double end = now_s() + seconds; now_s() < end; operations += ROUND) {
        const double m = unknown;
        for (int i = 0; i < ROUND; i++)
            x = x * m + 1e-6;
    }
    *sum += x;
    return operations;
}

static double run_branches(double seconds, double *sum)
{
    uint64_t random = 88172645463325252u, odd = 0, even = 0;
    double operations = 0;
    for (const double end = now_s() + seconds; now_s() < end; operations += ROUND)
        for (int i = 0; i < ROUND; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            /* The barriers keep these from becoming conditional moves. */
            if (random & 1) {
                __asm__ volatile("" ::: "memory");
                odd += random;
            } else {
                __asm__ volatile("" ::: "memory");
                even ^= random;
            }
        }
    *sum += (double)(odd ^ even);
    return operations;
}

/* Read, change and write every line of a working set, with `work` multiply-adds on each number. */
WIDEST static double sweep_once(double *data, Py_ssize_t count, int work, double m)
{
    for (Py_ssize_t i = 0; i < count; i += LINE / 8) {
        double x[LINE / 8];
        for (int k = 0; k < LINE / 8; k++)
            x[k] = data[i + k];
        for (int w = 0; w < work; w++)
            for (int k = 0; k < LINE / 8; k++)
                x[k] = x[k] * m + 1e-6;
        for (int k = 0; k < LINE / 8; k++)
            data[i + k] = x[k] + 1e-9;
    }
    return data[0];
}

static double run_sweep(double *data, Py_ssize_t count, int work, double seconds, double *sum)
{
    /* A large working set is swept in parts, so that the end is not overrun by a whole sweep. */
    const Py_ssize_t part = count < 131072 ? count : 131072;
    double lines = 0;
    Py_ssize_t at = 0;
    for (const double end = now_s() + seconds; now_s() < end;) {
        const Py_ssize_t length = count - at < part ? count - at : part;
        *sum += sweep_once(data + at, length, work, unknown);
        lines += (double)(length / (LINE / 8));
        at = at + length >= count ? 0 : at + length;
    }
    return lines;
}

/* Follow a chain of lines, each naming the next: no address is known before the line before it has come. */
static double run_chase(const uint64_t *next, double seconds, double *sum)
{
    uint64_t at = 0;
    double lines = 0;
    for (const double end = now_s() + seconds; now_s() < end; lines += ROUND)
        for (int i = 0; i < ROUND; i++)
            at = next[at * (LINE / 8)];
    *sum += (double)at;
    return lines;
}

static PyObject *result(double work, double sum)
{
    return Py_BuildValue("dd", work, sum);
}

typedef double (*plain_kernel)(double seconds, double *sum);

static PyObject *run_plain(plain_kernel kernel, PyObject *args)
{
    double seconds, work, sum = 0;
    if (!PyArg_ParseTuple(args, "d", &seconds))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    work = kernel(seconds, &sum);
    Py_END_ALLOW_THREADS
    return result(work, sum);
}

static PyObject *pipeline(PyObject *self, PyObject *args)
{
    (void)self;
    return run_plain(run_pipeline, args);
}

static PyObject *chain(PyObject *self, PyObject *args)
{
    (void)self;
    return run_plain(run_chain, args);
}

static PyObject *branches(PyObject *self, PyObject *args)
{
    (void)self;
    return run_plain(run_branches, args);
}

static PyObject *sweep(PyObject *self, PyObject *args)
{
    Py_buffer buffer;
    int fma;
    double seconds, work, sum = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "w*id", &buffer, &fma, &seconds))
        return NULL;
    if (buffer.len < LINE || buffer.len % LINE != 0) {
        PyBuffer_Release(&buffer);
        PyErr_Format(PyExc_ValueError, "a working set is a multiple of %d bytes", LINE);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    work = run_sweep(buffer.buf, buffer.len / 8, fma, seconds, &sum);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&buffer);
    return result(work, sum);
}

/* Whether every link stays inside. */
static int is_closed(const uint64_t *next, uint64_t lines)
{
    for (uint64_t i = 0; i < lines; i++)
        if (next[i * (LINE / 8)] >= lines)
            return 0;
    return 1;
}

static PyObject *chase(PyObject *self, PyObject *args)
{
    Py_buffer buffer;
    double seconds, work, sum = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*d", &buffer, &seconds))
        return NULL;
    if (buffer.len < LINE || buffer.len % LINE != 0 || !is_closed(buffer.buf, (uint64_t)buffer.len / LINE)) {
        PyBuffer_Release(&buffer);
        PyErr_Format(PyExc_ValueError, "a chain is lines of %d bytes, each beginning with the number of another", LINE);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    work = run_chase(buffer.buf, seconds, &sum);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&buffer);
    return result(work, sum);
}

static PyMethodDef methods[] = {
    {"pipeline", pipeline, METH_VARARGS, NULL}, {"chain", chain, METH_VARARGS, NULL},
    {"branches", branches, METH_VARARGS, NULL}, {"sweep", sweep, METH_VARARGS, NULL},
    {"chase", chase, METH_VARARGS, NULL},       {NULL, NULL, 0, NULL},
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

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "tprof.benchmarks.kernels._stress",
                                        .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__stress(void)
{
    return PyModuleDef_Init(&definition);
}
