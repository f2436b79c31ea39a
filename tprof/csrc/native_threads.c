/* Owned by the sensor thread while it runs, and otherwise by the thread that begins or ends the recording; no locks of
 * its own. Whatever fails here leaves something unknown, never stops the program or the recording.
 *
 * A read of a thread's clock takes about half a microsecond. A clock that stands still is not written; when it moves
 * again, the last time at which it stood is, so that the movement has a narrow window. */
#include "native_threads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "births.h"
#include "clock.h"
#include "libraries.h"
#include "recorder.h"
#include "start_routines.h"
#include "stream.h"

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
#define WINDOW_BYTES 16384u
#define TEXT_BYTES 16
#define MOST_OWN 8
/* A read that took longer was interrupted, and the time of its value is not known well. */
#define SLOW_READ_NS UINT64_C(50000)
#define MOST_READS 3
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
    bool listed, stands, has_library;
    uint32_t polls, searches;
    uint64_t cpu_ns, read_ns; /* of the last read */
    struct tprof_birth *birth; /* NULL: not seen */
    char name[TEXT_BYTES + 1];
};

static struct tprof_stream stream;
static struct follower *followers; /* ascending by tid */
static size_t follower_count, follower_room;
static size_t followed_count;
static uint32_t thread_count;
static uint64_t record_count, recording, seen_joins;
static uint64_t next_ns, checked_ns, used_ns, checked_used_ns; /* used: without what new libraries take */
static uint64_t taken_ns;
static double stretch;
static bool relist;
static pid_t reader_tid, own_tids[MOST_OWN];

static struct tprof_native *slot(enum tprof_native_kind kind, uint32_t thread, uint64_t t_ns, uint64_t value)
{
    struct tprof_native *record = tprof_stream_slot(&stream);
    if (record != NULL)
        *record = (struct tprof_native){.t_ns = t_ns, .value = value, .thread = thread, .kind = (uint8_t)kind};
    return record;
}

static void commit(void)
{
    tprof_stream_commit(&stream);
    record_count++;
}

static void write_record(enum tprof_native_kind kind, uint32_t thread, uint64_t t_ns, uint64_t value)
{
    if (slot(kind, thread, t_ns, value) != NULL)
        commit();
}

/* Since when the clock has stood still at least; without this the next movement would seem to have begun earlier. */
static void write_standing(struct follower *one)
{
    if (one->stands)
        write_record(TPROF_NATIVE_CLOCK, one->number, one->read_ns, one->cpu_ns);
    one->stands = false;
}

static void write_end(struct follower *one, uint64_t t_ns, uint64_t cpu_ns, uint8_t flags)
{
    write_standing(one);
    struct tprof_native *record = slot(TPROF_NATIVE_END, one->number, t_ns, cpu_ns);
    if (record == NULL)
        return;
    record->flags = flags;
    commit();
}

static void write_text(enum tprof_native_kind kind, uint32_t thread, uint64_t t_ns, const char *text)
{
    const size_t length = strlen(text);
    for (size_t at = 0; at < length; at += TEXT_BYTES) {
        struct tprof_native *record = slot(kind, thread, t_ns, 0);
        if (record == NULL)
            return;
        record->part = (uint16_t)(at / TEXT_BYTES);
        memcpy((char *)record + offsetof(struct tprof_native, value), text + at,
               length - at < TEXT_BYTES ? length - at : TEXT_BYTES);
        commit();
    }
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

/* The clock of a thread of this process; false: there is no such thread any more. */
static bool read_clock(pid_t tid, uint64_t *cpu_ns, uint64_t *t_ns)
{
    const clockid_t clock = (clockid_t)((~(unsigned int)tid << 3) | 6u);
    for (int attempt = 1;; attempt++) {
        struct timespec value;
        const uint64_t before_ns = tprof_now_ns();
        if (clock_gettime(clock, &value) != 0)
            return false;
        *t_ns = tprof_now_ns();
        *cpu_ns = (uint64_t)value.tv_sec * 1000000000u + (uint64_t)value.tv_nsec;
        if (*t_ns - before_ns < SLOW_READ_NS || attempt == MOST_READS)
            return true;
    }
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
    if (library->written_in != recording) {
        write_text(TPROF_NATIVE_PATH, library->number, t_ns, library->path);
        library->written_in = recording;
    }
    write_record(TPROF_NATIVE_BEGIN, one->number, t_ns, library->number);
    one->has_library = true;
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
    struct tprof_native *record = slot(TPROF_NATIVE_CREATOR, one->number, birth->created_ns, birth->instance);
    if (record != NULL) {
        record->tid = (uint32_t)birth->creator;
        record->task = birth->task;
        commit();
    }
    if (!one->has_library)
        write_library(one, birth->created_ns, (uintptr_t)birth->routine, (uintptr_t)birth->argument);
}

static void follow(struct follower *one, uint64_t t_ns, uint64_t cpu_ns)
{
    one->role = FOLLOWED;
    one->number = thread_count++;
    one->read_ns = t_ns;
    one->cpu_ns = cpu_ns;
    one->stands = one->has_library = false;
    one->polls = one->searches = 0;
    one->name[0] = '\0';
    followed_count++;
    struct tprof_native *record = slot(TPROF_NATIVE_APPEAR, one->number, t_ns, cpu_ns);
    if (record == NULL)
        return;
    record->tid = (uint32_t)one->tid;
    commit();
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

/* A thread was created; `birth` becomes the follower's, or is released. */
static void take_birth(struct tprof_birth *birth)
{
    size_t place;
    struct follower *one = find(birth->tid, &place);
    /* A follower with a birth of its own is of an earlier thread with the same number. */
    if (one != NULL && one->role == FOLLOWED && one->birth != NULL) {
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
        write_record(TPROF_NATIVE_CLOCK, one->number, birth->created_ns, 0);
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

static int compare_tids(const void *one, const void *other)
{
    const pid_t left = *(const pid_t *)one, right = *(const pid_t *)other;
    return (left > right) - (left < right);
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
        write_end(one, now_ns, one->cpu_ns, TPROF_NATIVE_JOINED);
        stop_following(one);
    }
    free(sampled);
}

static size_t list_tids(pid_t **tids)
{
    size_t count = 0, room = 0;
    struct dirent *entry;
    *tids = NULL;
    DIR *directory = opendir("/proc/self/task");
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        const long tid = strtol(entry->d_name, NULL, 10);
        if (tid <= 0)
            continue;
        if (count == room) {
            pid_t *more = realloc(*tids, (room = 2 * room + 64) * sizeof *more);
            if (more == NULL)
                break;
            *tids = more;
        }
        (*tids)[count++] = (pid_t)tid;
    }
    if (directory != NULL)
        closedir(directory);
    if (count > 1)
        qsort(*tids, count, sizeof **tids, compare_tids);
    return count;
}

static void meet(pid_t tid, struct follower *one, size_t place)
{
    uint64_t cpu_ns, t_ns;
    if (one == NULL)
        one = insert(tid, place);
    if (one == NULL)
        return;
    one->listed = true;
    if (is_own(tid) || thread_count == MOST_THREADS || !read_clock(tid, &cpu_ns, &t_ns))
        return;
    follow(one, t_ns, cpu_ns);
    find_library(one, t_ns);
}

/* Find threads that nobody announced, and those that are gone. */
static void list_threads(uint64_t now_ns)
{
    pid_t *tids;
    const size_t count = list_tids(&tids);
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
            write_end(one, now_ns, one->cpu_ns, 0);
        erase(one);
    }
    free(tids);
}

/* The number of links of this directory is the number of threads, and two. */
static bool has_other_count(void)
{
    struct stat status;
    return stat("/proc/self/task", &status) == 0 && status.st_nlink != follower_count + 2;
}

static void read_name(struct follower *one, uint64_t t_ns)
{
    char path[64], name[TEXT_BYTES + 1] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)one->tid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    const ssize_t count = read(fd, name, TEXT_BYTES);
    close(fd);
    if (count <= 0)
        return;
    name[strcspn(name, "\n")] = '\0';
    if (strcmp(name, one->name) == 0)
        return;
    strcpy(one->name, name);
    write_text(TPROF_NATIVE_NAME, one->number, t_ns, name);
}

/* The thread's own word that it is not to be followed any more, which comes with its clock. */
static bool write_own_end(struct follower *one, const struct tprof_birth *birth)
{
    if (tprof_birth_joined(birth))
        write_end(one, birth->joined_ns, birth->joined_cpu_ns, TPROF_NATIVE_EXACT | TPROF_NATIVE_JOINED);
    else if (tprof_birth_ended(birth))
        write_end(one, birth->ended_ns, birth->cpu_ns, TPROF_NATIVE_EXACT);
    else
        return false;
    return true;
}

/* Returns false if the thread does not exist any more. */
static bool read_thread(struct follower *one)
{
    uint64_t cpu_ns, t_ns;
    if (one->birth != NULL && write_own_end(one, one->birth)) {
        stop_following(one);
        return true;
    }
    if (!read_clock(one->tid, &cpu_ns, &t_ns)) {
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
        write_record(TPROF_NATIVE_CLOCK, one->number, t_ns, cpu_ns);
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
    if (relist || has_other_count())
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
    const uint64_t doublings = record_count / RECORDS_PER_DOUBLING;
    const double usual_ns = followed_count == 0 ? (double)IDLE_PERIOD_NS : (double)PERIOD_NS;
    const double period = usual_ns * stretch * (double)(UINT64_C(1) << (doublings < 10 ? doublings : 10));
    return period < (double)LONGEST_PERIOD_NS ? (uint64_t)period : LONGEST_PERIOD_NS;
}

uint64_t tprof_native_poll(uint64_t now_ns)
{
    if (!tprof_native_runs())
        return UINT64_MAX;
    if (now_ns < next_ns)
        return next_ns;
    const uint64_t began_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    reader_tid = (pid_t)syscall(SYS_gettid);
    tprof_libraries_refresh();
    const uint64_t refreshed_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    follow_all(now_ns);
    const uint64_t done_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    used_ns += done_ns - refreshed_ns;
    taken_ns += done_ns - began_ns;
    adapt(now_ns);
    next_ns += period_ns();
    if (next_ns <= now_ns)
        next_ns = now_ns + period_ns();
    return next_ns;
}

uint64_t tprof_native_taken_ns(void)
{
    return taken_ns;
}

bool tprof_native_runs(void)
{
    return stream.header != NULL;
}

static int create_file(const char *directory, uint32_t process)
{
    static const char description[] = "{\"native\": \"threads\"}";
    char path[PATH_MAX];
    struct tprof_header header = {
        .magic = TPROF_MAGIC,
        .major = TPROF_MAJOR,
        .minor = TPROF_MINOR,
        .endian = TPROF_ENDIAN,
        .kind = TPROF_NATIVE,
        .header_bytes = TPROF_HEADER_BYTES,
        .window_bytes = WINDOW_BYTES,
        .record_bytes = sizeof(struct tprof_native),
        .process = process,
        .thread = TPROF_NO_THREAD,
        .pid = (uint32_t)getpid(),
        .start_ns = tprof_now_ns(),
        .description_bytes = sizeof description - 1,
    };
    memcpy(header.description, description, sizeof description - 1);
    if (snprintf(path, sizeof path, "%s/native/%08u.native", directory, process) >= (int)sizeof path)
        return ENAMETOOLONG;
    return tprof_stream_create(&stream, AT_FDCWD, path, &header);
}

int tprof_native_begin(const char *directory, uint32_t process)
{
    const int error = create_file(directory, process);
    if (error != 0)
        return error;
    recording++;
    follower_count = followed_count = 0;
    thread_count = 0;
    record_count = 0;
    seen_joins = 0;
    stretch = 1;
    relist = true;
    used_ns = checked_used_ns = taken_ns = 0;
    next_ns = checked_ns = tprof_now_ns();
    tprof_libraries_refresh();
    tprof_births_note(recording);
    follow_all(next_ns); /* now, so that no time of the recording is missing */
    return 0;
}

void tprof_native_end(void)
{
    if (!tprof_native_runs())
        return;
    tprof_births_note(0);
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
    stream.header->end_ns = tprof_now_ns();
    stream.header->end_reason = TPROF_STOPPED;
    tprof_stream_close(&stream, true);
    follower_count = followed_count = 0;
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

/* The child does not have its parent's mapping. What the followers hold is lost memory, a few bytes each. */
void tprof_native_forget(void)
{
    stream.header = NULL;
    follower_count = followed_count = 0;
    memset(own_tids, 0, sizeof own_tids);
}
