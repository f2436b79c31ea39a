/* The libraries and the calls of their functions, in the file of a process's native threads. */
#ifndef TPROF_NATIVE_CALLS_H
#define TPROF_NATIVE_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "libraries.h"

/* Write a library's path, once in this recording. */
void tprof_native_write_path(struct tprof_library *library, uint64_t current, uint64_t t_ns);
/* Write since when calls are known, which were noted since the last time, and whether some were missed. */
void tprof_native_write_calls(uint64_t current, uint64_t began_ns, bool all);

#endif
