#include "polling_schedule.h"

#include "clock.h"

#define CLOSE_POLL_NS UINT64_C(50000)
#define CHECK_NS UINT64_C(50000000)
#define SHORTEST_GAP_NS UINT64_C(200000)
#define LONGEST_GAP_NS UINT64_C(20000000)
/* Measured: an update follows the last one after 0.6 to 2.8 times the mean gap, nearly always before 2 times. */
#define EARLIEST 0.6
#define LATEST 2.0
/* Target, as a part of the budget; the rest is a reserve, since checks come late. */
#define TARGET 0.9
#define LEAST_RATE (1.0 / 16)
/* Where a wake-up takes milliseconds (a translated machine, a full one), the budget is kept down to a poll a second. */
#define PERIOD_NS UINT64_C(1000000)
#define LONGEST_STRETCH 1000.0
/* One wake-up costs much less or more than another: polls come more often again once the mean of so long allows it. */
#define MEAN_NS 4e9

void tprof_polling_begin(struct tprof_polling_schedule *schedule, double budget, uint64_t now_ns)
{
    *schedule = (struct tprof_polling_schedule){
        .budget = budget,
        .rate = budget > 0 ? 2 * LEAST_RATE : 0,
        .stretch = 1,
        .checked_ns = now_ns,
    };
}

static double between(double low, double value, double high)
{
    return value < low ? low : value > high ? high : value;
}

void tprof_polling_check(struct tprof_polling_schedule *schedule, uint64_t now_ns)
{
    if (schedule->budget <= 0 || now_ns - schedule->checked_ns < CHECK_NS)
        return;
    const uint64_t cpu_ns = schedule->earlier_cpu_ns + tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID) - schedule->other_cpu_ns;
    const double passed_ns = (double)(now_ns - schedule->checked_ns);
    const double used = (double)(cpu_ns - schedule->checked_cpu_ns) / passed_ns / schedule->budget;
    schedule->mean_used += (used - schedule->mean_used) * passed_ns / (passed_ns + MEAN_NS);
    /* Down fast, up slowly. */
    if (used > TARGET && schedule->rate > LEAST_RATE)
        schedule->rate = between(LEAST_RATE, schedule->rate * 0.6, 1);
    else if (used > TARGET)
        schedule->stretch = between(1, schedule->stretch * between(1.05, used / TARGET, 2), LONGEST_STRETCH);
    else if (schedule->stretch > 1 && schedule->mean_used > TARGET)
        ;
    else if (schedule->stretch > 1)
        schedule->stretch = between(1, schedule->stretch * between(0.8, used / TARGET, 0.98), LONGEST_STRETCH);
    else
        schedule->rate = between(LEAST_RATE, schedule->rate * 1.15, 1);
    schedule->checked_ns = now_ns;
    schedule->checked_cpu_ns = cpu_ns;
}

/* No source is polled more often than so. */
static uint64_t least_period_ns(const struct tprof_polling_schedule *schedule)
{
    return (uint64_t)(schedule->stretch * (double)PERIOD_NS);
}

uint64_t tprof_polling_tolerance(const struct tprof_polling_schedule *schedule)
{
    return schedule->stretch > 1 ? least_period_ns(schedule) / 2 : 0;
}

static bool begin_close_polling(struct tprof_polling_schedule *schedule)
{
    schedule->credit += schedule->rate;
    if (schedule->credit < 1)
        return false;
    schedule->credit -= 1;
    return true;
}

static void learn_gap(struct tprof_source *source, uint64_t gap_ns)
{
    if (gap_ns < SHORTEST_GAP_NS || gap_ns > LONGEST_GAP_NS)
        return;
    source->gap_ns = source->gap_ns == 0 ? gap_ns : (15 * source->gap_ns + gap_ns) / 16;
}

/* An update was seen; returns when close polling for the next begins, or 0 if there is none. */
static uint64_t after_update(struct tprof_polling_schedule *schedule, struct tprof_source *source, uint64_t now_ns)
{
    const uint64_t window_ns = now_ns - source->polled_ns;
    /* If the last poll is long ago, updates may have been missed. */
    const bool exact = window_ns <= source->period_ns + source->period_ns / 2;
    if (exact && source->exact)
        learn_gap(source, now_ns - source->last_update_ns);
    source->exact = exact;
    source->last_update_ns = now_ns;
    source->close_polling = source->gap_ns != 0 && begin_close_polling(schedule);
    if (!source->close_polling)
        return 0;
    /* After an inexact update the next one may come at any moment. */
    return now_ns + (window_ns <= 2 * CLOSE_POLL_NS ? (uint64_t)(EARLIEST * (double)source->gap_ns) : CLOSE_POLL_NS);
}

uint64_t tprof_polling_next(struct tprof_polling_schedule *schedule, struct tprof_source *source, uint64_t now_ns,
                            bool sensor, bool changed)
{
    uint64_t next_ns = 0;
    if (sensor && changed)
        next_ns = after_update(schedule, source, now_ns);
    else if (source->close_polling && now_ns - source->last_update_ns < (uint64_t)(LATEST * (double)source->gap_ns))
        next_ns = now_ns + CLOSE_POLL_NS;
    else
        source->close_polling = false;
    source->polled_ns = now_ns;
    if (next_ns != 0)
        return next_ns;
    const uint64_t least_ns = least_period_ns(schedule);
    const uint64_t period_ns = source->period_ns > least_ns ? source->period_ns : least_ns;
    /* A source that was polled early is due with the others from now on. */
    next_ns = (source->next_poll_ns < now_ns ? source->next_poll_ns : now_ns) + period_ns;
    return next_ns > now_ns ? next_ns : now_ns + period_ns;
}
