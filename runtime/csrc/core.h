/* What the files of the scheduler share: works (instances of tasks), the data they touch, queues, threads. The files
 * named binding_* and module.c include Python.h; the others see objects of Python as pointers.
 *
 * One mutex for each scheduler guards all of it. Under the mutex no Python code runs and no reference is dropped: such
 * work is collected in a `struct deferred` and done after the mutex is released, and so are the freeing of a table and
 * the writing of events, since a full stream of events is appended to its file.
 * Sections are short (a push, a pop, the release of some successors), so one mutex serves the few dozen threads of a
 * processor. Two grow with the program: a cancellation visits every queued work, and a failure cancels every work that
 * depends on it. They take some tens of nanoseconds for a work, once in its life, and no thread may start any of these
 * works meanwhile. unlocked.h lists what is read without the mutex. */
#ifndef TPROF_RUNTIME_CORE_H
#define TPROF_RUNTIME_CORE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../tprof/csrc/runtime_api.h"
#include "shape.h"

/* Only the bindings look into objects of Python. */
typedef struct _typeobject PyTypeObject;

#define TPROF_LEVELS 64 /* of priority, -32 to 31; one bit each */
#define TPROF_LEVEL_OF_ZERO 32

struct region;
struct scheduler;
struct table;
struct work;

/* A counter, and the threads that wait until it falls to a given value. */
struct waiter {
    sem_t semaphore;
    size_t enough; /* the thread is woken once the count is no larger */
    bool woken;
    struct waiter *next;
};

struct latch {
    _Atomic size_t count;
    struct waiter *waiters;
};

enum mode { TPROF_READS = 1, TPROF_WRITES = 2, TPROF_UPDATES = 3 };

/* One datum that a work touches. A work that reads is in its region's list of readers until it ends. */
struct access {
    struct work *work;
    struct region *region; /* NULL: no work has to wait for this access any more */
    struct access *next, *previous;
    PyObject *object; /* borrowed from the arguments */
    enum mode mode;
};

/* A datum of a work that has not entered the graph yet: bytes, or (with `region`) a handle. */
struct datum {
    struct shape shape;
    struct region *region; /* of a handle; valid until `tprof_reading_end` */
    PyObject *object;
    enum mode mode;
};

/* Works that failed. Some may have been acknowledged since. */
struct failures {
    struct work *first; /* linked by `next_failed`, the latest first, each with a reference */
    size_t count, sweep_at;
};

/* The works that a with-block spawned, those of inner blocks included. */
struct group {
    struct scheduler *scheduler;
    struct group *outer; /* of the enclosing block; ignored if it belongs to another scheduler or another work */
    _Atomic bool begun, open; /* the block was entered; it is entered now */
    bool waits;         /* the block's end waits and collects failures; else the enclosing group or domain does */
    struct latch unfinished;
    struct failures failures;
    uint64_t inside;    /* number of the work whose body entered it, 0: none */
    uint64_t cancelled; /* its works up to this number are not started any more */
};

/* Works with the same parent, and the data by which they depend on each other. */
struct domain {
    struct latch unfinished;
    struct table *table; /* see regions.h; made at the first access */
    struct failures failures;
    uint64_t handled_up_to; /* data poisoned up to this event cancels no work any more */
};

/* A work that waits for another: it needs the result, or it only has to run later. */
struct successor {
    struct work *work;
    bool needs;
};

enum state { TPROF_PENDING, TPROF_QUEUED, TPROF_RUNNING, TPROF_FINISHED, TPROF_FAILED_WORK, TPROF_CANCELLED };

struct work {
    struct scheduler *scheduler;
    PyObject *callable, *args, *names; /* in the form of vectorcall; the last two are NULL after the deferred work */
    PyObject *result, *error;
    PyObject *callbacks;
    struct work *parent;
    struct group *group; /* the innermost */
    struct work *_Atomic cause; /* of its cancellation: the work that failed or was cancelled first */
    struct domain *children;
    struct access *accesses;
    struct successor *successors;
    uint32_t access_count, successor_count, successor_capacity;
    uint32_t unmet; /* predecessors that have not ended */
    uint32_t task;  /* number of the task in the trace */
    uint32_t depth; /* of nested spawning */
    uint16_t queue; /* index of the queue that holds it */
    uint8_t level;
    _Atomic uint8_t state;
    _Atomic bool cancel_requested; /* to be cancelled once its predecessors have ended */
    _Atomic bool acknowledged, has_callbacks;
    bool body_ended, callbacks_called;
    struct latch done;
    struct tprof_instance instance;
    uint64_t spawner; /* the instance that spawned it, 0: none or not recorded */
    uint64_t number; /* from 1, in the order of spawning */
    struct work *next, *previous; /* in a queue */
    struct work *next_ended, *next_failed;
};

struct queue {
    struct work *front, *back;
};

/* A worker's thread. It holds a slot while it runs tasks; there are as many slots as workers. */
struct thread {
    struct scheduler *scheduler;
    struct work *work; /* that it runs, NULL: none */
    int slot, former_slot; /* -1: none */
    int depth; /* of works that it runs inside waits */
    sem_t semaphore;
    struct thread *next;
    uint64_t logged_generation; /* of the recording that has the event of its slot */
};

struct scheduler {
    pthread_mutex_t mutex;
    uint32_t slot_count;
    uint32_t active; /* slots from this index on are inactive: a thread that holds one leaves it after its task */
    uint32_t first_worker; /* number of slot 0 in the trace: a process may have had other runtimes */
    struct thread **slot_threads; /* the thread in each slot, NULL: none */
    struct thread *sleeping; /* with a slot and nothing to run */
    struct thread *parked;   /* without a slot and without a task */
    struct thread *returning; /* without a slot, in a task that continues once a slot is free */
    size_t threads, starting;
    _Atomic size_t groups; /* that are open */
    struct queue *queues[TPROF_LEVELS]; /* one for each slot; the last for works spawned by other threads */
    size_t queued[TPROF_LEVELS];
    uint64_t levels; /* a bit is set if a work is queued at its level */
    struct domain root;
    size_t unfinished; /* works in all domains */
    size_t entering; /* threads that use regions without the mutex: the table must not be freed */
    uint64_t spawned, executed, stolen, peak;
    uint64_t poison_count; /* events in which data was left unwritten */
    size_t most_unfinished; /* in one domain before spawning waits; 0: no limit */
    uint64_t cancelled; /* works up to this number, and what they spawn, are not started any more */
    bool cancelling;    /* the scheduler or a group was cancelled, and some works have been unfinished since */
    _Atomic bool stopping;
    bool dead;
    PyTypeObject *future_type;
    PyObject *start_thread;  /* starts one more thread */
    PyObject *on_slot_taken; /* called by a thread with its new slot */
    PyObject *on_task;       /* called before and after each task by the thread that runs it, NULL: none */
    PyObject *group_variable;
    PyObject *note;  /* adds the task to an exception */
    PyObject *graph; /* list of what was spawned, NULL: not kept */
};

/* An event for the recording of this generation. */
struct logged {
    uint64_t generation;
    struct tprof_graph_event event;
};

/* Work that a section under the mutex defers until the mutex is free. */
struct deferred {
    struct logged *events, few_events[4]; /* in their order */
    size_t event_count, event_capacity;
    struct work *ended;     /* linked by `next_ended`, each with a reference */
    PyObject **references;  /* to drop */
    size_t reference_count, reference_capacity;
    size_t readied;         /* works queued */
    size_t threads_wanted;
    bool edges_wanted;      /* the predecessors of the work that enters are collected */
    uint64_t *edges;        /* their numbers */
    struct table *table;    /* to free, NULL: none */
    size_t edge_count, edge_capacity;
};

extern const struct tprof_runtime_api *tprof_api;
extern _Thread_local struct thread *tprof_current_thread;

static inline void tprof_lock(struct scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->mutex);
}

static inline void tprof_unlock(struct scheduler *scheduler)
{
    pthread_mutex_unlock(&scheduler->mutex);
}

#include "unlocked.h"

/* domain.c; under the mutex */
void tprof_latch_rise(struct latch *latch);
void tprof_latch_fall(struct latch *latch);
void tprof_latch_add_waiter(struct latch *latch, struct waiter *waiter, size_t enough);
void tprof_latch_remove_waiter(struct latch *latch, struct waiter *waiter);
/* Acknowledged failures are removed whenever the list would double. */
void tprof_failures_add(struct failures *failures, struct work *work, struct deferred *deferred);
struct domain *tprof_domain_of(struct scheduler *scheduler, struct work *parent); /* NULL without memory */
struct domain *tprof_domain_around(const struct work *work); /* that contains the work */
/* The domain's works have been waited for: their failures are handled, and unwritten data cancels no work any more. */
void tprof_graph_mark_handled(struct scheduler *scheduler, struct domain *domain, struct deferred *deferred);
struct works {
    struct work **list; /* with references; the caller drops them and frees the list */
    size_t count, capacity;
    bool failed; /* there was no memory for all of them */
};
/* Add the works that touch the datum and have not ended. */
void tprof_graph_touching(struct domain *domain, const struct datum *datum, struct works *works);
/* The work whose failure left the datum unwritten, with a reference, or NULL. */
struct work *tprof_graph_poisoned_by(struct domain *domain, const struct datum *datum, struct deferred *deferred);

/* queues.c; under the mutex */
int tprof_queues_make(struct scheduler *scheduler);
void tprof_queues_free(struct scheduler *scheduler);
void tprof_queue_push(struct scheduler *scheduler, struct work *work, const struct thread *by);
struct work *tprof_queue_take(struct scheduler *scheduler, const struct thread *by, int *victim);
void tprof_queue_remove(struct scheduler *scheduler, struct work *work);
/* The youngest of the slot's own queue if it descends from the work. */
struct work *tprof_queue_descendant(struct scheduler *scheduler, const struct thread *by, const struct work *work);

/* entering.c and ending.c; under the mutex */
/* Find the work's predecessors, and queue it if there are none. It has as many accesses as there are data. Returns -1
 * without memory; the work has ended then. Returns 1 if the runtime has ended; the work has not entered then. */
int tprof_graph_enter(struct work *work, const struct datum *data, struct work *const *needed, size_t needed_count,
                      struct deferred *deferred);
void tprof_graph_body_ended(struct work *work, struct deferred *deferred);
/* Returns whether it could be cancelled, that is, had not begun. */
bool tprof_graph_cancel(struct work *work, struct deferred *deferred);
/* The first group, from this one outwards, that holds children of `parent` (NULL: works without parent), or NULL. */
struct group *tprof_group_around(struct group *group, const struct scheduler *scheduler, const struct work *parent);
/* The same among groups whose block is entered now. */
struct group *tprof_open_group(struct group *group, const struct scheduler *scheduler, const struct work *parent);
/* The group that waits for the work, or NULL. */
struct group *tprof_waiting_group(const struct work *work);
/* Cancel all works, or the group's, that were spawned so far, and what they spawn: queued ones now, others when they
 * become ready. */
void tprof_graph_cancel_all(struct scheduler *scheduler, struct group *group, struct deferred *deferred);

/* A future of another runtime that the work needs has ended. */
void tprof_graph_future_ended(struct work *work, struct work *needed, struct deferred *deferred);
/* All predecessors have ended: queue the work, or cancel it if that was requested. */
void tprof_graph_released(struct work *work, struct deferred *deferred);
/* Call it when the data is, or will be, written again. */
void tprof_clear_poison(struct region *region, struct deferred *deferred);
/* The failed work that left the data unwritten, or NULL. Failures that were handled do not count. */
struct work *tprof_poisoned_by(struct region *region, const struct domain *domain, struct deferred *deferred);
/* Set the cause of the work's cancellation unless it has one. */
void tprof_set_cause(struct work *work, struct work *cause);
struct work *tprof_root_cause(struct work *work);
/* Log an event of this work if it is recorded. */
void tprof_log_event(uint8_t kind, const struct work *work, uint64_t other, struct deferred *deferred);

/* binding_deferred.c; works and groups are counted as objects of Python. A reference may be taken under the mutex, and
 * is dropped after it. All may be NULL. */
void *tprof_ref(void *body); /* of a work, group or scheduler, which it returns */
PyObject *tprof_ref_object(PyObject *object);
void tprof_defer_unref(struct deferred *deferred, void *body);
void tprof_defer_decref(struct deferred *deferred, PyObject *object);
void tprof_add_edge(struct deferred *deferred, uint64_t number);
void tprof_add_event(struct deferred *deferred, uint64_t generation, const struct tprof_graph_event *event);

/* slots.c; under the mutex */
uint16_t tprof_worker_number(const struct scheduler *scheduler, int slot);
void tprof_slot_take(struct scheduler *scheduler, struct thread *thread, int slot);
bool tprof_slot_find(struct scheduler *scheduler, struct thread *thread); /* empty, or held by an idle thread */
void tprof_slot_leave(struct scheduler *scheduler, struct thread *thread, struct deferred *deferred);
void tprof_wake_for(struct scheduler *scheduler, size_t works, struct deferred *deferred);
void tprof_wake_all(struct scheduler *scheduler);
void tprof_slots_activate(struct scheduler *scheduler, uint32_t active, struct deferred *deferred);
void tprof_all_ended(struct scheduler *scheduler);
struct thread *tprof_pop(struct thread **list);
void tprof_push_last(struct thread **list, struct thread *thread);

#endif
