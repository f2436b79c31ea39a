/* The type Gate of Python: what a policy does with the gate of gate.h. The scheduler reports the events of its threads
 * through `tprof_report`; a simulated processor reports them through `Gate.report`. */
#include "binding.h"

#include "gate.h"

#include <stdlib.h>
#include <time.h>

struct gate_object {
    PyObject_HEAD
    struct tprof_gate *gate; /* NULL only while it is made */
    PyObject *on_event;
    PyObject *clock_ns; /* NULL: CLOCK_MONOTONIC */
};

static struct gate_object *as_gate(PyObject *object)
{
    return (struct gate_object *)object;
}

/* Returns -1 with an exception set. */
static int read_clock(const struct gate_object *self, uint64_t *now_ns)
{
    if (self->clock_ns == NULL) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        *now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        return 0;
    }
    PyObject *now = PyObject_CallNoArgs(self->clock_ns);
    if (now == NULL)
        return -1;
    *now_ns = PyLong_AsUnsignedLongLong(now);
    Py_DECREF(now);
    return *now_ns == UINT64_MAX && PyErr_Occurred() ? -1 : 0;
}

static int ask(const struct gate_object *self, const struct tprof_event *event, enum question question)
{
    const enum moment moment = question == TPROF_ASKS_FREQUENCY ? TPROF_TASK_UNDECIDED : event->moment;
    PyObject *result = PyObject_CallFunction(self->on_event, "iIIi", (int)moment, (unsigned)event->place,
                                             (unsigned)event->task, event->slot);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

static int take(const struct gate_object *self, const struct tprof_event *event)
{
    uint64_t now_ns;
    if (read_clock(self, &now_ns) < 0)
        return -1;
    const enum question question = tprof_gate_take(self->gate, event, now_ns);
    return question == TPROF_ASKS_NOTHING ? 0 : ask(self, event, question);
}

void tprof_report_to_gate(PyObject *gate, const struct tprof_event *event)
{
    const struct gate_object *self = as_gate(gate);
    if (tprof_gate_is_closed(self->gate))
        return;
    /* A task may end with an exception. */
    PyObject *waiting = PyErr_Occurred() == NULL ? NULL : tprof_take_exception();
    if (take(self, event) < 0)
        PyErr_WriteUnraisable(self->on_event);
    if (waiting != NULL)
        tprof_put_exception(waiting);
}

uint32_t tprof_place_at_gate(PyObject *gate)
{
    return gate == NULL ? TPROF_NO_PLACE : tprof_gate_place(as_gate(gate)->gate);
}

void tprof_leave_gate(PyObject *gate, uint32_t place)
{
    if (gate != NULL)
        tprof_gate_release(as_gate(gate)->gate, place);
}

/* Returns the numbers of a sequence, to be freed, or NULL with an exception set. */
static uint32_t *read_numbers(PyObject *object, size_t *count)
{
    PyObject *sequence = PySequence_Tuple(object);
    if (sequence == NULL)
        return NULL;
    *count = (size_t)PyTuple_GET_SIZE(sequence);
    uint32_t *numbers = malloc((*count + 1) * sizeof *numbers);
    if (numbers == NULL)
        PyErr_NoMemory();
    for (size_t i = 0; numbers != NULL && i < *count; i++) {
        const unsigned long number = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(sequence, (Py_ssize_t)i));
        if (number >= UINT32_MAX) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_OverflowError, "a number of a task or of a control has 32 bits");
            free(numbers);
            numbers = NULL;
        } else
            numbers[i] = (uint32_t)number;
    }
    Py_DECREF(sequence);
    return numbers;
}

static struct tprof_gate *make(PyObject *controls, bool times)
{
    size_t slots;
    uint32_t *control_of = read_numbers(controls, &slots);
    if (control_of == NULL)
        return NULL;
    struct tprof_gate *gate = NULL;
    bool fits = slots > 0;
    for (size_t slot = 0; slot < slots; slot++)
        fits = fits && control_of[slot] <= UINT16_MAX;
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "a gate has one slot or more, with controls below 65,536");
    else if ((gate = tprof_gate_make(control_of, slots, times)) == NULL)
        PyErr_NoMemory();
    free(control_of);
    return gate;
}

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"on_event", "controls", "times", "clock_ns", NULL};
    PyObject *on_event, *controls, *clock_ns = Py_None;
    int times = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$pO", names, &on_event, &controls, &times, &clock_ns))
        return NULL;
    struct tprof_gate *gate = make(controls, times != 0);
    PyObject *object = gate == NULL ? NULL : type->tp_alloc(type, 0);
    if (object == NULL) {
        if (gate != NULL)
            tprof_gate_free(gate);
        return NULL;
    }
    as_gate(object)->gate = gate;
    as_gate(object)->on_event = Py_NewRef(on_event);
    as_gate(object)->clock_ns = clock_ns == Py_None ? NULL : Py_NewRef(clock_ns);
    return object;
}

static int traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(as_gate(object)->on_event);
    Py_VISIT(as_gate(object)->clock_ns);
    return 0;
}

static int clear(PyObject *object)
{
    tprof_gate_close(as_gate(object)->gate);
    Py_CLEAR(as_gate(object)->on_event);
    Py_CLEAR(as_gate(object)->clock_ns);
    return 0;
}

static void deallocate(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    (void)clear(object);
    tprof_gate_free(as_gate(object)->gate);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *report(PyObject *object, PyObject *args)
{
    int moment, slot = 0;
    unsigned place, task = 0;
    if (!PyArg_ParseTuple(args, "iI|Ii", &moment, &place, &task, &slot))
        return NULL;
    if (moment < TPROF_TASK_BEGINS || moment > TPROF_TASK_RESUMES) {
        PyErr_Format(PyExc_ValueError, "a thread reports the moments 0 to 3, got %d", moment);
        return NULL;
    }
    const struct tprof_event event = {place, (enum moment)moment, task, slot, TPROF_SAME_GENERATION};
    return take(as_gate(object), &event) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *place(PyObject *object, PyObject *unused)
{
    (void)unused;
    const uint32_t number = tprof_gate_place(as_gate(object)->gate);
    return number == TPROF_NO_PLACE ? PyErr_NoMemory() : PyLong_FromUnsignedLong(number);
}

static PyObject *begin(PyObject *object, PyObject *args)
{
    unsigned place, task;
    int slot;
    uint64_t now_ns;
    if (!PyArg_ParseTuple(args, "IIi", &place, &task, &slot) || read_clock(as_gate(object), &now_ns) < 0)
        return NULL;
    return PyLong_FromLong(tprof_gate_enter(as_gate(object)->gate, place, task, slot, now_ns));
}

static PyObject *end(PyObject *object, PyObject *args)
{
    unsigned place, task;
    uint64_t now_ns;
    if (!PyArg_ParseTuple(args, "II", &place, &task) || read_clock(as_gate(object), &now_ns) < 0)
        return NULL;
    return PyLong_FromLong(tprof_gate_leave(as_gate(object)->gate, place, task, now_ns));
}

static PyObject *pause_place(PyObject *object, PyObject *args)
{
    unsigned place;
    uint64_t now_ns;
    if (!PyArg_ParseTuple(args, "I", &place) || read_clock(as_gate(object), &now_ns) < 0)
        return NULL;
    return PyBool_FromLong(tprof_gate_pause(as_gate(object)->gate, place, now_ns));
}

static PyObject *resume_place(PyObject *object, PyObject *args)
{
    unsigned place;
    int slot;
    uint64_t now_ns;
    if (!PyArg_ParseTuple(args, "Ii", &place, &slot) || read_clock(as_gate(object), &now_ns) < 0)
        return NULL;
    return PyBool_FromLong(tprof_gate_resume(as_gate(object)->gate, place, slot, now_ns));
}

static PyObject *running(PyObject *object, PyObject *unused)
{
    const struct tprof_gate *gate = as_gate(object)->gate;
    PyObject *list = PyList_New(0);
    (void)unused;
    for (uint32_t number = 0; list != NULL && number < tprof_gate_places(gate); number++) {
        struct tprof_running one;
        if (!tprof_gate_running(gate, number, &one))
            continue;
        PyObject *entry = Py_BuildValue("(IiII)", number, one.depth, one.task, one.control);
        if (entry == NULL || PyList_Append(list, entry) < 0)
            Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    return list;
}

static PyObject *ended(PyObject *object, PyObject *unused)
{
    const struct tprof_gate *gate = as_gate(object)->gate;
    PyObject *counts = PyDict_New();
    (void)unused;
    for (uint32_t task = 0; counts != NULL && task < tprof_gate_tasks(gate); task++) {
        const uint64_t number = tprof_gate_ended(gate, task);
        if (number == 0)
            continue;
        PyObject *key = PyLong_FromUnsignedLong(task), *value = PyLong_FromUnsignedLongLong(number);
        if (key == NULL || value == NULL || PyDict_SetItem(counts, key, value) < 0)
            Py_CLEAR(counts);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return counts;
}

static PyObject *busy_ns(PyObject *object, PyObject *unused)
{
    uint64_t now_ns;
    (void)unused;
    if (read_clock(as_gate(object), &now_ns) < 0)
        return NULL;
    return PyLong_FromUnsignedLongLong(tprof_gate_busy_ns(as_gate(object)->gate, now_ns));
}

static PyObject *set_due(PyObject *object, PyObject *due_ns)
{
    const unsigned long long value = PyLong_AsUnsignedLongLong(due_ns);
    if (value == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    tprof_gate_set_due(as_gate(object)->gate, value);
    Py_RETURN_NONE;
}

static PyObject *set_kind(PyObject *object, PyObject *args)
{
    unsigned task;
    int kind;
    if (!PyArg_ParseTuple(args, "Ii", &task, &kind))
        return NULL;
    if (task >= INT32_MAX || kind < TPROF_UNSEEN || kind > TPROF_WATCHED) {
        PyErr_SetString(PyExc_ValueError, "a task has a number of 31 bits and a kind from 0 to 3");
        return NULL;
    }
    if (tprof_gate_set_kind(as_gate(object)->gate, task, (enum task_kind)kind) < 0)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *unsettle(PyObject *object, PyObject *place)
{
    const unsigned long number = PyLong_AsUnsignedLong(place);
    if (number == (unsigned long)-1 && PyErr_Occurred())
        return NULL;
    if (number <= UINT32_MAX)
        tprof_gate_unsettle(as_gate(object)->gate, (uint32_t)number);
    return running(object, NULL);
}

static PyObject *hold(PyObject *object, PyObject *args)
{
    unsigned control;
    unsigned long long hz;
    if (!PyArg_ParseTuple(args, "IK", &control, &hz))
        return NULL;
    tprof_gate_hold(as_gate(object)->gate, control, hz);
    Py_RETURN_NONE;
}

static PyObject *remember(PyObject *object, PyObject *args)
{
    unsigned control;
    PyObject *tasks;
    size_t count;
    if (!PyArg_ParseTuple(args, "IO", &control, &tasks))
        return NULL;
    uint32_t *numbers = read_numbers(tasks, &count);
    if (numbers == NULL)
        return NULL;
    tprof_gate_remember(as_gate(object)->gate, control, numbers, count);
    free(numbers);
    Py_RETURN_NONE;
}

static PyObject *renew(PyObject *object, PyObject *unused)
{
    (void)unused;
    tprof_gate_renew(as_gate(object)->gate);
    Py_RETURN_NONE;
}

static PyObject *close_method(PyObject *object, PyObject *unused)
{
    (void)unused;
    tprof_gate_close(as_gate(object)->gate);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"place", place, METH_NOARGS, NULL},
    {"report", report, METH_VARARGS, NULL},
    {"begin", begin, METH_VARARGS, NULL},
    {"end", end, METH_VARARGS, NULL},
    {"pause", pause_place, METH_VARARGS, NULL},
    {"resume", resume_place, METH_VARARGS, NULL},
    {"running", running, METH_NOARGS, NULL},
    {"ended", ended, METH_NOARGS, NULL},
    {"busy_ns", busy_ns, METH_NOARGS, NULL},
    {"set_due", set_due, METH_O, NULL},
    {"set_kind", set_kind, METH_VARARGS, NULL},
    {"unsettle", unsettle, METH_O, NULL},
    {"hold", hold, METH_VARARGS, NULL},
    {"remember", remember, METH_VARARGS, NULL},
    {"renew", renew, METH_NOARGS, NULL},
    {"close", close_method, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, create},  {Py_tp_dealloc, deallocate}, {Py_tp_traverse, traverse},
    {Py_tp_clear, clear}, {Py_tp_methods, methods},    {0, NULL},
};

PyType_Spec tprof_gate_spec = {
    .name = "tprof.runtime._scheduler.Gate",
    .basicsize = sizeof(struct gate_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};
