/* From samples to segments and instances, and from the joules of intervals to those of instances.
 *
 * * Called by engine_module.c, which checks sizes, from any thread and without the interpreter's lock. All memory is
 * the caller's. What one block of a recording leaves for the next is in two arrays: `tprof_engine_thread`, the
 * sample of each thread that is running, and `tprof_engine_instance`, the instances that may run on. Times do not
 * decrease in a thread: one that does is raised to the one before. */
#ifndef TPROF_ENGINE_H
#define TPROF_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TPROF_ENGINE_NO_TASK UINT32_MAX

/* A thread, as its last sample left it; mirrored by the dtype THREAD of attribution/blocks.py. */
struct tprof_engine_thread {
    int64_t t_ns;     /* of the running sample */
    int64_t raw_ns;   /* the same as recorded, at most end_ns */
    int64_t end_ns;   /* no time is later */
    uint64_t cpu_ns;
    uint64_t instance;
    uint64_t parent;
    int64_t earlier_ns; /* CPU time before the first segment of the block */
    int64_t disordered, aborted, starts, moved;
    uint32_t task;
    uint16_t cpu;
    int16_t package;
    uint8_t kind, flags;
    bool is_running;  /* whether there is a sample */
    uint8_t unused[5];
};

/* An instance that may run on; mirrored by INSTANCE of instance_table.py. */
struct tprof_engine_instance {
    uint64_t instance, parent;
    int64_t start_ns, end_ns, last_ns;
    double own_s, cpu_s;
    double dynamic_j, static_j;
    int32_t thread;
    uint32_t task;
    uint16_t cpu;
    int16_t package;
    bool begun, failed, ended;
    uint8_t unused;
};

/* The instances, and a table of places that finds them by id; -1 is free. `places` is a power of 2 and at least
 * twice `room`. */
struct tprof_engine_table {
    struct tprof_engine_instance *instances;
    double *counts; /* (room, columns) */
    size_t count, room, columns;
    int32_t *index;
    size_t places;
};

/* The segments of a block, thread after thread; after those of each thread comes one more, which is none. */
struct tprof_engine_segments {
    int64_t *t_ns; /* where each begins, and after the last one of a thread its end */
    int32_t *slot; /* 0: no task, else 1 + row of the instance */
    double *cpu_s;
    uint16_t *cpu;
    int16_t *package, *package_end;
    double *increments; /* (columns, room) */
    size_t count, room;
};

/* How records are read: offsets in bytes; `cpu_ns` and `columns` may be -1, absent. */
struct tprof_engine_layout {
    size_t bytes;
    const int64_t *columns;
    int64_t t_ns, instance, task, cpu, kind, flags, cpu_ns;
    const uint32_t *tasks; /* the number of each task in the trace; NULL: those of the file */
    size_t task_count;
    const int16_t *packages; /* of each processor */
    size_t package_count;
};

/* What holds for a block. */
struct tprof_engine_block {
    int64_t since_ns; /* segments that end before are not needed, though those that end then */
    int64_t until_ns; /* segments that begin before are needed */
    int64_t reach_ns[2]; /* segments are cut here */
};

/* What may come after the samples of a thread that are given: it runs on; it ends, or runs on if that is after the
 * block; it ends; more samples, which are not needed. */
enum { TPROF_ENGINE_RUNS_ON, TPROF_ENGINE_ENDS, TPROF_ENGINE_IS_CLOSED, TPROF_ENGINE_IS_THERE };

/* A block, and a thread that goes on in it. */
struct tprof_engine_step {
    struct tprof_engine_block block;
    struct tprof_engine_table table;
    struct tprof_engine_segments segments;
    struct tprof_engine_segments before; /* of the block before */
    struct tprof_engine_thread *thread;
    int32_t number;
    uint64_t *counts; /* of the running sample, and as many that are overwritten, (2, columns) */
    struct tprof_engine_layout layout;
    size_t begin, end; /* where the thread's segments in the block before are */
    const char *records;
    size_t record_count;
    int then;                   /* one of the above */
    int64_t after_ns, clock_ns; /* a time after the samples, and the thread's CPU clock then; -1: not known */
    double cut_off_s;           /* the most that it took since its last sample, if that is not known */
    const uint64_t *end_counts; /* at its end; NULL: those of its last sample */
};

#define TPROF_ENGINE_PLACES 4

/* Let a thread go on to the end of a block: begin with those segments of the block before that this one needs too, take
 * its samples up to the first that is not before `until_ns`, and let the last one before that run on, or close it.
 * `places` are set to where its segments begin, where those are that the block before did not have, where they end, and
 * how many samples were taken. Returns false without room, or if places of segments are none. */
bool tprof_engine_follow(struct tprof_engine_step *step, int64_t places[TPROF_ENGINE_PLACES]);

/* Fill the index anew. Returns false if it is too small. */
bool tprof_engine_index(struct tprof_engine_table *table);

/* Return the place of an instance, -1 without. */
int32_t tprof_engine_find(const struct tprof_engine_table *table, uint64_t instance);

/* Segments in order of time, thread after thread as above, or without what is none between threads where there are NULL
 * begins; and edges that increase. */
struct tprof_engine_course {
    const int64_t *t_ns;
    size_t count; /* of segments, with those that are none */
    const int64_t *begins, *ends; /* (threads,) where those of each thread are */
    size_t threads;
    const int64_t *edges_ns;
    size_t edges;
};

/* Add values of segments to the sums of the intervals that they overlap, (rows, edges + 1), the first and the last
 * being all the time before and after. `row` says to which sums each is added; NULL: there are one for all. Returns
 * false at a row that is none. */
bool tprof_engine_spread(const struct tprof_engine_course *course, const double *values, const int32_t *row,
                         size_t rows, double *sums);

/* Set energies, (count,), to values times the rates, (edges + 1,), of the intervals that segments overlap. */
void tprof_engine_gather(const struct tprof_engine_course *course, const double *values, const double *rates,
                         double *energies);

/* The first and the last interval in which an instance ran, by numbers from 1, 0 as long as it ran in none: its joules
 * in each, and the most that any could have there; and 1 if it ran in one whose joules are known. Mirrored by WIDTH of
 * attribution/instance_bounds.py. */
struct tprof_engine_edges {
    double first, last, first_j, last_j, first_most_j, last_most_j, is_covered;
};

/* Whose a segment is, and where an owner's joules are added: those of no owner first. */
struct tprof_engine_owners {
    const int32_t *slot; /* of each segment, less than `rows` */
    size_t rows;
    double *energy_j; /* (rows,) */
    struct tprof_engine_edges *edges; /* (rows - 1,) of those behind the first; NULL: not wanted */
    const int32_t *number; /* (edges + 1,) of each interval, from 0; -1: it does not count */
    const double *most_j;  /* (edges + 1,) joules; -1: not known */
};

/* Add values times rates to the energies of owners. Returns false at a slot that is none. */
bool tprof_engine_share(const struct tprof_engine_course *course, const double *values, const double *rates,
                        const struct tprof_engine_owners *owners);

/* Add to `running`, (edges + 2,), 1 where a segment with an owner begins, and -1 after where it ends: its sums say
 * how many run in each interval. */
void tprof_engine_count_running(const struct tprof_engine_course *course, const int32_t *slot, int64_t *running);

#endif
