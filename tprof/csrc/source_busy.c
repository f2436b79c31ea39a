/* The CPU time of a set of processors, from proc/stat: what is left of the time that passed after idle time and time of
 * a hypervisor. The kernel takes idle time by its clock, whenever a processor becomes idle. It finds busy time by
 * looking at each tick (often 4 ms) what runs: a virtual machine loses ticks, and what begins after one and ends before
 * the next is not seen. Where idle time was never counted (a virtual kernel), ticks have to do. */
#include "source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

/* A line has three counts of idle time, each cut to whole ticks of 10 ms. */
#define CUT 3

struct line {
    unsigned long long busy, idle, rest; /* ticks; rest: idle, waiting and taken by a hypervisor */
};

static bool parse(const char *text, struct line *line)
{
    unsigned long long user, nice, system, wait = 0, hard = 0, soft = 0, steal = 0;
    if (sscanf(text, "%llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &line->idle, &wait, &hard, &soft,
               &steal) < 4)
        return false;
    line->busy = user + nice + system + hard + soft;
    line->rest = line->idle + wait + steal;
    return true;
}

static bool counts(const struct tprof_source *source, unsigned long cpu)
{
    return cpu < TPROF_MAX_PACKAGES * 64 && (source->cpus[cpu / 64] >> (cpu % 64) & 1) != 0;
}

struct sums {
    uint64_t now_ns;
    uint64_t busy, rest; /* ticks of the counted processors whose lines have no idle time, and have some */
    uint64_t counted, clocked, lines; /* numbers of processors; clocked: whose idle time is counted */
    uint64_t every_rest, whole_rest; /* ticks of all processors, by their lines and by the first line, cut once */
};

static int add_lines(const struct tprof_source *source, FILE *file, struct sums *sums)
{
    char text[512];
    while (fgets(text, sizeof text, file) != NULL && strncmp(text, "cpu", 3) == 0) {
        struct line line;
        char *rest;
        if (sums->now_ns == 0)
            sums->now_ns = tprof_now_ns();
        /* The line of all processors has no number. */
        const bool whole = text[3] == ' ';
        const unsigned long cpu = whole ? 0 : strtoul(text + 3, &rest, 10);
        if (!parse(whole ? text + 3 : rest, &line))
            continue;
        if (whole) {
            sums->whole_rest = line.rest;
            continue;
        }
        sums->lines++;
        sums->every_rest += line.rest;
        if (!counts(source, cpu))
            continue;
        sums->counted++;
        if (line.idle == 0) {
            sums->busy += line.busy;
        } else {
            sums->clocked++;
            sums->rest += line.rest;
        }
    }
    return sums->counted == 0 ? ENODATA : 0;
}

/* Busy time from any begin; it falls if a processor goes. */
static int64_t busy_so_far(const struct sums *sums, uint64_t tick_ns)
{
    uint64_t rest_ns = sums->rest * tick_ns;
    const uint64_t cut = sums->whole_rest - sums->every_rest;
    if (sums->whole_rest >= sums->every_rest && cut <= CUT * sums->lines)
        rest_ns += cut * tick_ns * sums->clocked / sums->lines;
    return (int64_t)(sums->clocked * sums->now_ns - rest_ns + sums->busy * tick_ns);
}

int tprof_busy_read(struct tprof_source *source, uint64_t *busy_ns)
{
    struct sums sums = {0};
    FILE *file = fopen(source->path, "re");
    if (file == NULL)
        return errno;
    const int error = add_lines(source, file, &sums);
    fclose(file);
    if (error != 0)
        return error;
    const uint64_t tick_ns = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
    const int64_t now_busy_ns = busy_so_far(&sums, tick_ns), more_ns = now_busy_ns - source->counted_ns;
    const int64_t cut_ns = (int64_t)(CUT * sums.counted * tick_ns);
    const int64_t passed_ns = (int64_t)(sums.counted * (sums.now_ns - source->counted_at_ns));
    const bool first = source->counted_at_ns == 0;
    source->counted_at_ns = sums.now_ns;
    /* Less, or more than passed: a processor came or went, or the kernel did not take two counts at once. */
    const bool comparable = !first && more_ns >= -cut_ns && more_ns <= passed_ns + cut_ns;
    if (comparable && more_ns > 0)
        source->busy_ns += (uint64_t)more_ns;
    if (!comparable || more_ns > 0)
        source->counted_ns = now_busy_ns;
    *busy_ns = source->busy_ns;
    return 0;
}
