/* The fork handlers run in the forking thread, without Python. No thread holds two of the locks at once, but those of
 * native threads first and another inside, so the order in which a fork takes the others is free. */
#include "process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "births.h"
#include "calls.h"
#include "definitions.h"
#include "libraries.h"
#include "native_threads.h"
#include "recorder.h"
#include "sensor_thread.h"
#include "signals.h"
#include "suspended.h"

static void (*_Atomic take_runtimes_lock)(void);
static void (*_Atomic release_runtimes_lock)(void);
static int initialise_error;

static void before_fork(void)
{
    void (*take)(void) = atomic_load(&take_runtimes_lock);
    if (take != NULL)
        take();
    tprof_native_before_fork();
    tprof_definitions_before_fork();
    tprof_recorder_before_fork();
    tprof_libraries_before_fork();
}

static void release_runtime(void)
{
    void (*release)(void) = atomic_load(&release_runtimes_lock);
    if (release != NULL)
        release();
}

static void after_fork_in_parent(void)
{
    tprof_libraries_after_fork();
    tprof_recorder_after_fork_in_parent();
    tprof_definitions_after_fork_in_parent();
    tprof_native_after_fork();
    release_runtime();
}

static void after_fork_in_child(void)
{
    tprof_libraries_after_fork();
    tprof_births_after_fork_in_child();
    tprof_calls_after_fork_in_child();
    tprof_native_forget();
    tprof_native_after_fork();
    tprof_recorder_after_fork_in_child();
    tprof_definitions_after_fork_in_child();
    tprof_sensors_forget();
    tprof_signals_forget();
    tprof_suspended_forget();
    release_runtime();
}

static void initialise(void)
{
    initialise_error = tprof_recorder_initialise();
    if (initialise_error == 0)
        initialise_error = tprof_births_initialise();
    if (initialise_error == 0)
        initialise_error = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int tprof_process_initialise(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, initialise);
    return initialise_error;
}

void tprof_process_follow_forks(void (*take)(void), void (*release)(void))
{
    atomic_store(&release_runtimes_lock, release);
    atomic_store(&take_runtimes_lock, take);
}
