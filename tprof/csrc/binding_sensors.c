/* Descriptions of sensors from Python (tprof/session/preparation.py) to sources, observers of the sensor thread, the
 * files of readings that a Python thread takes, and the probe of a perf event. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "binding.h"
#include "clock.h"
#include "recorder.h"
#include "sensor_thread.h"

struct description {
    PyObject *file, *path, *search; /* bytes as the file system has them; NULL if not given */
    const char *text, *zone, *subzone;
    unsigned long long modulus;
    double unit;
};

struct energy_observer {
    PyObject_HEAD
    struct tprof_observer observer;
};

struct reading_file {
    PyObject_HEAD
    struct tprof_source source;
    pid_t owner; /* a forked child has no mapping of the file */
    bool open;
};

static int copy_text(char *to, size_t size, const char *from)
{
    if (strlen(from) >= size) {
        PyErr_Format(PyExc_ValueError, "%.100s… is longer than %zu bytes", from, size - 1);
        return -1;
    }
    strcpy(to, from);
    return 0;
}

static int copy_path(char *to, size_t size, PyObject *from)
{
    return copy_text(to, size, from != NULL ? PyBytes_AS_STRING(from) : "");
}

static int parse_cpus(struct tprof_source *source, PyObject *cpus)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(cpus); i++) {
        const unsigned long cpu = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(cpus, i));
        if (PyErr_Occurred())
            return -1;
        if (cpu < TPROF_MAX_PACKAGES * 64)
            source->cpus[cpu / 64] |= UINT64_C(1) << (cpu % 64);
    }
    return 0;
}

static int create_stream(struct tprof_source *source, const struct description *given)
{
    struct tprof_header header = {
        .magic = TPROF_MAGIC,
        .major = TPROF_MAJOR,
        .minor = TPROF_MINOR,
        .endian = TPROF_ENDIAN,
        .kind = TPROF_READINGS,
        .header_bytes = TPROF_HEADER_BYTES,
        .window_bytes = 4096,
        .record_bytes = sizeof(struct tprof_reading),
        .thread = TPROF_NO_THREAD,
        .pid = (uint32_t)getpid(),
        .start_ns = tprof_now_ns(),
        .modulus = given->modulus,
        .unit = given->unit,
        .description_bytes = (uint32_t)strlen(given->text),
    };
    if (copy_text(header.description, sizeof header.description, given->text) < 0)
        return -1;
    const char *file = PyBytes_AS_STRING(given->file);
    errno = tprof_stream_create(&source->stream, AT_FDCWD, file, &header);
    if (errno != 0) {
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, file);
        return -1;
    }
    return 0;
}

static int apply(const struct description *given, struct tprof_source *source)
{
    if (copy_path(source->path, sizeof source->path, given->path) < 0 ||
        copy_path(source->search, sizeof source->search, given->search) < 0 ||
        copy_text(source->zone, sizeof source->zone, given->zone) < 0 ||
        copy_text(source->subzone, sizeof source->subzone, given->subzone) < 0)
        return -1;
    source->count.modulus = given->modulus;
    source->count.unit_j = given->unit;
    source->count.is_calculated = isinf(source->count.limit_w);
    if (PyBytes_GET_SIZE(given->file) == 0)
        return 0;
    source->live = tprof_session_live;
    return create_stream(source, given);
}

static int parse_source(struct tprof_source *source, PyObject *given)
{
    static char *names[] = {"kind",    "file",   "description", "modulus", "unit",    "period_ns", "max_power_w",
                            "package", "path",   "search",      "zone",    "subzone", "type",      "config",
                            "cpu",     "idle_w", "per_core_w",  "cpus",    NULL};
    struct description read = {.zone = "", .subzone = ""};
    PyObject *no_args = PyTuple_New(0), *cpus = NULL;
    unsigned int type = 0;
    unsigned long long config = 0, period_ns;
    int kind;
    source->fd = -1;
    if (no_args == NULL)
        return -1;
    const int parsed = PyArg_ParseTupleAndKeywords(
        no_args, given, "iO&sKdKdi|O&O&ssIKiddO!", names, &kind, PyUnicode_FSConverter, &read.file, &read.text,
        &read.modulus, &read.unit, &period_ns, &source->count.limit_w, &source->package, PyUnicode_FSConverter,
        &read.path, PyUnicode_FSConverter, &read.search, &read.zone, &read.subzone, &type, &config, &source->cpu,
        &source->idle_w, &source->per_core_w, &PyTuple_Type, &cpus);
    Py_DECREF(no_args);
    if (!parsed)
        return -1; /* the converters took back what they made */
    source->kind = (enum tprof_source_kind)kind;
    source->period_ns = period_ns;
    source->event = (struct tprof_event){.type = type, .config = config};
    const int applied = cpus != NULL && parse_cpus(source, cpus) < 0 ? -1 : apply(&read, source);
    Py_DECREF(read.file);
    Py_XDECREF(read.path);
    Py_XDECREF(read.search);
    return applied;
}

static void abandon(struct tprof_source *sources, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++)
        tprof_source_close(&sources[i]);
    free(sources);
}

/* Returns NULL with an exception. */
static struct tprof_source *parse_sources(PyObject *given)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(given);
    struct tprof_source *sources = calloc((size_t)count + 1, sizeof *sources);
    if (sources == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (parse_source(&sources[i], PyTuple_GET_ITEM(given, i)) < 0) {
            abandon(sources, i);
            return NULL;
        }
    }
    return sources;
}

PyObject *tprof_py_sensors_start(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"sources", "budget", NULL};
    PyObject *given;
    double budget = 0;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|d", names, &PyTuple_Type, &given, &budget))
        return NULL;
    if (tprof_session_live == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "no session is open in this process");
        return NULL;
    }
    struct tprof_source *sources = parse_sources(given);
    if (sources == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    tprof_sensors_start(sources, (int)PyTuple_GET_SIZE(given), budget, &tprof_session_live->clock);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyObject *tprof_py_sensors_refused(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromUnsignedLong(tprof_sensors_refused());
}

PyObject *tprof_py_sensors_stop(PyObject *module, PyObject *unused)
{
    uint64_t cpu_ns;
    (void)module;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    cpu_ns = tprof_sensors_stop();
    Py_END_ALLOW_THREADS
    return PyLong_FromUnsignedLongLong(cpu_ns);
}

static PyObject *create_observer(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"sources", "budget", NULL};
    PyObject *given;
    double budget = 0;
    int error;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|d", names, &PyTuple_Type, &given, &budget))
        return NULL;
    struct energy_observer *self = (struct energy_observer *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->observer.sources = parse_sources(given);
    if (self->observer.sources == NULL) {
        Py_DECREF(self);
        return NULL;
    }
    self->observer.count = (int)PyTuple_GET_SIZE(given);
    Py_BEGIN_ALLOW_THREADS
    error = tprof_sensors_observe(&self->observer, budget);
    Py_END_ALLOW_THREADS
    if (error != 0) {
        Py_DECREF(self);
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return (PyObject *)self;
}

static PyObject *read_observer(PyObject *object, PyObject *unused)
{
    uint64_t t_ns;
    double energy_uj;
    (void)unused;
    tprof_observer_read(&((struct energy_observer *)object)->observer, &t_ns, &energy_uj);
    return Py_BuildValue("(Kd)", (unsigned long long)t_ns, energy_uj);
}

static PyObject *close_observer(PyObject *object, PyObject *unused)
{
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    tprof_sensors_leave(&((struct energy_observer *)object)->observer);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static void free_observer(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    tprof_sensors_leave(&((struct energy_observer *)object)->observer);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef observer_methods[] = {
    {"read", read_observer, METH_NOARGS, NULL},
    {"close", close_observer, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot observer_slots[] = {
    {Py_tp_new, create_observer},
    {Py_tp_dealloc, free_observer},
    {Py_tp_methods, observer_methods},
    {0, NULL},
};

PyType_Spec tprof_energy_observer_spec = {
    .name = "tprof._core.EnergyObserver",
    .basicsize = sizeof(struct energy_observer),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = observer_slots,
};

static PyObject *create_reading_file(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"source", "update_ns", NULL};
    PyObject *given;
    unsigned long long update_ns = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|K", names, &PyDict_Type, &given, &update_ns))
        return NULL;
    struct reading_file *self = (struct reading_file *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->owner = getpid();
    if (parse_source(&self->source, given) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    self->source.gap_ns = update_ns;
    self->open = true;
    return (PyObject *)self;
}

static PyObject *take_reading(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"t_ns", "took_ns", "value", "error", "reopened", NULL};
    struct reading_file *self = (struct reading_file *)object;
    unsigned long long t_ns, took_ns, value;
    int error = 0, reopened = 0;
    bool taken = false;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "KKK|ip", names, &t_ns, &took_ns, &value, &error, &reopened))
        return NULL;
    Py_BEGIN_CRITICAL_SECTION(object);
    const bool is_later = t_ns > self->source.last_record_ns && t_ns > self->source.last_success_ns;
    if (self->open && self->owner == getpid() && is_later) {
        self->source.took_ns = took_ns;
        self->source.reopened |= reopened != 0;
        (void)tprof_source_take(&self->source, t_ns, value, error, reopened != 0);
        taken = true;
    }
    Py_END_CRITICAL_SECTION();
    return PyBool_FromLong(taken);
}

static void end_reading_file(struct reading_file *self)
{
    if (self->open && self->owner == getpid())
        tprof_source_close(&self->source);
    self->open = false;
}

static PyObject *close_reading_file(PyObject *object, PyObject *unused)
{
    (void)unused;
    Py_BEGIN_CRITICAL_SECTION(object);
    end_reading_file((struct reading_file *)object);
    Py_END_CRITICAL_SECTION();
    Py_RETURN_NONE;
}

static void free_reading_file(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    end_reading_file((struct reading_file *)object);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyMethodDef reading_file_methods[] = {
    {"take", (PyCFunction)(void (*)(void))take_reading, METH_VARARGS | METH_KEYWORDS, NULL},
    {"close", close_reading_file, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reading_file_slots[] = {
    {Py_tp_new, create_reading_file},
    {Py_tp_dealloc, free_reading_file},
    {Py_tp_methods, reading_file_methods},
    {0, NULL},
};

PyType_Spec tprof_reading_file_spec = {
    .name = "tprof._core.ReadingFile",
    .basicsize = sizeof(struct reading_file),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = reading_file_slots,
};

PyObject *tprof_py_perf_open_probe(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"type", "config", "pid", "cpu", "exclude_kernel", "longest_ns", NULL};
    unsigned int type;
    unsigned long long config, longest_ns = 0;
    int pid, cpu, exclude_kernel, error;
    uint64_t result[3] = {0};
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "IKiip|K", names, &type, &config, &pid, &cpu, &exclude_kernel,
                                     &longest_ns))
        return NULL;
    const struct tprof_event event = {.type = type, .config = config};
    Py_BEGIN_ALLOW_THREADS
    error = tprof_counters_probe(&event, pid, cpu, exclude_kernel != 0, longest_ns, result);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("(iKKK)", error, (unsigned long long)result[0], (unsigned long long)result[1],
                         (unsigned long long)result[2]);
}

PyObject *tprof_py_drawn_uj(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    const struct tprof_live *live = tprof_session_page();
    unsigned long long total_uj = 0;
    for (int package = 0; live != NULL && package < TPROF_MAX_PACKAGES; package++)
        total_uj += __atomic_load_n(&live->energy_uj[package], __ATOMIC_RELAXED);
    return PyLong_FromUnsignedLongLong(total_uj);
}
