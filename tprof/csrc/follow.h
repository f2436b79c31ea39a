/* Gathers the samples of one thread between two times into as few rows as possible: the kernel of
 * analysis/attribution/incremental.py.
 *
 * Joules are shared by CPU time in each interval between two edges (readings of a sensor), so all instances of a task in
 * one interval form one row: later work is proportional to intervals and tasks, not to samples. Instances of watched
 * tasks get their own rows. The state between two steps is the time of the last step, the task that ran then, and how
 * much of its segment's CPU time has been given out.
 *
 * A file that is no longer written (`finished`) gives the segments of analysis/attribution/blocks.py, however the
 * time is cut into steps. While the recording runs, the thread's clock stands in for the sample that will close the
 * segment, and the counts of samples that come too late go to the next segment. */
#ifndef TPROF_FOLLOW_H
#define TPROF_FOLLOW_H

#include <stdbool.h>

#include "tail.h"

struct tprof_row {
    int64_t begin_ns, end_ns;
    double cpu_s, own_s;
    int64_t task; /* -1: none */
    uint64_t instance;
    int32_t package, package_end; /* where its segments begin and end; -1: not known */
    int64_t process;
    uint64_t ends; /* whether the instance ends with it */
};

static_assert(sizeof(struct tprof_row) == 72, "ROW in analysis/attribution/incremental.py");

/* An instance began or ended. */
struct tprof_moment {
    int64_t t_ns;
    uint64_t instance;
    int64_t task;
    uint64_t ends;
};

static_assert(sizeof(struct tprof_moment) == 32, "MOMENT in analysis/attribution/incremental.py");

/* A task's number in this process, and its index for the follower's owner. */
struct tprof_known {
    uint32_t number;
    bool used, watched;
    int64_t index;
    uint64_t starts;            /* instances that began since the last step */
    size_t row, interval;       /* its last row, valid if the row's interval is the current one */
};

struct tprof_follower {
    struct tprof_tail tail;
    int64_t process;
    uint32_t pid, tid;
    bool own;          /* the thread's clock can be read directly */
    bool finished;     /* the file is no longer written */
    bool notes_moments; /* whether begins and ends of instances are wanted */
    bool resumes;       /* what came before the first step was followed before: nothing of it counts */
    bool stops;        /* of a finished file: samples from `stop` on do not count, nor does the thread's end */
    uint64_t stop;
    uint64_t end_ns;   /* of a finished file's last segment */
    double cut_off_ns; /* most CPU time of a last segment that nothing in the file closes */
    int cpu_column;    /* -1: none, a task's CPU time is its length */
    const int16_t *packages;
    uint32_t cpus;
    /* Fills in the index of a new number, -1 if it counts as no task; returns whether it could. */
    bool (*learn)(void *owner, struct tprof_known *known);
    void *owner;

    bool begun, ended;
    uint64_t first_ns, from_ns, t_ns, first_cpu_ns; /* from_ns: begin of the first step */
    uint64_t since_ns, cpu_ns, instance; /* of the last sample */
    double given_ns;                     /* CPU time of its segment up to t_ns; negative: owed by earlier ones */
    int32_t package;

    struct tprof_known *known; /* open addressing; `capacity` is a power of two */
    struct tprof_known nobody;
    size_t capacity, count, place; /* of the task that ran last */
    struct tprof_row *rows;
    size_t row_count, row_capacity;
    struct tprof_moment *moments;
    size_t moment_count, moment_capacity;
    char *buffer;
};

enum tprof_follow_result { TPROF_FOLLOWED, TPROF_FOLLOW_GONE, TPROF_FOLLOW_NO_MEMORY, TPROF_FOLLOW_REFUSED };

/* Gather the rows between the first edge and the last; the last is not after now. GONE: errno says why. */
enum tprof_follow_result tprof_follow(struct tprof_follower *follower, const int64_t *edges_ns, size_t edges,
                                      uint64_t now_ns);

/* What the thread ran at the end of the last step. */
struct tprof_running {
    uint64_t t_ns;     /* until when it was followed */
    int64_t task;      /* its index; -1: none */
    uint64_t since_ns; /* since when it has run without a break */
    double cpu_ns;     /* of the thread since its first sample */
};

/* Returns false before the first sample. */
bool tprof_follower_running(const struct tprof_follower *follower, struct tprof_running *running);
void tprof_follower_free(struct tprof_follower *follower);

#endif
