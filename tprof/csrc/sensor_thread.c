/* The thread, and what the program's threads do to it: they start, stop, pause or resume it, or add or remove what it
 * polls, one at a time, each with `turn`. `polled` and the clock belong to the sensor thread while it runs, and otherwise
 * to the holder of `turn`. `guard` protects `asked_to_stop`, `settled` and `first_thread_left`. */
#include "sensor_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "native_followers.h"
#include "process_threads.h"
#include "start_routines.h"

#define SETTLE_NS UINT64_C(20000000)
#define LONGEST_END_NS UINT64_C(20000000)
#define LAST_THREAD_CHECK_NS UINT64_C(5000000)
#define CLOCK_SOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;
static bool asked_to_stop, settled, running, has_thread;
static uint32_t refused; /* threads, since the recording began */
static pthread_t thread;
static pid_t thread_id;
static struct tprof_polled polled;
static uint64_t used_cpu_ns;
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

static void announce_settled(void)
{
    pthread_mutex_lock(&guard);
    settled = true;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&guard);
}

/* Waking counts for whom the thread woke; `asleep_cpu_ns` is its CPU time when it went to sleep. */
static void follow_native(uint64_t now_ns, bool woke_for_it, uint64_t asleep_cpu_ns)
{
    const uint64_t before_ns = woke_for_it ? asleep_cpu_ns : tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    tprof_native_poll(now_ns);
    const uint64_t took_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
    tprof_native_charge(took_ns);
    polled.schedule.other_cpu_ns += took_ns;
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
    const bool woke_for_native = !tprof_polled_due(&polled, now_ns);
    uint64_t next_ns = tprof_polled_poll(&polled, now_ns);
    if (tprof_native_next_ns() <= now_ns)
        follow_native(now_ns, woke_for_native, *asleep_cpu_ns);
    keep_clock(now_ns);
    tprof_polling_check(&polled.schedule, now_ns);
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
    polled.schedule.earlier_cpu_ns = used_cpu_ns;
    (void)prctl(PR_SET_NAME, "tprof-sensors");
    (void)prctl(PR_SET_TIMERSLACK, 1000UL);
    tprof_followers_lock(); /* a thread that loads a library looks for others' routines meanwhile */
    tprof_start_routines_learn((uintptr_t)run);
    tprof_followers_unlock();
    do {
        next_ns = do_due(&asleep_cpu_ns);
        if (!announced && tprof_polled_settled(&polled)) {
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

static bool is_needed(void)
{
    return running || polled.observers != NULL || tprof_native_runs();
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
    if (running || polled.observers != NULL)
        return;
    used_cpu_ns = 0;
    tprof_polling_begin(&polled.schedule, budget, tprof_now_ns());
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
    polled.sources = given;
    polled.count = count;
    used_cpu_ns = 0;
    settled = false;
    tprof_polling_begin(&polled.schedule, budget, tprof_now_ns());
    running = true;
    refused = 0;
    /* A limit of processes must not keep the program from running: first and last readings make one long quantum. */
    if (go_on() == 0)
        wait_until_settled();
    else
        (void)tprof_polled_poll(&polled, tprof_now_ns());
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
        tprof_polled_last(&polled, tprof_now_ns() + SETTLE_NS);
        last_cpu_ns = used_cpu_ns + tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
        running = false;
        if (kept_clock != NULL)
            tprof_fast_clock_withdraw(kept_clock);
        kept_clock = NULL;
        tprof_polled_release(&polled);
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
    tprof_polled_add(&polled, observer);
    const int error = go_on();
    pthread_mutex_unlock(&turn);
    return error;
}

void tprof_sensors_leave(struct tprof_observer *observer)
{
    pthread_mutex_lock(&turn);
    struct tprof_observer **place = tprof_polled_place(&polled, observer);
    if (*place != NULL) {
        end_thread();
        *place = observer->next;
        (void)go_on();
    }
    tprof_observer_close(observer);
    pthread_mutex_unlock(&turn);
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

void tprof_sensors_forget(void)
{
    pthread_mutex_init(&turn, NULL);
    pthread_mutex_init(&guard, NULL);
    tprof_polled_forget(&polled);
    running = has_thread = first_thread_left = false;
    kept_clock = NULL;
}
