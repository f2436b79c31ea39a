/* The calls with which a thread gives work to the pool of a library: which thread, when, and in which task. The calls of
 * other libraries are led through stubs (redirection.c, call_stubs.c), which come here before and after the function.
 * Those of MPI are led on to mpi_calls.c. */
#ifndef TPROF_CALLS_H
#define TPROF_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define TPROF_CALL_STUBS 4096
/* Instead of the words of arguments to copy: the stub jumps on, nothing is noted. */
#define TPROF_CALL_DIRECT (-1)

#if defined(__x86_64__) || defined(__aarch64__)
#define TPROF_CALLS_ARE_NOTED 1
#else
#define TPROF_CALLS_ARE_NOTED 0
#endif

enum tprof_call_kind {
    TPROF_CALL_OF_POOL,
    TPROF_CALL_OF_POOL_COUNTED, /* its second argument says how many more follow the third */
    TPROF_CALL_OF_MPI,
};

/* The function that a stub stands in for; call_stubs.c knows the layout. */
struct tprof_call_target {
    uintptr_t function;
    uint32_t number; /* of a pool: of its library in libraries.c; of MPI: of its task */
    uint32_t kind;
};

/* One call, or several of a thread in the same task within a few milliseconds. */
struct tprof_calls {
    uint64_t begin_ns, end_ns; /* of the first, of the last */
    uint64_t inside_ns; /* in all of them */
    uint32_t library, task; /* TPROF_NO_TASK: none */
    bool several_tasks; /* there was no place to keep the calls of several tasks apart */
};

typedef void tprof_calls_visitor(const struct tprof_calls *calls, pid_t tid);

/* The address to call instead of a function, or 0: there is none left. Called by one thread at a time. */
uintptr_t tprof_call_stub(uintptr_t function, uint32_t number, enum tprof_call_kind kind);
bool tprof_is_call_stub(uintptr_t address);
/* The library at these addresses is gone. */
void tprof_call_stubs_drop(uintptr_t start, uintptr_t end);

/* Note calls from now on, or no more. Called while nobody takes any. */
void tprof_calls_note(bool on);
/* From now on a stub of MPI does not only jump on. */
void tprof_calls_follow_mpi(void);
/* Show what has been noted since the last time, also of calls that go on; `all`: also the latest of each thread, with
 * which its next one may yet be put together. Returns whether calls of some thread were missed. One thread at a time. */
bool tprof_calls_take(bool all, tprof_calls_visitor *visit);
/* The calling thread ends. */
void tprof_calls_leave_thread(void);
void tprof_calls_after_fork_in_child(void);

#endif
