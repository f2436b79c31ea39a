/* Calls of MPI that are instances of a task: one for each function. The calls of libraries such as mpi4py's and PETSc's are
 * led through stubs (redirection.c, call_stubs.c), which come here before and after the function. */
#ifndef TPROF_MPI_CALLS_H
#define TPROF_MPI_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tprof_mpi_function {
    const char *name; /* such as MPI_Send, which stands for PMPI_Send too */
    uint32_t task;
};

/* Let these functions be tasks from now on, sorted by name; the table is kept. */
void tprof_mpi_follow(const struct tprof_mpi_function *table, size_t count);
bool tprof_mpi_is_followed(void);
/* The task of the function with this name, TPROF_NO_TASK: none. */
uint32_t tprof_mpi_task(const char *name);

/* Called by stubs: as tprof_call_enter; returns whether the call with this frame was entered, and ends it. */
intptr_t tprof_mpi_enter(uint32_t task, uintptr_t frame);
bool tprof_mpi_leave(uintptr_t frame);

/* This thread may not hold Python's lock: it joins a recording without its name. */
extern _Thread_local bool tprof_is_detached;

#endif
