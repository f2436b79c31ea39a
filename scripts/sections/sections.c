/* The list of sections, printed when the process ends: lock, function, how often, mean nanoseconds. */
#include "sections.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

_Thread_local struct held sections_held[SECTIONS_DEEPEST];
_Thread_local int sections_depth;
static struct section *_Atomic first;

void sections_list(struct section *section)
{
    if (atomic_exchange(&section->listed, 1))
        return;
    struct section *next = atomic_load(&first);
    do
        section->next = next;
    while (!atomic_compare_exchange_weak(&first, &next, section));
}

static double ticks_of_clock(void)
{
    const uint64_t begin = __rdtsc();
    for (int i = 0; i < 1000; i++)
        (void)__rdtsc();
    return (double)(__rdtsc() - begin) / 1000;
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double ns_a_tick(void)
{
    const double begin_ns = now_ns();
    const uint64_t begin = __rdtsc();
    while (now_ns() - begin_ns < 2e7)
        ;
    return (now_ns() - begin_ns) / (double)(__rdtsc() - begin);
}

__attribute__((destructor)) static void print(void)
{
    const double own = ticks_of_clock(), tick_ns = ns_a_tick();
    for (struct section *section = first; section != NULL; section = section->next)
        if (section->count > 0)
            fprintf(stderr, "%s\t%s\t%" PRIu64 "\t%.1f\n", section->lock, section->function, section->count,
                    ((double)section->ticks / (double)section->count - own) * tick_ns);
}
