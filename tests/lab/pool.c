/* A library with a thread of its own, which computes beside its caller. Each of the two says to the processor what it runs
 * (a number of the module's table), and computes for so much of its own CPU time. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int kinds = -1, begun;
static int ordered_kind; /* 0: nothing to do */
static uint64_t ordered_ns;

static void declare(int kind)
{
    char text[12];
    const int length = snprintf(text, sizeof text, "%d", kind);
    (void)!pwrite(kinds, text, (size_t)length, 0);
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void compute(int kind, uint64_t ns)
{
    const uint64_t until = cpu_ns() + ns;
    declare(kind);
    do
        for (volatile int i = 0; i < 20000; i++)
            ;
    while (cpu_ns() < until);
    declare(0);
}

static void *serve(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (ordered_kind == 0)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        compute(ordered_kind, ordered_ns);
        pthread_mutex_lock(&lock);
        ordered_kind = 0;
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

/* Compute as one kind here and as another on the library's thread, and wait for it. Returns 0 or an error number. */
int pool_call(int own_kind, int pool_kind, uint64_t ns)
{
    pthread_t thread;
    if (!begun) {
        kinds = open("/sys/kernel/lab/kind", O_WRONLY | O_CLOEXEC);
        const int error = pthread_create(&thread, NULL, serve, NULL);
        if (error != 0)
            return error;
        begun = 1;
    }
    pthread_mutex_lock(&lock);
    ordered_ns = ns;
    ordered_kind = pool_kind;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    compute(own_kind, ns);
    pthread_mutex_lock(&lock);
    while (ordered_kind != 0)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return 0;
}
