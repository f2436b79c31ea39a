/* The set-up of a recording. It is complete before any thread sees it, and immutable: a late thread continues with its
 * own plan while another recording begins, with other directories and another page. */
#ifndef TPROF_PLAN_H
#define TPROF_PLAN_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "counters.h"
#include "live.h"
#include "stream.h"

#define TPROF_MAX_CPUS 4096

struct tprof_setup {
    const char *directory;
    uint32_t process;
    struct tprof_live *live;
    const char *description;
    uint32_t columns; /* with energy_uj and cpu_ns first */
    struct tprof_counted counted;
    const int16_t *package_of_cpu;
    uint32_t cpus;
};

/* A directory for files of threads, and its identity when the recording began. */
struct tprof_directory {
    char path[PATH_MAX];
    struct stat identity;
};

struct tprof_plan {
    uint64_t generation;
    struct tprof_live *live;
    struct tprof_header header; /* of every thread's file */
    struct tprof_directory samples, graph;
    struct tprof_counted counted;
    int16_t package_of_cpu[TPROF_MAX_CPUS];

    /* Of recorder.c, under its lock: */
    struct tprof_plan *next;
    size_t users;
    bool owns_live; /* the session has let go of the page */
};

/* Returns NULL with errno set. */
struct tprof_plan *tprof_plan_make(const struct tprof_setup *setup);
void tprof_plan_free(struct tprof_plan *plan);

/* Make a file of samples, or of events if its header says so. Returns 0 or errno. */
int tprof_plan_create_stream(const struct tprof_plan *plan, struct tprof_stream *stream,
                             const struct tprof_header *header);

#endif
