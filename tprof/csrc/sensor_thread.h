/* The native thread that reads all sources on time, and the clocks of native threads, without Python's lock. Only the
 * process that makes a session records sources; every recorded process may follow its native threads. */
#ifndef TPROF_SENSOR_THREAD_H
#define TPROF_SENSOR_THREAD_H

#include <sys/types.h>

#include "fast_clock.h"
#include "native_threads.h"
#include "polled_sources.h"

/* Takes ownership of the array and what it points to; `budget` is the part of a core that polling may use, and `clock`
 * is kept until the stop where the kernel takes its own time from the processor's counter. Waits until every energy
 * source has changed, 20 ms at most. Where the system refuses a thread, the sources are read once, and again at the
 * end. */
void tprof_sensors_start(struct tprof_source *sources, int count, double budget, struct tprof_fast_clock *clock);

/* How often the system refused to begin the thread since this start; after a fork it is tried again. */
uint32_t tprof_sensors_refused(void);

/* End the thread, wait for one more change of each energy source (20 ms at most), record a last reading each. Returns
 * the CPU time this took since the start, in ns. */
uint64_t tprof_sensors_stop(void);

/* Add an observer, which is read by `tprof_observer_read`; `budget` counts if the thread has nothing else to do. Returns
 * 0 or errno; it must leave in any case. In a forked child, leaving only frees. */
int tprof_sensors_observe(struct tprof_observer *observer, double budget);
void tprof_sensors_leave(struct tprof_observer *observer);

/* Follow this process's native threads in this session from now on, or no more. Returns 0 or errno. */
int tprof_sensors_follow(const struct tprof_native_setup *setup);
void tprof_sensors_unfollow(void);

bool tprof_sensors_run(void);

/* Around a fork the process has only the program's own threads: `pause` ends the sensor thread and waits until the
 * kernel does not count it, `resume` starts it again. Sensors count on meanwhile; a failure to start is ignored. Each
 * may be called at any time, more than once. */
void tprof_sensors_pause(void);
void tprof_sensors_resume(void);

/* Wait until the kernel does not count a thread any more, 20 ms at most: it does so for a while after the join. */
void tprof_await_thread_end(pid_t id);

/* For a forked child, which does not have the thread. */
void tprof_sensors_forget(void);

#endif
