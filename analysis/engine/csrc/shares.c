/* From the joules of intervals to those of segments and instances. See engine.h. */
#include "engine.h"

/* What is done with a piece of a segment, which is all of it or what lies in one interval: `interval` is how many edges
 * are at or before it, `value` its part of the segment's, and `is_end` whether the segment begins in the interval, or ends
 * within it. Returns whether to go on. */
typedef bool piece_function(void *context, size_t segment, size_t interval, double value, bool is_end);

/* Return how many edges are at or before a time, beginning with a number that is near. */
static size_t interval_at(const struct tprof_engine_course *course, int64_t t_ns, size_t near)
{
    const int64_t *edges_ns = course->edges_ns;
    size_t low = 0, high = course->edges;
    if (near > 0 && t_ns < edges_ns[near - 1]) {
        high = near - 1;
    } else {
        for (size_t step = 0; step < 4; step++, near++)
            if (near == course->edges || t_ns < edges_ns[near])
                return near;
        low = near;
    }
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (edges_ns[middle] <= t_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_inside(const struct tprof_engine_course *course, int64_t end_ns, size_t interval)
{
    return interval == course->edges || end_ns <= course->edges_ns[interval];
}

static size_t thread_begin(const struct tprof_engine_course *course, size_t thread)
{
    return course->begins == NULL ? 0 : (size_t)course->begins[thread];
}

static size_t thread_end(const struct tprof_engine_course *course, size_t thread)
{
    return course->ends == NULL ? course->count : (size_t)course->ends[thread];
}

static bool is_edge(const struct tprof_engine_course *course, int64_t t_ns, size_t interval)
{
    return interval < course->edges && course->edges_ns[interval] == t_ns;
}

/* Cut the segments that have a value at the edges, thread after thread. Inline, so that no piece costs a call. */
static inline bool each_piece(const struct tprof_engine_course *course, const double *values, piece_function *call,
                              void *context)
{
    for (size_t thread = 0; thread < course->threads; thread++) {
        size_t near = 0;
        for (size_t at = thread_begin(course, thread); at < thread_end(course, thread); at++) {
            int64_t from_ns = course->t_ns[at];
            const int64_t end_ns = course->t_ns[at + 1];
            if (values[at] == 0 || end_ns <= from_ns)
                continue;
            near = interval_at(course, from_ns, near);
            if (is_inside(course, end_ns, near)) {
                if (!call(context, at, near, values[at], true))
                    return false;
                continue;
            }
            const double per_ns = values[at] / (double)(end_ns - from_ns);
            for (bool is_end = true; from_ns < end_ns; is_end = false) {
                const bool is_last = is_inside(course, end_ns, near);
                const int64_t until_ns = is_last ? end_ns : course->edges_ns[near];
                is_end |= is_last && !is_edge(course, end_ns, near);
                if (!call(context, at, near, per_ns * (double)(until_ns - from_ns), is_end))
                    return false;
                from_ns = until_ns;
                near += !is_last;
            }
        }
    }
    return true;
}

struct spreading {
    const int32_t *row;
    size_t rows, width;
    double *sums;
};

static bool spread_piece(void *context, size_t segment, size_t interval, double value, bool is_end)
{
    const struct spreading *to = context;
    const size_t row = to->row == NULL ? 0 : (uint32_t)to->row[segment];
    (void)is_end;
    if (row >= to->rows)
        return false;
    to->sums[row * to->width + interval] += value;
    return true;
}

bool tprof_engine_spread(const struct tprof_engine_course *course, const double *values, const int32_t *row,
                         size_t rows, double *sums)
{
    struct spreading to = {row, rows, course->edges + 1, sums};
    return each_piece(course, values, spread_piece, &to);
}

struct gathering {
    const double *rates;
    double *energies;
};

static bool gather_piece(void *context, size_t segment, size_t interval, double value, bool is_end)
{
    const struct gathering *to = context;
    (void)is_end;
    to->energies[segment] += value * to->rates[interval];
    return true;
}

void tprof_engine_gather(const struct tprof_engine_course *course, const double *values, const double *rates,
                         double *energies)
{
    for (size_t thread = 0; thread < course->threads; thread++)
        for (size_t at = thread_begin(course, thread); at < thread_end(course, thread); at++)
            energies[at] = 0;
    struct gathering to = {rates, energies};
    each_piece(course, values, gather_piece, &to);
}

struct sharing {
    const double *rates;
    const struct tprof_engine_owners *owners;
};

static bool share_piece(void *context, size_t segment, size_t interval, double value, bool is_end)
{
    const struct sharing *from = context;
    const struct tprof_engine_owners *owners = from->owners;
    const int32_t row = owners->slot[segment];
    if ((uint32_t)row >= owners->rows)
        return false;
    const double joules = value * from->rates[interval];
    owners->energy_j[row] += joules;
    if (owners->first == NULL || !is_end)
        return true;
    const int32_t number = owners->piece_of == NULL ? (int32_t)interval : owners->piece_of[interval];
    if (number == owners->first[row])
        owners->first_j[row] += joules;
    if (number == owners->last[row])
        owners->last_j[row] += joules;
    return true;
}

bool tprof_engine_share(const struct tprof_engine_course *course, const double *values, const double *rates,
                        const struct tprof_engine_owners *owners)
{
    struct sharing from = {rates, owners};
    return each_piece(course, values, share_piece, &from);
}

void tprof_engine_count_running(const struct tprof_engine_course *course, const int32_t *slot, int64_t *running)
{
    for (size_t thread = 0; thread < course->threads; thread++) {
        size_t near = 0;
        for (size_t at = thread_begin(course, thread); at < thread_end(course, thread); at++) {
            const int64_t begin_ns = course->t_ns[at], end_ns = course->t_ns[at + 1];
            if (slot[at] == 0 || end_ns <= begin_ns)
                continue;
            near = interval_at(course, begin_ns, near);
            running[near] += 1;
            /* A segment that ends at an edge has no part in the interval that begins there. */
            running[interval_at(course, end_ns - 1, near) + 1] -= 1;
        }
    }
}

/* Return the number that is kept of an interval; of one behind the edges it is not known. */
static double kept_number(size_t place, size_t edges, int64_t before)
{
    return place < edges ? (double)((int64_t)place + before + 1) : 0.0;
}

static int32_t place_of(double kept, size_t edges, int64_t before)
{
    const double place = kept - 1.0 - (double)before;
    return kept > 0 && place >= 1 && place < (double)edges ? (int32_t)place : -1;
}

void tprof_engine_find_ends(const struct tprof_engine_instance *instances, size_t count, const int64_t *edges_ns,
                            size_t edges, int64_t before, double *kept, size_t width, int32_t *first, int32_t *last)
{
    const struct tprof_engine_course course = {.edges_ns = edges_ns, .edges = edges};
    size_t near_begin = 0, near_end = 0;
    for (size_t row = 0; row < count; row++, kept += width) {
        const int64_t end_ns = instances[row].end_ns;
        if (!(kept[0] > 0)) {
            near_begin = interval_at(&course, instances[row].start_ns, near_begin);
            kept[0] = kept_number(near_begin, edges, before);
        }
        /* Where an instance did not run on, its last interval may lie before all of these. */
        if (kept[1] == 0 || (edges > 0 && end_ns >= edges_ns[0])) {
            near_end = interval_at(&course, end_ns - 1, near_end);
            const double number = kept_number(near_end, edges, before);
            kept[3] = number == kept[1] ? kept[3] : 0.0;
            kept[1] = number;
        }
        first[row] = place_of(kept[0], edges, before);
        last[row] = place_of(kept[1], edges, before);
    }
}
