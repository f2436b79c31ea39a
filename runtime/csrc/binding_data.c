/* The data that an argument is: memory, by the buffer protocol or NumPy's array interface; a list of such; or a handle,
 * an object that stands for data the runtime cannot see. Equal handles are the same data. */
#include "binding.h"
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
    reading->domain = tprof_domain_of(scheduler, parent);
    if (reading->domain != NULL)
        (void)atomic_fetch_add(&reading->domain->entering, 1);
}

void tprof_reading_end(struct reading *reading)
{
    struct deferred deferred = {0};
    if (reading->domain == NULL)
        return;
    for (size_t i = 0; i < reading->count; i++)
        if (reading->data[i].region != NULL)
            tprof_region_leave(reading->domain, reading->data[i].region, &deferred);
    (void)atomic_fetch_sub(&reading->domain->entering, 1);
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

/* The regions of the same hash and another handle; each is marked as used.
 *
 * Python code decides whether handles are equal, so they are compared without the lock; a region that is marked as
 * used is not freed meanwhile. Handles that other threads add in between are compared in the next round. If a round
 * finds none, the handle is new and is added before the lock is released. */
struct others {
    struct region **regions, *few[4];
    size_t count, capacity;
};

static bool note_other(struct others *others, struct region *region)
{
    if (others->count == others->capacity) {
        const size_t capacity = others->capacity * 2;
        struct region **grown = others->regions == others->few ? NULL : others->regions;
        grown = realloc(grown, capacity * sizeof *grown);
        if (grown == NULL)
            return false;
        for (size_t i = 0; others->regions == others->few && i < others->count; i++)
            grown[i] = others->few[i];
        others->regions = grown;
        others->capacity = capacity;
    }
    others->regions[others->count++] = region;
    return true;
}

static uint64_t spread(Py_hash_t hash)
{
    const uint64_t product = (uint64_t)hash * 0x9e3779b97f4a7c15u;
    return product ^ product >> 32;
}

/* Under the lock, which it releases to compare. 1: found. 0: there is none. -1: an exception is set. -2: no memory. */
static int search(struct domain *domain, PyObject *object, uint64_t hash, struct others *others, struct region **found)
{
    int equal = 0;
    while (equal == 0 && (*found = tprof_region_of_hash(domain->table, hash, others->regions, others->count)) != NULL) {
        (void)atomic_fetch_add(&(*found)->users, 1);
        if ((*found)->handle == object)
            return 1;
        tprof_release(&domain->lock);
        equal = PyObject_RichCompareBool((*found)->handle, object, Py_EQ);
        tprof_acquire(&domain->lock);
        if (equal == 0 && !note_other(others, *found))
            equal = -2;
    }
    return equal;
}

static struct region *find_handle(struct scheduler *scheduler, struct domain *domain, PyObject *object)
{
    struct deferred deferred = {0};
    struct others others = {.capacity = sizeof others.few / sizeof *others.few};
    struct region *region = NULL;
    const Py_hash_t hash = PyObject_Hash(object);
    if (hash == -1)
        return NULL;
    others.regions = others.few;
    tprof_acquire(&domain->lock);
    int outcome = -2;
    if (tprof_table_of(domain) != NULL)
        outcome = search(domain, object, spread(hash), &others, &region);
    if (outcome == 0) {
        region = tprof_region_add(domain, object, spread(hash), &deferred);
        outcome = region == NULL ? -2 : 1;
    }
    tprof_release(&domain->lock);
    if (outcome < 0 && region != NULL)
        tprof_region_leave(domain, region, &deferred);
    for (size_t i = 0; i < others.count; i++)
        tprof_region_leave(domain, others.regions[i], &deferred);
    if (outcome == -2)
        PyErr_NoMemory();
    tprof_run_deferred(scheduler, &deferred);
    if (others.regions != others.few)
        free(others.regions);
    return outcome < 0 ? NULL : region;
}

static int add_handle(struct reading *reading, PyObject *object, PyObject *owner, enum mode mode)
{
    struct datum *datum = next_datum(reading);
    struct region *region = datum == NULL ? NULL : find_handle(reading->scheduler, reading->domain, object);
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
