/* `guard` protects `asked_to_stop`, `settled` and `first_thread_left`. The sources belong to the sensor thread while it
 * runs, and otherwise to the holder of `turn`: any thread that starts, stops, pauses or resumes it, or adds or removes
 * sources, one at a time. `sums` protects what observers read, and is held only to copy it. */
#include "sensor_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "polling_schedule.h"
#include "process_threads.h"
#include "start_routines.h"

#define SETTLE_NS UINT64_C(20000000)
#define LONGEST_SLEEP_NS UINT64_C(1000000000)
#define LONGEST_END_NS UINT64_C(20000000)
#define LAST_THREAD_CHECK_NS UINT64_C(5000000)
#define CLOCK_SOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t sums = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;
static bool asked_to_stop, settled, running, has_thread;
static uint32_t refused; /* threads, since the recording began */
static pthread_t thread;
static pid_t thread_id;
static struct tprof_source *sources; /* of the recording */
static int source_count;
static struct tprof_observer *observers;
static uint64_t used_cpu_ns;
static struct tprof_polling_schedule schedule;
static struct tprof_fast_clock *kept_clock; /* NULL: none is kept */
static struct tprof_clock_keeper clock_keeper;
static uint64_t renew_ns; /* when the clock's next snapshot is due */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t first_thread_key;
static bool has_key, first_thread_left;

static struct timespec to_timespec(uint64_t t_ns)
{
    return (struct timespec){.tv_sec = (time_t)(t_ns / 1000000000u), .tv_nsec = (long)(t_ns % 1000000000u)};
}

static bool is_sensor(const struct tprof_source *source)
{
    return source->kind == TPROF_FILE || source->kind == TPROF_PERF;
}

static uint64_t earliest(const struct tprof_source *all, int count, uint64_t next_ns)
{
    for (int i = 0; i < count; i++)
        if (all[i].next_poll_ns < next_ns)
            next_ns = all[i].next_poll_ns;
    return next_ns;
}

static bool is_source_due(uint64_t now_ns)
{
    uint64_t next_ns = earliest(sources, source_count, UINT64_MAX);
    for (const struct tprof_observer *observer = observers; observer != NULL; observer = observer->next)
        next_ns = earliest(observer->sources, observer->count, next_ns);
    return next_ns <= now_ns;
}

/* Returns whether a value changed; `next_ns` becomes the time of the next poll, if that is earlier. */
static bool poll_all(struct tprof_source *all, int count, uint64_t now_ns, uint64_t *next_ns)
{
    const uint64_t until_ns = now_ns + tprof_polling_tolerance(&schedule);
    bool any_changed = false;
    for (int i = 0; i < count; i++) {
        struct tprof_source *source = &all[i];
        if (source->next_poll_ns <= until_ns) {
            const bool changed = tprof_source_poll(source, false);
            any_changed |= changed;
            source->next_poll_ns = tprof_polling_next(&schedule, source, now_ns, is_sensor(source), changed);
        }
        if (source->next_poll_ns < *next_ns)
            *next_ns = source->next_poll_ns;
    }
    return any_changed;
}

static void publish(struct tprof_observer *observer)
{
    double energy_uj = 0;
    uint64_t t_ns = 0;
    for (int i = 0; i < observer->count; i++) {
        energy_uj += observer->sources[i].total_uj;
        if (observer->sources[i].last_change_ns > t_ns)
            t_ns = observer->sources[i].last_change_ns;
    }
    pthread_mutex_lock(&sums);
    observer->energy_uj = energy_uj;
    observer->t_ns = t_ns;
    pthread_mutex_unlock(&sums);
}

static uint64_t poll_due(uint64_t now_ns)
{
    uint64_t next_ns = now_ns + LONGEST_SLEEP_NS;
    (void)poll_all(sources, source_count, now_ns, &next_ns);
    for (struct tprof_observer *observer = observers; observer != NULL; observer = observer->next)
        if (poll_all(observer->sources, observer->count, now_ns, &next_ns))
            publish(observer);
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

/* Waking counts for whom the thread woke; `asleep_cpu_ns` is its CPU time when it went to sleep. */
static void follow_native(uint64_t now_ns, bool woke_for_it, uint64_t asleep_cpu_ns)
{
    const uint64_t before_ns = woke_for_it ? asleep_cpu_ns : tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    tprof_native_poll(now_ns);
    const uint64_t took_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
    tprof_native_charge(took_ns);
    schedule.other_cpu_ns += took_ns;
}

static void keep_clock(uint64_t now_ns)
{
    if (kept_clock != NULL && now_ns >= renew_ns)
        renew_ns = tprof_fast_clock_renew(kept_clock, &clock_keeper);
}

static void on_first_thread_exit(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&guard);
    first_thread_left = true;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&guard);
}

static void make_key(void)
{
    has_key = pthread_key_create(&first_thread_key, on_first_thread_exit) == 0;
}

/* A process whose first thread leaves by pthread_exit, and not by exit, ends with its last thread. In Python this is a
 * child that a thread has forked and in which that thread returns. The program's last thread must not wait for ours.
 * Where the process ends by exit no destructor runs. */
static void watch_first_thread(void)
{
    (void)pthread_once(&key_once, make_key);
    if (has_key && (pid_t)syscall(SYS_gettid) == getpid())
        (void)pthread_setspecific(first_thread_key, &first_thread_key);
}

/* The kernel counts the first thread for as long as the process lives. Call with `guard`. */
static bool is_last_thread_unlocked(void)
{
    return first_thread_left && tprof_thread_count() == 2;
}

/* Returns when the thread has to wake again. */
static uint64_t do_due(uint64_t *asleep_cpu_ns)
{
    const uint64_t now_ns = tprof_now_ns();
    const bool woke_for_native = !is_source_due(now_ns);
    uint64_t next_ns = poll_due(now_ns);
    if (tprof_native_next_ns() <= now_ns)
        follow_native(now_ns, woke_for_native, *asleep_cpu_ns);
    keep_clock(now_ns);
    tprof_polling_check(&schedule, now_ns);
    if (kept_clock != NULL && renew_ns < next_ns)
        next_ns = renew_ns;
    if (tprof_native_next_ns() < next_ns)
        next_ns = tprof_native_next_ns();
    if (tprof_native_runs())
        *asleep_cpu_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return next_ns;
}

/* Sleep until `t_ns`; returns before it, with true, if the thread is to end. */
static bool sleep_until(uint64_t t_ns)
{
    bool end;
    pthread_mutex_lock(&guard);
    while (!(end = asked_to_stop || is_last_thread_unlocked()) && tprof_now_ns() < t_ns) {
        const uint64_t check_ns = tprof_now_ns() + LAST_THREAD_CHECK_NS;
        const struct timespec until = to_timespec(first_thread_left && check_ns < t_ns ? check_ns : t_ns);
        (void)pthread_cond_timedwait(&wake, &guard, &until);
    }
    pthread_mutex_unlock(&guard);
    return end;
}

static void *run(void *unused)
{
    bool announced = settled;
    uint64_t next_ns, asleep_cpu_ns = 0;
    (void)unused;
    thread_id = (pid_t)syscall(SYS_gettid);
    schedule.earlier_cpu_ns = used_cpu_ns;
    (void)prctl(PR_SET_NAME, "tprof-sensors");
    (void)prctl(PR_SET_TIMERSLACK, 1000UL);
    tprof_start_routines_learn((uintptr_t)run);
    do {
        next_ns = do_due(&asleep_cpu_ns);
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
    watch_first_thread();
    asked_to_stop = false;
    /* Signals belong to the program's threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, &attributes, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    has_thread = error == 0;
    refused += error != 0;
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

static void close_all(struct tprof_source *all, int count)
{
    for (int i = 0; i < count; i++)
        tprof_source_close(&all[i]);
    free(all);
}

static void release(void)
{
    close_all(sources, source_count);
    sources = NULL;
    source_count = 0;
}

static bool is_needed(void)
{
    return running || observers != NULL || tprof_native_runs();
}

/* Prepare a change of what the thread does; the budget is that of the first sources. */
static void hold_still(double budget)
{
    pthread_condattr_t attributes;
    if (is_needed()) {
        end_thread();
    } else {
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&wake, &attributes);
        pthread_condattr_destroy(&attributes);
    }
    if (running || observers != NULL)
        return;
    used_cpu_ns = 0;
    tprof_polling_begin(&schedule, budget, tprof_now_ns());
}

/* After a change, go on with what is left to do. */
static int go_on(void)
{
    if (is_needed())
        return create_thread();
    pthread_cond_destroy(&wake);
    return 0;
}

static void start(struct tprof_source *given, int count, double budget, struct tprof_fast_clock *clock)
{
    hold_still(budget);
    kept_clock = tprof_ticks_are_reliable(CLOCK_SOURCE) ? clock : NULL;
    clock_keeper = (struct tprof_clock_keeper){.source = CLOCK_SOURCE};
    renew_ns = 0;
    sources = given;
    source_count = count;
    used_cpu_ns = 0;
    settled = false;
    tprof_polling_begin(&schedule, budget, tprof_now_ns());
    running = true;
    refused = 0;
    /* A limit of processes must not keep the program from running: first and last readings make one long quantum. */
    if (go_on() == 0)
        wait_until_settled();
    else
        (void)poll_due(tprof_now_ns());
}

void tprof_sensors_start(struct tprof_source *given, int count, double budget, struct tprof_fast_clock *clock)
{
    pthread_mutex_lock(&turn);
    start(given, count, budget, clock);
    pthread_mutex_unlock(&turn);
}

uint32_t tprof_sensors_refused(void)
{
    pthread_mutex_lock(&turn);
    const uint32_t count = refused;
    pthread_mutex_unlock(&turn);
    return count;
}

uint64_t tprof_sensors_stop(void)
{
    uint64_t last_cpu_ns = 0;
    pthread_mutex_lock(&turn);
    if (running) {
        end_thread();
        const uint64_t before_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        poll_last();
        last_cpu_ns = used_cpu_ns + tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
        running = false;
        if (kept_clock != NULL)
            tprof_fast_clock_withdraw(kept_clock);
        kept_clock = NULL;
        release();
        (void)go_on();
    }
    pthread_mutex_unlock(&turn);
    return last_cpu_ns;
}

int tprof_sensors_follow(const struct tprof_native_setup *setup)
{
    pthread_mutex_lock(&turn);
    hold_still(0);
    const int error = tprof_native_begin(setup);
    const int thread_error = go_on();
    if (thread_error != 0) {
        tprof_native_end();
        (void)go_on();
    }
    pthread_mutex_unlock(&turn);
    return error != 0 ? error : thread_error;
}

void tprof_sensors_unfollow(void)
{
    pthread_mutex_lock(&turn);
    if (tprof_native_runs()) {
        end_thread();
        tprof_native_end();
        (void)go_on();
    }
    pthread_mutex_unlock(&turn);
}

int tprof_sensors_observe(struct tprof_observer *observer, double budget)
{
    pthread_mutex_lock(&turn);
    hold_still(budget);
    for (int i = 0; i < observer->count; i++)
        (void)tprof_source_poll(&observer->sources[i], false);
    publish(observer);
    observer->next = observers;
    observers = observer;
    const int error = go_on();
    pthread_mutex_unlock(&turn);
    return error;
}

static struct tprof_observer **place_of(const struct tprof_observer *observer)
{
    struct tprof_observer **place = &observers;
    while (*place != NULL && *place != observer)
        place = &(*place)->next;
    return place;
}

void tprof_sensors_leave(struct tprof_observer *observer)
{
    pthread_mutex_lock(&turn);
    struct tprof_observer **place = place_of(observer);
    if (*place != NULL) {
        end_thread();
        *place = observer->next;
        (void)go_on();
    }
    close_all(observer->sources, observer->count);
    observer->sources = NULL;
    observer->count = 0;
    pthread_mutex_unlock(&turn);
}

void tprof_sensors_observed(const struct tprof_observer *observer, uint64_t *t_ns, double *energy_uj)
{
    pthread_mutex_lock(&sums);
    *t_ns = observer->t_ns;
    *energy_uj = observer->energy_uj;
    pthread_mutex_unlock(&sums);
}

bool tprof_sensors_run(void)
{
    return is_needed();
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
    if (is_needed() && !has_thread)
        (void)create_thread(); /* If this fails, the last reading, which `stop` takes, ends a long quantum. */
    pthread_mutex_unlock(&turn);
}

static void forget_all(struct tprof_source *all, int count)
{
    for (int i = 0; i < count; i++) {
        if (all[i].fd >= 0)
            close(all[i].fd);
        all[i].fd = -1;
    }
}

void tprof_sensors_forget(void)
{
    pthread_mutex_init(&turn, NULL);
    pthread_mutex_init(&guard, NULL);
    pthread_mutex_init(&sums, NULL);
    forget_all(sources, source_count);
    for (struct tprof_observer *observer = observers; observer != NULL; observer = observer->next)
        forget_all(observer->sources, observer->count);
    running = has_thread = first_thread_left = false;
    kept_clock = NULL;
    sources = NULL;
    source_count = 0;
    observers = NULL;
}
