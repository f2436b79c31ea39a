/* Loops that number the instances of samples, and fill a row for each. As in loops.h they are called from any thread and
 * without the interpreter's lock, and no array overlaps one that is written. */
#ifndef TPROF_INSTANCES_H
#define TPROF_INSTANCES_H

#include "loops.h"

/* Number the ids of instances, 0: none, of each thread after those of the threads before, from 1 on: an id by its distance
 * from the least one of its thread. The slot of a sample without an id, and of what lies between threads, is 0. Returns how
 * many numbers there are; -1 if a place is none, -2 if there would be more than `most`. */
int64_t tprof_instances_number(const uint64_t *ids, const struct tprof_loops_threads *threads, uint64_t most,
                               int32_t *slots);

/* Columns of samples; `t_ns`, where their segments begin, has one place more, the last end. */
struct tprof_instances_samples {
    const uint64_t *instance;
    const uint32_t *task;
    const uint16_t *cpu;
    const uint8_t *kind;
    const uint8_t *flags;
    const int64_t *t_ns;
};

/* By slot: the place of its first sample, -1 before, and what InstanceRows has; `failed` and `ended` are false before. */
struct tprof_instances_rows {
    int64_t *first;
    uint64_t *instance;
    uint64_t *parent;
    uint32_t *task;
    uint16_t *cpu;
    int64_t *start_ns;
    int64_t *end_ns;
    int64_t *last_ns;
    bool *begun;
    bool *failed;
    bool *ended;
};

/* Fill the rows of slots that samples have. A sample that says that an instance began has its parent before it; one that
 * says that an instance finished names the next one, so it ends the slot of the sample before it. Returns false at a key
 * that is no group. */
bool tprof_instances_fill(const struct tprof_loops_keys *slots, const struct tprof_instances_samples *samples,
                          const struct tprof_instances_rows *rows);

/* Set found[] to the places of keys whose groups are members, in their order; there is room for all keys. Returns how many
 * there are, -1 at a key that is no group. */
int64_t tprof_instances_find_members(const struct tprof_loops_keys *slots, const bool *is_member, int64_t *found);

#endif
