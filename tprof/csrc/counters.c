/* perf_event_open(2), or PAPI in its place. Called by the thread that is counted, except where the header says
 * otherwise; needs neither Python nor a lock. The user-space read follows the protocol of struct perf_event_mmap_page in
 * linux/perf_event.h. tests/lab tries it on the kernel's perf, where a module carries out the instruction; it has not run on
 * a processor with a PMU. */
#include "counters.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "descriptor.h"
#include "layout.h"

/* The groups of a sample are read within this time of the thread; perf's times leave out what else runs meanwhile. */
#define READS_NS 10000
#define PROBE_STEP_NS 500000
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
    struct perf_event_attr attr = {.type = event->type,
                                   .size = sizeof attr,
                                   .config = event->config,
                                   .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING};
    return tprof_descriptor_raise((int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

/* Without its kernel part a scheduling event counts nothing: it must be absent, not zero. */
static bool needs_kernel(const struct tprof_event *event)
{
    return event->type == PERF_TYPE_SOFTWARE &&
           (event->config == PERF_COUNT_SW_CONTEXT_SWITCHES || event->config == PERF_COUNT_SW_CPU_MIGRATIONS);
}

static bool still_ours(const struct tprof_counter_group *group, int i)
{
    uint64_t id;
    return ioctl(group->fds[i], PERF_EVENT_IOC_ID, &id) == 0 && id == group->ids[i];
}

/* For the calling thread if `tid` is 0. */
static int open_permitted(const struct tprof_event *event, pid_t tid, int group)
{
    int fd = open_event(event, tid, -1, group, event->type != PERF_TYPE_SOFTWARE);
    if (fd < 0 && (errno == EACCES || errno == EPERM) && !needs_kernel(event))
        fd = open_event(event, tid, -1, group, true);
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

static void unmap_group(struct tprof_counter_group *group)
{
    for (int i = 0; i < group->count; i++) {
        if (group->pages[i] != NULL)
            munmap((void *)group->pages[i], PAGE_BYTES);
        group->pages[i] = NULL;
    }
}

/* With several groups the others' counts are needed too, and their pages do not tell until when these were counted. */
static void map_pages(struct tprof_counters *counters)
{
    struct tprof_counter_group *group = &counters->groups[0];
    counters->user_read = counters->group_count == 1;
    if (!counters->user_read)
        return;
    for (int i = 0; i < group->count; i++) {
        group->pages[i] = map_page(group->fds[i]);
        if (group->pages[i] == NULL || !group->pages[i]->cap_user_rdpmc)
            counters->user_read = false;
    }
    if (!counters->user_read)
        unmap_group(group);
}

/* Returns a mask of the columns whose events could not be opened. */
static uint64_t open_group(struct tprof_counter_group *group, const struct tprof_event_group *wanted, pid_t tid,
                           int *error)
{
    uint64_t absent = 0;
    group->part = wanted->part;
    for (int i = 0; i < wanted->count; i++) {
        const int fd = open_permitted(&wanted->events[i], tid, group->count > 0 ? group->fds[0] : -1);
        if (fd < 0) {
            if (*error == 0)
                *error = errno;
            absent |= UINT64_C(1) << wanted->columns[i];
            continue;
        }
        group->fds[group->count] = fd;
        (void)ioctl(fd, PERF_EVENT_IOC_ID, &group->ids[group->count]);
        group->columns[group->count++] = wanted->columns[i];
    }
    return absent;
}

static uint64_t open_groups(struct tprof_counters *counters, const struct tprof_counted *wanted, pid_t tid, int *error)
{
    uint64_t absent = 0;
    for (int i = 0; i < wanted->group_count; i++) {
        struct tprof_counter_group *group = &counters->groups[counters->group_count];
        absent |= open_group(group, &wanted->groups[i], tid, error);
        counters->group_count += group->count > 0;
        for (int j = 0; j < wanted->groups[i].count; j++)
            if (counters->columns <= wanted->groups[i].columns[j])
                counters->columns = wanted->groups[i].columns[j] + 1;
    }
    return absent;
}

uint64_t tprof_counters_open(struct tprof_counters *counters, const struct tprof_counted *wanted, int *error)
{
    *error = 0;
    memset(counters, 0, sizeof *counters);
    open_switches(counters);
    counters->columns = wanted->papi.count;
    if (counters->columns > 0) {
        const uint64_t absent = tprof_papi_open(&counters->papi, &wanted->papi, NULL);
        *error = absent != 0 ? ENOENT : 0;
        return absent;
    }
    const uint64_t absent = open_groups(counters, wanted, 0, error);
    map_pages(counters);
    return absent;
}

uint64_t tprof_counters_open_for(struct tprof_counters *counters, const struct tprof_counted *wanted, pid_t tid,
                                 int *error)
{
    *error = 0;
    memset(counters, 0, sizeof *counters);
    if (wanted->papi.count > 0) {
        *error = ENOENT;
        return (UINT64_C(1) << wanted->papi.count) - 1;
    }
    return open_groups(counters, wanted, tid, error);
}

void tprof_counters_forget(struct tprof_counters *counters)
{
    for (int g = 0; g < counters->group_count; g++)
        for (int i = 0; i < counters->groups[g].count; i++)
            if (still_ours(&counters->groups[g], i))
                close(counters->groups[g].fds[i]);
    counters->group_count = 0;
    counters->papi.open = false;
    counters->switches = NULL;
}

void tprof_counters_close(struct tprof_counters *counters)
{
    if (counters->switches != NULL)
        munmap((void *)counters->switches, PAGE_BYTES);
    for (int g = 0; g < counters->group_count; g++)
        unmap_group(&counters->groups[g]);
    tprof_papi_close(&counters->papi);
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
    counters->behind_ns = at_ns - cpu_ns;
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
    struct tprof_counter_group *group = &counters->groups[0];
    uint64_t fresh[TPROF_MAX_EVENTS];
    for (int i = 0; i < group->count; i++)
        if (!read_user(group->pages[i], &fresh[i]))
            return false;
    for (int i = 0; i < group->count; i++) {
        counters->values[group->columns[i]] += fresh[i] - group->raw[i];
        group->raw[i] = fresh[i];
    }
    note_user_read(counters);
    return true;
}

/* What read(2) tells of a group: its times and its counts. */
struct reading {
    uint64_t members, enabled_ns, running_ns, counts[TPROF_MAX_EVENTS];
};

static bool read_group(const struct tprof_counter_group *group, struct reading *reading)
{
    const ssize_t expected = (ssize_t)((3 + (size_t)group->count) * sizeof(uint64_t));
    return read(group->fds[0], reading, sizeof *reading) == expected;
}

/* Times for which a group was enabled, and running, since the last read of its values. */
static void elapsed(const struct tprof_counters *counters, const struct tprof_counter_group *group,
                    const struct reading *reading, uint64_t *enabled_ns, uint64_t *running_ns)
{
    *enabled_ns = reading->enabled_ns - group->enabled_ns;
    *running_ns = reading->running_ns - group->running_ns;
    if (!counters->read_by_user)
        return;
    const uint64_t lost_ns = *enabled_ns - *running_ns;
    const uint64_t since_ns = counters->last_cpu_ns - counters->user_cpu_ns;
    *enabled_ns = since_ns > lost_ns ? since_ns : lost_ns;
    *running_ns = *enabled_ns - lost_ns;
}

/* The same of all groups that are parts: a thread is on a core of one kind at a time, so together they have run as long
 * as each was enabled, less what they lost to other events. They are read one after the other: a loss shorter than that
 * may take is none. */
static void elapsed_in_parts(const struct tprof_counters *counters, const struct reading *readings,
                             uint64_t *enabled_ns, uint64_t *running_ns)
{
    *enabled_ns = UINT64_MAX;
    *running_ns = 0;
    for (int g = 0; g < counters->group_count; g++) {
        if (!counters->groups[g].part)
            continue;
        const uint64_t since_ns = readings[g].enabled_ns - counters->groups[g].enabled_ns;
        *enabled_ns = since_ns < *enabled_ns ? since_ns : *enabled_ns;
        *running_ns += readings[g].running_ns - counters->groups[g].running_ns;
    }
    if (*enabled_ns < *running_ns + READS_NS && *running_ns > 0)
        *running_ns = *enabled_ns;
}

static void add_counts(struct tprof_counters *counters, struct tprof_counter_group *group,
                       const struct reading *reading, double factor)
{
    for (int i = 0; i < group->count; i++) {
        const uint64_t increment = reading->counts[i] - group->raw[i];
        counters->values[group->columns[i]] += factor > 1.0 ? (uint64_t)((double)increment * factor) : increment;
        group->raw[i] = reading->counts[i];
    }
    group->enabled_ns = reading->enabled_ns;
    group->running_ns = reading->running_ns;
}

uint8_t tprof_counters_read(struct tprof_counters *counters, bool user_read)
{
    struct reading readings[TPROF_MAX_GROUPS];
    double factors[TPROF_MAX_GROUPS];
    uint8_t flags = 0;
    if (counters->papi.open)
        return tprof_papi_read(&counters->papi, counters->values) ? 0 : TPROF_UNCOUNTED;
    if (counters->group_count == 0 || (user_read && counters->user_read && read_pages(counters)))
        return 0;
    for (int g = 0; g < counters->group_count; g++)
        if (!read_group(&counters->groups[g], &readings[g]))
            return TPROF_UNCOUNTED;
    for (int g = 0; g < counters->group_count; g++) {
        uint64_t enabled_ns, running_ns;
        if (counters->groups[g].part)
            elapsed_in_parts(counters, readings, &enabled_ns, &running_ns);
        else
            elapsed(counters, &counters->groups[g], &readings[g], &enabled_ns, &running_ns);
        if (running_ns == 0 && enabled_ns > 0)
            return TPROF_UNCOUNTED;
        factors[g] = 1.0;
        if (running_ns < enabled_ns) {
            factors[g] = (double)enabled_ns / (double)running_ns;
            flags = TPROF_SCALED;
        }
    }
    for (int g = 0; g < counters->group_count; g++)
        add_counts(counters, &counters->groups[g], &readings[g], factors[g]);
    counters->read_by_user = false;
    return flags;
}

int tprof_counters_probe(const struct tprof_event *event, int pid, int cpu, bool exclude_kernel, uint64_t longest_ns,
                         uint64_t result[3])
{
    uint64_t group[4] = {0};
    const int fd = open_event(event, pid, cpu, -1, exclude_kernel);
    if (fd < 0)
        return errno;
    (void)ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    for (volatile int i = 0; i < 100000; i++)
        ;
    const uint64_t deadline_ns = tprof_now_ns() + longest_ns;
    ssize_t count = read(fd, group, sizeof group);
    while (count == sizeof group && group[3] == 0 && tprof_now_ns() < deadline_ns) {
        (void)nanosleep(&(struct timespec){.tv_nsec = PROBE_STEP_NS}, NULL);
        count = read(fd, group, sizeof group);
    }
    const int error = count < 0 ? errno : count != sizeof group ? EIO : 0;
    close(fd);
    result[0] = group[3];
    result[1] = group[1];
    result[2] = group[2];
    return error;
}
