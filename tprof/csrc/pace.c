#include "pace.h"

#include "clock.h"

#define LOOK_NS UINT64_C(50000)
#define CHECK_NS UINT64_C(50000000)
#define SHORTEST_GAP_NS UINT64_C(200000)
#define LONGEST_GAP_NS UINT64_C(20000000)
/* Updates as measured come from 0.6 to 2.8 times their mean gap after the one before, nearly all before 2 times. */
#define EARLIEST 0.6
#define LATEST 2.0
/* What is aimed at, as a part of the budget: the rest is for what a check comes too late for. */
#define AIM 0.9
#define LEAST_RATE (1.0 / 16)
#define LONGEST_STRETCH 16.0

void tprof_pace_begin(struct tprof_pace *pace, double budget, uint64_t now_ns)
{
    *pace = (struct tprof_pace){
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

void tprof_pace_check(struct tprof_pace *pace, uint64_t now_ns)
{
    if (pace->budget <= 0 || now_ns - pace->checked_ns < CHECK_NS)
        return;
    const uint64_t cpu_ns = pace->earlier_cpu_ns + tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const double used = (double)(cpu_ns - pace->checked_cpu_ns) / (double)(now_ns - pace->checked_ns) / pace->budget;
    /* Down fast, up slowly. */
    if (used > AIM && pace->rate > LEAST_RATE)
        pace->rate = between(LEAST_RATE, pace->rate * 0.6, 1);
    else if (used > AIM)
        pace->stretch = between(1, pace->stretch * between(1.05, used / AIM, 2), LONGEST_STRETCH);
    else if (pace->stretch > 1)
        pace->stretch = between(1, pace->stretch * between(0.8, used / AIM, 0.98), LONGEST_STRETCH);
    else
        pace->rate = between(LEAST_RATE, pace->rate * 1.15, 1);
    pace->checked_ns = now_ns;
    pace->checked_cpu_ns = cpu_ns;
}

static bool look_closely(struct tprof_pace *pace)
{
    pace->credit += pace->rate;
    if (pace->credit < 1)
        return false;
    pace->credit -= 1;
    return true;
}

static void learn_gap(struct tprof_source *source, uint64_t gap_ns)
{
    if (gap_ns < SHORTEST_GAP_NS || gap_ns > LONGEST_GAP_NS)
        return;
    source->gap_ns = source->gap_ns == 0 ? gap_ns : (15 * source->gap_ns + gap_ns) / 16;
}

/* An update was seen; returns when to look for the next, or 0 if that one is not looked for closely. */
static uint64_t after_update(struct tprof_pace *pace, struct tprof_source *source, uint64_t now_ns)
{
    const uint64_t window_ns = now_ns - source->looked_ns;
    /* Where looks were far apart, updates may have come between that nobody saw. */
    const bool sharp = window_ns <= source->period_ns + source->period_ns / 2;
    if (sharp && source->sharp)
        learn_gap(source, now_ns - source->last_update_ns);
    source->sharp = sharp;
    source->last_update_ns = now_ns;
    source->closely = source->gap_ns != 0 && look_closely(pace);
    if (!source->closely)
        return 0;
    /* After a coarse look the next update may come at any moment. */
    return now_ns + (window_ns <= 2 * LOOK_NS ? (uint64_t)(EARLIEST * (double)source->gap_ns) : LOOK_NS);
}

uint64_t tprof_pace_next(struct tprof_pace *pace, struct tprof_source *source, uint64_t now_ns, bool sensor, bool changed)
{
    uint64_t next_ns = 0;
    if (sensor && changed)
        next_ns = after_update(pace, source, now_ns);
    else if (source->closely && now_ns - source->last_update_ns < (uint64_t)(LATEST * (double)source->gap_ns))
        next_ns = now_ns + LOOK_NS;
    else
        source->closely = false;
    source->looked_ns = now_ns;
    if (next_ns != 0)
        return next_ns;
    const uint64_t period_ns = sensor ? (uint64_t)(pace->stretch * (double)source->period_ns) : source->period_ns;
    next_ns = source->next_poll_ns + period_ns;
    return next_ns > now_ns ? next_ns : now_ns + period_ns;
}
