#include "native_discovery.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "native_file.h"
#include "native_followers.h"
#include "native_records.h"
#include "recorder.h"

#define MOST_OWN 8

static uint64_t seen_joins;
static pid_t reader_tid, own_tids[MOST_OWN];

void tprof_discovery_begin(void)
{
    seen_joins = 0;
    reader_tid = 0; /* that of the recording before has ended, and its number may be another thread's now */
    tprof_followers.relist = true;
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

static void follow(struct tprof_follower *one, uint64_t t_ns, uint64_t cpu_ns)
{
    tprof_follower_begin(one, t_ns, cpu_ns);
    tprof_native_write_appear(one);
}

/* A thread was created; `birth` becomes the follower's, or is released. */
static void take_birth(struct tprof_birth *birth)
{
    size_t place;
    struct tprof_follower *one = tprof_follower_find(birth->tid, &place);
    if (one != NULL && one->role == TPROF_FOLLOWED && (one->birth != NULL || one->appeared_ns < birth->created_ns)) {
        /* It is an earlier thread with the same number. */
        if (one->birth == NULL || !tprof_native_write_own_end(one, one->birth))
            tprof_native_write_end(one, birth->created_ns, one->cpu_ns, 0);
        tprof_follower_stop(one);
    }
    if (one == NULL)
        one = tprof_follower_insert(birth->tid, place);
    if (one == NULL || !tprof_followers_have_number() || is_own(birth->tid)) {
        tprof_birth_release(birth);
        return;
    }
    if (one->role != TPROF_FOLLOWED)
        follow(one, birth->created_ns, 0);
    else
        tprof_native_write_clock(one, birth->created_ns, 0);
    tprof_native_write_birth(one, birth);
}

void tprof_discovery_take_births(void)
{
    struct tprof_birth *birth = tprof_births_take();
    while (birth != NULL) {
        struct tprof_birth *next = birth->next;
        if (birth->recording == tprof_followers.recording)
            take_birth(birth);
        else
            tprof_birth_release(birth);
        birth = next;
    }
}

void tprof_discovery_leave_sampled(uint64_t now_ns)
{
    const uint64_t joins = tprof_recorder_joins();
    if (joins == seen_joins)
        return;
    seen_joins = joins;
    pid_t *sampled;
    const size_t count = tprof_recorder_tids(&sampled);
    for (size_t i = 0; i < count; i++) {
        size_t place;
        struct tprof_follower *one = tprof_follower_find(sampled[i], &place);
        if (one == NULL)
            one = tprof_follower_insert(sampled[i], place);
        if (one == NULL || one->role != TPROF_FOLLOWED || one->birth != NULL)
            continue;
        tprof_native_write_last(one, now_ns, one->cpu_ns, TPROF_NATIVE_JOINED);
        tprof_follower_stop(one);
    }
    free(sampled);
}

static void leave_one(pid_t tid, uint64_t now_ns)
{
    size_t place;
    struct tprof_follower *one = tid != 0 ? tprof_follower_find(tid, &place) : NULL;
    if (one == NULL || one->role != TPROF_FOLLOWED)
        return;
    tprof_native_write_last(one, now_ns, one->cpu_ns, 0);
    tprof_follower_stop(one);
}

void tprof_discovery_leave_own(uint64_t now_ns)
{
    leave_one(reader_tid, now_ns);
    for (int i = 0; i < MOST_OWN; i++)
        leave_one(__atomic_load_n(&own_tids[i], __ATOMIC_RELAXED), now_ns);
}

static void meet(pid_t tid, struct tprof_follower *one, size_t place)
{
    uint64_t cpu_ns, t_ns;
    if (one == NULL)
        one = tprof_follower_insert(tid, place);
    if (one == NULL)
        return;
    one->listed = true;
    if (is_own(tid) || !tprof_followers_have_number() || !tprof_thread_clock(tid, &cpu_ns, &t_ns))
        return;
    follow(one, t_ns, cpu_ns);
    tprof_native_find_library(one, t_ns);
}

/* Those that are not listed any more have ended. */
static void leave_unlisted(uint64_t now_ns)
{
    for (size_t i = tprof_followers.count; i-- > 0;) {
        struct tprof_follower *one = &tprof_followers.all[i];
        if (one->listed)
            continue;
        if (one->role == TPROF_FOLLOWED)
            tprof_native_write_last(one, now_ns, one->cpu_ns, 0);
        tprof_follower_erase(one);
    }
}

static void list_threads(uint64_t now_ns)
{
    pid_t *tids;
    const size_t count = tprof_thread_tids(&tids);
    if (count == 0)
        return;
    for (size_t i = 0; i < tprof_followers.count; i++)
        tprof_followers.all[i].listed = false;
    for (size_t i = 0; i < count; i++) {
        size_t place;
        struct tprof_follower *one = tprof_follower_find(tids[i], &place);
        if (one == NULL)
            meet(tids[i], one, place);
        else
            one->listed = true;
    }
    leave_unlisted(now_ns);
    free(tids);
}

void tprof_discovery_list_if_changed(uint64_t now_ns)
{
    const size_t count = tprof_followers.relist ? 0 : tprof_thread_count();
    if (tprof_followers.relist || (count != 0 && count != tprof_followers.count))
        list_threads(now_ns);
    tprof_followers.relist = false;
}

void tprof_discovery_is_reader(void)
{
    reader_tid = (pid_t)syscall(SYS_gettid);
}

void tprof_discovery_leave_out(bool begins)
{
    const pid_t tid = (pid_t)syscall(SYS_gettid);
    for (int i = 0; i < MOST_OWN; i++) {
        pid_t expected = begins ? 0 : tid;
        if (__atomic_compare_exchange_n(&own_tids[i], &expected, begins ? tid : 0, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return;
    }
}

void tprof_discovery_forget(void)
{
    reader_tid = 0;
    memset(own_tids, 0, sizeof own_tids);
}
