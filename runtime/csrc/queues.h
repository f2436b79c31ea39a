/* What is ready, and who is idle: written by queues.c and slots.c, read without a lock. */
#ifndef TPROF_RUNTIME_QUEUES_H
#define TPROF_RUNTIME_QUEUES_H

#include "core.h"
#include "deque.h"

#define TPROF_LINE 64 /* bytes of a cache line: what one thread writes often shares none with what others read */

struct shared_queue {
    struct work *first, *last; /* linked by `next_queued` */
};

/* Written by the thread in the slot. A bit of a level is set if its deque may hold a work. */
struct slot_queues {
    _Alignas(TPROF_LINE) _Atomic uint64_t levels;
    struct deque *_Atomic deques[TPROF_LEVELS]; /* made at the first push */
};

/* The first line seldom changes while all workers have works. */
struct queues {
    _Alignas(TPROF_LINE) _Atomic bool has_idle; /* a slot is empty, or its thread sleeps; changed under the mutex */
    _Atomic bool has_returning; /* a thread waits for a slot; likewise */
    _Atomic bool has_levels; /* a work of another priority than 0 was queued */
    _Atomic uint32_t searching; /* threads that were woken for works and have not found one yet */
    _Alignas(TPROF_LINE) struct lock lock; /* guards the shared queues */
    _Atomic uint64_t shared_levels; /* a bit is set if a work is in the queue of its level */
    struct shared_queue shared[TPROF_LEVELS];
    struct slot_queues of_slot[];
};

/* Without the mutex. Entries that are found stale are dropped by `deferred`. */
int tprof_queues_make(struct scheduler *scheduler); /* -1 without memory */
void tprof_queues_free(struct scheduler *scheduler);
/* Queue a pending work that is ready, and kept alive meanwhile. Returns false if it was cancelled instead. */
bool tprof_queue_push(struct scheduler *scheduler, struct work *work, const struct thread *by,
                      struct deferred *deferred);
/* A work to run, with a reference, by a thread that has a slot. NULL if none was found at a moment of the call. `victim`
 * gets the slot that it was stolen from, or -1. */
struct work *tprof_queue_take(struct scheduler *scheduler, const struct thread *by, int *victim,
                              struct deferred *deferred);
/* Likewise this one; returns whether it was queued. */
bool tprof_queue_take_this(struct scheduler *scheduler, const struct thread *by, struct work *work,
                           struct deferred *deferred);
/* Likewise the youngest of a level of the slot's own deques if it descends from the work. */
struct work *tprof_queue_descendant(struct scheduler *scheduler, const struct thread *by, const struct work *work,
                                    struct deferred *deferred);
/* Change the state of a work that is queued; false if it is not. Its entry stays. */
bool tprof_queue_claim(struct work *work, enum state state);
/* Entries that nobody claimed count, and so may stale ones. */
bool tprof_queues_are_empty(const struct scheduler *scheduler);
/* Take all entries out, linked by `next_queued`. */
struct work *tprof_queues_drain(struct scheduler *scheduler);

#endif
