/* The native thread that reads all sources on time, without Python's lock. */
#ifndef TPROF_SENSOR_THREAD_H
#define TPROF_SENSOR_THREAD_H

#include <sys/types.h>

#include "source.h"

/* Takes over the array and what it points to; budget is the part of a core that looking closely may take. Returns once every energy source has been seen to change, or after
 * 20 ms. Returns 0 or errno. */
int tprof_sensors_start(struct tprof_source *sources, int count, double budget);

/* End the thread, wait for one more change of each energy source (20 ms at most), record a last reading each. Returns
 * the CPU time this took since the start, in ns. */
uint64_t tprof_sensors_stop(void);

bool tprof_sensors_run(void);

/* Around a fork, that the process has no thread that the program did not start: end the thread, so that the kernel
 * counts it no more, and start it again. Sensors count on meanwhile; a thread that cannot be started is not. Each may
 * be called at any time, more than once. */
void tprof_sensors_pause(void);
void tprof_sensors_resume(void);

/* Wait until the kernel counts a thread no more, 20 ms at most: it does for a while after the thread was joined. */
void tprof_await_thread_end(pid_t id);

/* In a forked child: the thread is not there. */
void tprof_sensors_forget(void);

#endif
