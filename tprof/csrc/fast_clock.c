/* Called by one thread at a time; needs neither Python nor a lock. */
#include "fast_clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define MOST_AGE_NS UINT64_C(50000000)
#define MOST_WIDTH_NS 500
#define PERIOD_NS UINT64_C(10000000)
/* A rate serves for at most BASES times as long as what it was taken over, so its error is that of as many snapshots. */
#define LEAST_BASE_NS UINT64_C(250000)
#define BASES 2
#define BASE_NS UINT64_C(1000000000)
#define CHECK_NS UINT64_C(1000000000)
#define TRIES 5
#define MOST_CONTRADICTIONS 3 /* then the counter is not trusted any more */
/* What a snapshot may differ from its prediction: the kernel slews by at most 500 ppm, and may turn from one side to
 * the other. */
#define MOST_SLEW 1000
#define MOST_ERROR_NS (2 * MOST_WIDTH_NS)

bool tprof_ticks_are_reliable(const char *path)
{
#if defined(__x86_64__)
    static const char name[] = "tsc\n";
#elif defined(__aarch64__)
    static const char name[] = "arch_sys_counter\n";
#else
    static const char name[] = "\n";
#endif
    char text[64] = "";
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    return length > 0 && strcmp(text, name) == 0;
}

static void publish(struct tprof_fast_clock *clock, struct tprof_snapshot now, uint64_t rate, uint64_t most_ticks)
{
    const uint32_t sequence = __atomic_load_n(&clock->sequence, __ATOMIC_RELAXED) | 1;
    __atomic_store_n(&clock->sequence, sequence, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&clock->ticks, now.ticks, __ATOMIC_RELAXED);
    __atomic_store_n(&clock->t_ns, now.t_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&clock->rate, rate, __ATOMIC_RELAXED);
    __atomic_store_n(&clock->most_ticks, most_ticks, __ATOMIC_RELAXED);
    __atomic_store_n(&clock->sequence, sequence + 1, __ATOMIC_RELEASE);
}

void tprof_fast_clock_withdraw(struct tprof_fast_clock *clock)
{
    publish(clock, (struct tprof_snapshot){0, 0}, 0, 0);
}

/* Nanoseconds of a tick, times 2^32; 0 where the clocks do not both go forward. */
static uint64_t rate_between(struct tprof_snapshot from, struct tprof_snapshot to)
{
    if (to.ticks <= from.ticks || to.t_ns <= from.t_ns)
        return 0;
    return (uint64_t)(((unsigned __int128)(to.t_ns - from.t_ns) << 32) / (to.ticks - from.ticks));
}

static bool is_predicted(const struct tprof_fast_clock *clock, const struct tprof_clock_keeper *keeper,
                         struct tprof_snapshot now)
{
    if (clock->most_ticks == 0)
        return true;
    const uint64_t age_ns = now.t_ns - clock->t_ns;
    const uint64_t said_ns = (uint64_t)((unsigned __int128)(now.ticks - clock->ticks) * clock->rate >> 32);
    const uint64_t error_ns = said_ns > age_ns ? said_ns - age_ns : age_ns - said_ns;
    return error_ns <= MOST_ERROR_NS + age_ns / MOST_SLEW + MOST_WIDTH_NS * age_ns / keeper->base_ns;
}

static void begin(struct tprof_clock_keeper *keeper, struct tprof_snapshot now)
{
    keeper->older = keeper->newer = now;
    keeper->begun = true;
}

/* The kernel may leave the counter while it runs: where it finds it unstable, or processors that disagree. */
static bool is_trusted(struct tprof_clock_keeper *keeper, uint64_t now_ns)
{
    if (keeper->source != NULL && now_ns >= keeper->check_ns) {
        keeper->check_ns = now_ns + CHECK_NS;
        if (!tprof_ticks_are_reliable(keeper->source))
            keeper->contradictions = MOST_CONTRADICTIONS;
    }
    return keeper->contradictions < MOST_CONTRADICTIONS;
}

static void publish_rate(struct tprof_fast_clock *clock, struct tprof_clock_keeper *keeper, struct tprof_snapshot now)
{
    const uint64_t rate = rate_between(keeper->older, now), base_ns = now.t_ns - keeper->older.t_ns;
    const uint64_t age_ns = BASES * base_ns < MOST_AGE_NS ? BASES * base_ns : MOST_AGE_NS;
    if (rate == 0 || base_ns < LEAST_BASE_NS)
        return;
    keeper->base_ns = base_ns;
    publish(clock, now, rate, (uint64_t)(((unsigned __int128)age_ns << 32) / rate));
}

/* The first ones come in ever longer intervals. */
static uint64_t next_ns(const struct tprof_clock_keeper *keeper, uint64_t now_ns)
{
    const uint64_t base_ns = now_ns - keeper->older.t_ns;
    if (base_ns < LEAST_BASE_NS)
        return now_ns + LEAST_BASE_NS;
    return now_ns + (base_ns < PERIOD_NS ? base_ns : PERIOD_NS);
}

uint64_t tprof_fast_clock_take(struct tprof_fast_clock *clock, struct tprof_clock_keeper *keeper,
                               struct tprof_snapshot now)
{
    if (!is_trusted(keeper, now.t_ns)) {
        tprof_fast_clock_withdraw(clock);
        return now.t_ns + CHECK_NS;
    }
    if (!is_predicted(clock, keeper, now)) {
        keeper->contradictions++;
        tprof_fast_clock_withdraw(clock);
        keeper->begun = false;
    }
    if (!keeper->begun)
        begin(keeper, now);
    if (now.t_ns - keeper->newer.t_ns >= BASE_NS) {
        keeper->older = keeper->newer;
        keeper->newer = now;
    }
    publish_rate(clock, keeper, now);
    return next_ns(keeper, now.t_ns);
}

/* The narrowest of some tries; returns its width in ticks. */
static uint64_t take_snapshot(struct tprof_snapshot *taken)
{
    uint64_t narrowest = UINT64_MAX;
    for (int attempt = 0; attempt < TRIES; attempt++) {
        const uint64_t before = tprof_ticks();
        const uint64_t t_ns = tprof_now_ns();
        const uint64_t width = tprof_ticks() - before;
        if (width < narrowest) {
            narrowest = width;
            *taken = (struct tprof_snapshot){before + width / 2, t_ns};
        }
    }
    return narrowest;
}

uint64_t tprof_fast_clock_renew(struct tprof_fast_clock *clock, struct tprof_clock_keeper *keeper)
{
    struct tprof_snapshot now;
    const uint64_t width = take_snapshot(&now);
    const uint64_t rate = keeper->begun ? rate_between(keeper->older, now) : 0;
    /* Interrupted each time: the last snapshot serves on until it is too old. */
    if (rate != 0 && (uint64_t)((unsigned __int128)width * rate >> 32) > MOST_WIDTH_NS)
        return next_ns(keeper, now.t_ns);
    return tprof_fast_clock_take(clock, keeper, now);
}
