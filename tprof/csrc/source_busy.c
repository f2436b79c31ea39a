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

/* A source takes what another one read so long ago. */
#define SHARED_NS UINT64_C(1000000)

struct line {
    unsigned long long busy, idle, rest; /* ticks; rest: idle, waiting and taken by a hypervisor */
    unsigned long cpu;
};

/* The last read. The sources of one round share it, because the kernel makes the whole file at each read, which takes
 * longer the more processors there are. It belongs to whom the sources belong (sensor_thread.c). */
static struct {
    char path[sizeof((struct tprof_source *)NULL)->path];
    uint64_t now_ns; /* at the first line */
    uint64_t whole_rest; /* ticks of all processors by the first line, cut once */
    size_t count;
    struct line lines[TPROF_MAX_PACKAGES * 64];
} last;

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
    uint64_t busy, rest; /* ticks of the counted processors whose lines have no idle time, and have some */
    uint64_t counted, clocked; /* numbers of processors; clocked: whose idle time is counted */
    uint64_t every_rest; /* ticks of all processors by their lines */
};

static void read_lines(FILE *file)
{
    char text[512];
    last.now_ns = last.whole_rest = last.count = 0;
    while (fgets(text, sizeof text, file) != NULL && strncmp(text, "cpu", 3) == 0) {
        struct line line;
        char *rest;
        if (last.now_ns == 0)
            last.now_ns = tprof_now_ns();
        /* The line of all processors has no number. */
        const bool whole = text[3] == ' ';
        line.cpu = whole ? 0 : strtoul(text + 3, &rest, 10);
        if (!parse(whole ? text + 3 : rest, &line))
            continue;
        if (whole)
            last.whole_rest = line.rest;
        else if (last.count < sizeof last.lines / sizeof *last.lines)
            last.lines[last.count++] = line;
    }
}

/* Returns 0 or errno. */
static int read_unless_shared(const struct tprof_source *source)
{
    const bool fresh = source->counted_at_ns < last.now_ns && tprof_now_ns() - last.now_ns < SHARED_NS;
    if (fresh && strcmp(source->path, last.path) == 0)
        return 0;
    last.now_ns = 0;
    FILE *file = fopen(source->path, "re");
    if (file == NULL)
        return errno;
    strcpy(last.path, source->path);
    read_lines(file);
    fclose(file);
    return 0;
}

static struct sums add_lines(const struct tprof_source *source)
{
    struct sums sums = {0};
    for (size_t i = 0; i < last.count; i++) {
        const struct line *line = &last.lines[i];
        sums.every_rest += line->rest;
        if (!counts(source, line->cpu))
            continue;
        sums.counted++;
        if (line->idle == 0) {
            sums.busy += line->busy;
        } else {
            sums.clocked++;
            sums.rest += line->rest;
        }
    }
    return sums;
}

/* Busy time from any begin; it falls if a processor goes. */
static int64_t busy_so_far(const struct sums *sums, uint64_t tick_ns)
{
    uint64_t rest_ns = sums->rest * tick_ns;
    const uint64_t cut = last.whole_rest - sums->every_rest;
    if (last.whole_rest >= sums->every_rest && cut <= CUT * last.count)
        rest_ns += cut * tick_ns * sums->clocked / last.count;
    return (int64_t)(sums->clocked * last.now_ns - rest_ns + sums->busy * tick_ns);
}

int tprof_busy_read(struct tprof_source *source, uint64_t *busy_ns)
{
    const int error = read_unless_shared(source);
    if (error != 0)
        return error;
    const struct sums sums = add_lines(source);
    if (sums.counted == 0)
        return ENODATA;
    const uint64_t tick_ns = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
    const int64_t now_busy_ns = busy_so_far(&sums, tick_ns), more_ns = now_busy_ns - source->counted_ns;
    const int64_t cut_ns = (int64_t)(CUT * sums.counted * tick_ns);
    const int64_t passed_ns = (int64_t)(sums.counted * (last.now_ns - source->counted_at_ns));
    const bool first = source->counted_at_ns == 0;
    source->counted_at_ns = last.now_ns;
    /* Less, or more than passed: a processor came or went, or the kernel did not take two counts at once. */
    const bool comparable = !first && more_ns >= -cut_ns && more_ns <= passed_ns + cut_ns;
    if (comparable && more_ns > 0)
        source->busy_ns += (uint64_t)more_ns;
    if (!comparable || more_ns > 0)
        source->counted_ns = now_busy_ns;
    *busy_ns = source->busy_ns;
    return 0;
}
