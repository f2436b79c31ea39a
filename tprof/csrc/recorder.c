/* The slow path of the recorder: threads join and leave, recordings start and stop, the process forks. `lock` guards
 * the list of threads, the plans and their users; it is taken only here, never on the hot path, never while Python
 * runs, and not by a thread that is writing. A thread owns its fields. When its recording ends and it is no longer
 * writing, the thread that stops the recording owns them: it reads the counters and writes the end of the file; the
 * thread itself then only removes itself from the list. */
#include "recorder.h"

#include "births.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Longest wait at the end of a recording for threads that write, for example to a slow disk; after it their last counts
 * may be wrong. */
#define END_TIMEOUT_NS UINT64_C(1000000000)

uint64_t tprof_generation;
_Thread_local struct tprof_thread *tprof_self;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t exit_key;
static struct tprof_thread *threads;
static struct tprof_plan *plans;        /* those in use */
static struct tprof_plan *current_plan; /* of the recording that runs, NULL: none */
static uint64_t last_generation;
static uint64_t joins;

static void unuse_unlocked(struct tprof_plan *plan)
{
    if (plan == NULL || --plan->users > 0)
        return;
    struct tprof_plan **at = &plans;
    while (*at != plan)
        at = &(*at)->next;
    *at = plan->next;
    tprof_plan_free(plan);
}

void tprof_recorder_close_live(struct tprof_live *live)
{
    bool used = false;
    pthread_mutex_lock(&lock);
    for (struct tprof_plan *plan = plans; plan != NULL; plan = plan->next)
        if (plan->live == live)
            used = plan->owns_live = true;
    pthread_mutex_unlock(&lock);
    if (!used)
        tprof_live_close(live);
}

static void unlink_unlocked(struct tprof_thread *thread)
{
    if (thread->previous != NULL)
        thread->previous->next = thread->next;
    else
        threads = thread->next;
    if (thread->next != NULL)
        thread->next->previous = thread->previous;
}

static const uint64_t *last_energy(const struct tprof_plan *plan, int cpu)
{
    static const uint64_t none;
    const int package = cpu >= 0 && cpu < TPROF_MAX_CPUS ? plan->package_of_cpu[cpu] : -1;
    return package < 0 ? &none : &plan->live->energy_uj[package];
}

void tprof_thread_moved(struct tprof_thread *thread, int cpu)
{
    thread->cpu = cpu;
    thread->energy_uj = last_energy(thread->plan, cpu);
}

/* Called by the owner, or by the thread that stops the recording when the owner is not busy. */
static void write_end(struct tprof_thread *thread, uint32_t reason, uint64_t cpu_ns)
{
    struct tprof_header *header = thread->stream.header;
    if (header == NULL)
        return;
    header->end_ns = tprof_sample_time_ns(thread);
    header->end_columns[0] = __atomic_load_n(last_energy(thread->plan, tprof_processor()), __ATOMIC_RELAXED);
    header->end_columns[1] = cpu_ns;
    (void)tprof_counters_read(&thread->counters, false);
    for (int i = 0; i < thread->counters.columns; i++)
        header->end_columns[2 + i] = thread->counters.values[i];
    __atomic_store_n(&header->end_reason, reason, __ATOMIC_RELEASE);
}

static void end_graph(struct tprof_thread *thread, uint32_t reason)
{
    struct tprof_header *header = thread->graph.header;
    if (header == NULL || header->end_reason != TPROF_OPEN)
        return;
    header->end_ns = tprof_now_ns();
    __atomic_store_n(&header->end_reason, reason, __ATOMIC_RELEASE);
}

/* Called by the owner: write its last sample and its end, and free its memory. */
static void retire(struct tprof_thread *thread)
{
    pthread_mutex_lock(&lock);
    unlink_unlocked(thread);
    pthread_mutex_unlock(&lock);
    if (!thread->finished) {
        const bool aborted = thread->instance != 0;
        thread->instance = 0;
        thread->task = TPROF_NO_TASK;
        thread->busy = false;
        tprof_sample(thread, TPROF_CLOSE, aborted ? TPROF_ABORTED : 0);
        write_end(thread, aborted ? TPROF_END_ABORTED : TPROF_ENDED, thread->counters.last_cpu_ns);
    }
    end_graph(thread, TPROF_ENDED);
    /* After the recording its files may be compressed already; what is in a window can be read there. */
    tprof_stream_close(&thread->graph, !thread->finished);
    tprof_stream_close(&thread->stream, !thread->finished);
    tprof_counters_close(&thread->counters);
    pthread_mutex_lock(&lock);
    unuse_unlocked(thread->plan);
    pthread_mutex_unlock(&lock);
    free(thread);
}

static void at_thread_exit(void *thread)
{
    tprof_self = NULL;
    retire(thread);
    tprof_papi_end_thread();
}

static void fill_header(struct tprof_header *header, const struct tprof_plan *plan, uint32_t ordinal, uint64_t absent)
{
    *header = plan->header;
    header->thread = ordinal;
    header->tid = (uint32_t)syscall(SYS_gettid);
    header->start_ns = tprof_now_ns();
    header->absent |= absent << 2;
    (void)prctl(PR_GET_NAME, header->thread_name);
}

static void open_file(struct tprof_thread *thread)
{
    struct tprof_header header;
    int counters_error;
    const struct tprof_plan *plan = thread->plan;
    const uint32_t ordinal = __atomic_fetch_add(&plan->live->next_thread, 1, __ATOMIC_RELAXED);
    const uint64_t absent = tprof_counters_open(&thread->counters, &plan->counted, &counters_error);

    if (counters_error != 0)
        __atomic_fetch_add(&plan->live->uncounted_threads, 1, __ATOMIC_RELAXED);
    thread->next_instance = ((uint64_t)(ordinal + 1) << 40) | 1;
    fill_header(&header, plan, ordinal, absent);
    thread->lost_error = tprof_plan_create_stream(plan, &thread->stream, &header);
    if (thread->lost_error != 0)
        __atomic_fetch_add(&plan->live->lost_threads, 1, __ATOMIC_RELAXED);
}

/* Without a file of samples a thread records no events either: they would be unreadable. */
static void begin_graph(struct tprof_thread *thread)
{
    static const char description[] = "{\"events\": \"graph\"}";
    thread->graph_begun = true;
    if (thread->stream.header == NULL)
        return;
    struct tprof_header header = thread->plan->header;
    header.kind = TPROF_EVENTS;
    header.major = TPROF_MAJOR;
    header.record_bytes = (uint32_t)sizeof(struct tprof_graph_event);
    header.thread = thread->stream.header->thread;
    header.tid = thread->stream.header->tid;
    header.start_ns = tprof_now_ns();
    memcpy(header.thread_name, thread->stream.header->thread_name, sizeof header.thread_name);
    memset(header.description, 0, sizeof header.description);
    memcpy(header.description, description, sizeof description);
    header.description_bytes = (uint32_t)(sizeof description - 1);
    if (tprof_plan_create_stream(thread->plan, &thread->graph, &header) != 0)
        __atomic_fetch_add(&thread->plan->live->lost_threads, 1, __ATOMIC_RELAXED);
}

void tprof_graph_write(struct tprof_thread *thread, const struct tprof_graph_event *event)
{
    if (__atomic_load_n(&thread->busy, __ATOMIC_RELAXED) || !tprof_begin_writing(thread))
        return;
    if (!thread->graph_begun)
        begin_graph(thread);
    struct tprof_graph_event *slot = tprof_stream_slot(&thread->graph);
    if (slot != NULL) {
        *slot = *event;
        tprof_stream_commit(&thread->graph);
    }
    tprof_end_writing(thread);
}

static void finish_unlocked(struct tprof_thread *thread)
{
    write_end(thread, TPROF_STOPPED, tprof_clock_ns(thread->clock));
    end_graph(thread, TPROF_STOPPED);
    thread->finished = true;
    /* Open, they would hold counters of the processor as long as the thread lives; one that still writes keeps them. */
    if (!__atomic_load_n(&thread->busy, __ATOMIC_ACQUIRE))
        tprof_counters_close(&thread->counters);
}

/* The current recording, with a reference for the caller, or NULL. */
static struct tprof_plan *use_current_plan(void)
{
    pthread_mutex_lock(&lock);
    struct tprof_plan *plan = current_plan;
    if (plan != NULL)
        plan->users++;
    pthread_mutex_unlock(&lock);
    return plan;
}

/* The recording may have ended while the thread made its file; then the thread must finish it itself. */
static void link_thread(struct tprof_thread *thread)
{
    pthread_mutex_lock(&lock);
    thread->next = threads;
    if (threads != NULL)
        threads->previous = thread;
    threads = thread;
    if (thread->plan != current_plan)
        finish_unlocked(thread);
    __atomic_add_fetch(&joins, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
}

uint64_t tprof_recorder_joins(void)
{
    return __atomic_load_n(&joins, __ATOMIC_ACQUIRE);
}

size_t tprof_recorder_tids(pid_t **tids)
{
    size_t count = 0, listed = 0;
    pthread_mutex_lock(&lock);
    for (const struct tprof_thread *thread = threads; thread != NULL; thread = thread->next)
        count++;
    *tids = malloc((count + 1) * sizeof **tids);
    for (const struct tprof_thread *thread = threads; thread != NULL && *tids != NULL; thread = thread->next)
        (*tids)[listed++] = thread->tid;
    pthread_mutex_unlock(&lock);
    return listed;
}

static struct tprof_thread *make_thread(struct tprof_plan *plan)
{
    struct tprof_thread *thread = calloc(1, sizeof *thread);
    if (thread == NULL) {
        pthread_mutex_lock(&lock);
        unuse_unlocked(plan);
        pthread_mutex_unlock(&lock);
        return NULL;
    }
    thread->generation = plan->generation;
    thread->plan = plan;
    thread->live = plan->live;
    thread->task = TPROF_NO_TASK;
    tprof_thread_moved(thread, tprof_processor());
    (void)pthread_getcpuclockid(pthread_self(), &thread->clock);
    thread->tid = (pid_t)syscall(SYS_gettid);
    open_file(thread);
    return thread;
}

struct tprof_thread *tprof_recorder_join(void)
{
    const int saved_errno = errno;
    if (tprof_self != NULL)
        retire(tprof_self);
    struct tprof_plan *plan = use_current_plan();
    tprof_self = plan != NULL ? make_thread(plan) : NULL;
    (void)pthread_setspecific(exit_key, tprof_self);
    if (tprof_self != NULL) {
        tprof_births_join();
        link_thread(tprof_self);
        /* Last, because this calls Python, which may let other threads run. */
        if (tprof_self->stream.header != NULL)
            tprof_name_thread(tprof_self->stream.header->thread_name);
    }
    errno = saved_errno;
    return tprof_self;
}

void tprof_sample_lost(struct tprof_thread *thread)
{
    uint64_t *counter = &thread->plan->live->dropped_io;
    if (thread->lost_error == ENOSPC || thread->lost_error == EDQUOT || thread->lost_error == EFBIG)
        counter = &thread->plan->live->dropped_enospc;
    else if (thread->lost_error == EMFILE || thread->lost_error == ENFILE)
        counter = &thread->plan->live->dropped_emfile;
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

uint64_t tprof_recorder_start(const struct tprof_setup *setup)
{
    struct tprof_plan *plan = tprof_plan_make(setup);
    if (plan == NULL)
        return 0;
    (void)syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    pthread_mutex_lock(&lock);
    plan->users = 1; /* the recording that runs */
    plan->generation = ++last_generation;
    plan->next = plans;
    plans = plan;
    current_plan = plan;
    const uint64_t generation = plan->generation;
    __atomic_store_n(&tprof_generation, generation, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return generation;
}

/* After this barrier every other thread either is marked as busy or sees the earlier stores. It replaces a barrier in
 * tprof_begin_writing for each sample. Kernels before 4.14 do not have it: there, a thread that has just begun to write
 * may be missed. */
static void let_all_threads_see(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    (void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

/* Acquire: makes the thread's writes visible. */
static void wait_until_idle(const struct tprof_thread *thread, uint64_t deadline_ns)
{
    const struct timespec pause = {.tv_nsec = 50000};
    while (__atomic_load_n(&thread->busy, __ATOMIC_ACQUIRE) && tprof_now_ns() < deadline_ns)
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

void tprof_recorder_stop(void)
{
    pthread_mutex_lock(&lock);
    __atomic_store_n(&tprof_generation, 0, __ATOMIC_SEQ_CST);
    let_all_threads_see();
    const uint64_t deadline_ns = tprof_now_ns() + END_TIMEOUT_NS;
    for (struct tprof_thread *thread = threads; thread != NULL; thread = thread->next) {
        if (thread->finished || thread->plan != current_plan)
            continue;
        wait_until_idle(thread, deadline_ns);
        finish_unlocked(thread);
    }
    unuse_unlocked(current_plan);
    current_plan = NULL;
    pthread_mutex_unlock(&lock);
}

void tprof_recorder_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void tprof_recorder_after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* The child has neither its parent's mappings nor its threads; it records again when Python's fork hook lets it join
 * with its own process number. The list is dropped without free: the memory of the vanished threads may be in any
 * state. */
void tprof_recorder_after_fork_in_child(void)
{
    tprof_generation = 0;
    for (struct tprof_thread *thread = threads; thread != NULL; thread = thread->next)
        tprof_counters_forget(&thread->counters);
    threads = NULL;
    plans = current_plan = NULL;
    tprof_self = NULL;
    (void)pthread_setspecific(exit_key, NULL);
    pthread_mutex_init(&lock, NULL);
}

int tprof_recorder_initialise(void)
{
    tprof_processor_find();
    return pthread_key_create(&exit_key, at_thread_exit);
}
