/* Drivers: each stands for the generator, coroutine or asynchronous generator (its body) that the function of a task
 * returned while something was recorded. Every resumption of the body records a sample (start or resume), and so does
 * each suspension. A suspended instance is not running, and a body that is resumed on another thread runs there. Regions
 * that were open at the suspension continue with the resumption. */
#include "binding_driver.h"

static bool has_open_instance(const struct driver *self)
{
    return self->instance != 0 && self->generation == __atomic_load_n(&tprof_generation, __ATOMIC_ACQUIRE);
}

static void resume(struct driver *whole, struct tprof_frame *frame)
{
    if (!tprof_recording())
        return;
    if (has_open_instance(whole)) {
        (void)tprof_continue(frame, &whole->at);
    } else if (tprof_enter(frame, whole->number, 0, TPROF_START)) {
        whole->generation = frame->generation;
        whole->instance = frame->instance;
        tprof_step_began(&whole->at, frame);
    }
}

static void finish(struct driver *whole, const struct tprof_frame *frame, bool failed)
{
    if (tprof_frame_holds(frame)) {
        /* Regions that an exception left open inside end with their task. */
        frame->thread->instance = whole->instance;
        tprof_leave(frame, TPROF_FINISH, failed ? TPROF_FAILED : 0);
    }
    whole->instance = 0;
    whole->done = true;
}

/* What happens to a body. */
enum entry { GOES_ON, THROWN };

/* Begin to run the body. False: the call is no part of the instance, since the body has ended, will not run, or runs
 * already, which is the program's error. */
static bool begin(struct driver *self, struct tprof_frame *frame, enum entry entry)
{
    struct driver *whole = self->whole;
    frame->generation = 0;
    if (self->done || whole->done || __atomic_exchange_n(&whole->running, true, __ATOMIC_ACQUIRE))
        return false;
    const bool ends = !whole->started && (entry == THROWN || self->throws);
    if (ends || (whole->step != NULL && whole->step != self)) {
        whole->done = ends;
        __atomic_store_n(&whole->running, false, __ATOMIC_RELEASE);
        return false;
    }
    whole->started = true;
    if (Py_TYPE(whole) == whole->state->driver_types[ASYNC_GENERATOR])
        whole->step = self;
    resume(whole, frame);
    return true;
}

static void stop_running(struct driver *self, const struct tprof_frame *frame, bool step_ended)
{
    struct driver *whole = self->whole;
    if (step_ended) {
        self->done = true;
        whole->step = NULL;
    }
    if (!whole->done && tprof_frame_holds(frame))
        tprof_suspend(frame, &whole->at);
    __atomic_store_n(&whole->running, false, __ATOMIC_RELEASE);
}

/* After a call of the body that did not return to it. */
static void end(struct driver *self, const struct tprof_frame *frame, PySendResult outcome)
{
    const bool is_step = self != self->whole;
    const bool stopped = outcome == PYGEN_ERROR && PyErr_ExceptionMatches(PyExc_StopIteration);
    if (is_step && !self->closes && (outcome == PYGEN_RETURN || stopped)) {
        stop_running(self, frame, true);
        return;
    }
    const bool failed = outcome == PYGEN_ERROR && !stopped && !PyErr_ExceptionMatches(PyExc_GeneratorExit) &&
                        !(is_step && PyErr_ExceptionMatches(PyExc_StopAsyncIteration));
    finish(self->whole, frame, failed);
    stop_running(self, frame, is_step);
}

PySendResult tprof_driver_send(PyObject *object, PyObject *value, PyObject **result)
{
    struct driver *self = (struct driver *)object;
    struct tprof_frame frame;
    const bool refused = (value != Py_None || self->sends) && !self->whole->started;
    if (refused || !begin(self, &frame, GOES_ON))
        return PyIter_Send(self->body, value, result);
    const PySendResult outcome = PyIter_Send(self->body, value, result);
    if (outcome == PYGEN_NEXT)
        stop_running(self, &frame, false);
    else
        end(self, &frame, outcome);
    return outcome;
}

static PyObject *stop_with(PyObject *result)
{
    PyObject *stop = Py_IsNone(result) ? NULL : PyObject_CallOneArg(PyExc_StopIteration, result);
    if (stop != NULL)
        PyErr_SetObject(PyExc_StopIteration, stop);
    else if (Py_IsNone(result))
        PyErr_SetNone(PyExc_StopIteration);
    Py_DECREF(result);
    Py_XDECREF(stop);
    return NULL;
}

PyObject *tprof_driver_send_value(PyObject *object, PyObject *value)
{
    PyObject *result = NULL;
    return tprof_driver_send(object, value, &result) == PYGEN_RETURN ? stop_with(result) : result;
}

/* NULL without an exception is an end with None. */
PyObject *tprof_driver_next(PyObject *object)
{
    PyObject *result = NULL;
    if (tprof_driver_send(object, Py_None, &result) != PYGEN_RETURN)
        return result;
    if (!Py_IsNone(result))
        return stop_with(result);
    Py_DECREF(result);
    return NULL;
}

PyObject *tprof_driver_call(const struct driver *self, const char *name, PyObject *const *args, Py_ssize_t count)
{
    PyObject *bound = PyObject_GetAttrString(self->body, name);
    if (bound == NULL)
        return NULL;
    PyObject *result = PyObject_Vectorcall(bound, args, (size_t)count, NULL);
    Py_DECREF(bound);
    return result;
}

PyObject *tprof_driver_throw(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    struct driver *self = (struct driver *)object;
    struct tprof_frame frame;
    const bool runs = begin(self, &frame, THROWN);
    PyObject *result = tprof_driver_call(self, "throw", args, count);
    if (runs && result != NULL)
        stop_running(self, &frame, false);
    else if (runs)
        end(self, &frame, PYGEN_ERROR);
    return result;
}

PyObject *tprof_driver_close(PyObject *object, PyObject *unused)
{
    struct driver *self = (struct driver *)object;
    struct tprof_frame frame;
    const bool runs = begin(self, &frame, THROWN);
    (void)unused;
    PyObject *result = tprof_driver_call(self, "close", NULL, 0);
    if (runs)
        end(self, &frame, result != NULL ? PYGEN_RETURN : PYGEN_ERROR);
    return result;
}

/* The last reference to the body may be this one: what it does to end belongs to its instance. */
void tprof_driver_deallocate(PyObject *object)
{
    struct driver *self = (struct driver *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject *module = self->module;
    struct tprof_frame frame = {.generation = 0};
    PyObject_GC_UnTrack(object);
    if (self->weak_references != NULL)
        PyObject_ClearWeakRefs(object);
    const bool open = self->whole == self && has_open_instance(self);
    if (open)
        resume(self, &frame);
    Py_DECREF(self->body);
    if (open)
        finish(self, &frame, false);
    if (self->whole != NULL && self->whole != self) {
        if (self->whole->step == self)
            self->whole->step = NULL;
        Py_DECREF(self->whole);
    }
    type->tp_free(object);
    Py_DECREF(module);
    Py_DECREF(type);
}
