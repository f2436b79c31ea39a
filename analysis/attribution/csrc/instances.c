/* Numbers and rows of instances. See instances.h. */
#include "instances.h"

#include <string.h>

/* tprof.trace.Kind */
#define START 1
#define FINISH 2
/* tprof.trace.Flag */
#define FAILED 1

int64_t tprof_instances_number(const uint64_t *ids, const struct tprof_loops_threads *threads, uint64_t most,
                               int32_t *slots)
{
    uint64_t numbers = 0;
    size_t done = 0;
    for (size_t thread = 0; thread < threads->threads; thread++) {
        const size_t begin = (size_t)threads->begin[thread], end = (size_t)threads->end[thread];
        if (begin < done || end < begin || end > threads->count)
            return -1;
        uint64_t before = UINT64_MAX, last = 0;
        for (size_t at = begin; at < end; at++) {
            /* No id wraps around to the largest number. */
            before = ids[at] - 1 < before ? ids[at] - 1 : before;
            last = ids[at] > last ? ids[at] : last;
        }
        if (last != 0 && last - before > most - numbers)
            return -2;
        memset(slots + done, 0, (begin - done) * sizeof *slots);
        for (size_t at = begin; at < end; at++)
            slots[at] = ids[at] == 0 ? 0 : (int32_t)(numbers + (ids[at] - before));
        numbers += last == 0 ? 0 : last - before;
        done = end;
    }
    memset(slots + done, 0, (threads->count - done) * sizeof *slots);
    return (int64_t)numbers;
}

bool tprof_instances_fill(const struct tprof_loops_keys *slots, const struct tprof_instances_samples *samples,
                          const struct tprof_instances_rows *rows)
{
    /* Copies that no store of a byte can change. */
    const struct tprof_instances_samples from = *samples;
    const struct tprof_instances_rows to = *rows;
    for (size_t at = 0; at < slots->count; at++) {
        const uint32_t slot = (uint32_t)slots->at[at];
        if (slot >= slots->groups)
            return false;
        if (to.first[slot] < 0) {
            const bool begins = from.kind[at] == START;
            to.first[slot] = (int64_t)at;
            to.instance[slot] = from.instance[at];
            to.parent[slot] = begins && at > 0 ? from.instance[at - 1] : 0;
            to.task[slot] = from.task[at];
            to.cpu[slot] = from.cpu[at];
            to.start_ns[slot] = from.t_ns[at];
            to.begun[slot] = begins;
        }
        to.last_ns[slot] = from.t_ns[at];
        to.end_ns[slot] = from.t_ns[at + 1];
        if (from.kind[at] == FINISH && at > 0) {
            const uint32_t before = (uint32_t)slots->at[at - 1];
            to.ended[before] = true;
            if (from.flags[at] & FAILED)
                to.failed[before] = true;
        }
    }
    return true;
}

int64_t tprof_instances_find_members(const struct tprof_loops_keys *slots, const bool *is_member, int64_t *found)
{
    int64_t count = 0;
    for (size_t at = 0; at < slots->count; at++) {
        const uint32_t slot = (uint32_t)slots->at[at];
        if (slot >= slots->groups)
            return -1;
        found[count] = (int64_t)at;
        count += is_member[slot];
    }
    return count;
}
