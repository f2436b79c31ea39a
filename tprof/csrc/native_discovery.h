/* Which threads are followed: those that are created or listed and record no samples. Called under the lock of the
 * followers; the locks of births, libraries and recorder may be taken. */
#ifndef TPROF_NATIVE_DISCOVERY_H
#define TPROF_NATIVE_DISCOVERY_H

#include <stdbool.h>
#include <stdint.h>

/* Another recording begins. */
void tprof_discovery_begin(void);
/* Threads whose creation was seen. */
void tprof_discovery_take_births(void);
/* Threads that record samples now are no longer followed; those with a birth say so there. */
void tprof_discovery_leave_sampled(uint64_t now_ns);
/* Nor are tprof's own: on a busy machine another thread may find one before it got a processor to say what it is. */
void tprof_discovery_leave_own(uint64_t now_ns);
/* Find threads that nobody announced, and those that are gone, if the number of threads differs from what is known or
 * the list is known to be wrong. */
void tprof_discovery_list_if_changed(uint64_t now_ns);

/* The calling thread is the sensor thread; none of ours is followed. */
void tprof_discovery_is_reader(void);
/* The calling thread is tprof's own, or no more; any thread calls it, without the lock. */
void tprof_discovery_leave_out(bool begins);
void tprof_discovery_forget(void);

#endif
