"""A compiled library with some functions of MPI, and one that calls them as extensions built with it do."""

import ctypes
from pathlib import Path

from . import pthreads

MPI = r"""
#include <setjmp.h>
#include <stdint.h>
#include <unistd.h>

int MPI_Send(int64_t a)
{
    return (int)a + 1;
}

int MPI_Comm_rank(int64_t a)
{
    return (int)a;
}

/* The longest: each argument counts. */
int MPI_Rget_accumulate(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f, int64_t g, int64_t h,
                        int64_t i, int64_t j, int64_t k, int64_t l, int64_t m)
{
    const int64_t all[] = {a, b, c, d, e, f, g, h, i, j, k, l, m};
    int64_t sum = 0;
    for (int at = 0; at < 13; at++)
        sum = sum * 3 + all[at];
    return (int)(sum % 1000003);
}

int PMPI_Wait(int64_t us)
{
    usleep((useconds_t)us);
    return 0;
}

int MPI_Allreduce(void (*what)(void))
{
    what();
    return 0;
}

int MPI_Allreduce_c(void (*what)(void))
{
    return MPI_Allreduce(what);
}

int MPI_Barrier(jmp_buf back)
{
    longjmp(back, 1);
}
"""

TOOL = r"""
#include <stdint.h>
int PMPI_Wait(int64_t us);
int MPI_Wait(int64_t us)
{
    return PMPI_Wait(us);
}
"""

CALLER = r"""
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stddef.h>

int MPI_Send(int64_t a);
int MPI_Comm_rank(int64_t a);
int MPI_Rget_accumulate(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f, int64_t g, int64_t h,
                        int64_t i, int64_t j, int64_t k, int64_t l, int64_t m);
int MPI_Wait(int64_t us);
int MPI_Allreduce(void (*what)(void));
int MPI_Allreduce_c(void (*what)(void));
int MPI_Barrier(jmp_buf back);
int MPI_Bcast(void) __attribute__((weak)); /* no library has it */

int send(int64_t a)
{
    return MPI_Send(a);
}

int ask(int64_t a)
{
    return MPI_Comm_rank(a) + (MPI_Bcast != NULL);
}

int longest(void)
{
    return MPI_Rget_accumulate(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13);
}

int wait_for(int64_t us)
{
    return MPI_Wait(us);
}

int reduce(void (*what)(void))
{
    return MPI_Allreduce(what) + MPI_Allreduce_c(what);
}

int jump_out(int count)
{
    volatile int jumped = 0;
    for (volatile int i = 0; i < count; i++) {
        jmp_buf back;
        if (setjmp(back) == 0)
            MPI_Barrier(back);
        else
            jumped++;
    }
    return jumped;
}

static void *send_in_thread(void *sent)
{
    *(int *)sent = MPI_Send(41);
    return NULL;
}

int send_in_new_thread(void)
{
    pthread_t thread;
    int sent = 0;
    pthread_create(&thread, NULL, send_in_thread, &sent);
    pthread_join(thread, NULL);
    return sent;
}
"""

LONGEST = 0
for _number in range(1, 14):
    LONGEST = LONGEST * 3 + _number
LONGEST %= 1000003


def build(folder: Path, *flags: str) -> Path:
    """Compile all; returns the path of the one that calls."""
    for name in ("mpi", "tool", "caller"):
        (folder / name).mkdir()
    mpi = pthreads.build(folder / "mpi", source=MPI)
    tool = pthreads.build(folder / "tool", "-Wl,--no-as-needed", str(mpi), source=TOOL)
    return pthreads.build(folder / "caller", "-Wl,--no-as-needed", str(tool), str(mpi), *flags, source=CALLER)


def open_caller(path: str) -> ctypes.CDLL:
    """Load the library that calls."""
    library = ctypes.CDLL(path)
    for name in ("send", "ask", "wait_for"):
        getattr(library, name).argtypes = [ctypes.c_int64]
    return library
