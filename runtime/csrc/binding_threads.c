/* A worker's thread: takes a work, runs it, reports its end to the graph, and sleeps when there is none. */
#include "binding.h"
#include "queues.h"

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
    if (tprof_api->generation() == thread->logged_generation || thread->slot < 0)
        return;
    const uint64_t generation = thread->logged_generation = tprof_api->join();
    if (generation == 0)
        return;
    const struct tprof_graph_event event = {.t_ns = tprof_api->now_ns(),
                                            .task = TPROF_NO_TASK,
                                            .worker = tprof_worker_number(thread->scheduler, thread->slot),
                                            .kind = TPROF_EVENT_BEGIN};
    tprof_api->write_event(generation, &event);
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

PyObject *tprof_take_exception(void)
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

void tprof_put_exception(PyObject *error)
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
    PyObject *error = tprof_take_exception();
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
    if (work->instance.number != 0)
        tprof_api->write_event(work->instance.generation, &event);
}

void tprof_report(const struct thread *thread, const struct work *work, enum moment moment)
{
    PyObject *gate = thread->scheduler->gate;
    if (gate == NULL || work == NULL)
        return;
    const bool knows_recording = moment == TPROF_TASK_BEGINS && thread->slot >= 0;
    const struct tprof_event event = {thread->place, moment, work->task, thread->slot,
                                      knows_recording ? thread->logged_generation : TPROF_SAME_GENERATION};
    tprof_report_to_gate(gate, &event);
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
    tprof_report(thread, work, TPROF_TASK_BEGINS);
    PyObject *result = tprof_api->run(work->callable, &PyTuple_GET_ITEM(work->args, 0),
                                      (size_t)(PyTuple_GET_SIZE(work->args) - names), work->names, work->instance);
    PyObject *error = result == NULL ? failure_of(work) : NULL;
    tprof_report(thread, work, TPROF_TASK_ENDS);
    thread->work = outer;
    work->result = result;
    work->error = error;
    (void)atomic_fetch_add_explicit(&scheduler->executed, 1, memory_order_relaxed);
    tprof_graph_body_ended(work, &deferred);
    tprof_graph_settle(scheduler, outer == NULL, &deferred);
    tprof_run_deferred(scheduler, &deferred);
    thread->depth--;
    tprof_unref(work);
}

/* The slot is not active any more. The thread may have been woken for a work, so another is woken in its place. */
static void release_slot(struct scheduler *scheduler, struct thread *thread)
{
    struct deferred deferred = {0};
    tprof_lock(scheduler);
    tprof_slot_leave(scheduler, thread, &deferred);
    if (!tprof_queues_are_empty(scheduler))
        tprof_wake_for(scheduler, 1, &deferred);
    tprof_unlock(scheduler);
    tprof_run_deferred(scheduler, &deferred);
}

/* A task waits for a slot: it gets this one, and the thread sleeps without. It is parked at once, since that task may next
 * need a thread in its place, and would start another one. From then on it may get a slot, so no Python code runs. */
static void hand_over(struct scheduler *scheduler, struct thread *thread)
{
    struct deferred deferred = {0};
    tprof_lock(scheduler);
    const bool gives = scheduler->returning != NULL;
    if (gives) {
        tprof_slot_leave(scheduler, thread, &deferred);
        tprof_slot_park(scheduler, thread);
    }
    tprof_unlock(scheduler);
    tprof_wake_deferred(&deferred);
    tprof_write_events(&deferred);
    if (gives) {
        tprof_thread_sleep(thread);
        tprof_thread_report_slot(thread);
    }
}

/* There is no work: sleep with the slot. Returns whether the thread goes on. */
static bool rest(struct scheduler *scheduler, struct thread *thread)
{
    tprof_lock(scheduler);
    const bool leaves = tprof_close(scheduler), sleeps = !leaves && tprof_slot_rest(scheduler, thread);
    tprof_unlock(scheduler);
    if (sleeps) {
        tprof_thread_sleep(thread);
        tprof_thread_report_slot(thread);
    }
    return !leaves;
}

static struct work *take(struct scheduler *scheduler, struct thread *thread, int *victim)
{
    struct deferred deferred = {0};
    struct work *work;
    do
        work = tprof_queue_take(scheduler, thread, victim, &deferred);
    while (work != NULL && !tprof_graph_may_begin(work, &deferred));
    if (work != NULL)
        tprof_search_ended(thread, &deferred);
    if (deferred.reference_count > 0 || deferred.woken != NULL || deferred.threads_wanted > 0)
        tprof_run_deferred(scheduler, &deferred);
    return work;
}

/* One step of a worker that has a slot. Returns whether it goes on. */
static bool step(struct scheduler *scheduler, struct thread *thread)
{
    int victim;
    if ((uint32_t)thread->slot >= scheduler->active) {
        release_slot(scheduler, thread);
        return true;
    }
    if (atomic_load(&scheduler->queues->has_returning)) {
        hand_over(scheduler, thread);
        return true;
    }
    struct work *work = take(scheduler, thread, &victim);
    if (work == NULL)
        return rest(scheduler, thread);
    tprof_run(thread, work, victim);
    return true;
}

/* Sleep without a slot and without a task until another thread assigns a slot. Returns whether it goes on. */
static bool park(struct scheduler *scheduler, struct thread *thread)
{
    tprof_lock(scheduler);
    const bool leaves = tprof_close(scheduler);
    if (!leaves)
        tprof_slot_park(scheduler, thread);
    tprof_unlock(scheduler);
    if (!leaves) {
        tprof_thread_sleep(thread);
        tprof_thread_report_slot(thread);
    }
    return !leaves;
}

static void enter(struct scheduler *scheduler, struct thread *thread)
{
    struct deferred deferred = {0};
    tprof_lock(scheduler);
    scheduler->threads++;
    if (scheduler->starting > 0)
        scheduler->starting--;
    (void)tprof_slot_take_empty(scheduler, thread);
    /* Only one thread starts at a time, however many slots are empty. */
    if (!tprof_queues_are_empty(scheduler))
        tprof_wake_for(scheduler, 1, &deferred);
    tprof_unlock(scheduler);
    tprof_run_deferred(scheduler, &deferred);
    tprof_thread_report_slot(thread);
}

/* All works have ended: what is queued was claimed, and would keep the scheduler. */
static void leave(struct scheduler *scheduler, struct thread *thread)
{
    struct deferred deferred = {0};
    tprof_lock(scheduler);
    tprof_slot_leave(scheduler, thread, &deferred);
    scheduler->threads--;
    tprof_unlock(scheduler);
    for (struct work *work = scheduler->dead ? NULL : tprof_queues_drain(scheduler); work != NULL;
         work = work->next_queued)
        tprof_defer_unref(&deferred, work);
    tprof_run_deferred(scheduler, &deferred);
}

void tprof_thread_serve(struct scheduler *scheduler)
{
    struct thread thread = {.scheduler = scheduler, .slot = -1, .former_slot = -1};
    sem_init(&thread.semaphore, 0, 0);
    thread.place = tprof_place_at_gate(scheduler->gate);
    tprof_current_thread = &thread;
    enter(scheduler, &thread);
    bool goes_on = true;
    while (goes_on && !scheduler->dead)
        goes_on = thread.slot >= 0 ? step(scheduler, &thread) : park(scheduler, &thread);
    leave(scheduler, &thread);
    tprof_current_thread = NULL;
    tprof_leave_gate(scheduler->gate, thread.place);
    sem_destroy(&thread.semaphore);
}
