/* The files that are mapped as libraries, and the redirection of their calls of pthread_create to births.c, of what gives
 * work to a pool to calls.c, and of further functions. */
#ifndef TPROF_LIBRARIES_H
#define TPROF_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tprof_library {
    uintptr_t base, start, end; /* of its mapped segments */
    uintptr_t code_start, code_end;
    char *path;
    uint32_t number; /* never used again in this process */
    uint64_t written_in; /* of native_threads.c: the recording that knows its path */
    uint64_t noted_ns; /* since when calls of it are noted; 0: they are not */
    uint64_t told_in; /* of native_threads.c: the recording that knows of this */
    bool settled, seen, is_openblas, has_stubs;
};

/* Bring the list up to date if libraries came or went, and redirect the calls of new ones; cheap otherwise. All
 * of these are called by one thread at a time. */
void tprof_libraries_refresh(void);
/* The same when a library was loaded: the linker is done with it, whatever another thread saw meanwhile. */
void tprof_libraries_loaded(void);
/* Let the next refresh look at all libraries again, since more calls are redirected from now on. */
void tprof_libraries_unsettle(void);
/* The library at this address, or NULL; valid until the next refresh. */
struct tprof_library *tprof_library_at(uintptr_t address);
struct tprof_library *tprof_library_numbered(uint32_t number);
/* Go through all: the first behind NULL. */
struct tprof_library *tprof_library_next(const struct tprof_library *library);

/* Around forks, called by process.c: the C library's own lock must not be held by a thread that the child lacks. */
void tprof_libraries_before_fork(void);
void tprof_libraries_after_fork(void);

#endif
