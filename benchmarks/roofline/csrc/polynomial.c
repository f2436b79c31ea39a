/* Polynomials of a given degree over a stream of numbers: the degree sets how many flops there are a byte.
 *
 * Called from Python threads, one a core, without the interpreter's lock. The widest vectors of the processor it meets
 * are chosen when the module is loaded, by hand rather than by the compiler's clones: registers differ in number too,
 * and with it how many polynomials fit side by side. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>
#include <time.h>

#define MOST_DEGREE 1024
#define PART_BYTES (256 << 10)

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define UNROLL _Pragma("GCC unroll 16")
#else
#define UNROLL
#endif

typedef double (*kernel)(const void *stream, Py_ssize_t count, const void *coefficients, int degree);

/* Of what every processor of the architecture has: SSE2 on x86-64, NEON with its 32 registers on arm64. */
#if defined(__aarch64__)
#define BASE_CHAINS 12
#define BASE_NAME "neon"
#else
#define BASE_CHAINS 6
#define BASE_NAME "128-bit"
#endif

#define KERNEL single_base
#define REAL float
#define VECTOR_BYTES 16
#define CHAINS BASE_CHAINS
#define TARGET
#include "polynomial.h"

#define KERNEL double_base
#define REAL double
#define VECTOR_BYTES 16
#define CHAINS BASE_CHAINS
#define TARGET
#include "polynomial.h"

#if defined(__x86_64__)
#define KERNEL single_avx2
#define REAL float
#define VECTOR_BYTES 32
#define CHAINS 10
#define TARGET __attribute__((target("avx2,fma")))
#include "polynomial.h"

#define KERNEL double_avx2
#define REAL double
#define VECTOR_BYTES 32
#define CHAINS 10
#define TARGET __attribute__((target("avx2,fma")))
#include "polynomial.h"

#define KERNEL single_avx512
#define REAL float
#define VECTOR_BYTES 64
#define CHAINS 12
#define TARGET __attribute__((target("avx512f,fma")))
#include "polynomial.h"

#define KERNEL double_avx512
#define REAL double
#define VECTOR_BYTES 64
#define CHAINS 12
#define TARGET __attribute__((target("avx512f,fma")))
#include "polynomial.h"
#endif

struct choice {
    const char *name;
    kernel of_single, of_double;
};

/* Those that this processor has, the widest first; returns how many. */
#define MOST_CHOICES 3
static int available(struct choice *found)
{
    int count = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        found[count++] = (struct choice){"avx512", single_avx512, double_avx512};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        found[count++] = (struct choice){"avx2", single_avx2, double_avx2};
#endif
    found[count++] = (struct choice){BASE_NAME, single_base, double_base};
    return count;
}

/* The one of this name, the widest for NULL; 0 if there is none. */
static int choose(const char *name, struct choice *chosen)
{
    struct choice found[MOST_CHOICES];
    const int count = available(found);
    for (int i = 0; i < count; i++)
        if (name == NULL || strcmp(found[i].name, name) == 0) {
            *chosen = found[i];
            return 1;
        }
    return 0;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct outcome {
    double numbers, seconds, sum;
};

/* Go through the stream again and again, in parts, so that the end is not overrun by a whole pass. */
static struct outcome sweep(kernel run, const Py_buffer *stream, const void *coefficients, int degree, double seconds)
{
    const Py_ssize_t size = stream->itemsize, count = stream->len / size, most = PART_BYTES / size;
    const double begin = now_s();
    struct outcome done = {0, 0, 0};
    for (Py_ssize_t at = 0; done.seconds < seconds; done.seconds = now_s() - begin) {
        const Py_ssize_t length = count - at < most ? count - at : most;
        done.sum += run((const char *)stream->buf + at * size, length, coefficients, degree);
        done.numbers += (double)length;
        at = at + length >= count ? 0 : at + length;
    }
    return done;
}

/* Numbers from 0 to 3/4 stay in reach with these, whatever the degree, and never become subnormal. */
static void fill(float *singles, double *doubles)
{
    for (int j = 0; j < MOST_DEGREE; j++) {
        doubles[j] = 0.25 + 0.5 * (j % 7) / 7.0;
        singles[j] = (float)doubles[j];
    }
}

static float singles[MOST_DEGREE];
static double doubles[MOST_DEGREE];

static PyObject *polynomial(PyObject *self, PyObject *args)
{
    PyObject *array;
    Py_buffer stream;
    int degree;
    double seconds;
    const char *name = NULL;
    struct choice vectors;
    (void)self;
    if (!PyArg_ParseTuple(args, "Oid|z", &array, &degree, &seconds, &name))
        return NULL;
    if (!choose(name, &vectors))
        return PyErr_Format(PyExc_ValueError, "this processor has no vectors called %s", name);
    if (degree < 0 || degree > MOST_DEGREE)
        return PyErr_Format(PyExc_ValueError, "a degree is from 0 to %d, got %d", MOST_DEGREE, degree);
    if (PyObject_GetBuffer(array, &stream, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0)
        return NULL;
    const int is_double = strcmp(stream.format, "d") == 0;
    if ((!is_double && strcmp(stream.format, "f") != 0) || stream.len == 0) {
        PyBuffer_Release(&stream);
        return PyErr_Format(PyExc_ValueError, "a stream is an array of float32 or float64 that is not empty");
    }
    struct outcome done;
    Py_BEGIN_ALLOW_THREADS
    done = is_double ? sweep(vectors.of_double, &stream, doubles, degree, seconds)
                     : sweep(vectors.of_single, &stream, singles, degree, seconds);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&stream);
    return Py_BuildValue("ddd", done.numbers, done.seconds, done.sum);
}

static PyObject *vectors(PyObject *self, PyObject *ignored)
{
    struct choice found[MOST_CHOICES];
    const int count = available(found);
    PyObject *names = PyTuple_New(count);
    (void)self;
    (void)ignored;
    for (int i = 0; names != NULL && i < count; i++) {
        PyObject *name = PyUnicode_FromString(found[i].name);
        if (name == NULL)
            Py_CLEAR(names);
        else
            PyTuple_SET_ITEM(names, i, name);
    }
    return names;
}

static int execute(PyObject *module)
{
    fill(singles, doubles);
    return PyModule_AddIntConstant(module, "MOST_DEGREE", MOST_DEGREE);
}

static PyMethodDef methods[] = {
    {"polynomial", polynomial, METH_VARARGS, NULL},
    {"vectors", vectors, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "tprof.benchmarks.roofline._polynomial",
                                 .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__polynomial(void)
{
    return PyModuleDef_Init(&definition);
}
