"""A compiled library whose functions create threads of C, as a library's pool does."""

import ctypes
import shutil
import subprocess
import time
from pathlib import Path

import pytest

SOURCE = r"""
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void burn(uint64_t ns)
{
    const uint64_t until = cpu_ns() + ns;
    while (cpu_ns() < until)
        ;
}

struct order { uint64_t ns, used_ns; long tid; };

static void *work(void *argument)
{
    struct order *order = argument;
    order->tid = syscall(SYS_gettid);
    prctl(PR_SET_NAME, "worker");
    burn(order->ns);
    order->used_ns = cpu_ns();
    return (void *)(intptr_t)order->tid;
}

static uint64_t last_used_ns;

/* What the last such thread used by its own clock. */
uint64_t one_used_ns(void) { return last_used_ns; }

/* One thread that uses so much CPU time, or more while others keep it from looking; returns its number. */
long one(uint64_t ns)
{
    struct order order = {ns, 0, 0};
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, work, &order) != 0)
        return -1;
    pthread_join(thread, &result);
    last_used_ns = order.used_ns;
    return (long)(intptr_t)result;
}

/* A pool that sleeps until there is work. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ordered = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static uint64_t order_ns, round_number;
static int open_count;
static long tids[64];
static uint64_t used_ns[64];

static void *serve(void *place)
{
    uint64_t served = 0;
    pthread_mutex_lock(&lock);
    tids[(intptr_t)place] = syscall(SYS_gettid);
    for (;;) {
        used_ns[(intptr_t)place] = cpu_ns();
        open_count--;
        pthread_cond_broadcast(&done);
        while (served == round_number)
            pthread_cond_wait(&ordered, &lock);
        served = round_number;
        const uint64_t ns = order_ns;
        pthread_mutex_unlock(&lock);
        if (ns == 0)
            return NULL;
        burn(ns);
        pthread_mutex_lock(&lock);
    }
}

static int pool_size;
static pthread_t pool[64];

static void await_all(void)
{
    while (open_count > 0)
        pthread_cond_wait(&done, &lock);
}

int pool_begin(int size)
{
    pthread_mutex_lock(&lock);
    open_count = pool_size = size;
    round_number = 0;
    for (intptr_t i = 0; i < size; i++)
        if (pthread_create(&pool[i], NULL, serve, (void *)i) != 0)
            return -1;
    await_all();
    pthread_mutex_unlock(&lock);
    return 0;
}

void pool_work(uint64_t ns)
{
    pthread_mutex_lock(&lock);
    order_ns = ns;
    open_count = ns != 0 ? pool_size : 0;
    round_number++;
    pthread_cond_broadcast(&ordered);
    await_all();
    pthread_mutex_unlock(&lock);
    if (ns == 0)
        for (int i = 0; i < pool_size; i++)
            pthread_join(pool[i], NULL);
}

long pool_tid(int i) { return tids[i]; }

/* What the thread had used by its own clock when it was done. */
uint64_t pool_used_ns(int i) { return used_ns[i]; }

/* What a program may ask of pthread_create; each returns 0 if all is as without tprof. */
static pthread_key_t key;
static int cleaned, destroyed;

static void clean(void *unused) { (void)unused; cleaned++; }
static void destroy(void *unused) { (void)unused; destroyed++; }

static void *wait_for_ever(void *unused)
{
    pthread_setspecific(key, &key);
    pthread_cleanup_push(clean, NULL);
    for (;;)
        pause();
    pthread_cleanup_pop(0);
    return unused;
}

int cancelled(void)
{
    pthread_t thread;
    void *result;
    cleaned = destroyed = 0;
    pthread_key_create(&key, destroy);
    if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0)
        return 1;
    pthread_cancel(thread);
    pthread_join(thread, &result);
    pthread_key_delete(key);
    return result == PTHREAD_CANCELED ? 0 : 2;
}

/* How often the thread cleaned up, and destroyed its value. */
int cleaned_up(void) { return 10 * cleaned + destroyed; }

static void *leave(void *unused)
{
    (void)unused;
    pthread_exit((void *)42);
}

int left(void)
{
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, leave, NULL) != 0)
        return 1;
    pthread_join(thread, &result);
    return result == (void *)42 ? 0 : 2;
}

static void *measure(void *bytes)
{
    pthread_attr_t attributes;
    size_t size;
    int state;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstacksize(&attributes, &size);
    pthread_attr_getdetachstate(&attributes, &state);
    pthread_attr_destroy(&attributes);
    return (void *)(intptr_t)(size >= (size_t)(intptr_t)bytes && state == PTHREAD_CREATE_JOINABLE ? 0 : 1);
}

int with_stack(size_t bytes)
{
    pthread_attr_t attributes;
    pthread_t thread;
    void *result;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, bytes);
    if (pthread_create(&thread, &attributes, measure, (void *)(intptr_t)bytes) != 0)
        return 1;
    pthread_attr_destroy(&attributes);
    pthread_join(thread, &result);
    return (int)(intptr_t)result;
}

/* A stack larger than all memory: the error and errno are the system's. */
int refused(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)1 << 46);
    errno = 123;
    const int error = pthread_create(&thread, &attributes, leave, NULL);
    pthread_attr_destroy(&attributes);
    return error == EAGAIN || error == ENOMEM ? 0 : error + 1000;
}

/* Threads one after another, each detached and short. */
static volatile int running;

static void *pass(void *ns)
{
    burn((uint64_t)(intptr_t)ns);
    __atomic_sub_fetch(&running, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

int churn(int count, uint64_t ns)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < count; i++) {
        __atomic_add_fetch(&running, 1, __ATOMIC_SEQ_CST);
        while (pthread_create(&thread, &attributes, pass, (void *)(intptr_t)ns) != 0)
            sched_yield();
        while (__atomic_load_n(&running, __ATOMIC_SEQ_CST) > 4)
            sched_yield();
    }
    while (__atomic_load_n(&running, __ATOMIC_SEQ_CST) > 0)
        sched_yield();
    pthread_attr_destroy(&attributes);
    return 0;
}
"""


def build(folder: Path, *flags: str, source: str = SOURCE) -> Path:
    """Compile the library, or one of another source, into this folder."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) to build a library with threads")
    text, library = folder / "threads.c", folder / "libthreads.so"
    text.write_text(source, encoding="utf-8")
    words = [compiler, "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", "-Wall", "-Werror", *flags, "-pthread"]
    subprocess.run([*words, "-o", library, text], check=True, timeout=120)
    return library


def open_library(path: Path) -> ctypes.CDLL:
    """Load the library, with the types of its functions."""
    library = ctypes.CDLL(str(path))
    library.one.argtypes = [ctypes.c_uint64]
    library.one.restype = library.pool_tid.restype = ctypes.c_long
    library.one_used_ns.restype = library.pool_used_ns.restype = ctypes.c_uint64
    library.pool_work.argtypes = [ctypes.c_uint64]
    library.churn.argtypes = [ctypes.c_int, ctypes.c_uint64]
    library.with_stack.argtypes = [ctypes.c_size_t]
    return library


def wait_until(holds, deadline_s: float = 60) -> None:
    """Wait for an event."""
    end_s = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.002)
