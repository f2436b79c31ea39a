/* Enter and leave are called by any thread of the program, from a stub, with or without Python's lock: mpi4py releases
 * it. A call inside another one is a part of it, such as a tool's call of PMPI_Send for MPI_Send, unless a task has
 * begun in between: a reduction may call a function of the program.
 *
 * A call that does not return, but is left by a jump, stays open until the thread's next call that has its frame no
 * deeper in the stack. */
#include "mpi_calls.h"

#include <string.h>

#include "calls.h"
#include "recorder.h"

#define MOST_DEPTH 8
/* Behind those in registers; the longest, MPI_Rget_accumulate, has 13 arguments. */
#define WORDS 8

struct open_call {
    uintptr_t frame;
    struct tprof_frame entered;
};

_Thread_local bool tprof_is_detached;

static const struct tprof_mpi_function *functions; /* NULL: MPI is not followed */
static size_t function_count;
static _Thread_local struct open_call calls[MOST_DEPTH];
static _Thread_local uint32_t depth;

void tprof_mpi_follow(const struct tprof_mpi_function *table, size_t count)
{
    function_count = count;
    __atomic_store_n(&functions, table, __ATOMIC_RELEASE);
}

bool tprof_mpi_is_followed(void)
{
    return __atomic_load_n(&functions, __ATOMIC_ACQUIRE) != NULL;
}

uint32_t tprof_mpi_task(const char *name)
{
    const struct tprof_mpi_function *const table = __atomic_load_n(&functions, __ATOMIC_ACQUIRE);
    size_t low = 0, high = function_count;
    if (name[0] == 'P')
        name++;
    if (table == NULL || strncmp(name, "MPI_", 4) != 0)
        return TPROF_NO_TASK;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const int order = strcmp(name, table[middle].name);
        if (order == 0)
            return table[middle].task;
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return TPROF_NO_TASK;
}

static bool runs(const struct tprof_frame *frame)
{
    return tprof_frame_holds(frame) && frame->thread->instance == frame->instance;
}

static void drop_left(uintptr_t frame)
{
    while (depth > 0 && calls[depth - 1].frame <= frame) {
        depth--;
        if (runs(&calls[depth].entered))
            tprof_leave(&calls[depth].entered, TPROF_FINISH, TPROF_FAILED);
    }
}

intptr_t tprof_mpi_enter(uint32_t task, uintptr_t frame)
{
    if (!tprof_recording())
        return TPROF_CALL_DIRECT;
    drop_left(frame);
    if (depth == MOST_DEPTH || (depth > 0 && runs(&calls[depth - 1].entered)))
        return TPROF_CALL_DIRECT;
    tprof_is_detached = true;
    const bool entered = tprof_enter(&calls[depth].entered, task, 0, TPROF_START);
    tprof_is_detached = false;
    if (!entered)
        return TPROF_CALL_DIRECT;
    calls[depth++].frame = frame;
    return WORDS;
}

bool tprof_mpi_leave(uintptr_t frame)
{
    if (depth == 0 || calls[depth - 1].frame != frame)
        return false;
    depth--;
    tprof_leave(&calls[depth].entered, TPROF_FINISH, 0);
    return true;
}
