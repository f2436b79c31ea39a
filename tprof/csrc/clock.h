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

static inline uint64_t tprof_suspended_ns(void)
{
    const uint64_t awake = tprof_now_ns();
    const uint64_t since_boot = tprof_clock_ns(CLOCK_BOOTTIME);
    return since_boot > awake ? since_boot - awake : 0;
}

#endif
