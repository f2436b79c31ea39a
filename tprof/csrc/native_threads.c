/* Called by the sensor thread, by the thread that begins or ends the recording, and by threads that load a library. A
 * lock keeps them apart; while it is held, those of births, libraries and recorder may be taken. Whatever fails here
 * leaves something unknown, never stops the program or the recording.
 *
 * A read of a thread's clock takes about half a microsecond. A clock that stands still is not written; when it moves
 * again, the last time at which it stood is, so that the movement has a narrow window. */
#include "native_threads.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "births.h"
#include "calls.h"
#include "clock.h"
#include "libraries.h"
#include "mpi_calls.h"
#include "native_calls.h"
#include "native_file.h"
#include "process_threads.h"
#include "recorder.h"
#include "redirection.h"
#include "start_routines.h"

#define PERIOD_NS UINT64_C(5000000)
/* While there is no thread to read. */
#define IDLE_PERIOD_NS UINT64_C(20000000)
#define LONGEST_PERIOD_NS UINT64_C(1000000000)
/* Part of a core that reading may take; the period is adapted so often. */
#define BUDGET 0.01
#define CHECK_NS UINT64_C(50000000)
/* Each time so many records are written, the period doubles: 64 MiB. */
#define RECORDS_PER_DOUBLING (UINT64_C(1) << 21)
#define MOST_THREADS (UINT32_C(1) << 20)
#define MOST_OWN 8
/* Polls after which a name is read: it comes late, and may change. */
#define IS_TIME_FOR_NAME(polls) ((polls) == 2 || (polls) == 20 || (polls) % 1000 == 0)
/* The start routine of a thread that nobody saw begin is found while the thread waits. */
#define MOST_SEARCHES 20

/* Left out: it records samples, is our own, or has ended and is still listed. */
enum role { LEFT_OUT, FOLLOWED };

struct follower {
    pid_t tid;
    uint32_t number; /* in the file */
    enum role role;
    bool listed, stands, has_library, has_creator;
    uint32_t polls, searches;
    uint64_t appeared_ns;
    uint64_t cpu_ns, read_ns; /* of the last read */
    struct tprof_birth *birth; /* NULL: not seen */
    char name[TPROF_THREAD_NAME_BYTES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct follower *followers; /* ascending by tid */
static size_t follower_count, follower_room;
static size_t followed_count;
static uint32_t thread_count;
static uint64_t recording, seen_joins;
static uint64_t began_ns, next_ns, checked_ns, used_ns, checked_used_ns;
static double stretch;
static bool relist;
static uint32_t loads; /* of libraries, that are going on */
static pid_t loader;
static bool is_loader_unknown; /* two threads load at once */
static bool redirects_more;      /* of the functions that `tprof_native_redirect` named */
static pid_t reader_tid, own_tids[MOST_OWN];

static void write_clock(const struct follower *one, uint64_t t_ns, uint64_t cpu_ns)
{
    const struct tprof_native record = {
        .kind = TPROF_NATIVE_CLOCK, .thread = one->number, .t_ns = t_ns, .value = cpu_ns};
    tprof_native_write(&record);
}

/* Since when the clock has stood still at least; without this the next movement would seem to have begun earlier. */
static void write_standing(struct follower *one)
{
    if (one->stands)
        write_clock(one, one->read_ns, one->cpu_ns);
    one->stands = false;
}

static void write_end(struct follower *one, uint64_t t_ns, uint64_t cpu_ns, uint8_t flags)
{
    write_standing(one);
    const struct tprof_native record = {
        .kind = TPROF_NATIVE_END, .thread = one->number, .t_ns = t_ns, .value = cpu_ns, .flags = flags};
    tprof_native_write(&record);
}

/* It may have ended, or said so, while its clock was read: then the reading is the later one. */
static void write_last(struct follower *one, uint64_t t_ns, uint64_t cpu_ns, uint8_t flags)
{
    write_end(one, t_ns < one->read_ns ? one->read_ns : t_ns, cpu_ns < one->cpu_ns ? one->cpu_ns : cpu_ns, flags);
}

static struct follower *find(pid_t tid, size_t *place)
{
    size_t low = 0, high = follower_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (followers[middle].tid < tid)
            low = middle + 1;
        else
            high = middle;
    }
    *place = low;
    return low < follower_count && followers[low].tid == tid ? &followers[low] : NULL;
}

static struct follower *insert(pid_t tid, size_t place)
{
    if (follower_count == follower_room) {
        struct follower *more = realloc(followers, (2 * follower_room + 64) * sizeof *more);
        if (more == NULL)
            return NULL;
        followers = more;
        follower_room = 2 * follower_room + 64;
    }
    memmove(&followers[place + 1], &followers[place], (follower_count - place) * sizeof *followers);
    follower_count++;
    followers[place] = (struct follower){.tid = tid, .role = LEFT_OUT};
    return &followers[place];
}

static void drop_birth(struct follower *one)
{
    if (one->birth != NULL)
        tprof_birth_release(one->birth);
    one->birth = NULL;
}

static void stop_following(struct follower *one)
{
    drop_birth(one);
    followed_count -= one->role == FOLLOWED;
    one->role = LEFT_OUT;
}

static void erase(struct follower *one)
{
    stop_following(one);
    memmove(one, one + 1, (size_t)(followers + follower_count - one - 1) * sizeof *one);
    follower_count--;
}

static void write_begin(struct follower *one, uint64_t t_ns, struct tprof_library *library)
{
    tprof_native_write_path(library, recording, t_ns);
    const struct tprof_native begin = {
        .kind = TPROF_NATIVE_BEGIN, .thread = one->number, .t_ns = t_ns, .value = library->number};
    tprof_native_write(&begin);
    one->has_library = true;
}

static void write_library(struct follower *one, uint64_t t_ns, uintptr_t routine, uintptr_t argument)
{
    struct tprof_library *library = tprof_library_at(routine);
    uintptr_t table = 0;
    if (library == NULL)
        return;
    /* std::thread begins in the library of C++. Its argument is an object of the caller's, whose first word points to
     * a table in the caller's file. */
    if (strstr(library->path, "libstdc++.so") != NULL &&
        tprof_read_memory(argument, &table, sizeof table) == sizeof table && tprof_library_at(table) != NULL)
        library = tprof_library_at(table);
    write_begin(one, t_ns, library);
}

static void find_library(struct follower *one, uint64_t t_ns)
{
    struct tprof_start_routine found;
    one->searches++;
    if (tprof_start_routine_of(one->tid, &found))
        write_library(one, t_ns, found.routine, found.argument);
}

/* Write who created the thread; takes ownership of the birth. */
static void write_birth(struct follower *one, struct tprof_birth *birth)
{
    drop_birth(one);
    one->birth = birth;
    const struct tprof_native record = {
        .kind = TPROF_NATIVE_CREATOR,
        .thread = one->number,
        .t_ns = birth->created_ns,
        .value = birth->instance,
        .tid = (uint32_t)birth->creator,
        .task = birth->task,
    };
    tprof_native_write(&record);
    if (!one->has_library)
        write_library(one, birth->created_ns, (uintptr_t)birth->routine, (uintptr_t)birth->argument);
}

static void follow(struct follower *one, uint64_t t_ns, uint64_t cpu_ns)
{
    one->role = FOLLOWED;
    one->number = thread_count++;
    one->appeared_ns = one->read_ns = t_ns;
    one->cpu_ns = cpu_ns;
    one->stands = one->has_library = one->has_creator = false;
    one->polls = one->searches = 0;
    one->name[0] = '\0';
    followed_count++;
    const struct tprof_native record = {
        .kind = TPROF_NATIVE_APPEAR,
        .thread = one->number,
        .t_ns = t_ns,
        .value = cpu_ns,
        .tid = (uint32_t)one->tid,
    };
    tprof_native_write(&record);
}

static bool is_own(pid_t tid)
{
    if (tid == reader_tid)
        return true;
    for (int i = 0; i < MOST_OWN; i++)
        if (__atomic_load_n(&own_tids[i], __ATOMIC_RELAXED) == tid)
            return true;
    return false;
}

/* The thread's own word that it is not to be followed any more, which comes with its clock. */
static bool write_own_end(struct follower *one, const struct tprof_birth *birth)
{
    if (tprof_birth_joined(birth))
        write_last(one, birth->joined_ns, birth->joined_cpu_ns, TPROF_NATIVE_EXACT | TPROF_NATIVE_JOINED);
    else if (tprof_birth_ended(birth))
        write_last(one, birth->ended_ns, birth->cpu_ns, TPROF_NATIVE_EXACT);
    else
        return false;
    return true;
}

/* A thread was created; `birth` becomes the follower's, or is released. */
static void take_birth(struct tprof_birth *birth)
{
    size_t place;
    struct follower *one = find(birth->tid, &place);
    if (one != NULL && one->role == FOLLOWED && (one->birth != NULL || one->appeared_ns < birth->created_ns)) {
        /* It is an earlier thread with the same number. */
        if (one->birth == NULL || !write_own_end(one, one->birth))
            write_end(one, birth->created_ns, one->cpu_ns, 0);
        stop_following(one);
    }
    if (one == NULL)
        one = insert(birth->tid, place);
    if (one == NULL || thread_count == MOST_THREADS || is_own(birth->tid)) {
        tprof_birth_release(birth);
        return;
    }
    if (one->role != FOLLOWED)
        follow(one, birth->created_ns, 0);
    else
        write_clock(one, birth->created_ns, 0);
    write_birth(one, birth);
}

static void take_births(void)
{
    struct tprof_birth *birth = tprof_births_take();
    while (birth != NULL) {
        struct tprof_birth *next = birth->next;
        if (birth->recording == recording)
            take_birth(birth);
        else
            tprof_birth_release(birth);
        birth = next;
    }
}

/* The calling thread created it. */
static void write_creator(struct follower *one, uint64_t created_ns)
{
    const struct tprof_thread *self = tprof_self;
    const bool is_current = self != NULL && self->generation == __atomic_load_n(&tprof_generation, __ATOMIC_RELAXED);
    const struct tprof_native record = {
        .kind = TPROF_NATIVE_CREATOR,
        .thread = one->number,
        .t_ns = created_ns,
        .value = is_current ? self->instance : 0,
        .tid = (uint32_t)syscall(SYS_gettid),
        .task = is_current ? self->task : TPROF_NO_TASK,
    };
    write_clock(one, created_ns, 0);
    tprof_native_write(&record);
    one->has_creator = true;
}

/* Threads that record samples now are no longer followed; those with a birth say so there. */
static void leave_sampled(uint64_t now_ns)
{
    const uint64_t joins = tprof_recorder_joins();
    if (joins == seen_joins)
        return;
    seen_joins = joins;
    pid_t *sampled;
    const size_t count = tprof_recorder_tids(&sampled);
    for (size_t i = 0; i < count; i++) {
        size_t place;
        struct follower *one = find(sampled[i], &place);
        if (one == NULL)
            one = insert(sampled[i], place);
        if (one == NULL || one->role != FOLLOWED || one->birth != NULL)
            continue;
        write_last(one, now_ns, one->cpu_ns, TPROF_NATIVE_JOINED);
        stop_following(one);
    }
    free(sampled);
}

static void meet(pid_t tid, struct follower *one, size_t place)
{
    uint64_t cpu_ns, t_ns;
    if (one == NULL)
        one = insert(tid, place);
    if (one == NULL)
        return;
    one->listed = true;
    if (is_own(tid) || thread_count == MOST_THREADS || !tprof_thread_clock(tid, &cpu_ns, &t_ns))
        return;
    follow(one, t_ns, cpu_ns);
    find_library(one, t_ns);
}

/* Find threads that nobody announced, and those that are gone. */
static void list_threads(uint64_t now_ns)
{
    pid_t *tids;
    const size_t count = tprof_thread_tids(&tids);
    if (count == 0)
        return;
    for (size_t i = 0; i < follower_count; i++)
        followers[i].listed = false;
    for (size_t i = 0; i < count; i++) {
        size_t place;
        struct follower *one = find(tids[i], &place);
        if (one == NULL)
            meet(tids[i], one, place);
        else
            one->listed = true;
    }
    for (size_t i = follower_count; i-- > 0;) {
        struct follower *one = &followers[i];
        if (one->listed)
            continue;
        if (one->role == FOLLOWED)
            write_last(one, now_ns, one->cpu_ns, 0);
        erase(one);
    }
    free(tids);
}

static void read_name(struct follower *one, uint64_t t_ns)
{
    char name[TPROF_THREAD_NAME_BYTES];
    if (!tprof_thread_name(one->tid, name) || strcmp(name, one->name) == 0)
        return;
    strcpy(one->name, name);
    const struct tprof_native record = {.kind = TPROF_NATIVE_NAME, .thread = one->number, .t_ns = t_ns};
    tprof_native_write_text(record, name);
}

/* Returns false if the thread does not exist any more. */
static bool read_thread(struct follower *one)
{
    uint64_t cpu_ns, t_ns;
    if (one->birth != NULL && write_own_end(one, one->birth)) {
        stop_following(one);
        return true;
    }
    if (!tprof_thread_clock(one->tid, &cpu_ns, &t_ns)) {
        write_end(one, tprof_now_ns(), one->cpu_ns, 0);
        return false;
    }
    if (cpu_ns < one->cpu_ns) { /* another thread has got the number */
        write_end(one, one->read_ns, one->cpu_ns, 0);
        relist = true;
        return false;
    }
    if (cpu_ns == one->cpu_ns) {
        one->stands = true;
    } else {
        write_standing(one);
        write_clock(one, t_ns, cpu_ns);
    }
    one->cpu_ns = cpu_ns;
    one->read_ns = t_ns;
    one->polls++;
    if (IS_TIME_FOR_NAME(one->polls))
        read_name(one, t_ns);
    if (!one->has_library && one->stands && one->searches < MOST_SEARCHES)
        find_library(one, t_ns);
    return true;
}

static void read_threads(void)
{
    for (size_t i = follower_count; i-- > 0;) {
        if (followers[i].role != FOLLOWED || read_thread(&followers[i]))
            continue;
        erase(&followers[i]);
    }
}

static void follow_all(uint64_t now_ns)
{
    take_births();
    leave_sampled(now_ns);
    read_threads();
    const size_t count = relist ? 0 : tprof_thread_count();
    if (relist || (count != 0 && count != follower_count))
        list_threads(now_ns);
    relist = false;
}

/* Keep to the budget, down fast and up slowly. */
static void adapt(uint64_t now_ns)
{
    if (now_ns - checked_ns < CHECK_NS)
        return;
    const double used = (double)(used_ns - checked_used_ns) / (double)(now_ns - checked_ns) / BUDGET;
    const double wanted = stretch * (used > 2 ? 2 : used < 0.8 ? 0.8 : used);
    stretch = used > 0.9 || stretch > 1 ? (wanted < 1 ? 1 : wanted) : 1;
    checked_ns = now_ns;
    checked_used_ns = used_ns;
}

static uint64_t period_ns(void)
{
    const uint64_t doublings = tprof_native_written() / RECORDS_PER_DOUBLING;
    const double usual_ns = followed_count == 0 ? (double)IDLE_PERIOD_NS : (double)PERIOD_NS;
    const double period = usual_ns * stretch * (double)(UINT64_C(1) << (doublings < 10 ? doublings : 10));
    return period < (double)LONGEST_PERIOD_NS ? (uint64_t)period : LONGEST_PERIOD_NS;
}

uint64_t tprof_native_next_ns(void)
{
    return tprof_native_runs() ? next_ns : UINT64_MAX;
}

void tprof_native_poll(uint64_t now_ns)
{
    pthread_mutex_lock(&lock);
    reader_tid = (pid_t)syscall(SYS_gettid);
    tprof_libraries_refresh();
    tprof_native_write_calls(recording, began_ns, false);
    follow_all(now_ns);
    adapt(now_ns);
    next_ns += period_ns();
    if (next_ns <= now_ns)
        next_ns = now_ns + period_ns();
    pthread_mutex_unlock(&lock);
}

/* The threads that are there now are not the library's. */
void tprof_native_before_load(struct tprof_native_load *load)
{
    pthread_mutex_lock(&lock);
    const pid_t tid = (pid_t)syscall(SYS_gettid);
    load->before_ns = tprof_now_ns();
    if (tprof_native_runs()) {
        take_births();
        if (tprof_thread_count() != follower_count)
            list_threads(load->before_ns);
    }
    load->recording = recording;
    load->first = thread_count;
    is_loader_unknown = loads > 0 && (is_loader_unknown || loader != tid);
    loader = tid;
    loads++;
    pthread_mutex_unlock(&lock);
}

/* OpenBLAS, if it came alone since that time: it creates its pool as it is loaded, and what it creates spins from the
 * first, so that no waiting stack shows where it began. */
static struct tprof_library *loaded_openblas(uint64_t since_ns)
{
    struct tprof_library *found = NULL;
    for (struct tprof_library *one = tprof_library_next(NULL); one != NULL; one = tprof_library_next(one)) {
        if (!one->is_openblas || one->noted_ns < since_ns)
            continue;
        if (found != NULL)
            return NULL;
        found = one;
    }
    return found;
}

/* What began meanwhile and was not created by a redirected call was created by the library as it was loaded, also if
 * the sensor thread has met it already. */
void tprof_native_after_load(const struct tprof_native_load *load)
{
    pthread_mutex_lock(&lock);
    loads -= loads > 0;
    if (tprof_native_runs() || redirects_more || tprof_mpi_is_followed())
        tprof_libraries_refresh();
    if (tprof_native_runs()) {
        take_births();
        if (tprof_thread_count() != follower_count)
            list_threads(tprof_now_ns());
        struct tprof_library *const openblas = loaded_openblas(load->before_ns);
        for (size_t i = 0; i < follower_count && load->recording == recording && !is_loader_unknown; i++) {
            struct follower *one = &followers[i];
            if (one->role != FOLLOWED || one->number < load->first || one->birth != NULL || one->has_creator)
                continue;
            write_creator(one, load->before_ns);
            if (!one->has_library)
                find_library(one, one->read_ns);
            if (!one->has_library && openblas != NULL)
                write_begin(one, one->read_ns, openblas);
        }
    }
    pthread_mutex_unlock(&lock);
}

void tprof_native_follow_mpi(void)
{
    pthread_mutex_lock(&lock);
    tprof_calls_follow_mpi();
    tprof_libraries_unsettle();
    tprof_libraries_refresh();
    pthread_mutex_unlock(&lock);
}

void tprof_native_redirect(const struct tprof_redirected *functions, size_t count)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++)
        tprof_redirect_also(&functions[i]);
    redirects_more = true;
    tprof_libraries_unsettle();
    tprof_libraries_refresh();
    pthread_mutex_unlock(&lock);
}

void tprof_native_charge(uint64_t cpu_ns)
{
    used_ns += cpu_ns;
}

bool tprof_native_runs(void)
{
    return tprof_native_file_is_open();
}

static void begin(void)
{
    recording++;
    follower_count = followed_count = 0;
    thread_count = 0;
    seen_joins = 0;
    stretch = 1;
    relist = true;
    used_ns = checked_used_ns = 0;
    next_ns = checked_ns = began_ns = tprof_now_ns();
    tprof_libraries_refresh();
    tprof_births_note(recording);
    tprof_calls_note(true);
    follow_all(next_ns); /* now, so that no time of the recording is missing */
}

int tprof_native_begin(const char *directory, uint32_t process)
{
    pthread_mutex_lock(&lock);
    const int error = tprof_native_file_create(directory, process);
    if (error == 0)
        begin();
    pthread_mutex_unlock(&lock);
    return error;
}

static void end(void)
{
    tprof_births_note(0);
    tprof_calls_note(false);
    tprof_native_write_calls(recording, began_ns, true);
    take_births();
    leave_sampled(tprof_now_ns());
    for (size_t i = 0; i < follower_count; i++) {
        struct follower *one = &followers[i];
        if (one->role != FOLLOWED)
            continue;
        if (read_thread(one) && one->role == FOLLOWED) {
            write_standing(one);
            read_name(one, one->read_ns);
        }
        drop_birth(one);
    }
    tprof_native_file_close();
    follower_count = followed_count = 0;
}

void tprof_native_end(void)
{
    pthread_mutex_lock(&lock);
    if (tprof_native_runs())
        end();
    pthread_mutex_unlock(&lock);
}

void tprof_native_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void tprof_native_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

void tprof_native_leave_out(bool begins)
{
    const pid_t tid = (pid_t)syscall(SYS_gettid);
    for (int i = 0; i < MOST_OWN; i++) {
        pid_t expected = begins ? 0 : tid;
        if (__atomic_compare_exchange_n(&own_tids[i], &expected, begins ? tid : 0, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return;
    }
}

/* The list may have been in any state; it is dropped without free, as what the followers hold. */
void tprof_native_forget(void)
{
    tprof_native_file_forget();
    followers = NULL;
    follower_count = follower_room = followed_count = 0;
    reader_tid = 0;
    loads = 0;
    memset(own_tids, 0, sizeof own_tids);
}
