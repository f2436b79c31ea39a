/* The increments of a sensor's count between two readings, or the fault that makes them invalid: the one rule of wraps,
 * falls, spikes and standstills. The sensor thread takes the live joules of a recording from here, and
 * tprof/trace/increments.py those of a profile, all readings in order. */
#ifndef TPROF_INCREMENTS_H
#define TPROF_INCREMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"

/* Least slack of one update, since a delayed reader may see two updates close together. */
#define TPROF_LATE_NS 1000000
/* Shortest standstill of a count that is a fault, in time and in usual updates. */
#define TPROF_STILL_NS 100000000
#define TPROF_USUAL_UPDATES 20
/* Updates for the median that defines the usual one. */
#define TPROF_HISTORY 31

enum tprof_fault {
    TPROF_NO_FAULT,
    TPROF_WAS_REOPENED,
    TPROF_SLEPT,
    TPROF_FELL,
    TPROF_AFTER_FALL,
    TPROF_STOOD_STILL,
    TPROF_SPIKE
};

/* What ends with a reading; tprof/trace/increments.py has it as a dtype. */
struct tprof_increment {
    int64_t t_ns;
    int64_t window_ns; /* longest time before `t_ns` since which the value may exist; 0: unknown */
    int64_t length_ns; /* since the one before */
    int64_t stood_ns; /* how long the count was seen to stand still in that time, at the value of its start */
    double energy_j; /* 0 after a fault */
    double uncertain_j; /* of an invalid rise */
    uint8_t fault, changed;
    uint8_t padding[6];
};

/* The count of one domain. Begin with all zero but the first four. */
struct tprof_count {
    double unit_j, limit_w; /* more watts are a fault; may be infinite */
    uint64_t modulus; /* the count wraps to 0 at this value; 0: not known */
    bool is_calculated; /* so that it may stand still */

    bool has_any, reopened;
    struct tprof_reading seen, kept; /* the last reading, and the last one that ended an increment */
    int64_t since_ns; /* since when the value of `kept` exists */
    uint64_t unordered; /* readings that were left out, since they are not later than the one before */

    /* The last valid count before a fault, to be dropped after so many more valid rises; 0: none. */
    uint32_t distrusted_for;
    bool distrusts_next_rise;
    uint64_t before_value;
    int64_t before_ns;

    double gaps_ns[TPROF_HISTORY], rises_j[TPROF_HISTORY]; /* of the latest valid updates */
    uint32_t learnt;
};

/* Take the next reading: one that failed or is not later than the one before is left out, and so is a value that still
 * stands. Returns whether an increment ended with it. The first reading ends one of length 0. */
bool tprof_count_take(struct tprof_count *count, const struct tprof_reading *reading, struct tprof_increment *ended);

/* End an increment with the last reading, if its value still stands for longer than `longest_ns`. */
bool tprof_count_still(struct tprof_count *count, double longest_ns, struct tprof_increment *ended);

#endif
