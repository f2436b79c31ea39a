/* The threads of this process that record no samples, such as those of a library's pool: their CPU clocks, read every
 * few milliseconds by the sensor thread, and who created them. One file for each process (tprof/trace/native.py). */
#ifndef TPROF_NATIVE_THREADS_H
#define TPROF_NATIVE_THREADS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Begin and end the file in this session directory. Called while the sensor thread does not run. Begin returns 0 or
 * errno; the end reads all clocks once more. */
int tprof_native_begin(const char *directory, uint32_t process);
void tprof_native_end(void);
bool tprof_native_runs(void);

/* Called by the sensor thread: read the clocks if it is time, and return when to call again. */
uint64_t tprof_native_poll(uint64_t now_ns);
/* CPU time that the polls took since the file was begun. */
uint64_t tprof_native_taken_ns(void);

/* The calling thread is tprof's own, and not to be followed until its end, of which it says so too. */
void tprof_native_leave_out(bool begins);
/* For a forked child: its parent goes on with the file. */
void tprof_native_forget(void);

#endif
