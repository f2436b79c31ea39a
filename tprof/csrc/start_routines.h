/* In which function a thread began that nobody saw begin: found in the C library's record of the thread. */
#ifndef TPROF_START_ROUTINES_H
#define TPROF_START_ROUTINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tprof_start_routine {
    uintptr_t routine, argument;
};

/* Learn the form of that record from the calling thread, which began in this function. */
void tprof_start_routines_learn(uintptr_t routine);
enum tprof_search { TPROF_FOUND, TPROF_NOT_FOUND, TPROF_RUNS };

/* Only while the thread waits does the kernel show its stack. On a busy machine it may be able to run for long without
 * doing so. */
enum tprof_search tprof_start_routine_of(pid_t tid, struct tprof_start_routine *found);
/* Read this process's memory wherever it may be; returns the bytes that were there. */
size_t tprof_read_memory(uintptr_t from, void *to, size_t bytes);

#endif
