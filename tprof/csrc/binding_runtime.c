/* The recorder's interface for task runtimes, and the hook with which a running one takes over the calls of tasks. */
#include "binding.h"
#include "process.h"
#include "recorder.h"
#include "runtime_api.h"

/* The former one is never freed: a call may still use it. */
PyObject *tprof_py_set_spawner(PyObject *module, PyObject *spawner)
{
    PyObject *kept = spawner == Py_None ? NULL : Py_NewRef(spawner);
    __atomic_store_n(&tprof_state_of(module)->spawner, kept, __ATOMIC_RELEASE);
    Py_RETURN_NONE;
}

static uint64_t current_generation(void)
{
    return __atomic_load_n(&tprof_generation, __ATOMIC_ACQUIRE);
}

static struct tprof_thread *here(void)
{
    const uint64_t generation = current_generation();
    return generation == 0 ? NULL : tprof_current_thread(generation);
}

/* By the clock of the thread's samples, so that events and samples are in order. */
static uint64_t now_ns(void)
{
    const struct tprof_thread *thread = tprof_self;
    return thread == NULL ? tprof_now_ns() : tprof_fast_now_ns(&thread->live->clock);
}

static uint64_t join(void)
{
    const struct tprof_thread *thread = here();
    return thread == NULL ? 0 : thread->generation;
}

static struct tprof_instance number(uint64_t *running)
{
    struct tprof_thread *thread = here();
    *running = thread == NULL ? 0 : thread->instance;
    if (thread == NULL)
        return (struct tprof_instance){0, 0};
    return (struct tprof_instance){thread->generation, thread->next_instance++};
}

static void write_event(uint64_t generation, const struct tprof_graph_event *event)
{
    struct tprof_thread *thread = here();
    if (thread != NULL && thread->generation == generation)
        tprof_graph_write(thread, event);
}

static int view(PyObject *callable, struct tprof_task_view *view)
{
    if (!tprof_is_task(callable))
        return 0;
    const struct task *task = (struct task *)callable;
    *view = (struct tprof_task_view){task->function, task->access, task->number};
    return 1;
}

static PyObject *run(PyObject *callable, PyObject *const *args, size_t count, PyObject *names,
                     struct tprof_instance instance)
{
    if (!tprof_is_task(callable))
        return PyObject_Vectorcall(callable, args, count, names);
    const bool known = instance.generation == current_generation();
    return tprof_task_run((struct task *)callable, args, count, names, known ? instance.number : 0);
}

static void pause_here(struct tprof_paused *paused)
{
    struct tprof_thread *thread = here();
    *paused = (struct tprof_paused){0, 0, TPROF_NO_TASK};
    if (thread == NULL || thread->instance == 0)
        return;
    *paused = (struct tprof_paused){thread->generation, thread->instance, thread->task};
    thread->instance = 0;
    thread->task = TPROF_NO_TASK;
    tprof_sample(thread, TPROF_SUSPEND, 0);
}

static void resume(const struct tprof_paused *paused)
{
    struct tprof_thread *thread = here();
    if (paused->instance == 0 || thread == NULL || thread->generation != paused->generation)
        return;
    thread->instance = paused->instance;
    thread->task = paused->task;
    tprof_sample(thread, TPROF_RESUME, 0);
}

static const struct tprof_runtime_api api = {
    .now_ns = now_ns,
    .generation = current_generation,
    .join = join,
    .number = number,
    .write_event = write_event,
    .view = view,
    .run = run,
    .pause = pause_here,
    .resume = resume,
    .follow_forks = tprof_process_follow_forks,
};

int tprof_add_runtime_api(PyObject *module)
{
    PyObject *capsule = PyCapsule_New((void *)(uintptr_t)&api, TPROF_RUNTIME_API_NAME, NULL);
    if (capsule == NULL)
        return -1;
    const int failed = PyModule_AddObjectRef(module, "runtime_api", capsule);
    Py_DECREF(capsule);
    return failed;
}
