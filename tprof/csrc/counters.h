/* Cumulative counters of a thread: CPU time always, hardware or software events if the kernel has them. */
#ifndef TPROF_COUNTERS_H
#define TPROF_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "papi.h"

#define TPROF_MAX_EVENTS 11 /* columns of a sample that are counted */
#define TPROF_MAX_GROUPS 5  /* kinds of cores, and the kernel's own events */

struct perf_event_mmap_page;

struct tprof_event {
    uint32_t type;
    uint64_t config;
};

/* The events to open together, each with its column. */
struct tprof_event_group {
    bool part; /* they count on cores of one kind only, and other groups that are parts on the rest */
    int count;
    int columns[TPROF_MAX_EVENTS];
    struct tprof_event events[TPROF_MAX_EVENTS];
};

/* What a recording counts: groups of perf events, or PAPI's events. */
struct tprof_counted {
    int group_count;
    struct tprof_event_group groups[TPROF_MAX_GROUPS];
    struct tprof_papi_events papi;
};

/* The open events of such a group. */
struct tprof_counter_group {
    bool part;
    int count;
    int fds[TPROF_MAX_EVENTS];
    const volatile struct perf_event_mmap_page *pages[TPROF_MAX_EVENTS];
    uint64_t ids[TPROF_MAX_EVENTS]; /* the kernel's id, which shows that a descriptor is still ours */
    int columns[TPROF_MAX_EVENTS];
    uint64_t enabled_ns, running_ns; /* at the last read(2) */
    uint64_t raw[TPROF_MAX_EVENTS];
};

struct tprof_counters {
    /* CPU time: `switches` is a perf page whose lock word changes whenever the thread is scheduled, so as long as
     * it stands still the CPU time has advanced exactly as the wall clock has, and no system call is needed. */
    const volatile struct perf_event_mmap_page *switches;
    uint32_t switches_seen;
    int columns;           /* of the plan; an absent one stays 0 */
    uint64_t behind_ns;    /* CLOCK_MONOTONIC less the CPU time, while the thread stays scheduled */
    uint64_t last_cpu_ns;
    uint64_t values[TPROF_MAX_EVENTS];

    int group_count; /* that have an open event; 0: none could be opened */
    struct tprof_counter_group groups[TPROF_MAX_GROUPS];
    bool user_read; /* there is one group, and its pages allow it */
    /* Reads in user space since then see no times, but happen only while nothing was lost; the thread's CPU time at
     * the last of them gives the time that its events have been enabled since. */
    bool read_by_user;
    uint64_t user_cpu_ns;
    struct tprof_papi_set papi;
};

/* Open for the calling thread. Returns a mask of the columns that are absent; *error is the errno of the first,
 * ENOENT if PAPI gave none. */
uint64_t tprof_counters_open(struct tprof_counters *counters, const struct tprof_counted *wanted, int *error);
void tprof_counters_close(struct tprof_counters *counters);

/* Open the perf events for another thread of this process; PAPI's are all absent. As tprof_counters_open. */
uint64_t tprof_counters_open_for(struct tprof_counters *counters, const struct tprof_counted *wanted, pid_t tid,
                                 int *error);

/* In a forked child: the descriptors still count the parent, the pages are not mapped here. */
void tprof_counters_forget(struct tprof_counters *counters);

/* Re-anchor the CPU time by a system call. *now_ns becomes the moment to which the result belongs. */
uint64_t tprof_counters_anchor(struct tprof_counters *counters, uint64_t *now_ns);

/* Update `values`. Returns flags for the sample. Any thread may call it with user_read = false. */
uint8_t tprof_counters_read(struct tprof_counters *counters, bool user_read);

/* Open, enable, run, read and close one event: the only way to know that it counts. A count of 0 is read again for
 * `longest_ns`. Returns 0 or errno. */
int tprof_counters_probe(const struct tprof_event *event, int pid, int cpu, bool exclude_kernel, uint64_t longest_ns,
                         uint64_t result[3]);

/* Open an event of a whole processor (energy). Returns a descriptor or -1 with errno. */
int tprof_counters_open_cpu(const struct tprof_event *event, int cpu);

#endif
