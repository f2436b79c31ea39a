"""A compiled library that looks like OpenBLAS and like LLVM's OpenMP, and one that calls its functions."""

import ctypes
from pathlib import Path

from . import pthreads

POOL = r"""
#include <complex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

struct large { int64_t words[9]; };

int openblas_get_num_threads(void)
{
    return 1;
}

void nothing(void)
{
}

void burn(uint64_t ns)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t until = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + ns;
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec < until);
}

double many(int64_t a, double b, int64_t c, double d, int64_t e, double f, int64_t g, double h, int64_t i, double j,
            int64_t k, double l, int64_t m, double n, int64_t o, double p, int64_t q, double r, int64_t s, double t,
            char u, float v, short w, struct large x, int64_t y, double z)
{
    double sum = 0;
    for (int place = 0; place < 9; place++)
        sum = sum * 3 + (double)x.words[place];
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k + 12 * l + 13 * m +
           14 * n + 15 * o + 16 * p + 17 * q + 18 * r + 19 * s + 20 * t + 21 * u + 22 * v + 23 * w + 24 * y +
           25 * z + sum;
}

struct large filled(int64_t first)
{
    struct large made;
    for (int place = 0; place < 9; place++)
        made.words[place] = first * place;
    return made;
}

double complex turned(double complex one)
{
    return one * I;
}

long double extended(long double one)
{
    return one / 3;
}

__int128 wide(__int128 one)
{
    return one * one;
}

int64_t __kmpc_fork_call(void *place, int count, void *routine, ...)
{
    va_list values;
    int64_t sum = 0;
    (void)place;
    (void)routine;
    va_start(values, routine);
    for (int i = 0; i < count; i++)
        sum = sum * 31 % 1000003 + va_arg(values, int64_t);
    va_end(values);
    return sum;
}

void jump(jmp_buf back)
{
    longjmp(back, 1);
}

void end_thread(void)
{
    pthread_exit(NULL);
}

void twice(void (*what)(void))
{
    what();
    what();
}
"""

CALLER = r"""
#include <complex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

struct large { int64_t words[9]; };

void nothing(void);
void burn(uint64_t ns);
double many(int64_t a, double b, int64_t c, double d, int64_t e, double f, int64_t g, double h, int64_t i, double j,
            int64_t k, double l, int64_t m, double n, int64_t o, double p, int64_t q, double r, int64_t s, double t,
            char u, float v, short w, struct large x, int64_t y, double z);
struct large filled(int64_t first);
double complex turned(double complex one);
long double extended(long double one);
__int128 wide(__int128 one);
int64_t __kmpc_fork_call(void *place, int count, void *routine, ...);
void jump(jmp_buf back);
void end_thread(void);
void twice(void (*what)(void));

/* A function's address in data, as a table of functions has it. */
void (*const table[])(void) = {nothing};

/* Returns how many results are right. */
int right(void)
{
    const struct large x = {{1, 2, 3, 4, 5, 6, 7, 8, 9}}, made = filled(7);
    int sum = many(1, .5, 2, .25, 3, 1.5, 4, 2.5, 5, 3.5, 6, 4.5, 7, 5.5, 8, 6.5, 9, 7.5, 10, 8.5, 'a', 9.5f, -3, x, 11,
                   10.5) == 18781.5;
    sum += made.words[1] == 7 && made.words[8] == 56;
    sum += turned(1 + 2 * I) == -2 + I;
    sum += extended(1.0L) == 1.0L / 3;
    sum += wide((__int128)1 << 60) == (__int128)1 << 120;
    int64_t expected = 0;
    for (int64_t i = 1; i <= 20; i++)
        expected = expected * 31 % 1000003 + i;
    sum += __kmpc_fork_call(NULL, 20, NULL, (int64_t)1, (int64_t)2, (int64_t)3, (int64_t)4, (int64_t)5, (int64_t)6,
                            (int64_t)7, (int64_t)8, (int64_t)9, (int64_t)10, (int64_t)11, (int64_t)12, (int64_t)13,
                            (int64_t)14, (int64_t)15, (int64_t)16, (int64_t)17, (int64_t)18, (int64_t)19,
                            (int64_t)20) == expected;
    sum += __kmpc_fork_call(NULL, 0, NULL) == 0;
    return sum;
}

void call_burn(uint64_t ns)
{
    burn(ns);
}

void call_often(int count)
{
    for (int i = 0; i < count; i++)
        nothing();
}

void call_through_table(void)
{
    table[0]();
}

static void burn_a_little(void)
{
    burn(1000000);
}

void call_twice(void)
{
    twice(burn_a_little);
}

int jump_out(int count)
{
    volatile int jumped = 0;
    for (volatile int i = 0; i < count; i++) {
        jmp_buf back;
        if (setjmp(back) == 0)
            jump(back);
        else
            jumped++;
    }
    return jumped;
}

static void note(void *done)
{
    *(int *)done += 1;
}

static void *run_and_end(void *done)
{
    pthread_cleanup_push(note, done);
    end_thread();
    pthread_cleanup_pop(0);
    return NULL;
}

/* A thread whose stack is unwound from inside a call; returns how many handlers ran. */
int end_inside(void)
{
    pthread_t thread;
    int done = 0;
    if (pthread_create(&thread, NULL, run_and_end, &done) != 0)
        return -1;
    pthread_join(thread, NULL);
    return done;
}

static void *call_in_thread(void *count)
{
    call_often((int)(intptr_t)count);
    burn(1000000);
    return NULL;
}

void call_in_threads(int threads, int count)
{
    pthread_t made[64];
    for (int i = 0; i < threads; i++)
        pthread_create(&made[i], NULL, call_in_thread, (void *)(intptr_t)count);
    for (int i = 0; i < threads; i++)
        pthread_join(made[i], NULL);
}

static pid_t child;

static void fork_and_end(void)
{
    if (child == 0 && (child = fork()) == 0) {
        call_often(10);
        _exit(right());
    }
}

/* Fork inside a call; returns what the child found to be right. */
int fork_inside(void)
{
    int status = 0;
    child = 0;
    twice(fork_and_end);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
"""

RIGHT = 7


def build(folder: Path, *flags: str) -> Path:
    """Compile both; returns the path of the one that calls."""
    for name in ("pool", "caller"):
        (folder / name).mkdir(exist_ok=True)
    pool = pthreads.build(folder / "pool", source=POOL)
    return pthreads.build(folder / "caller", "-Wl,--no-as-needed", str(pool), *flags, source=CALLER)


def open_caller(path: Path) -> ctypes.CDLL:
    """Load the library that calls; its `pool` is the path of the other one."""
    library = ctypes.CDLL(str(path))
    library.pool = str(path.parent.parent / "pool" / path.name)
    library.call_burn.argtypes = [ctypes.c_uint64]
    return library
