/* CLOCK_MONOTONIC from the processor's counter of ticks, at half the price of the system's call.
 *
 * The sensor thread publishes a snapshot of both every few milliseconds, and the rate between them; other threads of all
 * processes of the session count on from the last snapshot. Where the kernel itself does not take the counter for its
 * clock, where a snapshot is old, or where the two disagreed, the system's call is made instead.
 *
 * The result errs by the width of a snapshot (less than MOST_WIDTH_NS, usually 20 ns), by twice that for the rate times
 * the snapshot's age over the rate's base (at most 2, and 0.05 after the first second), and by what the kernel changed the
 * clock's rate since (NTP: at most 500 ppm) times the age (at most MOST_AGE_NS). */
#ifndef TPROF_FAST_CLOCK_H
#define TPROF_FAST_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

/* In the page that the processes of a session share; one thread writes it. */
struct tprof_fast_clock {
    uint32_t sequence; /* odd while the rest is written */
    uint32_t reserved;
    uint64_t ticks, t_ns; /* the snapshot */
    uint64_t rate;        /* nanoseconds of a tick, times 2^32 */
    uint64_t most_ticks;  /* the age up to which the snapshot is good; 0: there is none */
};

struct tprof_snapshot {
    uint64_t ticks, t_ns;
};

/* State of the thread that writes snapshots. */
struct tprof_clock_keeper {
    struct tprof_snapshot older, newer;
    uint64_t base_ns; /* of the published rate */
    bool begun;
    int contradictions; /* snapshots that the one before did not predict */
    const char *source; /* the file of the kernel's current clock source */
    uint64_t check_ns;  /* when to read it again */
};

static inline uint64_t tprof_ticks(void)
{
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return 0;
#endif
}

/* Whether the last snapshot gives the time at `ticks`. */
static inline bool tprof_fast_clock_convert(const struct tprof_fast_clock *clock, uint64_t ticks, uint64_t *t_ns)
{
    const uint32_t sequence = __atomic_load_n(&clock->sequence, __ATOMIC_ACQUIRE);
    const uint64_t age = ticks - __atomic_load_n(&clock->ticks, __ATOMIC_RELAXED);
    const uint64_t since_ns = __atomic_load_n(&clock->t_ns, __ATOMIC_RELAXED);
    const uint64_t rate = __atomic_load_n(&clock->rate, __ATOMIC_RELAXED);
    const uint64_t most = __atomic_load_n(&clock->most_ticks, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    *t_ns = since_ns + (uint64_t)((unsigned __int128)age * rate >> 32);
    return age < most && (sequence & 1) == 0 && __atomic_load_n(&clock->sequence, __ATOMIC_RELAXED) == sequence;
}

static inline uint64_t tprof_fast_now_ns(const struct tprof_fast_clock *clock)
{
    uint64_t t_ns;
    return tprof_fast_clock_convert(clock, tprof_ticks(), &t_ns) ? t_ns : tprof_now_ns();
}

/* Whether the kernel takes its time from the same counter, as the file of its current clock source says. */
bool tprof_ticks_are_reliable(const char *path);

/* Take a snapshot of both clocks and publish it. Returns when the next one is due. */
uint64_t tprof_fast_clock_renew(struct tprof_fast_clock *clock, struct tprof_clock_keeper *keeper);
/* The same with a given snapshot. */
uint64_t tprof_fast_clock_take(struct tprof_fast_clock *clock, struct tprof_clock_keeper *keeper,
                               struct tprof_snapshot now);
/* From now on there is no snapshot. */
void tprof_fast_clock_withdraw(struct tprof_fast_clock *clock);

#endif
