/* The threads of this process as the kernel shows them. Needs neither Python nor a lock. */
#ifndef TPROF_PROCESS_THREADS_H
#define TPROF_PROCESS_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TPROF_THREAD_NAME_BYTES 16

/* Their numbers, ascending, for the caller to free; none if /proc cannot be read. */
size_t tprof_thread_tids(pid_t **tids);
/* How many there are, at a fraction of the cost; 0: /proc cannot be read. */
size_t tprof_thread_count(void);
/* A thread's CPU time, and when it was read. False: there is no such thread any more. */
bool tprof_thread_clock(pid_t tid, uint64_t *cpu_ns, uint64_t *t_ns);
bool tprof_thread_name(pid_t tid, char name[TPROF_THREAD_NAME_BYTES]);

#endif
