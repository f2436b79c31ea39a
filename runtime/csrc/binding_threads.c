/* A worker's thread: takes a work, runs it, reports its end to the graph, and sleeps when there is none. */
#include "binding.h"

#include <errno.h>
#include <string.h>

_Thread_local struct thread *tprof_current_thread;

void tprof_thread_sleep(struct thread *thread)
{
    Py_BEGIN_ALLOW_THREADS;
    while (sem_wait(&thread->semaphore) != 0 && errno == EINTR)
        ;
    Py_END_ALLOW_THREADS;
}

static void log_begin(struct thread *thread)
{
    const uint64_t generation = tprof_api->join();
    if (generation == thread->logged_generation || thread->slot < 0)
        return;
    thread->logged_generation = generation;
    if (generation == 0)
        return;
    const struct tprof_graph_event event = {.t_ns = tprof_api->now_ns(),
                                            .task = TPROF_NO_TASK,
                                            .worker = tprof_worker_number(thread->scheduler, thread->slot),
                                            .kind = TPROF_EVENT_BEGIN};
    tprof_api->write_event(&event);
}

void tprof_thread_report_slot(struct thread *thread)
{
    if (thread->slot >= 0 && thread->slot != thread->former_slot) {
        PyObject *result = PyObject_CallFunction(thread->scheduler->on_slot_taken, "i", thread->slot);
        if (result == NULL)
            PyErr_WriteUnraisable(thread->scheduler->on_slot_taken);
        Py_XDECREF(result);
        thread->former_slot = thread->slot;
        thread->logged_generation = 0;
    }
    log_begin(thread);
}

static PyObject *take_exception(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

static void put_exception(PyObject *error)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyErr_SetRaisedException(error);
#else
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
#endif
}

static PyObject *failure_of(struct work *work)
{
    PyObject *error = take_exception();
    PyObject *noted = PyObject_CallFunctionObjArgs(work->scheduler->note, error, tprof_object(work), NULL);
    if (noted == NULL)
        PyErr_WriteUnraisable(work->scheduler->note);
    Py_XDECREF(noted);
    return error;
}

/* Replace futures among the arguments, which have finished by now, by their results. */
static void put_results(struct work *work)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(work->args); i++) {
        PyObject *argument = PyTuple_GET_ITEM(work->args, i);
        if (Py_TYPE(argument) != work->scheduler->future_type)
            continue;
        PyTuple_SET_ITEM(work->args, i, Py_NewRef(tprof_as_work(argument)->result));
        Py_DECREF(argument);
    }
}

static void log_steal(const struct work *work, int victim)
{
    const struct tprof_graph_event event = {tprof_api->now_ns(),
                                            work->instance.number,
                                            0,
                                            work->task,
                                            tprof_worker_number(work->scheduler, victim),
                                            TPROF_EVENT_STEAL,
                                            0};
    if (work->instance.number != 0 && work->instance.generation == tprof_api->join())
        tprof_api->write_event(&event);
}

/* Relaxed: a callback that is added meanwhile may be called by the thread that adds it. */
static bool calls_back(const struct work *ended)
{
    for (; ended != NULL; ended = ended->next_ended)
        if (atomic_load_explicit(&ended->has_callbacks, memory_order_relaxed))
            return true;
    return false;
}

void tprof_notify_operator(const struct thread *thread, const struct work *work, enum moment moment)
{
    PyObject *on_task = thread->scheduler->on_task;
    if (on_task == NULL || work == NULL)
        return;
    PyObject *waiting = PyErr_Occurred() == NULL ? NULL : take_exception();
    PyObject *result = PyObject_CallFunction(on_task, "iOi", (int)moment, work->callable, thread->slot);
    if (result == NULL)
        PyErr_WriteUnraisable(on_task);
    Py_XDECREF(result);
    if (waiting != NULL)
        put_exception(waiting);
}

void tprof_run(struct thread *thread, struct work *work, int victim)
{
    struct scheduler *scheduler = thread->scheduler;
    struct work *outer = thread->work;
    struct deferred deferred = {0};
    log_begin(thread);
    if (victim >= 0)
        log_steal(work, victim);
    put_results(work);
    const Py_ssize_t names = work->names == NULL ? 0 : PyTuple_GET_SIZE(work->names);
    thread->work = work;
    thread->depth++;
    tprof_notify_operator(thread, work, TPROF_TASK_BEGINS);
    PyObject *result = tprof_api->run(work->callable, &PyTuple_GET_ITEM(work->args, 0),
                                      (size_t)(PyTuple_GET_SIZE(work->args) - names), work->names, work->instance);
    PyObject *error = result == NULL ? failure_of(work) : NULL;
    tprof_notify_operator(thread, work, TPROF_TASK_ENDS);
    thread->work = outer;
    tprof_lock(scheduler);
    work->result = result;
    work->error = error;
    scheduler->executed++;
    tprof_graph_body_ended(work, &deferred);
    /* A worker between tasks takes one of them itself, unless it has to call callbacks first. */
    const bool takes_one = outer == NULL && !calls_back(deferred.ended);
    if (deferred.readied > takes_one)
        tprof_wake_for(scheduler, deferred.readied - takes_one, &deferred);
    tprof_unlock(scheduler);
    tprof_run_deferred(scheduler, &deferred);
    thread->depth--;
    tprof_unref(work);
}

/* The slot is not active any more. The thread may have been woken for a work, so another is woken in its place. */
static void release_slot(struct scheduler *scheduler, struct thread *thread)
{
    struct deferred deferred = {0};
    tprof_slot_leave(scheduler, thread, &deferred);
    if (scheduler->levels != 0)
        tprof_wake_for(scheduler, 1, &deferred);
    tprof_unlock(scheduler);
    tprof_run_deferred(scheduler, &deferred);
    tprof_lock(scheduler);
}

/* One step of a worker that has a slot; under the mutex, which it releases meanwhile. Returns whether it goes on. `left`
 * gets the event of a slot that it has left while it keeps the mutex. */
static bool step(struct scheduler *scheduler, struct thread *thread, struct deferred *left)
{
    int victim;
    if ((uint32_t)thread->slot >= scheduler->active) {
        release_slot(scheduler, thread);
        return true;
    }
    if (scheduler->returning != NULL) {
        tprof_slot_leave(scheduler, thread, left);
        return true;
    }
    struct work *work = tprof_queue_take(scheduler, thread, &victim);
    if (work == NULL && tprof_is_stopping(scheduler) && scheduler->unfinished == 0)
        return false;
    if (work != NULL)
        tprof_set_state(work, TPROF_RUNNING);
    else {
        thread->next = scheduler->sleeping;
        scheduler->sleeping = thread;
    }
    tprof_unlock(scheduler);
    if (work != NULL)
        tprof_run(thread, work, victim);
    else {
        tprof_thread_sleep(thread);
        tprof_thread_report_slot(thread);
    }
    tprof_lock(scheduler);
    return true;
}

/* Sleep without a slot and without a task until another thread assigns a slot. Returns whether it goes on. */
static bool park(struct scheduler *scheduler, struct thread *thread, struct deferred *left)
{
    if (tprof_is_stopping(scheduler) && scheduler->unfinished == 0)
        return false;
    tprof_push_last(&scheduler->parked, thread);
    tprof_unlock(scheduler);
    tprof_write_events(left);
    tprof_thread_sleep(thread);
    tprof_thread_report_slot(thread);
    tprof_lock(scheduler);
    return true;
}

static void take_first_slot(struct scheduler *scheduler, struct thread *thread)
{
    for (uint32_t slot = 0; slot < scheduler->active; slot++)
        if (scheduler->slot_threads[slot] == NULL) {
            tprof_slot_take(scheduler, thread, (int)slot);
            return;
        }
}

void tprof_thread_serve(struct scheduler *scheduler)
{
    struct thread thread = {.scheduler = scheduler, .slot = -1, .former_slot = -1};
    sem_init(&thread.semaphore, 0, 0);
    tprof_current_thread = &thread;
    tprof_lock(scheduler);
    scheduler->threads++;
    if (scheduler->starting > 0)
        scheduler->starting--;
    take_first_slot(scheduler, &thread);
    /* Only one thread starts at a time, however many slots are empty. */
    struct deferred deferred = {0};
    if (scheduler->levels != 0)
        tprof_wake_for(scheduler, 1, &deferred);
    tprof_unlock(scheduler);
    tprof_run_deferred(scheduler, &deferred);
    tprof_thread_report_slot(&thread);
    tprof_lock(scheduler);
    struct deferred left = {0};
    bool goes_on = true;
    while (goes_on && !scheduler->dead)
        goes_on = thread.slot >= 0 ? step(scheduler, &thread, &left) : park(scheduler, &thread, &left);
    tprof_slot_leave(scheduler, &thread, &left);
    scheduler->threads--;
    tprof_unlock(scheduler);
    tprof_write_events(&left);
    tprof_current_thread = NULL;
    sem_destroy(&thread.semaphore);
}
