/* The small shared page of a running recording, with the state common to its processes. Readers of traces ignore it.
 * Any thread of any process accesses its fields, with atomic operations. */
#ifndef TPROF_LIVE_H
#define TPROF_LIVE_H

#include <stdint.h>

#include "fast_clock.h"

#define TPROF_LIVE_VERSION 3
#define TPROF_MAX_PACKAGES 64
#define TPROF_MAX_PROCESSES 1024

enum tprof_live_state { TPROF_LIVE_RUNNING = 1, TPROF_LIVE_STOPPED = 2 };

struct tprof_live_process {
    uint32_t pid; /* 0: the slot is free or its owner is still registering */
    uint32_t reserved;
    uint64_t earlier_ns; /* CPU time before it entered, of a process older than the recording */
    uint64_t cpu_ns;     /* the last reading of the process's clock */
    uint64_t ended_ns;   /* 0 while it runs */
};

struct tprof_live {
    uint32_t version, state;
    uint32_t next_process, next_thread;
    uint32_t lost_threads;      /* threads whose file could not be made */
    uint32_t uncounted_threads; /* threads that got no counters */
    uint64_t began_boot_ns;     /* when the page was made, by CLOCK_BOOTTIME as births of processes are */
    uint64_t dropped_enospc, dropped_emfile, dropped_io; /* samples of lost threads */
    uint64_t energy_uj[TPROF_MAX_PACKAGES];              /* the last reading of each package since the start */
    struct tprof_live_process processes[TPROF_MAX_PROCESSES];
    struct tprof_fast_clock clock;
};

/* Make or open the file and map it. Return NULL with errno set. */
struct tprof_live *tprof_live_create(const char *path);
struct tprof_live *tprof_live_join(const char *path);
void tprof_live_close(struct tprof_live *live);

/* Take the next process ordinal and register this process under it. */
uint32_t tprof_live_enter(struct tprof_live *live);

/* Write the last CPU time of this process and the time of its leaving. */
void tprof_live_leave(struct tprof_live *live, uint32_t process);

/* CPU time of all registered processes, ended ones included, in ns. Of a process that was born during the recording it
 * is all; of an older one, what it used since it entered. */
uint64_t tprof_live_cpu_ns(struct tprof_live *live);

#endif
