/* The data that an argument is: memory, by the buffer protocol or NumPy's array interface; a list of such; or a handle,
 * an object that stands for data the runtime cannot see. Equal handles are the same data. */
#include "handles.h"

#include "regions.h"

#include <stdlib.h>
#include <string.h>

#define MOST_DIMENSIONS 64

/* NumPy's array interface, as `__array_struct__` gives it. */
struct array_interface {
    int two, dimensions;
    char kind;
    int item_bytes, flags;
    Py_ssize_t *lengths, *strides;
    void *data;
};

static struct datum *next_datum(struct reading *reading)
{
    if (reading->data == NULL) {
        reading->data = reading->few;
        reading->capacity = sizeof reading->few / sizeof *reading->few;
    }
    if (reading->count == reading->capacity) {
        const size_t capacity = reading->capacity * 2;
        struct datum *grown = malloc(capacity * sizeof *grown);
        if (grown == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        memcpy(grown, reading->data, reading->count * sizeof *grown);
        if (reading->data != reading->few)
            free(reading->data);
        reading->data = grown;
        reading->capacity = capacity;
    }
    return &reading->data[reading->count];
}

void tprof_reading_begin(struct reading *reading, struct scheduler *scheduler, struct work *parent)
{
    reading->scheduler = scheduler;
    reading->data = NULL;
    reading->count = reading->capacity = 0;
    tprof_lock(scheduler);
    scheduler->entering++;
    reading->domain = tprof_domain_of(scheduler, parent);
    tprof_unlock(scheduler);
}

void tprof_reading_end(struct reading *reading)
{
    struct deferred deferred = {0};
    tprof_lock(reading->scheduler);
    reading->scheduler->entering--;
    for (size_t i = 0; i < reading->count; i++)
        if (reading->data[i].region != NULL)
            tprof_handle_leave(reading->domain, reading->data[i].region, &deferred);
    tprof_unlock(reading->scheduler);
    tprof_run_deferred(reading->scheduler, &deferred);
    if (reading->data != reading->few)
        free(reading->data);
}

/* The outcome for an object; NOT_MEMORY: it offers no memory in this form. */
enum { NOT_MEMORY, ADDED, TOO_LARGE, FAILED = -1 };

struct memory {
    uintptr_t start;
    size_t item_bytes;
    int dimensions;
    const ptrdiff_t *lengths, *strides;
};

/* An array without a byte carries no dependence. */
static int add_memory(struct reading *reading, const struct memory *memory, PyObject *owner, enum mode mode)
{
    struct datum *datum = next_datum(reading);
    if (datum == NULL)
        return FAILED;
    *datum = (struct datum){.object = owner, .mode = mode};
    if (!tprof_shape_make(&datum->shape, memory->start, memory->item_bytes, memory->dimensions, memory->lengths,
                          memory->strides))
        return TOO_LARGE;
    if (datum->shape.width > 0)
        reading->count++;
    return ADDED;
}

/* Such objects are handles even if they offer a buffer. */
static bool is_value(PyObject *object)
{
    return PyUnicode_Check(object) || PyLong_Check(object) || PyFloat_Check(object) || PyBytes_Check(object) ||
           PyTuple_Check(object);
}

/* NumPy's numbers, times and truth values: equal ones are the same handle though each has bytes of its own. An array
 * has no hash. */
static bool is_scalar(PyObject *object)
{
    if (Py_TYPE(object)->tp_hash == PyObject_HashNotImplemented || !PyObject_HasAttrString(object, "__array_struct__"))
        return false;
    if (PyObject_Hash(object) != -1)
        return true;
    PyErr_Clear();
    return false;
}

static int add_buffer(struct reading *reading, PyObject *object, PyObject *owner, enum mode mode)
{
    Py_buffer view;
    if (!PyObject_CheckBuffer(object))
        return NOT_MEMORY;
    if (PyObject_GetBuffer(object, &view, PyBUF_STRIDES) < 0) {
        PyErr_Clear();
        return NOT_MEMORY;
    }
    const struct memory memory = {(uintptr_t)view.buf, (size_t)view.itemsize, view.ndim, view.shape, view.strides};
    const int outcome = add_memory(reading, &memory, owner, mode);
    PyBuffer_Release(&view);
    return outcome;
}

/* For types without a format character in the buffer protocol, such as NumPy's times. */
static int add_array(struct reading *reading, PyObject *object, PyObject *owner, enum mode mode)
{
    PyObject *capsule = PyObject_GetAttrString(object, "__array_struct__");
    if (capsule == NULL) {
        PyErr_Clear();
        return NOT_MEMORY;
    }
    int outcome = NOT_MEMORY;
    const struct array_interface *array = PyCapsule_IsValid(capsule, NULL) ? PyCapsule_GetPointer(capsule, NULL) : NULL;
    if (array != NULL && array->two == 2 && array->dimensions <= MOST_DIMENSIONS) {
        const struct memory memory = {(uintptr_t)array->data, (size_t)array->item_bytes, array->dimensions,
                                      array->lengths, array->strides};
        outcome = add_memory(reading, &memory, owner, mode);
    }
    Py_DECREF(capsule);
    return outcome;
}

static int add_handle(struct reading *reading, PyObject *object, PyObject *owner, enum mode mode)
{
    struct datum *datum = next_datum(reading);
    struct region *region = datum == NULL ? NULL : tprof_handle_find(reading->scheduler, reading->domain, object);
    if (region == NULL)
        return FAILED;
    *datum = (struct datum){.region = region, .object = owner, .mode = mode};
    reading->count++;
    return ADDED;
}

static int add_one(struct reading *reading, PyObject *object, PyObject *owner, enum mode mode)
{
    int outcome = NOT_MEMORY;
    if (!is_value(object) && !is_scalar(object)) {
        outcome = add_buffer(reading, object, owner, mode);
        if (outcome == NOT_MEMORY)
            outcome = add_array(reading, object, owner, mode);
    }
    if (outcome == NOT_MEMORY)
        outcome = add_handle(reading, object, owner, mode);
    return outcome == TOO_LARGE ? 1 : outcome == FAILED ? -1 : 0;
}

int tprof_data_add(struct reading *reading, PyObject *object, enum mode mode)
{
    if (object == Py_None)
        return 0;
    const bool hashable_tuple = PyTuple_Check(object) && PyObject_Hash(object) != -1;
    if (!hashable_tuple && (PyTuple_Check(object) || PyList_Check(object))) {
        PyErr_Clear();
        PyObject *members = PySequence_Tuple(object);
        int outcome = members == NULL ? -1 : 0;
        for (Py_ssize_t i = 0; outcome == 0 && i < PyTuple_GET_SIZE(members); i++)
            if (PyTuple_GET_ITEM(members, i) != Py_None)
                outcome = add_one(reading, PyTuple_GET_ITEM(members, i), object, mode);
        Py_XDECREF(members);
        return outcome;
    }
    return add_one(reading, object, object, mode);
}
