/* Called by the sensor thread, by the thread that begins or ends the recording, and by threads that load a library. The
 * lock of the followers keeps them apart; while it is held, those of births, libraries and recorder may be taken.
 * Whatever fails here leaves something unknown, never stops the program or the recording.
 *
 * A read of a thread's clock takes about half a microsecond. A clock that stands still is not written; when it moves
 * again, the last time at which it stood is, so that the movement has a narrow window. */
#include "native_threads.h"

#include "births.h"
#include "calls.h"
#include "clock.h"
#include "libraries.h"
#include "native_calls.h"
#include "native_counters.h"
#include "native_discovery.h"
#include "native_file.h"
#include "native_followers.h"
#include "native_records.h"
#include "process_threads.h"

#define PERIOD_NS UINT64_C(5000000)
/* While there is no thread to read. */
#define IDLE_PERIOD_NS UINT64_C(20000000)
#define LONGEST_PERIOD_NS UINT64_C(1000000000)
/* Part of a core that reading may take; the period is adapted so often. */
#define BUDGET 0.01
#define CHECK_NS UINT64_C(50000000)
/* Each time so many records are written, the period doubles: 64 MiB. */
#define RECORDS_PER_DOUBLING (UINT64_C(1) << 21)
/* Polls after which a name is read: it comes late, and may change. */
#define IS_TIME_FOR_NAME(polls) ((polls) == 2 || (polls) == 20 || (polls) % 1000 == 0)
/* The start routine of a thread that nobody saw begin is found while the thread waits: so often that is searched for, and
 * so often it is tried at each poll whether the thread waits; later it is tried less often. */
#define MOST_SEARCHES 20
#define IS_TIME_TO_SEARCH(one) ((one)->searches < MOST_SEARCHES && ((one)->attempts < 20 || (one)->polls % 16 == 0))

static uint64_t began_ns, next_ns, checked_ns, used_ns, checked_used_ns;
static double stretch;

/* The thread has used CPU time since the last read. */
static void write_movement(struct tprof_follower *one, uint64_t t_ns, uint64_t cpu_ns)
{
    tprof_native_write_standing(one);
    /* What it uses until they are open is not counted: the counts begin with a clock that is read after that. */
    if (tprof_native_open_counters(one))
        (void)tprof_thread_clock(one->tid, &cpu_ns, &t_ns);
    tprof_native_write_clock(one, t_ns, cpu_ns);
    tprof_native_write_counts(one, t_ns);
    one->cpu_ns = cpu_ns;
    one->read_ns = t_ns;
}

/* Returns false if the thread does not exist any more. */
static bool read_thread(struct tprof_follower *one)
{
    uint64_t cpu_ns, t_ns;
    if (one->birth != NULL && tprof_native_write_own_end(one, one->birth)) {
        tprof_follower_stop(one);
        return true;
    }
    if (!tprof_thread_clock(one->tid, &cpu_ns, &t_ns)) {
        tprof_native_write_end(one, tprof_now_ns(), one->cpu_ns, 0);
        return false;
    }
    if (cpu_ns < one->cpu_ns) { /* another thread has got the number */
        tprof_native_write_end(one, one->read_ns, one->cpu_ns, 0);
        tprof_followers.relist = true;
        return false;
    }
    if (cpu_ns == one->cpu_ns) {
        one->stands = true;
        one->read_ns = t_ns;
    } else {
        write_movement(one, t_ns, cpu_ns);
    }
    one->polls++;
    if (IS_TIME_FOR_NAME(one->polls))
        tprof_native_write_name(one, one->read_ns);
    if (!one->has_library && one->stands && IS_TIME_TO_SEARCH(one))
        tprof_native_find_library(one, one->read_ns);
    return true;
}

static void read_threads(uint64_t now_ns, bool is_last)
{
    tprof_native_counting_begin(now_ns, is_last);
    for (size_t i = tprof_followers.count; i-- > 0;) {
        struct tprof_follower *one = &tprof_followers.all[i];
        if (one->role == TPROF_FOLLOWED && !read_thread(one))
            tprof_follower_erase(one);
    }
    tprof_native_counting_end(now_ns);
}

static void follow_all(uint64_t now_ns)
{
    tprof_discovery_take_births();
    tprof_discovery_leave_sampled(now_ns);
    tprof_discovery_leave_own(now_ns);
    read_threads(now_ns, false);
    tprof_discovery_list_if_changed(now_ns);
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
    const double usual_ns = tprof_followers.followed == 0 ? (double)IDLE_PERIOD_NS : (double)PERIOD_NS;
    const double period = usual_ns * stretch * (double)(UINT64_C(1) << (doublings < 10 ? doublings : 10));
    return period < (double)LONGEST_PERIOD_NS ? (uint64_t)period : LONGEST_PERIOD_NS;
}

uint64_t tprof_native_next_ns(void)
{
    return tprof_native_runs() ? next_ns : UINT64_MAX;
}

void tprof_native_poll(uint64_t now_ns)
{
    tprof_followers_lock();
    tprof_discovery_is_reader();
    tprof_libraries_refresh();
    tprof_native_write_calls(tprof_followers.recording, began_ns, false);
    follow_all(now_ns);
    adapt(now_ns);
    next_ns += period_ns();
    if (next_ns <= now_ns)
        next_ns = now_ns + period_ns();
    tprof_followers_unlock();
}

void tprof_native_charge(uint64_t cpu_ns)
{
    used_ns += cpu_ns;
}

bool tprof_native_runs(void)
{
    return tprof_native_file_is_open();
}

static void begin(const struct tprof_counted *counted)
{
    tprof_followers_clear();
    tprof_followers.recording++;
    tprof_followers.numbered = 0;
    tprof_native_count(counted);
    tprof_discovery_begin();
    stretch = 1;
    used_ns = checked_used_ns = 0;
    next_ns = checked_ns = began_ns = tprof_now_ns();
    tprof_libraries_refresh();
    tprof_births_note(tprof_followers.recording);
    tprof_calls_note(true);
    follow_all(next_ns); /* now, so that no time of the recording is missing */
}

int tprof_native_begin(const struct tprof_native_setup *setup)
{
    tprof_followers_lock();
    const int error = tprof_native_file_create(setup->directory, setup->process, setup->description);
    if (error == 0)
        begin(setup->counted);
    tprof_followers_unlock();
    return error;
}

static void end(void)
{
    tprof_births_note(0);
    tprof_calls_note(false);
    tprof_native_write_calls(tprof_followers.recording, began_ns, true);
    tprof_discovery_take_births();
    tprof_discovery_leave_sampled(tprof_now_ns());
    tprof_discovery_leave_own(tprof_now_ns());
    read_threads(tprof_now_ns(), true);
    for (size_t i = 0; i < tprof_followers.count; i++) {
        struct tprof_follower *one = &tprof_followers.all[i];
        if (one->role != TPROF_FOLLOWED)
            continue;
        tprof_native_write_standing(one);
        tprof_native_write_name(one, one->read_ns);
    }
    tprof_followers_clear();
    tprof_native_file_close();
}

void tprof_native_end(void)
{
    tprof_followers_lock();
    if (tprof_native_runs())
        end();
    tprof_followers_unlock();
}

void tprof_native_before_fork(void)
{
    tprof_followers_lock();
}

void tprof_native_after_fork(void)
{
    tprof_followers_unlock();
}

void tprof_native_leave_out(bool begins)
{
    tprof_discovery_leave_out(begins);
}

void tprof_native_forget(void)
{
    tprof_native_file_forget();
    tprof_followers_forget();
    tprof_discovery_forget();
    tprof_native_forget_loads();
}
