/* The cold half of the recorder: threads join and leave, recordings start and stop, the process forks.
 * `lock` guards the list of threads and the set-up; it is taken here only, never on the hot path, and never while
 * Python runs. A thread's own fields belong to that thread, except the end of its file, which the thread that stops
 * the recording writes. */
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WINDOW_BYTES 32768u

uint64_t tprof_generation;
_Thread_local struct tprof_thread *tprof_self;
struct tprof_live *tprof_live;
int16_t tprof_package_of_cpu[TPROF_MAX_CPUS];
void (*tprof_name_thread)(char name[TPROF_NAME_BYTES]);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t exit_key;
static struct tprof_thread *threads;
static uint64_t last_generation;
struct room {
    char path[PATH_MAX];
    struct stat identity;
};
/* The set-up of the recording; a thread that joins late copies it while the next one may be starting. */
static struct plan {
    struct tprof_header header;
    struct room samples, graph;
    struct tprof_event events[TPROF_MAX_EVENTS];
    int event_count;
} plan;

static void copy_plan(struct plan *copy)
{
    pthread_mutex_lock(&lock);
    *copy = plan;
    pthread_mutex_unlock(&lock);
}

static void link_thread(struct tprof_thread *thread)
{
    pthread_mutex_lock(&lock);
    thread->next = threads;
    if (threads != NULL)
        threads->previous = thread;
    threads = thread;
    pthread_mutex_unlock(&lock);
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

/* Relaxed: an owner that misses it writes once more, as one does that had begun to write. */
static bool is_finished(const struct tprof_thread *thread)
{
    return __atomic_load_n(&thread->finished, __ATOMIC_RELAXED);
}

/* The caller owns the thread or has it locked in the list. The owner may be in the midst of a sample: it goes on with
 * counters that nobody else has touched. */
static void write_end(struct tprof_thread *thread, uint32_t reason, uint64_t cpu_ns)
{
    struct tprof_header *header = __atomic_load_n(&thread->stream.header, __ATOMIC_ACQUIRE);
    struct tprof_counters counters = thread->counters;
    if (header == NULL)
        return;
    header->end_ns = tprof_now_ns();
    header->end_columns[0] = tprof_last_energy_uj(sched_getcpu());
    header->end_columns[1] = cpu_ns;
    (void)tprof_counters_read(&counters, false);
    for (int i = 0; i < counters.count; i++)
        header->end_columns[2 + counters.slots[i]] = counters.values[i];
    __atomic_store_n(&header->end_reason, reason, __ATOMIC_RELEASE);
}

static void end_graph(struct tprof_thread *thread, uint32_t reason)
{
    struct tprof_header *header = __atomic_load_n(&thread->graph.header, __ATOMIC_ACQUIRE);
    if (header == NULL || __atomic_load_n(&header->end_reason, __ATOMIC_RELAXED) != TPROF_OPEN)
        return;
    header->end_ns = tprof_now_ns();
    __atomic_store_n(&header->end_reason, reason, __ATOMIC_RELEASE);
}

/* By the owner: its last sample, the end, and back with the memory. */
static void retire(struct tprof_thread *thread)
{
    pthread_mutex_lock(&lock);
    unlink_unlocked(thread);
    pthread_mutex_unlock(&lock);
    if (!is_finished(thread)) {
        const bool aborted = thread->instance != 0;
        thread->instance = 0;
        thread->task = TPROF_NO_TASK;
        thread->busy = false;
        tprof_sample(thread, TPROF_CLOSE, aborted ? TPROF_ABORTED : 0);
        write_end(thread, aborted ? TPROF_END_ABORTED : TPROF_ENDED, thread->counters.last_cpu_ns);
    }
    end_graph(thread, TPROF_ENDED);
    tprof_stream_close(&thread->graph, true);
    tprof_stream_close(&thread->stream, true);
    tprof_counters_close(&thread->counters);
    free(thread);
}

static void at_thread_exit(void *thread)
{
    tprof_self = NULL;
    retire(thread);
}

static void fill_header(struct tprof_header *header, uint32_t ordinal, uint64_t absent)
{
    header->thread = ordinal;
    header->tid = (uint32_t)syscall(SYS_gettid);
    header->start_ns = tprof_now_ns();
    header->absent |= absent << 2;
    (void)prctl(PR_GET_NAME, header->thread_name);
}

static void enter_room(struct room *room, const char *directory, const char *name)
{
    snprintf(room->path, sizeof room->path, "%s/%s", directory, name);
    if (lstat(room->path, &room->identity) != 0)
        memset(&room->identity, 0, sizeof room->identity);
}

/* The directory by its name, if it still is the one in which the recording began: whoever may write to its parent
 * could have put another there, or a link. Returns -1 with errno set. */
static int open_room(const struct room *room)
{
    struct stat status;
    const int fd = open(room->path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &status) == 0 && status.st_dev == room->identity.st_dev && status.st_ino == room->identity.st_ino)
        return fd;
    close(fd);
    errno = ESTALE;
    return -1;
}

static int create_stream(struct tprof_stream *stream, const struct tprof_header *header, const struct room *room)
{
    char path[PATH_MAX];
    const char *ending = header->kind == TPROF_EVENTS ? "events" : "samples";
    if (snprintf(path, sizeof path, "%s/%08u.%s", room->path, header->thread, ending) >= (int)sizeof path)
        return ENAMETOOLONG;
    const int directory = open_room(room);
    if (directory < 0)
        return errno;
    const int error = tprof_stream_create(stream, directory, path, header);
    close(directory);
    return error;
}

static void open_file(struct tprof_thread *thread)
{
    struct plan now;
    int counters_error;
    copy_plan(&now);
    const uint32_t ordinal = __atomic_fetch_add(&tprof_live_now()->next_thread, 1, __ATOMIC_RELAXED);
    const uint64_t absent =
        tprof_counters_open(&thread->counters, now.events, now.event_count, &counters_error);

    if (counters_error != 0)
        __atomic_fetch_add(&tprof_live_now()->uncounted_threads, 1, __ATOMIC_RELAXED);
    thread->next_instance = ((uint64_t)(ordinal + 1) << 40) | 1;
    fill_header(&now.header, ordinal, absent);
    thread->lost_error = create_stream(&thread->stream, &now.header, &now.samples);
    if (thread->lost_error != 0)
        __atomic_fetch_add(&tprof_live_now()->lost_threads, 1, __ATOMIC_RELAXED);
}

/* A thread whose samples could not be kept tells nothing of the graph either: nobody could read it. */
static void begin_graph(struct tprof_thread *thread)
{
    static const char description[] = "{\"events\": \"graph\"}";
    thread->graph_begun = true;
    if (thread->stream.header == NULL)
        return;
    struct plan now;
    copy_plan(&now);
    struct tprof_header *header = &now.header;
    header->kind = TPROF_EVENTS;
    header->record_bytes = (uint32_t)sizeof(struct tprof_graph_event);
    header->thread = thread->stream.header->thread;
    header->tid = thread->stream.header->tid;
    header->start_ns = tprof_now_ns();
    memcpy(header->thread_name, thread->stream.header->thread_name, sizeof header->thread_name);
    memset(header->description, 0, sizeof header->description);
    memcpy(header->description, description, sizeof description);
    header->description_bytes = (uint32_t)(sizeof description - 1);
    if (create_stream(&thread->graph, header, &now.graph) != 0)
        __atomic_fetch_add(&tprof_live_now()->lost_threads, 1, __ATOMIC_RELAXED);
}

void tprof_graph_write(struct tprof_thread *thread, const struct tprof_graph_event *event)
{
    if (thread->busy || is_finished(thread))
        return;
    thread->busy = true;
    if (!thread->graph_begun)
        begin_graph(thread);
    struct tprof_graph_event *slot = tprof_stream_slot(&thread->graph);
    if (slot != NULL) {
        *slot = *event;
        tprof_stream_commit(&thread->graph);
    }
    thread->busy = false;
}

struct tprof_thread *tprof_recorder_join(void)
{
    const int saved_errno = errno;
    const uint64_t generation = __atomic_load_n(&tprof_generation, __ATOMIC_ACQUIRE);
    if (tprof_self != NULL)
        retire(tprof_self);
    tprof_self = calloc(1, sizeof *tprof_self);
    (void)pthread_setspecific(exit_key, tprof_self);
    if (tprof_self != NULL) {
        tprof_self->generation = generation;
        tprof_self->task = TPROF_NO_TASK;
        (void)pthread_getcpuclockid(pthread_self(), &tprof_self->clock);
        open_file(tprof_self);
        link_thread(tprof_self);
        /* Last, because this asks Python, which may let other threads run. */
        if (tprof_name_thread != NULL && tprof_self->stream.header != NULL)
            tprof_name_thread(tprof_self->stream.header->thread_name);
    }
    errno = saved_errno;
    return tprof_self;
}

void tprof_sample_lost(struct tprof_thread *thread)
{
    uint64_t *counter = &tprof_live_now()->dropped_io;
    if (thread->lost_error == ENOSPC || thread->lost_error == EDQUOT || thread->lost_error == EFBIG)
        counter = &tprof_live_now()->dropped_enospc;
    else if (thread->lost_error == EMFILE || thread->lost_error == ENFILE)
        counter = &tprof_live_now()->dropped_emfile;
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

uint64_t tprof_recorder_start(const struct tprof_setup *setup)
{
    pthread_mutex_lock(&lock);
    struct tprof_header *header = &plan.header;
    memset(header, 0, sizeof *header);
    memcpy(header->magic, TPROF_MAGIC, sizeof header->magic);
    header->major = TPROF_MAJOR;
    header->minor = TPROF_MINOR;
    header->endian = TPROF_ENDIAN;
    header->kind = TPROF_SAMPLES;
    header->header_bytes = TPROF_HEADER_BYTES;
    header->window_bytes = WINDOW_BYTES;
    header->record_bytes = setup->columns <= 5 ? 64 : 128;
    header->process = setup->process;
    header->pid = (uint32_t)getpid();
    header->description_bytes = (uint32_t)strnlen(setup->description, TPROF_DESCRIPTION_BYTES);
    memcpy(header->description, setup->description, header->description_bytes);
    enter_room(&plan.samples, setup->directory, "threads");
    enter_room(&plan.graph, setup->directory, "graph");
    memcpy(plan.events, setup->events, sizeof plan.events);
    plan.event_count = setup->event_count;
    /* Relaxed, both: the generation releases them to the threads that join. A thread of an earlier recording that is just
     * writing its last sample may find the new ones, which are as good as the old, or the former page, which stays. */
    for (uint32_t cpu = 0; cpu < TPROF_MAX_CPUS; cpu++)
        __atomic_store_n(&tprof_package_of_cpu[cpu], cpu < setup->cpus ? setup->package_of_cpu[cpu] : (int16_t)-1,
                         __ATOMIC_RELAXED);
    __atomic_store_n(&tprof_live, setup->live, __ATOMIC_RELAXED);
    const uint64_t generation = ++last_generation;
    __atomic_store_n(&tprof_generation, generation, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return generation;
}

void tprof_recorder_stop(void)
{
    pthread_mutex_lock(&lock);
    __atomic_store_n(&tprof_generation, 0, __ATOMIC_RELEASE);
    for (struct tprof_thread *thread = threads; thread != NULL; thread = thread->next) {
        if (is_finished(thread) || thread->generation != last_generation)
            continue;
        write_end(thread, TPROF_STOPPED, tprof_clock_ns(thread->clock));
        end_graph(thread, TPROF_STOPPED);
        __atomic_store_n(&thread->finished, true, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&lock);
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* The child has neither its parent's mappings nor its threads; it records again when Python's own fork hook lets
 * it join with a process number of its own. The list is dropped without free: the other threads' memory may have
 * been in any state when they vanished. */
static void after_fork_child(void)
{
    tprof_generation = 0;
    for (struct tprof_thread *thread = threads; thread != NULL; thread = thread->next)
        tprof_counters_forget(&thread->counters);
    threads = NULL;
    tprof_self = NULL;
    (void)pthread_setspecific(exit_key, NULL);
    pthread_mutex_init(&lock, NULL);
}

int tprof_recorder_initialise(void)
{
    const int error = pthread_key_create(&exit_key, at_thread_exit);
    return error != 0 ? error : pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}
