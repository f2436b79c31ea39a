/* Sessions and recordings as Python starts and ends them. All functions hold Python's lock, and tprof/session.py
 * sees to it that no two of them run at a time. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "binding.h"
#include "recorder.h"

/* Written by one thread at a time. Who reads it on another acquires it by tprof_session_page(). */
static struct tprof_live *session_live;
/* A thread that is just writing its last sample may still look at the page of the recording that ended, so a page
 * is given back only when the next but one begins. */
static struct tprof_live *former;

struct tprof_live *tprof_session_page(void)
{
    return __atomic_load_n(&session_live, __ATOMIC_ACQUIRE);
}

static char *live_path(PyObject *directory, char path[PATH_MAX])
{
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(directory, &bytes))
        return NULL;
    const int length = PyOS_snprintf(path, PATH_MAX, "%s/live", PyBytes_AS_STRING(bytes));
    Py_DECREF(bytes);
    if (length >= PATH_MAX) {
        errno = ENAMETOOLONG;
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, directory);
        return NULL;
    }
    return path;
}

static PyObject *enter(PyObject *directory, struct tprof_live *(*open_page)(const char *))
{
    char path[PATH_MAX];
    if (live_path(directory, path) == NULL)
        return NULL;
    struct tprof_live *page = open_page(path);
    if (page == NULL)
        return PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, directory);
    tprof_live_close(former);
    former = session_live;
    __atomic_store_n(&session_live, page, __ATOMIC_RELEASE);
    return PyLong_FromUnsignedLong(tprof_live_enter(page));
}

PyObject *tprof_py_session_create(PyObject *module, PyObject *directory)
{
    (void)module;
    return enter(directory, tprof_live_create);
}

PyObject *tprof_py_session_join(PyObject *module, PyObject *directory)
{
    (void)module;
    return enter(directory, tprof_live_join);
}

PyObject *tprof_py_session_rejoin(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    if (session_live == NULL || __atomic_load_n(&session_live->state, __ATOMIC_ACQUIRE) != TPROF_LIVE_RUNNING)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLong(tprof_live_enter(session_live));
}

PyObject *tprof_py_session_leave(PyObject *module, PyObject *process)
{
    (void)module;
    const unsigned long ordinal = PyLong_AsUnsignedLong(process);
    if (PyErr_Occurred())
        return NULL;
    if (session_live != NULL)
        tprof_live_leave(session_live, (uint32_t)ordinal);
    Py_RETURN_NONE;
}

static PyObject *list_processes(struct tprof_live *live)
{
    uint32_t count = __atomic_load_n(&live->next_process, __ATOMIC_ACQUIRE);
    PyObject *processes = PyList_New(0);
    if (count > TPROF_MAX_PROCESSES)
        count = TPROF_MAX_PROCESSES;
    for (uint32_t i = 0; processes != NULL && i < count; i++) {
        const struct tprof_live_process *slot = &live->processes[i];
        /* The end first: a process writes its time before it. */
        const uint64_t ended_ns = __atomic_load_n(&slot->ended_ns, __ATOMIC_ACQUIRE);
        PyObject *entry = Py_BuildValue("(IIKK)", i, __atomic_load_n(&slot->pid, __ATOMIC_RELAXED),
                                        (unsigned long long)__atomic_load_n(&slot->cpu_ns, __ATOMIC_RELAXED),
                                        (unsigned long long)ended_ns);
        if (entry == NULL || PyList_Append(processes, entry) < 0)
            Py_CLEAR(processes);
        Py_XDECREF(entry);
    }
    return processes;
}

static unsigned long long count_of(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static unsigned int small_count_of(const uint32_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

PyObject *tprof_py_session_end(PyObject *module, PyObject *unused)
{
    struct tprof_live *live = session_live;
    (void)module;
    (void)unused;
    if (live == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "no session is open in this process");
        return NULL;
    }
    __atomic_store_n(&live->state, TPROF_LIVE_STOPPED, __ATOMIC_RELEASE);
    PyObject *processes = list_processes(live);
    if (processes == NULL)
        return NULL;
    return Py_BuildValue("{s:N,s:I,s:I,s:I,s:I,s:K,s:K,s:K}", "processes", processes, "process_count",
                         small_count_of(&live->next_process), "threads", small_count_of(&live->next_thread),
                         "lost_threads", small_count_of(&live->lost_threads), "uncounted_threads",
                         small_count_of(&live->uncounted_threads), "dropped_enospc", count_of(&live->dropped_enospc),
                         "dropped_emfile", count_of(&live->dropped_emfile), "dropped_io", count_of(&live->dropped_io));
}

static int parse_events(PyObject *events, struct tprof_setup *setup)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(events);
    if (count > TPROF_MAX_EVENTS) {
        PyErr_Format(PyExc_ValueError, "at most %d events fit a sample, got %zd", TPROF_MAX_EVENTS, count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        unsigned int type;
        unsigned long long config;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(events, i), "IK", &type, &config))
            return -1;
        setup->events[i] = (struct tprof_event){.type = type, .config = config};
    }
    setup->event_count = (int)count;
    setup->columns = 2 + (uint32_t)count;
    return 0;
}

/* The calling thread joins at once, so that what it runs outside tasks is seen too. */
static uint64_t start_with_caller(const struct tprof_setup *setup)
{
    const uint64_t generation = tprof_recorder_start(setup);
    struct tprof_thread *thread = tprof_current_thread(generation);
    if (thread != NULL)
        tprof_sample(thread, TPROF_JOIN, 0);
    return generation;
}

PyObject *tprof_py_start(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"directory", "process", "description", "events", "packages", NULL};
    PyObject *directory = NULL, *events;
    Py_buffer packages;
    struct tprof_setup setup = {.live = session_live};
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&IyO!y*", names, PyUnicode_FSConverter, &directory,
                                     &setup.process, &setup.description, &PyTuple_Type, &events, &packages))
        return NULL;
    setup.directory = PyBytes_AS_STRING(directory);
    setup.package_of_cpu = packages.buf;
    setup.cpus = (uint32_t)(packages.len / (Py_ssize_t)sizeof(int16_t));
    PyObject *result = NULL;
    if (session_live == NULL)
        PyErr_SetString(PyExc_RuntimeError, "no session is open in this process");
    else if (parse_events(events, &setup) == 0)
        result = PyLong_FromUnsignedLongLong(start_with_caller(&setup));
    PyBuffer_Release(&packages);
    Py_DECREF(directory);
    return result;
}

PyObject *tprof_py_stop(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    tprof_recorder_stop();
    Py_RETURN_NONE;
}

static PyObject *known_threads;

/* Bytes of the name that threading knows, or NULL. Looked up rather than asked for: Python code would run the
 * program's signal handlers here, and current_thread() enters threads that it does not know. */
static PyObject *find_name(void)
{
    PyObject *name = NULL, *bytes = NULL;
    PyObject *ident = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    PyObject *thread = ident != NULL ? PyObject_GetItem(known_threads, ident) : NULL;
    if (thread != NULL)
        name = PyObject_GetAttrString(thread, "_name");
    if (name != NULL && PyUnicode_Check(name))
        bytes = PyUnicode_AsEncodedString(name, "utf-8", "surrogateescape");
    Py_XDECREF(ident);
    Py_XDECREF(thread);
    Py_XDECREF(name);
    return bytes;
}

/* A name is a convenience: whatever goes wrong with it must not touch the exception the program may be handling. */
static void name_thread(char name[TPROF_NAME_BYTES])
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *bytes = find_name();
    if (bytes != NULL) {
        Py_ssize_t length = PyBytes_GET_SIZE(bytes);
        if (length > TPROF_NAME_BYTES - 1)
            length = TPROF_NAME_BYTES - 1;
        memset(name, 0, TPROF_NAME_BYTES);
        memcpy(name, PyBytes_AS_STRING(bytes), (size_t)length);
    }
    Py_XDECREF(bytes);
    PyErr_Restore(type, value, traceback);
}

PyObject *tprof_py_set_threads(PyObject *module, PyObject *threads)
{
    (void)module;
    Py_XSETREF(known_threads, Py_NewRef(threads));
    tprof_name_thread = name_thread;
    Py_RETURN_NONE;
}
