/* Busy time of a set of processors, from /proc/stat: in ticks of 10 ms, so a single difference is inexact. Time of a
 * hypervisor (steal) does not count. Called by the sensor thread alone. */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t busy_ticks(const char *line)
{
    unsigned long long user = 0, nice = 0, system = 0, idle = 0, wait = 0, hard = 0, soft = 0;
    if (sscanf(line, "%llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &wait, &hard, &soft) < 4)
        return 0;
    return user + nice + system + hard + soft;
}

static bool counts(const struct tprof_source *source, unsigned long cpu)
{
    return cpu < TPROF_MAX_PACKAGES * 64 && (source->cpus[cpu / 64] >> (cpu % 64) & 1) != 0;
}

int tprof_busy_read(struct tprof_source *source, uint64_t *busy_ns)
{
    char line[512];
    uint64_t ticks = 0;
    bool any = false;
    FILE *file = fopen(source->path, "re");
    if (file == NULL)
        return errno;
    while (fgets(line, sizeof line, file) != NULL && strncmp(line, "cpu", 3) == 0) {
        char *rest;
        const unsigned long cpu = strtoul(line + 3, &rest, 10);
        if (rest == line + 3 || !counts(source, cpu))
            continue;
        ticks += busy_ticks(rest);
        any = true;
    }
    fclose(file);
    if (!any)
        return ENODATA;
    *busy_ns = ticks * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
    return 0;
}
