/* The least that a recorder can cost which writes the samples of tprof without counters: the same 40 bytes into a mapped
 * window of the same size, the time, the processor's number, a read of the page that shows whether the thread lost its
 * processor, and a write(2) of each full window. Nothing is looked up, checked or counted. call_cost.py compiles and
 * loads it. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
#include <sys/rseq.h>
#define HAS_RSEQ 1
#endif

#define SAMPLE_WORDS 5
#define WINDOW_SAMPLES 3072 /* 120 KiB, as the recorder's */
#define PAGE_WORDS 512

enum clock { CLOCK_CALL, CLOCK_TICKS };

struct window {
    uint64_t committed;
    uint64_t filler[PAGE_WORDS - 1];
    uint64_t samples[WINDOW_SAMPLES * SAMPLE_WORDS];
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#elif defined(__aarch64__)
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#else
    return now_ns();
#endif
}

static inline uint64_t processor(void)
{
#ifdef HAS_RSEQ
    if (__rseq_size > 0) {
        const struct rseq *area = (const struct rseq *)((const char *)__builtin_thread_pointer() + __rseq_offset);
        return __atomic_load_n(&area->cpu_id, __ATOMIC_RELAXED);
    }
#endif
    return (uint64_t)sched_getcpu();
}

static inline void write_sample(struct window *window, uint64_t at, uint64_t time, const uint64_t *switches)
{
    uint64_t *sample = window->samples + at % WINDOW_SAMPLES * SAMPLE_WORDS;
    sample[0] = time;
    sample[1] = at;
    sample[2] = processor();
    sample[3] = at;
    sample[4] = __atomic_load_n(switches, __ATOMIC_ACQUIRE) == 0 ? time : 0;
    __atomic_store_n(&window->committed, at + 1, __ATOMIC_RELEASE);
}

/* Returns 0 or errno. */
static int write_all(int fd, struct window *window, uint64_t count, enum clock clock)
{
    static uint64_t switches;
    for (uint64_t at = 0; at < count; at++) {
        write_sample(window, at, clock == CLOCK_TICKS ? ticks() : now_ns(), &switches);
        if ((at + 1) % WINDOW_SAMPLES == 0 &&
            write(fd, window->samples, sizeof window->samples) != (ssize_t)sizeof window->samples)
            return errno != 0 ? errno : ENOSPC;
    }
    return 0;
}

/* Returns 0 or errno. */
static int run(int fd, uint64_t count, enum clock clock, uint64_t *took_ns)
{
    if (ftruncate(fd, sizeof(struct window)) != 0)
        return errno;
    struct window *window = mmap(NULL, sizeof *window, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (window == MAP_FAILED)
        return errno;
    memset(window, 1, sizeof *window); /* a recorder's window is in memory after its first samples */
    int error = lseek(fd, 0, SEEK_END) < 0 ? errno : 0;
    const uint64_t begin_ns = now_ns();
    errno = 0;
    if (error == 0)
        error = write_all(fd, window, count, clock);
    *took_ns = now_ns() - begin_ns;
    munmap(window, sizeof *window);
    return error;
}

/* Writes `count` samples into a file and returns the nanoseconds for all, or -errno. */
int64_t write_samples(const char *path, uint64_t count, int by_ticks)
{
    uint64_t took_ns = 0;
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    const int error = run(fd, count, by_ticks ? CLOCK_TICKS : CLOCK_CALL, &took_ns);
    close(fd);
    return error != 0 ? -error : (int64_t)took_ns;
}
