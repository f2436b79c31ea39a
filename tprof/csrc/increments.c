/* Called by one thread at a time for each count; needs neither Python nor a lock.
 *
 * A rise of the count is valid up to the power that a domain can draw, and a fall if it is a wrap within the same limit.
 * Any other fall (a false zero, a reset, garbage) gives no joules, and neither does the next rise, which may start from
 * a wrong value. A jump back over the count before the fall, to where the count would be without the fall, gives none
 * either; after TRUSTED_AFTER valid rises that count is dropped. A count that stood still for far longer than usual and
 * then catches up at once gives no joules for that time: it is unknown when, or whether, they were drawn. */
#include "increments.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

#define SUSPENDED_NS 1000000
#define TRUSTED_AFTER 20
#define LEAST_HISTORY 4

static_assert(sizeof(struct tprof_increment) == 56, "increment layout");
static_assert(offsetof(struct tprof_increment, fault) == 48, "increment layout");

/* Files may hold any times, so differences are taken without a sign. */
static int64_t between(uint64_t begin_ns, uint64_t end_ns)
{
    return (int64_t)(end_ns - begin_ns);
}

/* An interval between two kept readings. */
struct move {
    const struct tprof_reading *from, *to;
    double moved_j;    /* of the count's increment, with a fall taken as a wrap */
    int64_t length_ns; /* of the interval */
    int64_t slack_ns;  /* longest delay of the last update after the end, or of the start's time after its value */
    int64_t stood_ns;
};

static double median(const double *values, uint32_t number)
{
    double sorted[TPROF_HISTORY];
    for (uint32_t i = 0; i < number; i++) {
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1] > values[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = values[i];
    }
    return (sorted[(number - 1) / 2] + sorted[number / 2]) / 2;
}

/* Returns whether there are enough updates to know the usual one. */
static bool usual_update(const struct tprof_count *count, double *gap_ns, double *rise_j)
{
    const uint32_t number = count->learnt < TPROF_HISTORY ? count->learnt : TPROF_HISTORY;
    if (number < LEAST_HISTORY)
        return false;
    *gap_ns = median(count->gaps_ns, number);
    *rise_j = median(count->rises_j, number);
    return true;
}

static void learn_usual(struct tprof_count *count, const struct move *move)
{
    count->gaps_ns[count->learnt % TPROF_HISTORY] = (double)move->length_ns;
    count->rises_j[count->learnt % TPROF_HISTORY] = move->moved_j;
    count->learnt++;
    if (count->learnt == 2 * TPROF_HISTORY)
        count->learnt = TPROF_HISTORY;
}

/* Whether the count is where it would be without the fall. */
static bool is_back(const struct tprof_count *count, const struct move *move)
{
    if (count->distrusted_for == 0 || move->to->value < count->before_value)
        return false;
    const double rise_j = (double)(move->to->value - count->before_value) * count->unit_j;
    const double since_ns = (double)between((uint64_t)count->before_ns, move->to->t_ns) + (double)move->slack_ns;
    return rise_j <= count->limit_w * 1e-9 * since_ns;
}

/* Whether the count jumped over the value before its fall, by more than a usual rise. */
static bool leapt(const struct tprof_count *count, const struct move *move)
{
    double gap_ns, rise_j;
    if (move->from->value >= count->before_value)
        return false;
    return !usual_update(count, &gap_ns, &rise_j) || move->moved_j > TPROF_USUAL_UPDATES * rise_j;
}

/* Whether a count stood still for far longer than usual, and then caught up. */
static bool caught_up(const struct tprof_count *count, const struct move *move)
{
    double gap_ns, rise_j;
    if (move->stood_ns < TPROF_STILL_NS || count->is_calculated || !usual_update(count, &gap_ns, &rise_j))
        return false;
    return (double)move->stood_ns >= TPROF_USUAL_UPDATES * gap_ns && move->moved_j > TPROF_USUAL_UPDATES * rise_j;
}

static void distrust(struct tprof_count *count, const struct move *move, bool next_rise, bool back)
{
    if (count->distrusted_for == 0) {
        count->before_value = move->from->value;
        count->before_ns = (int64_t)move->from->t_ns;
    }
    count->distrusts_next_rise = next_rise;
    count->distrusted_for = back ? 0 : TRUSTED_AFTER;
}

/* The fault that an interval has by itself. */
static enum tprof_fault own_fault(const struct tprof_count *count, const struct move *move, bool reopened, bool fell,
                                  bool cannot_wrap)
{
    const int64_t slept_ns = between(move->from->suspended_ns, move->to->suspended_ns);
    if (reopened && move->length_ns > 0)
        return TPROF_WAS_REOPENED;
    if (slept_ns > SUSPENDED_NS || slept_ns < -SUSPENDED_NS)
        return TPROF_SLEPT;
    const double longest_ns = (double)move->length_ns + (double)move->slack_ns;
    const bool exceeds = isfinite(count->limit_w) && move->moved_j > count->limit_w * 1e-9 * longest_ns;
    return cannot_wrap || (fell && exceeds) ? TPROF_FELL : exceeds ? TPROF_SPIKE : TPROF_NO_FAULT;
}

/* The same with those that depend on earlier intervals. */
static enum tprof_fault fault_of(struct tprof_count *count, const struct move *move, enum tprof_fault fault)
{
    const bool back = is_back(count, move);
    if (fault == TPROF_WAS_REOPENED || fault == TPROF_SLEPT) {
        count->distrusted_for = 0;
    } else if (fault == TPROF_FELL) {
        distrust(count, move, true, back);
    } else if (move->moved_j == 0) {
        return fault;
    } else if (count->distrusted_for > 0 && (count->distrusts_next_rise || (back && leapt(count, move)))) {
        distrust(count, move, false, back);
        return TPROF_AFTER_FALL;
    } else if (fault == TPROF_SPIKE) {
        distrust(count, move, false, back);
    } else if (caught_up(count, move)) {
        return TPROF_STOOD_STILL;
    } else if (count->distrusted_for > 0) {
        count->distrusted_for--;
    }
    return fault;
}

static void end_interval(struct tprof_count *count, const struct tprof_reading *reading, bool changed, bool reopened,
                         uint64_t seen_ns, struct tprof_increment *ended)
{
    struct move move = {.from = &count->kept, .to = reading, .length_ns = between(count->kept.t_ns, reading->t_ns)};
    const bool fell = reading->value < count->kept.value, cannot_wrap = fell && count->kept.value > count->modulus;
    /* Unsigned differences first: a double would lose bits of a large counter. */
    const uint64_t counts = reading->value - count->kept.value + (fell ? count->modulus : 0);
    move.moved_j = cannot_wrap ? 0.0 : (double)counts * count->unit_j;
    if (reading->window_ns > 0)
        move.slack_ns = count->kept.window_ns > TPROF_LATE_NS ? count->kept.window_ns : TPROF_LATE_NS;
    move.stood_ns = between((uint64_t)count->since_ns, seen_ns);
    if (move.stood_ns < 0 || move.length_ns == 0)
        move.stood_ns = 0;
    const enum tprof_fault fault = fault_of(count, &move, own_fault(count, &move, reopened, fell, cannot_wrap));
    const bool believed = fault == TPROF_NO_FAULT;
    if (believed && move.moved_j > 0)
        learn_usual(count, &move);
    const int64_t window_ns = reading->window_ns < move.length_ns ? reading->window_ns : move.length_ns;
    *ended = (struct tprof_increment){
        .t_ns = (int64_t)reading->t_ns,
        .window_ns = changed && counts != 0 ? window_ns : 0,
        .length_ns = move.length_ns,
        .stood_ns = move.stood_ns,
        .energy_j = believed ? move.moved_j : 0.0,
        .uncertain_j = believed || fell ? 0.0 : move.moved_j,
        .fault = (uint8_t)fault,
        .changed = changed,
    };
    if (changed)
        count->since_ns = (int64_t)reading->t_ns;
    count->kept = *reading;
}

bool tprof_count_take(struct tprof_count *count, const struct tprof_reading *reading, struct tprof_increment *ended)
{
    const bool missing = (reading->flags & TPROF_MISSING) != 0, is_first = !count->has_any;
    count->reopened |= (reading->flags & TPROF_REOPENED) != 0;
    if (missing)
        return false;
    if ((int64_t)reading->t_ns <= (is_first ? -1 : (int64_t)count->seen.t_ns)) {
        count->unordered++;
        return false;
    }
    if (is_first)
        count->seen = count->kept = *reading;
    const bool reopened = count->reopened, changed = is_first || reopened || reading->value != count->seen.value;
    /* A value may be as old as the window of its reading: no longer than until then was it seen to stand. */
    const uint64_t seen_ns = count->seen.t_ns - count->seen.window_ns;
    count->has_any = true;
    count->reopened = false;
    count->seen = *reading;
    if (changed)
        end_interval(count, reading, true, reopened, seen_ns, ended);
    return changed;
}

bool tprof_count_still(struct tprof_count *count, double longest_ns, struct tprof_increment *ended)
{
    const struct tprof_reading seen = count->seen;
    if (!count->has_any || !((double)between(count->kept.t_ns, seen.t_ns) > longest_ns))
        return false;
    end_interval(count, &seen, false, false, seen.t_ns - seen.window_ns, ended);
    return true;
}
