/* The threads of this process that record no samples, such as those of a library's pool: their CPU clocks and counters,
 * read every few milliseconds by the sensor thread, and who created them. One file for each process
 * (tprof/trace/native.py). */
#ifndef TPROF_NATIVE_THREADS_H
#define TPROF_NATIVE_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "counters.h"

struct tprof_native_setup {
    const char *directory; /* of the session */
    uint32_t process;
    const char *description; /* of the file, with the columns of the counters */
    const struct tprof_counted *counted; /* on each thread; NULL: nothing */
};

/* Begin and end the file of this process. Called while the sensor thread does not run. Begin returns 0 or errno; the
 * end reads all clocks and counters once more. */
int tprof_native_begin(const struct tprof_native_setup *setup);
void tprof_native_end(void);
bool tprof_native_runs(void);

/* Called by the sensor thread: whether it is time to read the clocks, UINT64_MAX: never; read them; say what reading them
 * took, from waking on. What it takes decides how often they are read. */
uint64_t tprof_native_next_ns(void);
void tprof_native_poll(uint64_t now_ns);
void tprof_native_charge(uint64_t cpu_ns);

/* The loading of a library, between the two. */
struct tprof_native_load {
    uint64_t before_ns, recording;
    uint32_t first; /* number of a thread that appears next */
};

/* Around the loading of a library: threads that it creates meanwhile are the calling thread's. */
void tprof_native_before_load(struct tprof_native_load *load);
void tprof_native_after_load(const struct tprof_native_load *load);
/* Calls of MPI are tasks from now on (mpi_calls.c): redirect those of all libraries. */
void tprof_native_follow_mpi(void);
/* Let further functions lead to ours in all libraries. */
struct tprof_redirected;
void tprof_native_redirect(const struct tprof_redirected *functions, size_t count);
void tprof_native_forget_loads(void);
/* Around forks, called by process.c, before other locks are taken. */
void tprof_native_before_fork(void);
void tprof_native_after_fork(void);

/* The calling thread is tprof's own, and not to be followed until its end, of which it says so too. */
void tprof_native_leave_out(bool begins);
/* For a forked child: its parent goes on with the file. */
void tprof_native_forget(void);

#endif
