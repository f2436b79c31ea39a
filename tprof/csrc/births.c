/* Called by any thread of the program inside its calls of pthread_create, and by the threads so created; no locks. The
 * memory of a birth is allocated where pthread_create itself allocates, never in a signal handler. */
#include "births.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "calls.h"
#include "clock.h"
#include "recorder.h"

static pthread_key_t end_key;
static uint64_t noted_recording;
static struct tprof_birth *births;

tprof_create_thread *tprof_births_genuine(void)
{
    static tprof_create_thread *genuine;
    tprof_create_thread *found = __atomic_load_n(&genuine, __ATOMIC_RELAXED);
    if (found == NULL) {
        *(void **)&found = dlsym(RTLD_DEFAULT, "pthread_create");
        __atomic_store_n(&genuine, found, __ATOMIC_RELAXED);
    }
    return found;
}

void tprof_birth_release(struct tprof_birth *birth)
{
    if (__atomic_sub_fetch(&birth->owners, 1, __ATOMIC_ACQ_REL) == 0)
        free(birth);
}

/* Called when the thread ends, also after pthread_exit or a cancellation. */
static void at_end(void *value)
{
    struct tprof_birth *birth = value;
    tprof_calls_leave_thread();
    birth->cpu_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    birth->ended_ns = tprof_now_ns();
    __atomic_store_n(&birth->ended, true, __ATOMIC_RELEASE);
    tprof_birth_release(birth);
}

void tprof_births_join(void)
{
    struct tprof_birth *birth = pthread_getspecific(end_key);
    if (birth == NULL || birth->joined)
        return;
    birth->joined_cpu_ns = tprof_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    birth->joined_ns = tprof_now_ns();
    __atomic_store_n(&birth->joined, true, __ATOMIC_RELEASE);
}

static void list(struct tprof_birth *birth)
{
    birth->next = __atomic_load_n(&births, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&births, &birth->next, birth, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

static void *begin(void *value)
{
    struct tprof_birth *birth = value;
    void *(*const routine)(void *) = birth->routine;
    void *const argument = birth->argument;
    birth->tid = (pid_t)syscall(SYS_gettid);
    if (pthread_setspecific(end_key, birth) != 0)
        birth->owners = 1; /* its end is found like that of any other thread */
    list(birth);
    return routine(argument);
}

static struct tprof_birth *note(void *(*routine)(void *), void *argument)
{
    const uint64_t recording = __atomic_load_n(&noted_recording, __ATOMIC_RELAXED);
    const int saved_errno = errno;
    struct tprof_birth *birth = recording != 0 ? malloc(sizeof *birth) : NULL;
    errno = saved_errno;
    if (birth == NULL)
        return NULL;
    *birth = (struct tprof_birth){
        .routine = routine,
        .argument = argument,
        .recording = recording,
        .created_ns = tprof_now_ns(),
        .task = TPROF_NO_TASK,
        .creator = (pid_t)syscall(SYS_gettid),
        .owners = 2,
    };
    const struct tprof_thread *creator = tprof_self;
    if (creator != NULL && creator->generation == __atomic_load_n(&tprof_generation, __ATOMIC_RELAXED)) {
        birth->instance = creator->instance;
        birth->task = creator->task;
    }
    return birth;
}

int tprof_births_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *), void *argument)
{
    tprof_create_thread *const genuine = tprof_births_genuine();
    struct tprof_birth *birth = note(routine, argument);
    if (birth == NULL)
        return genuine(thread, attributes, routine, argument);
    const int error = genuine(thread, attributes, begin, birth);
    if (error != 0)
        free(birth);
    return error;
}

void tprof_births_note(uint64_t recording)
{
    __atomic_store_n(&noted_recording, recording, __ATOMIC_RELAXED);
}

struct tprof_birth *tprof_births_take(void)
{
    struct tprof_birth *latest = __atomic_exchange_n(&births, NULL, __ATOMIC_ACQUIRE), *earliest = NULL;
    while (latest != NULL) {
        struct tprof_birth *next = latest->next;
        latest->next = earliest;
        earliest = latest;
        latest = next;
    }
    return earliest;
}

int tprof_births_initialise(void)
{
    return pthread_key_create(&end_key, at_end);
}

/* The parent takes those that are listed; what they occupy in the child is not worth the risk of freeing it. */
void tprof_births_after_fork_in_child(void)
{
    noted_recording = 0;
    births = NULL;
}
