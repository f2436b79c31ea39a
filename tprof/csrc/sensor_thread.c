/* `guard` protects `asked_to_stop` and `settled`. The sources belong to the sensor thread while it runs, and otherwise
 * to the holder of `turn`: any thread that starts, stops, pauses or resumes it, one at a time. */
#include "sensor_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "native_threads.h"
#include "polling_schedule.h"
#include "start_routines.h"

#define SETTLE_NS UINT64_C(20000000)
#define LONGEST_SLEEP_NS UINT64_C(20000000)
#define LONGEST_END_NS UINT64_C(20000000)

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;
static bool asked_to_stop, settled, running, has_thread;
static bool follows_only; /* it was started for native threads, without sources */
static pthread_t thread;
static pid_t thread_id;
static struct tprof_source *sources;
static int source_count;
static uint64_t used_cpu_ns;
static struct tprof_polling_schedule schedule;

static struct timespec to_timespec(uint64_t t_ns)
{
    return (struct timespec){.tv_sec = (time_t)(t_ns / 1000000000u), .tv_nsec = (long)(t_ns % 1000000000u)};
}

static bool is_sensor(const struct tprof_source *source)
{
    return source->kind == TPROF_FILE || source->kind == TPROF_PERF;
}

static uint64_t poll_due(uint64_t now_ns)
{
    uint64_t next_ns = now_ns + LONGEST_SLEEP_NS;
    for (int i = 0; i < source_count; i++) {
        struct tprof_source *source = &sources[i];
        if (source->next_poll_ns <= now_ns) {
            const bool changed = tprof_source_poll(source, false);
            source->next_poll_ns = tprof_polling_next(&schedule, source, now_ns, is_sensor(source), changed);
        }
        if (source->next_poll_ns < next_ns)
            next_ns = source->next_poll_ns;
    }
    return next_ns;
}

/* The first value counts as a change, so a second one means that an update was seen. */
static bool have_settled(void)
{
    for (int i = 0; i < source_count; i++)
        if (is_sensor(&sources[i]) && sources[i].changes < 2 && sources[i].failures == 0)
            return false;
    return true;
}

static void announce_settled(void)
{
    pthread_mutex_lock(&guard);
    settled = true;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&guard);
}

/* Sleep until `t_ns` or until asked to stop; returns whether asked. */
static bool sleep_until(uint64_t t_ns)
{
    const struct timespec until = to_timespec(t_ns);
    pthread_mutex_lock(&guard);
    while (!asked_to_stop && pthread_cond_timedwait(&wake, &guard, &until) != ETIMEDOUT)
        ;
    const bool stop = asked_to_stop;
    pthread_mutex_unlock(&guard);
    return stop;
}

/* The energy of the program's last moments appears at the sensor's next update. */
static void poll_last(void)
{
    const uint64_t deadline_ns = tprof_now_ns() + SETTLE_NS;
    for (int i = 0; i < source_count; i++) {
        struct tprof_source *source = &sources[i];
        while (is_sensor(source) && source->failures == 0 && tprof_now_ns() < deadline_ns) {
            if (tprof_source_poll(source, false))
                break;
            const struct timespec pause = to_timespec(200000);
            (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        }
    }
    for (int i = 0; i < source_count; i++)
        (void)tprof_source_poll(&sources[i], true);
}

/* Returns when the thread has to wake again. */
static uint64_t follow_native(uint64_t now_ns, uint64_t next_ns)
{
    const uint64_t before_ns = tprof_native_taken_ns();
    const uint64_t native_ns = tprof_native_poll(now_ns);
    schedule.other_cpu_ns += tprof_native_taken_ns() - before_ns;
    return native_ns < next_ns ? native_ns : next_ns;
}

static void *run(void *unused)
{
    bool announced = settled;
    uint64_t next_ns;
    (void)unused;
    thread_id = (pid_t)syscall(SYS_gettid);
    schedule.earlier_cpu_ns = used_cpu_ns;
    (void)prctl(PR_SET_NAME, "tprof-sensors");
    (void)prctl(PR_SET_TIMERSLACK, 1000UL);
    tprof_start_routines_learn((uintptr_t)run);
    do {
        const uint64_t now_ns = tprof_now_ns();
        next_ns = poll_due(now_ns);
        next_ns = follow_native(now_ns, next_ns);
        tprof_polling_check(&schedule, now_ns);
        if (!announced && have_settled()) {
            announce_settled();
            announced = true;
        }
    } while (!sleep_until(next_ns));
    used_cpu_ns += tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

static int create_thread(void)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    (void)pthread_attr_setstacksize(&attributes, 256 * 1024);
    asked_to_stop = false;
    /* Signals belong to the program's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attributes, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    has_thread = error == 0;
    return error;
}

void tprof_await_thread_end(pid_t id)
{
    const uint64_t deadline_ns = tprof_now_ns() + LONGEST_END_NS;
    const struct timespec pause = to_timespec(10000);
    while (syscall(SYS_tgkill, getpid(), id, 0) == 0 && tprof_now_ns() < deadline_ns)
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static void end_thread(void)
{
    if (!has_thread)
        return;
    pthread_mutex_lock(&guard);
    asked_to_stop = true;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&guard);
    pthread_join(thread, NULL);
    has_thread = false;
    tprof_await_thread_end(thread_id);
}

static void wait_until_settled(void)
{
    const struct timespec until = to_timespec(tprof_now_ns() + SETTLE_NS);
    pthread_mutex_lock(&guard);
    while (!settled && pthread_cond_timedwait(&wake, &guard, &until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&guard);
}

static void release(void)
{
    for (int i = 0; i < source_count; i++)
        tprof_source_close(&sources[i]);
    free(sources);
    sources = NULL;
    source_count = 0;
}

static int start(struct tprof_source *given, int count, double budget)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&wake, &attributes);
    pthread_condattr_destroy(&attributes);
    sources = given;
    source_count = count;
    used_cpu_ns = 0;
    settled = false;
    tprof_polling_begin(&schedule, budget, tprof_now_ns());
    const int error = create_thread();
    if (error != 0) {
        pthread_cond_destroy(&wake);
        release();
        return error;
    }
    running = true;
    if (count > 0)
        wait_until_settled();
    return 0;
}

int tprof_sensors_start(struct tprof_source *given, int count, double budget)
{
    pthread_mutex_lock(&turn);
    const int error = start(given, count, budget);
    pthread_mutex_unlock(&turn);
    return error;
}

uint64_t tprof_sensors_stop(void)
{
    uint64_t last_cpu_ns = 0;
    pthread_mutex_lock(&turn);
    if (running) {
        end_thread();
        tprof_native_end();
        const uint64_t before_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        poll_last();
        last_cpu_ns = used_cpu_ns + tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
        running = false;
        pthread_cond_destroy(&wake);
        release();
    }
    pthread_mutex_unlock(&turn);
    return last_cpu_ns;
}

bool tprof_sensors_run(void)
{
    return running;
}

static int follow(const char *directory, uint32_t process)
{
    end_thread();
    int error = tprof_native_begin(directory, process);
    if (!running && error == 0) {
        error = start(NULL, 0, 0);
        follows_only = error == 0;
        if (error != 0)
            tprof_native_end();
    } else if (running) {
        (void)create_thread();
    }
    return error;
}

int tprof_sensors_follow(const char *directory, uint32_t process)
{
    pthread_mutex_lock(&turn);
    const int error = follow(directory, process);
    pthread_mutex_unlock(&turn);
    return error;
}

void tprof_sensors_unfollow(void)
{
    pthread_mutex_lock(&turn);
    if (tprof_native_runs()) {
        end_thread();
        tprof_native_end();
        if (follows_only) {
            running = follows_only = false;
            pthread_cond_destroy(&wake);
        } else {
            (void)create_thread();
        }
    }
    pthread_mutex_unlock(&turn);
}

void tprof_sensors_pause(void)
{
    pthread_mutex_lock(&turn);
    end_thread();
    pthread_mutex_unlock(&turn);
}

void tprof_sensors_resume(void)
{
    pthread_mutex_lock(&turn);
    if (running && !has_thread)
        (void)create_thread(); /* If this fails, the last reading, which `stop` takes, ends a long quantum. */
    pthread_mutex_unlock(&turn);
}

void tprof_sensors_forget(void)
{
    pthread_mutex_init(&turn, NULL);
    pthread_mutex_init(&guard, NULL);
    if (!running)
        return;
    running = has_thread = follows_only = false;
    for (int i = 0; i < source_count; i++)
        if (sources[i].fd >= 0)
            close(sources[i].fd);
    sources = NULL;
    source_count = 0;
}
