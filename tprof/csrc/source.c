/* Called by one thread at a time for each source; needs neither Python nor a lock. */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "clock.h"

#define HEARTBEAT_NS UINT64_C(100000000)
#define REOPEN_NS UINT64_C(100000000)
/* A read of this duration, and so many times as long as the shortest, was interrupted. */
#define SLOW_NS UINT64_C(200000)
#define SLOW_TIMES 10
#define MOST_ATTEMPTS 3
/* Of an event of perf: far longer than its clock and ours may differ between two polls. */
#define LONGEST_STOP_NS UINT64_C(10000000)
/* Far longer than the kernel takes to move an event. */
#define LONGEST_MOVE_NS UINT64_C(500000000)

/* An event of a processor that was offline never counts again, so after some time another takes its place, if it can be
 * opened. One that the kernel moves to another processor counts again by itself, and sooner. */
static void replace_stopped(struct tprof_source *source)
{
    const uint64_t now_ns = tprof_now_ns();
    if (!source->missing)
        source->next_reopen_ns = now_ns + LONGEST_MOVE_NS;
    if (now_ns < source->next_reopen_ns)
        return;
    source->next_reopen_ns = now_ns + REOPEN_NS;
    const int fd = tprof_counters_open_cpu(&source->event, source->cpu);
    if (fd < 0)
        return;
    if (dup3(fd, source->fd, O_CLOEXEC) >= 0) {
        source->running_ns = source->ran_at_ns = 0;
        source->reopened = true;
    }
    close(fd);
}

/* Where the processor of an event is offline, a read returns the last count without an error, and while the kernel moves
 * the event to another processor nothing is counted. The time for which it ran tells. */
static int check_running(struct tprof_source *source, uint64_t running_ns, uint64_t begin_ns)
{
    const uint64_t ran_ns = running_ns - source->running_ns;
    if (ran_ns == 0) {
        replace_stopped(source);
        return ENODEV;
    }
    if (source->ran_at_ns != 0 && begin_ns > source->ran_at_ns + ran_ns + LONGEST_STOP_NS)
        source->reopened = true;
    source->running_ns = running_ns;
    source->ran_at_ns = tprof_now_ns();
    return 0;
}

static int perf_read(struct tprof_source *source, uint64_t *value)
{
    struct {
        uint64_t value, enabled_ns, running_ns;
    } counted;
    if (source->fd < 0) {
        source->fd = tprof_counters_open_cpu(&source->event, source->cpu);
        if (source->fd < 0)
            return errno;
        source->running_ns = source->ran_at_ns = 0;
    }
    const uint64_t begin_ns = tprof_now_ns();
    const ssize_t count = read(source->fd, &counted, sizeof counted);
    if (count != sizeof counted)
        return count < 0 ? errno : EIO;
    *value = counted.value;
    return check_running(source, counted.running_ns, begin_ns);
}

/* Watts times time, in µJ since the start: replaces a sensor, and is recorded as an estimate. */
static int estimate_read(struct tprof_source *source, uint64_t *value)
{
    uint64_t busy_ns;
    const int error = tprof_busy_read(source, &busy_ns);
    if (error != 0)
        return error;
    const uint64_t now_ns = tprof_now_ns();
    if (source->started_ns == 0) {
        source->started_ns = now_ns;
        source->started_busy_ns = busy_ns;
    }
    *value = (uint64_t)(source->idle_w * (double)(now_ns - source->started_ns) / 1e3 +
                        source->per_core_w * (double)(busy_ns - source->started_busy_ns) / 1e3);
    return 0;
}

static int read_value(struct tprof_source *source, uint64_t *value)
{
    switch (source->kind) {
    case TPROF_FILE:
        return tprof_file_read(source, value);
    case TPROF_PERF:
        return perf_read(source, value);
    case TPROF_ESTIMATE:
        return estimate_read(source, value);
    case TPROF_BUSY:
        return tprof_busy_read(source, value);
    case TPROF_PROGRAM:
        *value = tprof_live_cpu_ns(source->live);
        return 0;
    case TPROF_GIVEN:
        break;
    }
    return EINVAL;
}

/* The thread may lose the processor between the read and the clock: the value would then get a much later time, and the
 * next one would seem to jump. So read again if that took long; `took_ns` goes into the reading's window. */
static int read_in_time(struct tprof_source *source, uint64_t *value, uint64_t *now_ns)
{
    for (int attempt = 1;; attempt++) {
        const bool usual_is_known = source->quickest_ns != 0;
        const uint64_t begin_ns = tprof_now_ns();
        const int error = read_value(source, value);
        *now_ns = tprof_now_ns();
        const uint64_t took_ns = *now_ns - begin_ns;
        source->took_ns = took_ns;
        if (source->quickest_ns == 0 || took_ns < source->quickest_ns)
            source->quickest_ns = took_ns;
        const bool usual = usual_is_known && took_ns < SLOW_TIMES * source->quickest_ns;
        if (error != 0 || took_ns < SLOW_NS || usual || attempt == MOST_ATTEMPTS)
            return error;
    }
}

/* Update the sum, and the live page's reading, which samples copy; the analysis goes through the readings again. */
static void add_up(struct tprof_source *source, const struct tprof_reading *reading)
{
    struct tprof_increment ended;
    if (!tprof_count_take(&source->count, reading, &ended))
        return;
    source->total_uj += ended.energy_j * 1e6;
    if (source->live == NULL || source->package < 0 || source->package >= TPROF_MAX_PACKAGES)
        return;
    __atomic_store_n(&source->live->energy_uj[source->package], (uint64_t)source->total_uj, __ATOMIC_RELAXED);
}

/* How long before now the value may have changed: since the last poll, but at most the usual gap between updates before
 * the read began, since the value is that of the last update. */
static uint32_t window_before(const struct tprof_source *source, uint64_t now_ns)
{
    uint64_t window_ns = source->last_success_ns != 0 ? now_ns - source->last_success_ns : 0;
    const uint64_t usual_ns = source->gap_ns + source->gap_ns / 20 + source->took_ns;
    if (source->gap_ns != 0 && window_ns > usual_ns)
        window_ns = usual_ns;
    return window_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)window_ns;
}

static void record(struct tprof_source *source, uint64_t now_ns, uint64_t value, int error)
{
    source->suspended_ns = tprof_suspended_ns(source->suspended_ns);
    const struct tprof_reading reading = {
        .t_ns = now_ns,
        .value = value,
        .window_ns = window_before(source, now_ns),
        .flags = (uint16_t)((error != 0 ? TPROF_MISSING : 0) | (source->reopened ? TPROF_REOPENED : 0)),
        .error = (uint16_t)error,
        .suspended_ns = source->suspended_ns,
    };
    add_up(source, &reading);
    struct tprof_reading *place = tprof_stream_slot(&source->stream);
    if (place != NULL) {
        *place = reading;
        tprof_stream_commit(&source->stream);
    } else if (source->stream.header != NULL) {
        return;
    }
    source->last_record_ns = now_ns;
    if (error == 0)
        source->reopened = false;
}

static bool fail(struct tprof_source *source, uint64_t now_ns, int error)
{
    source->failures++;
    if (!source->missing || now_ns - source->last_record_ns >= HEARTBEAT_NS)
        record(source, now_ns, 0, error);
    source->missing = true;
    return false;
}

bool tprof_source_poll(struct tprof_source *source, bool force)
{
    uint64_t value = 0;
    if (source->fd < 0 && source->next_reopen_ns > tprof_now_ns() && !force)
        return false;
    uint64_t now_ns;
    const int error = read_in_time(source, &value, &now_ns);
    if (error != 0 && source->fd < 0)
        source->next_reopen_ns = now_ns + REOPEN_NS;
    return tprof_source_take(source, now_ns, value, error, force);
}

bool tprof_source_take(struct tprof_source *source, uint64_t now_ns, uint64_t value, int error, bool force)
{
    if (error != 0)
        return fail(source, now_ns, error);
    const bool changed = !source->has_value || value != source->last_value;
    if (changed || force || source->missing || now_ns - source->last_record_ns >= HEARTBEAT_NS)
        record(source, now_ns, value, 0);
    source->missing = false;
    source->has_value = true;
    source->last_value = value;
    source->last_success_ns = now_ns;
    if (changed)
        source->last_change_ns = now_ns;
    source->changes += changed;
    return changed;
}

void tprof_source_close(struct tprof_source *source)
{
    if (source->fd >= 0)
        close(source->fd);
    source->fd = -1;
    if (source->stream.header != NULL) {
        source->stream.header->end_ns = tprof_now_ns();
        source->stream.header->end_reason = TPROF_STOPPED;
    }
    tprof_stream_close(&source->stream, true);
}
