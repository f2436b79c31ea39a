/* The number of the processor on which the thread runs, from the area that the kernel keeps for restartable sequences
 * (rseq): a load where the C library registers it (glibc 2.35), else a call. */
#ifndef TPROF_PROCESSOR_H
#define TPROF_PROCESSOR_H

#include <dlfcn.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>

/* From the thread's pointer to the number in its area; 0: there is no area. */
extern ptrdiff_t tprof_processor_at;

/* Once, before the first sample. */
void tprof_processor_find(void);

static inline int tprof_processor(void)
{
#if defined(__x86_64__) || defined(__aarch64__)
    if (tprof_processor_at != 0) {
        const char *self;
#if defined(__x86_64__)
        __asm__("mov %%fs:0, %0" : "=r"(self));
#else
        __asm__("mrs %0, tpidr_el0" : "=r"(self));
#endif
        /* Negative where the thread's area is not registered. */
        const int32_t number = __atomic_load_n((const int32_t *)(self + tprof_processor_at), __ATOMIC_RELAXED);
        if (number >= 0)
            return number;
    }
#endif
    return sched_getcpu();
}

#endif
