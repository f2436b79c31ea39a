/* perf_event_open(2). Called by the thread that is counted, except where the header says otherwise; needs neither
 * Python nor a lock. The user-space read follows the protocol of struct perf_event_mmap_page in
 * linux/perf_event.h; it was written against that text and has not run on a processor with a PMU. */
#include "counters.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "descriptor.h"
#include "layout.h"

#define PAGE_BYTES ((size_t)sysconf(_SC_PAGESIZE))

static int open_event(const struct tprof_event *event, int pid, int cpu, int group, bool exclude_kernel)
{
    struct perf_event_attr attr = {
        .type = event->type,
        .size = sizeof attr,
        .config = event->config,
        .read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        .exclude_kernel = exclude_kernel,
        .exclude_hv = exclude_kernel,
    };
    return (int)syscall(SYS_perf_event_open, &attr, pid, cpu, group, PERF_FLAG_FD_CLOEXEC);
}

int tprof_counters_open_cpu(const struct tprof_event *event, int cpu)
{
    struct perf_event_attr attr = {.type = event->type, .size = sizeof attr, .config = event->config};
    return tprof_descriptor_raise((int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

/* Without its kernel part a scheduling event counts nothing: it must be absent, not zero. */
static bool needs_kernel(const struct tprof_event *event)
{
    return event->type == PERF_TYPE_SOFTWARE &&
           (event->config == PERF_COUNT_SW_CONTEXT_SWITCHES || event->config == PERF_COUNT_SW_CPU_MIGRATIONS);
}

static bool still_ours(const struct tprof_counters *counters, int i)
{
    uint64_t id;
    return ioctl(counters->fds[i], PERF_EVENT_IOC_ID, &id) == 0 && id == counters->ids[i];
}

static int open_permitted(const struct tprof_event *event, int group)
{
    int fd = open_event(event, 0, -1, group, event->type != PERF_TYPE_SOFTWARE);
    if (fd < 0 && (errno == EACCES || errno == EPERM) && !needs_kernel(event))
        fd = open_event(event, 0, -1, group, true);
    return tprof_descriptor_raise_counter(fd);
}

static void *map_page(int fd)
{
    void *page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

static void open_switches(struct tprof_counters *counters)
{
    const struct tprof_event clock = {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK};
    const int fd = open_event(&clock, 0, -1, -1, true);
    if (fd < 0)
        return;
    counters->switches = map_page(fd);
    close(fd); /* the mapping keeps the event alive */
}

static void map_group(struct tprof_counters *counters)
{
    counters->user_read = counters->count > 0;
    for (int i = 0; i < counters->count; i++) {
        counters->pages[i] = map_page(counters->fds[i]);
        if (counters->pages[i] == NULL || !counters->pages[i]->cap_user_rdpmc)
            counters->user_read = false;
    }
    if (counters->user_read)
        return;
    for (int i = 0; i < counters->count; i++) {
        if (counters->pages[i] != NULL)
            munmap((void *)counters->pages[i], PAGE_BYTES);
        counters->pages[i] = NULL;
    }
}

uint64_t tprof_counters_open(struct tprof_counters *counters, const struct tprof_event *events, int count, int *error)
{
    uint64_t absent = 0;
    *error = 0;
    memset(counters, 0, sizeof *counters);
    open_switches(counters);
    for (int i = 0; i < count; i++) {
        const int fd = open_permitted(&events[i], counters->count > 0 ? counters->fds[0] : -1);
        if (fd < 0) {
            if (*error == 0)
                *error = errno;
            absent |= UINT64_C(1) << i;
            continue;
        }
        counters->fds[counters->count] = fd;
        (void)ioctl(fd, PERF_EVENT_IOC_ID, &counters->ids[counters->count]);
        counters->slots[counters->count++] = i;
    }
    map_group(counters);
    return absent;
}

void tprof_counters_forget(struct tprof_counters *counters)
{
    for (int i = 0; i < counters->count; i++)
        if (still_ours(counters, i))
            close(counters->fds[i]);
    counters->count = 0;
    counters->switches = NULL;
}

void tprof_counters_close(struct tprof_counters *counters)
{
    if (counters->switches != NULL)
        munmap((void *)counters->switches, PAGE_BYTES);
    for (int i = 0; i < counters->count; i++)
        if (counters->pages[i] != NULL)
            munmap((void *)counters->pages[i], PAGE_BYTES);
    tprof_counters_forget(counters);
}

uint64_t tprof_counters_anchor(struct tprof_counters *counters, uint64_t *now_ns)
{
    uint32_t seen = 0;
    uint64_t cpu_ns, at_ns;
    /* Retry after a context switch between the two clocks; thrice suffices, since a stale anchor only costs a call. */
    for (int attempt = 0; attempt < 3; attempt++) {
        if (counters->switches != NULL)
            seen = __atomic_load_n(&counters->switches->lock, __ATOMIC_ACQUIRE);
        cpu_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        at_ns = tprof_now_ns();
        if (counters->switches == NULL || seen == __atomic_load_n(&counters->switches->lock, __ATOMIC_ACQUIRE))
            break;
    }
    counters->switches_seen = seen;
    counters->anchor_cpu_ns = cpu_ns;
    counters->anchor_ns = at_ns;
    *now_ns = at_ns;
    return cpu_ns;
}

#if defined(__x86_64__)
static bool read_user(const volatile struct perf_event_mmap_page *page, uint64_t *value)
{
    for (int attempt = 0; attempt < 8; attempt++) {
        const uint32_t sequence = __atomic_load_n(&page->lock, __ATOMIC_ACQUIRE);
        const uint32_t index = page->index;
        if (index == 0 || page->time_enabled != page->time_running)
            return false;
        uint32_t low, high;
        __asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(index - 1));
        const int shift = 64 - page->pmc_width;
        const int64_t counted = (int64_t)((((uint64_t)high << 32) | low) << shift) >> shift;
        *value = (uint64_t)(page->offset + counted);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (page->lock == sequence)
            return true;
    }
    return false;
}
#else
static bool read_user(const volatile struct perf_event_mmap_page *page, uint64_t *value)
{
    (void)page;
    (void)value;
    return false;
}
#endif

static void note_user_read(struct tprof_counters *counters)
{
    counters->read_by_user = true;
    counters->user_cpu_ns = counters->last_cpu_ns;
}

static bool read_pages(struct tprof_counters *counters)
{
    uint64_t fresh[TPROF_MAX_EVENTS];
    for (int i = 0; i < counters->count; i++)
        if (!read_user(counters->pages[i], &fresh[i]))
            return false;
    for (int i = 0; i < counters->count; i++) {
        counters->values[i] += fresh[i] - counters->raw[i];
        counters->raw[i] = fresh[i];
    }
    note_user_read(counters);
    return true;
}

/* Times for which the group was enabled, and running, since the last read of its values. */
static void elapsed(const struct tprof_counters *counters, const uint64_t *group, uint64_t *enabled_ns,
                    uint64_t *running_ns)
{
    *enabled_ns = group[1] - counters->enabled_ns;
    *running_ns = group[2] - counters->running_ns;
    if (!counters->read_by_user)
        return;
    const uint64_t lost_ns = *enabled_ns - *running_ns;
    const uint64_t since_ns = counters->last_cpu_ns - counters->user_cpu_ns;
    *enabled_ns = since_ns > lost_ns ? since_ns : lost_ns;
    *running_ns = *enabled_ns - lost_ns;
}

uint8_t tprof_counters_read(struct tprof_counters *counters, bool user_read)
{
    uint64_t group[3 + TPROF_MAX_EVENTS];
    if (counters->count == 0 || (user_read && counters->user_read && read_pages(counters)))
        return 0;
    const ssize_t expected = (ssize_t)((3 + (size_t)counters->count) * sizeof(uint64_t));
    if (read(counters->fds[0], group, sizeof group) != expected)
        return TPROF_UNCOUNTED;
    uint64_t enabled_ns, running_ns;
    elapsed(counters, group, &enabled_ns, &running_ns);
    if (running_ns == 0 && enabled_ns > 0)
        return TPROF_UNCOUNTED;
    const bool scaled = running_ns < enabled_ns;
    const double factor = scaled ? (double)enabled_ns / (double)running_ns : 1.0;
    for (int i = 0; i < counters->count; i++) {
        const uint64_t increment = group[3 + i] - counters->raw[i];
        counters->values[i] += scaled ? (uint64_t)((double)increment * factor) : increment;
        counters->raw[i] = group[3 + i];
    }
    counters->enabled_ns = group[1];
    counters->running_ns = group[2];
    counters->read_by_user = false;
    return scaled ? TPROF_SCALED : 0;
}

int tprof_counters_probe(const struct tprof_event *event, int pid, int cpu, bool exclude_kernel, uint64_t result[3])
{
    uint64_t group[4] = {0};
    const int fd = open_event(event, pid, cpu, -1, exclude_kernel);
    if (fd < 0)
        return errno;
    (void)ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    for (volatile int i = 0; i < 100000; i++)
        ;
    const ssize_t count = read(fd, group, sizeof group);
    const int error = count < 0 ? errno : count != sizeof group ? EIO : 0;
    close(fd);
    result[0] = group[3];
    result[1] = group[1];
    result[2] = group[2];
    return error;
}
