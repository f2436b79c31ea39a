#include "pace.h"

#include "clock.h"

#define LOOK_NS UINT64_C(50000)
#define CHECK_NS UINT64_C(50000000)
#define SHORTEST_GAP_NS UINT64_C(200000)
#define LONGEST_GAP_NS UINT64_C(20000000)
/* Updates as measured come from 0.6 to 2.8 times their mean gap after the one before, nearly all before 2 times. */
#define EARLIEST 0.6
#define LATEST 2.0

void tprof_pace_begin(struct tprof_pace *pace, double budget, uint64_t now_ns, uint64_t cpu_ns)
{
    *pace = (struct tprof_pace){.budget = budget, .rate = budget > 0 ? 1.0 / 8 : 0, .checked_ns = now_ns, .checked_cpu_ns = cpu_ns};
}

void tprof_pace_check(struct tprof_pace *pace, uint64_t now_ns)
{
    if (pace->budget <= 0 || now_ns - pace->checked_ns < CHECK_NS)
        return;
    const uint64_t cpu_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const double used = (double)(cpu_ns - pace->checked_cpu_ns) / (double)(now_ns - pace->checked_ns);
    /* Down fast, up slowly; never to nothing, or it could not find its way back up. */
    pace->rate *= used > pace->budget ? 0.6 : 1.15;
    if (pace->rate > 1)
        pace->rate = 1;
    if (pace->rate < 1e-3)
        pace->rate = 1e-3;
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

uint64_t tprof_pace_next(struct tprof_pace *pace, struct tprof_source *source, uint64_t now_ns, bool changed)
{
    if (changed) {
        if (source->last_update_ns != 0)
            learn_gap(source, now_ns - source->last_update_ns);
        source->last_update_ns = now_ns;
        source->closely = source->gap_ns != 0 && look_closely(pace);
        if (source->closely)
            return now_ns + (uint64_t)(EARLIEST * (double)source->gap_ns);
    } else if (source->closely) {
        if (now_ns - source->last_update_ns < (uint64_t)(LATEST * (double)source->gap_ns))
            return now_ns + LOOK_NS;
        source->closely = false;
    }
    const uint64_t next_ns = source->next_poll_ns + source->period_ns;
    return next_ns > now_ns ? next_ns : now_ns + source->period_ns;
}
