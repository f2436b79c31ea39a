/* The native thread that reads all sources on time, without Python's lock. */
#ifndef TPROF_SENSOR_THREAD_H
#define TPROF_SENSOR_THREAD_H

#include "source.h"

/* Takes over the array and what it points to; budget is the part of a core that looking closely may take. Returns once every energy source has been seen to change, or after
 * 20 ms. Returns 0 or errno. */
int tprof_sensors_start(struct tprof_source *sources, int count, double budget);

/* Wait for one more change of each energy source (20 ms at most), record a last reading each, end the thread.
 * Returns the CPU time the thread took, in ns. */
uint64_t tprof_sensors_stop(void);

/* In a forked child: the thread is not there. */
void tprof_sensors_forget(void);

#endif
