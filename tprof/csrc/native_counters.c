/* To read the counters of a thread that runs takes an interrupt of its processor, and to open them some ten microseconds
 * for each event. So both happen less often than clocks are read where there are many threads. */
#include "native_counters.h"

#include <stdlib.h>
#include <time.h>

#include "clock.h"
#include "descriptor.h"
#include "layout.h"
#include "native_file.h"

/* Part of a core that counting may take, and the longest pause for that: where even this takes more, the period of the
 * clocks is longer, too. */
#define SHARE 0.005
#define LONGEST_NS UINT64_C(250000000)

static struct tprof_counted wanted;
static int events; /* of a thread */
static int used_descriptors; /* of all threads */
static uint64_t next_ns, before_cpu_ns;
static bool is_time, opens, counted_now;

void tprof_native_count(const struct tprof_counted *counted)
{
    events = 0;
    next_ns = 0;
    used_descriptors = 0;
    wanted = (struct tprof_counted){0};
    if (counted == NULL || counted->papi.count > 0)
        return;
    wanted = *counted;
    for (int i = 0; i < wanted.group_count; i++)
        events += wanted.groups[i].count;
}

void tprof_native_counting_begin(uint64_t now_ns, bool is_last)
{
    is_time = events > 0 && (is_last || now_ns >= next_ns);
    opens = is_time && !is_last;
    counted_now = false;
    if (is_time)
        before_cpu_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void tprof_native_counting_end(uint64_t now_ns)
{
    if (is_time && counted_now) {
        const double took_ns = (double)(tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_cpu_ns);
        const double pause_ns = took_ns / SHARE;
        next_ns = now_ns + (pause_ns < (double)LONGEST_NS ? (uint64_t)pause_ns : LONGEST_NS);
    }
    is_time = opens = false;
}

static int open_descriptors(const struct tprof_counters *counters)
{
    int count = 0;
    for (int i = 0; i < counters->group_count; i++)
        count += counters->groups[i].count;
    return count;
}

bool tprof_native_open_counters(struct tprof_follower *one)
{
    int error;
    if (!opens || one->open != NULL || one->is_uncountable ||
        used_descriptors + events > tprof_descriptor_native_share())
        return false;
    counted_now = true;
    one->open = malloc(sizeof *one->open);
    if (one->open == NULL)
        return false;
    one->absent = tprof_counters_open_for(one->open, &wanted, one->tid, &error);
    used_descriptors += open_descriptors(one->open);
    if (one->open->group_count > 0)
        return true;
    tprof_native_uncount(one);
    one->is_uncountable = true;
    return false;
}

void tprof_native_uncount(struct tprof_follower *one)
{
    if (one->open == NULL)
        return;
    used_descriptors -= open_descriptors(one->open);
    tprof_counters_close(one->open);
    free(one->open);
    one->open = NULL;
}

static bool is_present(const struct tprof_follower *one, int column)
{
    return column < one->open->columns && (one->absent >> column & 1) == 0;
}

/* A count that is absent is not written; two columns side by side are one record. */
static void write_values(const struct tprof_follower *one, uint64_t t_ns, uint8_t flags)
{
    const uint64_t *const values = one->open->values;
    for (int column = 0; column < one->open->columns; column++) {
        if (!is_present(one, column))
            continue;
        struct tprof_native record = {
            .kind = TPROF_NATIVE_COUNTS,
            .thread = one->number,
            .t_ns = t_ns,
            .value = values[column],
            .part = (uint16_t)column,
            .flags = flags,
        };
        if (is_present(one, column + 1)) {
            record.tid = (uint32_t)values[column + 1];
            record.task = (uint32_t)(values[column + 1] >> 32);
            record.flags |= TPROF_NATIVE_PAIR;
            column++;
        }
        tprof_native_write(&record);
    }
}

static void read_and_write(struct tprof_follower *one, uint64_t t_ns)
{
    counted_now = true;
    const uint8_t flags = tprof_counters_read(one->open, false);
    if ((flags & TPROF_UNCOUNTED) == 0)
        write_values(one, t_ns, (flags & TPROF_SCALED) != 0 ? TPROF_NATIVE_SCALED : 0);
}

void tprof_native_write_counts(struct tprof_follower *one, uint64_t t_ns)
{
    if (is_time && one->open != NULL)
        read_and_write(one, t_ns);
}

void tprof_native_write_last_counts(struct tprof_follower *one, uint64_t t_ns)
{
    if (one->open != NULL)
        read_and_write(one, t_ns);
}
