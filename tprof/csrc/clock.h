/* The clocks of a recording. CLOCK_MONOTONIC is shared by all cores and processes; it stops while the machine is
 * suspended, which CLOCK_BOOTTIME does not: their difference shows a suspend. */
#ifndef TPROF_CLOCK_H
#define TPROF_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t tprof_clock_ns(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t tprof_now_ns(void)
{
    return tprof_clock_ns(CLOCK_MONOTONIC);
}

/* How long the machine was suspended since its start, at least: never less than `known_ns`, an earlier result or 0. The
 * thread may lose the processor between the clocks, which must not look like a suspend: a delay makes the result smaller,
 * and then the earlier one holds. */
static inline uint64_t tprof_suspended_ns(uint64_t known_ns)
{
    uint64_t took_ns = UINT64_MAX;
    for (int attempt = 0; attempt < 3 && took_ns > 100000; attempt++) {
        const uint64_t before = tprof_now_ns();
        const uint64_t since_boot = tprof_clock_ns(CLOCK_BOOTTIME);
        const uint64_t after = tprof_now_ns();
        took_ns = after - before;
        if (since_boot > after && since_boot - after > known_ns)
            known_ns = since_boot - after;
    }
    return known_ns;
}

#endif
