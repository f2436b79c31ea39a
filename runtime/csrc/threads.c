/* A worker: takes a work, runs it, tells the graph, and sleeps when there is none. */
#include "core.h"

#include <errno.h>
#include <string.h>

_Thread_local struct thread *tprof_thread_here;

void tprof_thread_sleep(struct thread *thread)
{
    Py_BEGIN_ALLOW_THREADS;
    while (sem_wait(&thread->semaphore) != 0 && errno == EINTR)
        ;
    Py_END_ALLOW_THREADS;
}

static void tell_begin(struct thread *thread)
{
    const uint64_t generation = tprof_api->join();
    if (generation == thread->told || thread->seat < 0)
        return;
    thread->told = generation;
    if (generation == 0)
        return;
    const struct tprof_graph_event event = {.t_ns = tprof_api->now_ns(), .task = TPROF_NO_TASK,
                                            .worker = tprof_worker_number(thread->scheduler, thread->seat),
                                            .kind = TPROF_EVENT_BEGIN};
    tprof_api->tell(&event);
}

void tprof_thread_settle_in(struct thread *thread)
{
    if (thread->seat >= 0 && thread->seat != thread->former_seat) {
        PyObject *result = PyObject_CallFunction(thread->scheduler->take_seat, "i", thread->seat);
        if (result == NULL)
            PyErr_WriteUnraisable(thread->scheduler->take_seat);
        Py_XDECREF(result);
        thread->former_seat = thread->seat;
        thread->told = 0;
    }
    tell_begin(thread);
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
    PyObject *noted = PyObject_CallFunctionObjArgs(work->scheduler->note, error, (PyObject *)work, NULL);
    if (noted == NULL)
        PyErr_WriteUnraisable(work->scheduler->note);
    Py_XDECREF(noted);
    return error;
}

/* Futures among the arguments have ended well by now: their results take their places. */
static void put_results(struct work *work)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(work->args); i++) {
        PyObject *argument = PyTuple_GET_ITEM(work->args, i);
        if (Py_TYPE(argument) != work->scheduler->future_type)
            continue;
        PyTuple_SET_ITEM(work->args, i, Py_NewRef(((struct work *)argument)->result));
        Py_DECREF(argument);
    }
}

static void tell_steal(const struct work *work, int victim)
{
    const struct tprof_graph_event event = {tprof_api->now_ns(), work->instance.number, 0, work->task,
                                            tprof_worker_number(work->scheduler, victim), TPROF_EVENT_STEAL, 0};
    if (work->instance.number != 0 && work->instance.generation == tprof_api->join())
        tprof_api->tell(&event);
}

/* Relaxed: a callback that is added meanwhile may be called by whoever adds it. */
static bool calls_back(const struct work *settled)
{
    for (; settled != NULL; settled = settled->next_settled)
        if (atomic_load_explicit(&settled->has_callbacks, memory_order_relaxed))
            return true;
    return false;
}

void tprof_tell_operator(const struct thread *thread, const struct work *work, enum moment moment)
{
    PyObject *operate = thread->scheduler->operate;
    if (operate == NULL || work == NULL)
        return;
    PyObject *waiting = PyErr_Occurred() == NULL ? NULL : take_exception();
    PyObject *told = PyObject_CallFunction(operate, "iOi", (int)moment, work->callable, thread->seat);
    if (told == NULL)
        PyErr_WriteUnraisable(operate);
    Py_XDECREF(told);
    if (waiting != NULL)
        put_exception(waiting);
}

void tprof_run(struct thread *thread, struct work *work, int victim)
{
    struct scheduler *scheduler = thread->scheduler;
    struct work *outer = thread->work;
    struct aftermath after = {0};
    tell_begin(thread);
    if (victim >= 0)
        tell_steal(work, victim);
    put_results(work);
    const Py_ssize_t names = work->names == NULL ? 0 : PyTuple_GET_SIZE(work->names);
    thread->work = work;
    thread->depth++;
    tprof_tell_operator(thread, work, TPROF_TASK_BEGINS);
    PyObject *result = tprof_api->run(work->callable, &PyTuple_GET_ITEM(work->args, 0),
                                      (size_t)(PyTuple_GET_SIZE(work->args) - names), work->names, work->instance);
    PyObject *error = result == NULL ? failure_of(work) : NULL;
    tprof_tell_operator(thread, work, TPROF_TASK_ENDS);
    thread->work = outer;
    (void)tprof_api->join();
    tprof_lock(scheduler);
    work->result = result;
    work->error = error;
    scheduler->executed++;
    tprof_graph_body_ended(work, &after);
    /* A worker between tasks takes one of them itself, if no callback keeps it from that. */
    const bool takes_one = outer == NULL && !calls_back(after.settled);
    if (after.readied > takes_one)
        tprof_wake_for(scheduler, after.readied - takes_one, &after);
    tprof_unlock(scheduler);
    tprof_settle(scheduler, &after);
    thread->depth--;
    Py_DECREF(work);
}

/* Its seat is not active any more. Should it have been woken for a work, somebody else is woken in its place. */
static void give_up_seat(struct scheduler *scheduler, struct thread *thread)
{
    struct aftermath after = {0};
    tprof_seat_leave(scheduler, thread);
    if (scheduler->levels != 0)
        tprof_wake_for(scheduler, 1, &after);
    tprof_unlock(scheduler);
    tprof_settle(scheduler, &after);
    tprof_lock(scheduler);
}

/* One step of a worker that has a seat; under the mutex, which it gives up meanwhile. Returns whether it goes on. */
static bool step(struct scheduler *scheduler, struct thread *thread)
{
    int victim;
    if ((uint32_t)thread->seat >= scheduler->active) {
        give_up_seat(scheduler, thread);
        return true;
    }
    if (scheduler->returning != NULL) {
        tprof_seat_leave(scheduler, thread);
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
        tprof_thread_settle_in(thread);
    }
    (void)tprof_api->join();
    tprof_lock(scheduler);
    return true;
}

/* Without a seat and without a task: until somebody gives it a seat. Returns whether it goes on. */
static bool park(struct scheduler *scheduler, struct thread *thread)
{
    if (tprof_is_stopping(scheduler) && scheduler->unfinished == 0)
        return false;
    tprof_push_last(&scheduler->parked, thread);
    tprof_unlock(scheduler);
    tprof_thread_sleep(thread);
    tprof_thread_settle_in(thread);
    tprof_lock(scheduler);
    return true;
}

static void find_first_seat(struct scheduler *scheduler, struct thread *thread)
{
    for (uint32_t seat = 0; seat < scheduler->active; seat++)
        if (scheduler->seated[seat] == NULL) {
            tprof_seat_take(scheduler, thread, (int)seat);
            return;
        }
}

void tprof_thread_serve(struct scheduler *scheduler)
{
    struct thread thread = {.scheduler = scheduler, .seat = -1, .former_seat = -1};
    sem_init(&thread.semaphore, 0, 0);
    tprof_thread_here = &thread;
    tprof_lock(scheduler);
    scheduler->threads++;
    if (scheduler->starting > 0)
        scheduler->starting--;
    find_first_seat(scheduler, &thread);
    /* While it was on its way no other was started, however many seats were empty. */
    struct aftermath after = {0};
    if (scheduler->levels != 0)
        tprof_wake_for(scheduler, 1, &after);
    tprof_unlock(scheduler);
    tprof_settle(scheduler, &after);
    tprof_thread_settle_in(&thread);
    tprof_lock(scheduler);
    bool goes_on = true;
    while (goes_on && !scheduler->dead)
        goes_on = thread.seat >= 0 ? step(scheduler, &thread) : park(scheduler, &thread);
    tprof_seat_leave(scheduler, &thread);
    scheduler->threads--;
    tprof_unlock(scheduler);
    tprof_thread_here = NULL;
    sem_destroy(&thread.semaphore);
}
