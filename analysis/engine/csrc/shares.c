/* From the joules of intervals to those of segments and instances. See engine.h. */
#include "engine.h"

/* Where in a segment a piece is: within it; where it begins, or ends within the interval; and of one without length, which
 * may be at an edge, in the interval in which it begins and in that in which it ends. */
enum place { INSIDE, AT_END, EMPTY_BEGIN, EMPTY_END };

/* What is done with a piece of a segment, which is all of it or what lies in one interval: `interval` is how many edges
 * are at or before it, and `value` its part of the segment's. Returns whether to go on. */
typedef bool piece_function(void *context, size_t segment, size_t interval, double value, enum place place);

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

/* Cut segments at the edges, thread after thread: those that have a value, or `all`, of which one of no length is a piece
 * without value. Inline, so that no piece costs a call. */
static inline bool each_piece(const struct tprof_engine_course *course, const double *values, bool all,
                              piece_function *call, void *context)
{
    for (size_t thread = 0; thread < course->threads; thread++) {
        size_t near = 0;
        for (size_t at = thread_begin(course, thread); at < thread_end(course, thread); at++) {
            int64_t from_ns = course->t_ns[at];
            const int64_t end_ns = course->t_ns[at + 1];
            const bool is_empty = end_ns <= from_ns;
            const double value = is_empty ? 0 : values[at];
            if (value == 0 && !all)
                continue;
            near = interval_at(course, from_ns, near);
            if (is_empty || is_inside(course, end_ns, near)) {
                if (!call(context, at, near, value, is_empty ? EMPTY_BEGIN : AT_END))
                    return false;
                const bool is_at_edge = near > 0 && course->edges_ns[near - 1] == from_ns;
                if (is_empty && !call(context, at, near - is_at_edge, 0, EMPTY_END))
                    return false;
                continue;
            }
            const double per_ns = value / (double)(end_ns - from_ns);
            for (bool is_end = true; from_ns < end_ns; is_end = false) {
                const bool is_last = is_inside(course, end_ns, near);
                const int64_t until_ns = is_last ? end_ns : course->edges_ns[near];
                is_end |= is_last && !(near < course->edges && course->edges_ns[near] == end_ns);
                if (!call(context, at, near, per_ns * (double)(until_ns - from_ns), is_end ? AT_END : INSIDE))
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

static bool spread_piece(void *context, size_t segment, size_t interval, double value, enum place place)
{
    const struct spreading *to = context;
    const size_t row = to->row == NULL ? 0 : (uint32_t)to->row[segment];
    (void)place;
    if (row >= to->rows)
        return false;
    to->sums[row * to->width + interval] += value;
    return true;
}

bool tprof_engine_spread(const struct tprof_engine_course *course, const double *values, const int32_t *row,
                         size_t rows, double *sums)
{
    struct spreading to = {row, rows, course->edges + 1, sums};
    return each_piece(course, values, false, spread_piece, &to);
}

struct gathering {
    const double *rates;
    double *energies;
};

static bool gather_piece(void *context, size_t segment, size_t interval, double value, enum place place)
{
    const struct gathering *to = context;
    (void)place;
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
    each_piece(course, values, false, gather_piece, &to);
}

struct sharing {
    const double *rates;
    const struct tprof_engine_owners *owners;
};

static bool share_piece(void *context, size_t segment, size_t interval, double value, enum place place)
{
    const struct sharing *from = context;
    const struct tprof_engine_owners *owners = from->owners;
    const int32_t row = owners->slot[segment];
    if ((uint32_t)row >= owners->rows)
        return false;
    const double joules = value * from->rates[interval];
    owners->energy_j[row] += joules;
    if (owners->edges == NULL || row == 0 || owners->number[interval] < 0)
        return true;
    struct tprof_engine_edges *edges = &owners->edges[row - 1];
    const double number = 1.0 + owners->number[interval], most_j = owners->most_j[interval];
    if (place != EMPTY_END && most_j >= 0)
        edges->is_covered = 1;
    if (place != EMPTY_END && (edges->first == 0 || number < edges->first)) {
        edges->first = number;
        edges->first_j = 0;
        edges->first_most_j = most_j > 0 ? most_j : 0;
    }
    if (place != EMPTY_BEGIN && number > edges->last) {
        edges->last = number;
        edges->last_j = 0;
        edges->last_most_j = most_j > 0 ? most_j : 0;
    }
    if (place == AT_END && number == edges->first)
        edges->first_j += joules;
    if (place == AT_END && number == edges->last)
        edges->last_j += joules;
    return true;
}

bool tprof_engine_share(const struct tprof_engine_course *course, const double *values, const double *rates,
                        const struct tprof_engine_owners *owners)
{
    struct sharing from = {rates, owners};
    return each_piece(course, values, owners->edges != NULL, share_piece, &from);
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
