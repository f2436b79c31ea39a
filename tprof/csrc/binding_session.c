/* Start and end of sessions and recordings. The caller has claimed this (binding_interpreters.c), and
 * the process's membership (tprof/session/membership.py) ensures that only one thread does so at a time. Other threads
 * may read the session's page meanwhile, in free-threaded builds without a lock. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "binding.h"
#include "mpi_calls.h"
#include "native_threads.h"
#include "recorder.h"
#include "sensor_thread.h"

struct tprof_live *tprof_session_live;
/* Another thread may still read the page of an ended session, so a page is unmapped only when the session after the
 * next one begins. */
static struct tprof_live *former;

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
    if (former != NULL)
        tprof_recorder_close_live(former);
    former = tprof_session_live;
    /* Release: the page is complete for every reader. */
    __atomic_store_n(&tprof_session_live, page, __ATOMIC_RELEASE);
    return PyLong_FromUnsignedLong(tprof_live_enter(page));
}

PyObject *tprof_py_session_create(PyObject *module, PyObject *directory)
{
    (void)module;
    return enter(directory, tprof_live_create);
}

PyObject *tprof_py_session_watch(PyObject *module, PyObject *directory)
{
    char path[PATH_MAX];
    (void)module;
    if (live_path(directory, path) == NULL)
        return NULL;
    struct tprof_live *page = tprof_live_join(path);
    if (page == NULL)
        return PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, directory);
    __atomic_store_n(&tprof_session_live, page, __ATOMIC_RELEASE);
    Py_RETURN_NONE;
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
    if (tprof_session_live == NULL ||
        __atomic_load_n(&tprof_session_live->state, __ATOMIC_ACQUIRE) != TPROF_LIVE_RUNNING)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLong(tprof_live_enter(tprof_session_live));
}

PyObject *tprof_py_session_leave(PyObject *module, PyObject *process)
{
    (void)module;
    const unsigned long ordinal = PyLong_AsUnsignedLong(process);
    if (PyErr_Occurred())
        return NULL;
    if (tprof_session_live != NULL)
        tprof_live_leave(tprof_session_live, (uint32_t)ordinal);
    Py_RETURN_NONE;
}

static struct {
    pid_t process;
    uint32_t ordinal;
} leaver;

/* Python has ended. A forked child has inherited the call. */
static void leave_at_exit(void)
{
    if (leaver.process != getpid())
        return;
    tprof_sensors_unfollow();
    tprof_recorder_stop();
    if (tprof_session_live != NULL)
        tprof_live_leave(tprof_session_live, leaver.ordinal);
}

PyObject *tprof_py_session_leave_at_exit(PyObject *module, PyObject *process)
{
    (void)module;
    const unsigned long ordinal = PyLong_AsUnsignedLong(process);
    if (PyErr_Occurred())
        return NULL;
    leaver.process = getpid();
    leaver.ordinal = (uint32_t)ordinal;
    if (Py_AtExit(leave_at_exit) < 0) {
        PyErr_SetString(PyExc_RuntimeError, "Python has no room for one more function to call at its end");
        return NULL;
    }
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
        /* Read the end first: the time is written before it. */
        const unsigned long long ended_ns = __atomic_load_n(&slot->ended_ns, __ATOMIC_ACQUIRE);
        PyObject *entry = Py_BuildValue("(IIKK)", i, __atomic_load_n(&slot->pid, __ATOMIC_ACQUIRE),
                                        (unsigned long long)__atomic_load_n(&slot->cpu_ns, __ATOMIC_RELAXED), ended_ns);
        if (entry == NULL || PyList_Append(processes, entry) < 0)
            Py_CLEAR(processes);
        Py_XDECREF(entry);
    }
    return processes;
}

PyObject *tprof_py_session_processes(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return tprof_session_live != NULL ? list_processes(tprof_session_live) : PyList_New(0);
}

PyObject *tprof_py_session_end(PyObject *module, PyObject *unused)
{
    struct tprof_live *live = tprof_session_live;
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
    /* Threads of other processes may still count: these figures are independent of each other. */
#define COUNT(field) #field, (unsigned long long)__atomic_load_n(&live->field, __ATOMIC_RELAXED)
    return Py_BuildValue("{s:N,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "processes", processes, "process_count",
                         (unsigned long long)__atomic_load_n(&live->next_process, __ATOMIC_RELAXED), "threads",
                         (unsigned long long)__atomic_load_n(&live->next_thread, __ATOMIC_RELAXED), COUNT(lost_threads),
                         COUNT(uncounted_threads), COUNT(dropped_enospc), COUNT(dropped_emfile), COUNT(dropped_io));
#undef COUNT
}

static int parse_group(PyObject *group, struct tprof_event_group *parsed)
{
    PyObject *events;
    int part;
    if (!PyArg_ParseTuple(group, "pO!", &part, &PyTuple_Type, &events))
        return -1;
    parsed->part = part != 0;
    if (PyTuple_GET_SIZE(events) > TPROF_MAX_EVENTS) {
        PyErr_Format(PyExc_ValueError, "at most %d events fit a sample, got %zd", TPROF_MAX_EVENTS,
                     PyTuple_GET_SIZE(events));
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(events); i++) {
        unsigned int type;
        unsigned long long config;
        int column;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(events, i), "iIK", &column, &type, &config))
            return -1;
        if (column < 0 || column >= TPROF_MAX_EVENTS) {
            PyErr_Format(PyExc_ValueError, "a column is below %d, got %d", TPROF_MAX_EVENTS, column);
            return -1;
        }
        parsed->columns[i] = column;
        parsed->events[i] = (struct tprof_event){.type = type, .config = config};
    }
    parsed->count = (int)PyTuple_GET_SIZE(events);
    return 0;
}

static int parse_groups(PyObject *groups, struct tprof_setup *setup)
{
    setup->columns = 2;
    if (PyTuple_GET_SIZE(groups) > TPROF_MAX_GROUPS) {
        PyErr_Format(PyExc_ValueError, "at most %d groups are counted, got %zd", TPROF_MAX_GROUPS,
                     PyTuple_GET_SIZE(groups));
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(groups); i++) {
        struct tprof_event_group *group = &setup->counted.groups[i];
        if (parse_group(PyTuple_GET_ITEM(groups, i), group) != 0)
            return -1;
        for (int j = 0; j < group->count; j++)
            if (setup->columns < 3 + (uint32_t)group->columns[j])
                setup->columns = 3 + (uint32_t)group->columns[j];
    }
    setup->counted.group_count = (int)PyTuple_GET_SIZE(groups);
    return 0;
}

/* The calling thread joins at once, so that its time outside tasks is recorded too. */
static PyObject *start_with_caller(const struct tprof_setup *setup)
{
    const uint64_t generation = tprof_recorder_start(setup);
    if (generation == 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    struct tprof_thread *thread = tprof_current_thread(generation);
    if (thread != NULL)
        tprof_sample(thread, TPROF_JOIN, 0);
    return PyLong_FromUnsignedLongLong(generation);
}

PyObject *tprof_py_start(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"directory", "process", "description", "groups", "papi", "packages", "native", NULL};
    PyObject *directory = NULL, *groups, *papi;
    Py_buffer packages;
    const char *native;
    struct tprof_setup setup = {.live = tprof_session_live};
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&IyO!O!y*z", names, PyUnicode_FSConverter, &directory,
                                     &setup.process, &setup.description, &PyTuple_Type, &groups, &PyTuple_Type, &papi,
                                     &packages, &native))
        return NULL;
    setup.directory = PyBytes_AS_STRING(directory);
    setup.package_of_cpu = packages.buf;
    setup.cpus = (uint32_t)(packages.len / (Py_ssize_t)sizeof(int16_t));
    PyObject *result = NULL;
    if (tprof_session_live == NULL)
        PyErr_SetString(PyExc_RuntimeError, "no session is open in this process");
    else if (parse_groups(groups, &setup) == 0 && tprof_parse_papi_events(papi, &setup.counted.papi) == 0) {
        if (setup.counted.papi.count > 0)
            setup.columns = 2 + (uint32_t)setup.counted.papi.count;
        result = start_with_caller(&setup);
    }
    if (result != NULL && native != NULL) {
        const struct tprof_native_setup followed = {setup.directory, setup.process, native, &setup.counted};
        /* Without their file, which a full disk may prevent, the native threads' time is unknown. */
        Py_BEGIN_ALLOW_THREADS(void)
        tprof_sensors_follow(&followed);
        Py_END_ALLOW_THREADS
        tprof_follow_imports();
    }
    PyBuffer_Release(&packages);
    Py_DECREF(directory);
    return result;
}

PyObject *tprof_py_stop(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    tprof_sensors_unfollow();
    Py_END_ALLOW_THREADS
    tprof_recorder_stop();
    Py_RETURN_NONE;
}

/* Return the entry of `threading` for this thread's number, or NULL. A look-up without Python code: that would run the
 * program's signal handlers here, and current_thread() adds an entry for unknown threads. */
static PyObject *find_thread(PyObject *threading)
{
    if (tprof_starting_thread != NULL)
        return Py_NewRef(tprof_starting_thread);
    PyObject *threads = PyObject_GetAttrString(threading, "_active");
    PyObject *ident = threads != NULL ? PyLong_FromUnsignedLong(PyThread_get_thread_ident()) : NULL;
    PyObject *thread = ident != NULL ? PyObject_GetItem(threads, ident) : NULL;
    Py_XDECREF(threads);
    Py_XDECREF(ident);
    return thread;
}

/* A subinterpreter takes its first thread for its main thread; the thread's real name is in the interpreter that
 * started it, which may be running. */
static bool is_visitor(PyObject *threading, PyObject *thread)
{
    if (tprof_is_main_interpreter())
        return false;
    PyObject *first = PyObject_GetAttrString(threading, "_main_thread");
    const bool visits = thread == NULL || thread == first;
    Py_XDECREF(first);
    return visits;
}

/* The system's name of the thread, unless it is that of the process, and the interpreter. */
static PyObject *name_visitor(const char *system_name)
{
    char process_name[TPROF_NAME_BYTES] = "";
    if (syscall(SYS_gettid) == getpid())
        return PyBytes_FromString("MainThread");
    const int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        const ssize_t length = read(fd, process_name, sizeof process_name - 1);
        process_name[length > 0 ? length - 1 : 0] = '\0'; /* it ends with a newline */
        close(fd);
    }
    const long interpreter = (long)PyInterpreterState_GetID(PyInterpreterState_Get());
    if (strcmp(process_name, system_name) == 0)
        return PyBytes_FromFormat("interpreter %ld", interpreter);
    return PyBytes_FromFormat("%s in interpreter %ld", system_name, interpreter);
}

/* Bytes of the thread's name, or NULL. */
static PyObject *find_name(const char *system_name)
{
    PyObject *module = PyUnicode_FromString("threading"), *name = NULL, *bytes = NULL;
    PyObject *threading = module != NULL ? PyImport_GetModule(module) : NULL;
    PyObject *thread = threading != NULL ? find_thread(threading) : NULL;
    if (threading != NULL && is_visitor(threading, thread)) {
        PyErr_Clear();
        bytes = name_visitor(system_name);
    } else if (thread != NULL)
        name = PyObject_GetAttrString(thread, "_name");
    if (name != NULL && PyUnicode_Check(name))
        bytes = PyUnicode_AsEncodedString(name, "utf-8", "surrogateescape");
    Py_XDECREF(module);
    Py_XDECREF(threading);
    Py_XDECREF(thread);
    Py_XDECREF(name);
    return bytes;
}

/* A name is a convenience: a failure must not change the exception that the program may be handling. */
void tprof_name_thread(char name[TPROF_NAME_BYTES])
{
    PyObject *type, *value, *traceback;
    if (tprof_is_detached) {
        if (syscall(SYS_gettid) == getpid())
            PyOS_snprintf(name, TPROF_NAME_BYTES, "MainThread");
        return;
    }
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *bytes = find_name(name);
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

static int failed_status;

/* _exit skips the exit functions registered before this one, which belong to the interpreter. */
static void end_with_failure(int status, void *process)
{
    if (status != 0 || failed_status == 0 || (pid_t)(intptr_t)process != getpid())
        return;
    (void)fflush(NULL);
    _exit(failed_status);
}

PyObject *tprof_py_fail_at_exit(PyObject *module, PyObject *status)
{
    static bool registered;
    const long requested = PyLong_AsLong(status);
    (void)module;
    if (requested == -1 && PyErr_Occurred())
        return NULL;
    if (!registered && on_exit(end_with_failure, (void *)(intptr_t)getpid()) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    registered = true;
    failed_status = (int)requested;
    Py_RETURN_NONE;
}

static struct {
    pid_t owner, process;
    int channel;
} later;

/* Called after the interpreter and its libraries have ended: sensors are read until a message from the process that
 * ends the recording, and the channel is closed when they have stopped. */
static void await_end(int status, void *unused)
{
    char byte;
    (void)status;
    (void)unused;
    if (later.owner != getpid())
        return;
    while (read(later.channel, &byte, 1) < 0 && errno == EINTR)
        ;
    (void)tprof_sensors_stop();
    close(later.channel);
    while (waitpid(later.process, NULL, 0) < 0 && errno == EINTR)
        ;
}

PyObject *tprof_py_await_at_exit(PyObject *module, PyObject *args)
{
    int process, channel;
    (void)module;
    if (!PyArg_ParseTuple(args, "ii", &process, &channel))
        return NULL;
    if (later.owner != getpid() && on_exit(await_end, NULL) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    later.owner = getpid();
    later.process = (pid_t)process;
    later.channel = channel;
    Py_RETURN_NONE;
}
