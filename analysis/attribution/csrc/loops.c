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

void tprof_loops_weigh(const int64_t *t_ns, const double *cpu_s, size_t count, double nothing, double *modelled)
{
    for (size_t at = 0; at < count; at++) {
        const double power = modelled[at] > 0 ? modelled[at] : cpu_s[at] * nothing;
        modelled[at] = t_ns[at + 1] == t_ns[at] ? 0 : power;
    }
}

void tprof_loops_accumulate(const struct tprof_loops_samples *samples, int64_t end_ns,
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
        const int64_t limited_ns = recorded_ns < (uint64_t)end_ns ? (int64_t)recorded_ns : end_ns;
        const int64_t t_ns = limited_ns > used->t_ns ? limited_ns : used->t_ns;
        const int64_t length_ns = t_ns - used->t_ns, more_ns = (int64_t)(cpu_ns - used->cpu_ns);
        used->cpu_ns = cpu_ns;
        if (length_ns == 0)
            continue;
        const double cpu_s = more_ns > 0 ? (double)more_ns * 1e-9 : 0;
        for (; next < grid->count && grid->t_ns[next] < t_ns; next++)
            grid->used_s[next] = used->sum_s + cpu_s / (double)length_ns * (double)(grid->t_ns[next] - used->t_ns);
        used->sum_s += cpu_s;
        used->t_ns = t_ns;
    }
}
