/* The session's counters on threads that record no samples, as far as the kernel, descriptors and time permit. Called
 * under the lock of the followers. */
#ifndef TPROF_NATIVE_COUNTERS_H
#define TPROF_NATIVE_COUNTERS_H

#include "native_followers.h"

/* What a recording counts; NULL or no groups: nothing. It is copied. */
void tprof_native_count(const struct tprof_counted *counted);

/* Around one reading of all threads, which the sensor thread does. In between counters are opened and read, if it is
 * time; what that takes decides when it is time again. The last time of a recording those that are open are read. */
void tprof_native_counting_begin(uint64_t now_ns, bool is_last);
void tprof_native_counting_end(uint64_t now_ns);

/* The thread has used CPU time: open its counters, if it has none and may have some. Returns whether they were opened;
 * they are 0 now. */
bool tprof_native_open_counters(struct tprof_follower *one);
/* Write the counts, which belong to the clock that was read at `t_ns`. */
void tprof_native_write_counts(struct tprof_follower *one, uint64_t t_ns);
/* The same of a thread that has ended, whenever that is. */
void tprof_native_write_last_counts(struct tprof_follower *one, uint64_t t_ns);
void tprof_native_uncount(struct tprof_follower *one);

#endif
