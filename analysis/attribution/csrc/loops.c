/* Sums by group, and passes over times. See loops.h. */
#include "loops.h"

#include <string.h>

#define MOST_AT_ONCE 8    /* columns, so that each has its own chain of additions in registers and cache */

/* `width` is a constant where this is called, so that the inner loop is unrolled. */
static inline bool add_columns(const struct tprof_loops_keys *keys, const double *const *columns, double *sums,
                               const size_t width)
{
    for (size_t at = 0; at < keys->count; at++) {
        const uint32_t group = (uint32_t)keys->at[at];
        if (group >= keys->groups)
            return false;
        for (size_t column = 0; column < width; column++)
            sums[column * keys->groups + group] += columns[column][at];
    }
    return true;
}

bool tprof_loops_add(const struct tprof_loops_keys *keys, const double *const *columns, size_t column_count,
                     double *sums)
{
    bool good = true;
    for (size_t done = 0; good && done < column_count; done += MOST_AT_ONCE) {
        const double *const *these = columns + done;
        double *of_these = sums + done * keys->groups;
        switch (column_count - done) {
        case 1:
            good = add_columns(keys, these, of_these, 1);
            break;
        case 2:
            good = add_columns(keys, these, of_these, 2);
            break;
        case 3:
            good = add_columns(keys, these, of_these, 3);
            break;
        case 4:
            good = add_columns(keys, these, of_these, 4);
            break;
        case 5:
            good = add_columns(keys, these, of_these, 5);
            break;
        case 6:
            good = add_columns(keys, these, of_these, 6);
            break;
        case 7:
            good = add_columns(keys, these, of_these, 7);
            break;
        default:
            good = add_columns(keys, these, of_these, MOST_AT_ONCE);
        }
    }
    return good;
}

bool tprof_loops_add_products(const struct tprof_loops_keys *keys, const double *x, const double *y,
                              const double *centre_x, const double *centre_y, double *sums)
{
    double *const squares_x = sums, *const squares_y = sums + keys->groups, *const both = sums + 2 * keys->groups;
    for (size_t at = 0; at < keys->count; at++) {
        const uint32_t group = (uint32_t)keys->at[at];
        if (group >= keys->groups)
            return false;
        const double off_x = x[at] - centre_x[group], off_y = y[at] - centre_y[group];
        squares_x[group] += off_x * off_x;
        squares_y[group] += off_y * off_y;
        both[group] += off_x * off_y;
    }
    return true;
}

bool tprof_loops_multiply(const struct tprof_loops_keys *keys, const double *factors, const double *values,
                          double *products)
{
    for (size_t at = 0; at < keys->count; at++) {
        const uint32_t group = (uint32_t)keys->at[at];
        if (group >= keys->groups)
            return false;
        products[at] = values[at] * factors[group];
    }
    return true;
}

/* Return how many of increasing times are before another one. */
static size_t count_before(int64_t t_ns, const int64_t *times_ns, size_t times)
{
    size_t low = 0, high = times;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (times_ns[middle] < t_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static size_t count_until(int64_t t_ns, const int64_t *times_ns, size_t times)
{
    return t_ns == INT64_MAX ? times : count_before(t_ns + 1, times_ns, times);
}

void tprof_loops_locate(const int64_t *t_ns, size_t count, const int64_t *edges_ns, size_t edges, int32_t *places)
{
    size_t place = 0;
    for (size_t at = 0; at < count; at++) {
        const bool is_before = place > 0 && t_ns[at] < edges_ns[place - 1];
        if (is_before || (place < edges && t_ns[at] >= edges_ns[place]))
            place = !is_before && (place + 1 == edges || t_ns[at] < edges_ns[place + 1])
                        ? place + 1
                        : count_until(t_ns[at], edges_ns, edges);
        places[at] = (int32_t)place;
    }
}

bool tprof_loops_search(const int64_t *t_ns, const struct tprof_loops_threads *threads, int64_t first, int64_t second,
                        int64_t *found)
{
    for (size_t thread = 0; thread < threads->threads; thread++) {
        const int64_t begin = threads->begin[thread], end = threads->end[thread];
        if (begin < 0 || end < begin || (size_t)end > threads->count)
            return false;
        const size_t length = (size_t)(end - begin);
        found[2 * thread] = begin + (int64_t)count_before(first, t_ns + begin, length);
        found[2 * thread + 1] = begin + (int64_t)count_before(second, t_ns + begin, length);
    }
    return true;
}

bool tprof_loops_limit(const uint64_t *t_ns, const struct tprof_loops_threads *threads, const int64_t *ends_ns,
                       int64_t *limited, int64_t *falls)
{
    for (size_t thread = 0; thread < threads->threads; thread++) {
        const int64_t begin = threads->begin[thread], end = threads->end[thread], last_ns = ends_ns[thread];
        if (begin < 0 || end < begin || (size_t)end >= threads->count || last_ns < 0)
            return false;
        int64_t before_ns = 0, fallen = 0;
        for (int64_t at = begin; at < end; at++) {
            const int64_t limited_ns = t_ns[at] < (uint64_t)last_ns ? (int64_t)t_ns[at] : last_ns;
            fallen += limited_ns < before_ns;
            limited[at] = before_ns = limited_ns;
        }
        limited[end] = last_ns;
        falls[thread] = fallen;
    }
    return true;
}

void tprof_loops_compact(char *column, size_t bytes, const struct tprof_loops_threads *threads)
{
    size_t done = threads->threads == 0 ? 0 : (size_t)threads->begin[0];
    for (size_t thread = 0; thread < threads->threads; thread++) {
        const size_t begin = (size_t)threads->begin[thread], length = (size_t)threads->end[thread] - begin;
        if (begin != done)
            memmove(column + done * bytes, column + begin * bytes, length * bytes);
        done += length;
    }
}

void tprof_loops_increase(const uint64_t *values, size_t count, double scale, double *increments)
{
    for (size_t at = 0; at < count; at++) {
        const int64_t more = (int64_t)(values[at + 1] - values[at]);
        increments[at] = (double)(more > 0 ? more : 0) * scale;
    }
}

void tprof_loops_weigh(const int64_t *t_ns, const double *cpu_s, size_t count, double nothing, double *modelled)
{
    for (size_t at = 0; at < count; at++) {
        const double power = modelled[at] > 0 ? modelled[at] : cpu_s[at] * nothing;
        modelled[at] = t_ns[at + 1] == t_ns[at] ? 0 : power;
    }
}

bool tprof_loops_accumulate(const struct tprof_loops_samples *samples, int64_t end_ns,
                            const struct tprof_loops_grid *grid, struct tprof_loops_used *used)
{
    const char *t_at = samples->t_ns, *cpu_at = samples->cpu_ns;
    size_t next = 0;
    while (next < grid->count && grid->t_ns[next] < used->t_ns)
        next++;
    for (size_t at = 0; at < samples->count; at++, t_at += samples->t_stride, cpu_at += samples->cpu_stride) {
        uint64_t recorded_ns, cpu_ns;
        memcpy(&recorded_ns, t_at, sizeof recorded_ns);
        memcpy(&cpu_ns, cpu_at, sizeof cpu_ns);
        const int64_t t_ns = recorded_ns < (uint64_t)end_ns ? (int64_t)recorded_ns : end_ns;
        const int64_t length_ns = t_ns - used->t_ns, more_ns = (int64_t)(cpu_ns - used->cpu_ns);
        used->cpu_ns = cpu_ns;
        if (length_ns < 0)
            return false;
        if (length_ns == 0)
            continue;
        const double cpu_s = more_ns > 0 ? (double)more_ns * 1e-9 : 0;
        for (; next < grid->count && grid->t_ns[next] < t_ns; next++)
            grid->used_s[next] = used->sum_s + cpu_s / (double)length_ns * (double)(grid->t_ns[next] - used->t_ns);
        used->sum_s += cpu_s;
        used->t_ns = t_ns;
    }
    return true;
}
