/* Who creates which thread: a pthread_create of our own, to which the calls of the program's libraries are redirected
 * (redirection.c). It notes the creating thread and the task that runs there, lets the new thread add its number, and lets
 * it read its CPU clock at its end. The program notices nothing: attributes, results and cancellation pass through. */
#ifndef TPROF_BIRTHS_H
#define TPROF_BIRTHS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A thread that has begun. It belongs to two: the thread, until its end, and whoever takes it from the list. */
struct tprof_birth {
    void *(*routine)(void *);
    void *argument;
    uint64_t recording, created_ns;
    uint64_t instance; /* that ran on the creating thread, 0: none */
    uint32_t task;
    pid_t creator, tid;
    bool ended, joined; /* each is released after its two fields below */
    uint64_t ended_ns, cpu_ns;
    uint64_t joined_ns, joined_cpu_ns; /* when it began to record samples */
    uint32_t owners;
    struct tprof_birth *next;
};

typedef int tprof_create_thread(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *),
                                void *argument);

/* The process's pthread_create, which may be that of a sanitizer or of another preloaded library; NULL: ours must not
 * stand in for it. */
tprof_create_thread *tprof_births_genuine(void);
int tprof_births_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *), void *argument);

/* Note births from now on, or no more (0). Births of another recording are dropped. */
void tprof_births_note(uint64_t recording);
/* Those since the last call, the earliest first; each is to be released. Called by one thread at a time. */
struct tprof_birth *tprof_births_take(void);
void tprof_birth_release(struct tprof_birth *birth);

static inline bool tprof_birth_ended(const struct tprof_birth *birth)
{
    return __atomic_load_n(&birth->ended, __ATOMIC_ACQUIRE);
}

static inline bool tprof_birth_joined(const struct tprof_birth *birth)
{
    return __atomic_load_n(&birth->joined, __ATOMIC_ACQUIRE);
}

/* The calling thread records samples from now on. */
void tprof_births_join(void);

/* Called once per process; returns 0 or errno. */
int tprof_births_initialise(void);
void tprof_births_after_fork_in_child(void);

#endif
