/* What the files of the scheduler share: works (instances of tasks), the data they touch, queues, threads. The files
 * named binding_* and module.c include Python.h; the others see objects of Python as pointers.
 *
 * What is locked:
 * - `scheduler->mutex`: slots, sleeping threads, waiters of latches, lists of failures. A task takes it only where a
 *   thread sleeps, wakes another or waits. Sections are short; one grows with the program: a sweep of kept failures.
 * - `queues->lock`: the queues of works that no worker made ready. The others are deques without a lock.
 * - `domain->lock`: which works touch which data. Works that enter take it, and works that end only to leave data
 *   unwritten, or to free a handle that no other work uses. So entering and ending seldom meet here.
 * - `node->lock`: whether a work has ended, and who waits for its end.
 * A thread that holds a node's lock, or the queues', takes no other; one that holds a domain's takes only nodes'. What is counted
 * (unmet predecessors, unfinished works) is atomic; unlocked.h lists what is read without a lock.
 *
 * While one is held no Python code runs, no reference is dropped and no thread is woken: such work is collected in a
 * `struct deferred` and done later, and so are the freeing of a table and the writing of events, since a full stream of
 * events is appended to its file. */
#ifndef TPROF_RUNTIME_CORE_H
#define TPROF_RUNTIME_CORE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../tprof/csrc/runtime_api.h"
#include "lock.h"
#include "shape.h"

/* Only the bindings look into objects of Python. */
typedef struct _typeobject PyTypeObject;

#define TPROF_LEVELS 64 /* of priority, -32 to 31; one bit each */
#define TPROF_LEVEL_OF_ZERO 32
#define TPROF_CLOSED (SIZE_MAX / 2 + 1)

struct queues;
struct region;
struct scheduler;
struct table;
struct work;

/* A counter, and the threads that wait until it falls to a given value. The count changes without the mutex; a thread
 * that lowers it takes the mutex only if it falls below `wake_below`. */
struct waiter {
    sem_t semaphore;
    size_t enough; /* the thread is woken once the count is no larger */
    bool woken;
    struct waiter *next;
};

struct latch {
    _Atomic size_t count;
    _Atomic size_t wake_below; /* one more than the largest `enough`, 0 without waiters; changed under the mutex */
    struct waiter *waiters;
};

enum mode { TPROF_READS = 1, TPROF_WRITES = 2, TPROF_UPDATES = 3 };

/* One datum that a work touches. The region's list of readers, or its writer, refers to it until a later writer takes
 * its place; that the work has ended meanwhile is seen from its node. Guarded by the domain's lock. */
struct access {
    struct region *region; /* that refers to it, NULL: no work has to wait for this access any more */
    struct access *next, *previous;
    struct region *handle; /* that counts the work among its users until the work ends, NULL: none */
    PyObject *object;      /* borrowed from the arguments */
    enum mode mode;
    uint32_t index; /* among those of its node, to which the region owns a reference while it refers to the access */
};

/* What outlives a work in the tables: whether it has ended, and until then, who waits for it. */
struct node {
    struct lock lock;
    _Atomic bool ended; /* set under the lock, after `failed` */
    bool failed;        /* it did not finish */
    _Atomic uint32_t
        references; /* of the work, and of regions; not counted for a work without data, which contains it */
    uint32_t access_count;
    uint32_t successor_count, successor_capacity;
    struct work *work; /* NULL once it has ended */
    struct successor *successors; /* only the thread that lets the work end uses them once it has ended */
    /* The accesses follow in memory. */
};

/* A datum of a work that has not entered the graph yet: bytes, or (with `region`) a handle. */
struct datum {
    struct shape shape;
    struct region *region; /* of a handle, counted among its users until `tprof_reading_end` or by the work's access */
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
    bool waits; /* the block's end waits and collects failures; else the enclosing group or domain does */
    struct latch unfinished;
    struct failures failures;
    uint64_t inside; /* number of the work whose body entered it, 0: none */
    _Atomic uint64_t cancelled; /* its works up to this number are not started any more */
};

/* Works with the same parent, and the data by which they depend on each other. */
struct domain {
    struct latch unfinished;
    struct failures failures; /* under the mutex */
    struct lock lock; /* guards the table and what follows */
    struct table *table; /* see regions.h; made at the first access */
    uint64_t handled_up_to; /* data poisoned up to this event cancels no work any more */
    _Atomic size_t entering; /* threads that use regions without the lock: the table must not be freed */
};

/* A work that waits for another: it needs the result, or it only has to run later. */
struct successor {
    struct work *work;
    bool needs;
};

/* A work is withdrawn if it was cancelled before it began: whoever makes it ready, or has taken it, lets it end. */
enum state {
    TPROF_PENDING,
    TPROF_WITHDRAWN,
    TPROF_QUEUED,
    TPROF_RUNNING,
    TPROF_FINISHED,
    TPROF_FAILED_WORK,
    TPROF_CANCELLED
};

struct work {
    struct scheduler *scheduler;
    PyObject *callable, *args, *names; /* in the form of vectorcall; the last two are NULL after the deferred work */
    PyObject *result, *error;
    PyObject *callbacks;
    struct work *parent;
    struct group *group; /* the innermost */
    struct work *_Atomic cause; /* of its cancellation: the work that failed or was cancelled first */
    struct domain *children; /* made by the thread that runs the work, freed with the work */
    struct node *node, own; /* the first points to the second if the work touches no data */
    _Atomic uint32_t unmet; /* predecessors that have not ended; one more while it enters */
    uint32_t task; /* number of the task in the trace */
    uint32_t depth; /* of nested spawning */
    uint8_t level;
    _Atomic uint8_t state;
    _Atomic bool cancel_requested; /* to be cancelled once its predecessors have ended */
    _Atomic bool acknowledged, has_callbacks;
    _Atomic bool body_ended, completed; /* the second: body and children have ended, and a thread saw to it */
    uint8_t outcome; /* the state that it ends in */
    bool callbacks_called;
    struct latch done;
    struct tprof_instance instance;
    uint64_t spawner; /* the instance that spawned it, 0: none or not recorded */
    uint64_t number; /* from 1, in the order of spawning */
    uint64_t released_by; /* the instance whose end made it ready, 0: it entered so */
    struct work *next; /* in one of the lists of `struct deferred` */
    struct work *next_queued; /* in a shared queue, also when it has ended meanwhile */
    struct work *next_failed;
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
    uint32_t place; /* at the gate */
    bool searching; /* counted so; set by who wakes it */
};

struct scheduler {
    pthread_mutex_t mutex;
    uint32_t slot_count;
    _Atomic uint32_t
        active; /* slots from this index on are inactive: a thread that holds one leaves it after its task */
    uint32_t first_worker; /* number of slot 0 in the trace: a process may have had other runtimes */
    struct thread **slot_threads; /* the thread in each slot, NULL: none */
    struct thread *sleeping; /* with a slot and nothing to run */
    struct thread *parked; /* without a slot and without a task */
    struct thread *returning; /* without a slot, in a task that continues once a slot is free */
    size_t threads, starting;
    _Atomic size_t groups; /* that are open */
    struct queues *queues;
    struct domain root;
    _Atomic size_t unfinished; /* works in all domains; with TPROF_CLOSED once no more may enter */
    _Atomic uint64_t spawned, executed, peak;
    _Atomic uint64_t stolen;
    _Atomic uint64_t poison_count; /* events in which data was left unwritten */
    size_t most_unfinished; /* in one domain before spawning waits; 0: no limit */
    _Atomic uint64_t cancelled; /* works up to this number, and what they spawn, are not started any more */
    _Atomic bool cancelling; /* the scheduler or a group was cancelled, and some works have been unfinished since */
    _Atomic bool stopping;
    bool dead;
    PyTypeObject *future_type;
    PyObject *start_thread; /* starts one more thread */
    PyObject *on_slot_taken; /* called by a thread with its new slot */
    PyObject *gate; /* to a policy, NULL: none; set before any thread serves */
    PyObject *group_variable;
    PyObject *note; /* adds the task to an exception */
    PyObject *graph; /* list of what was spawned, NULL: not kept */
};

/* An event for the recording of this generation. */
struct logged {
    uint64_t generation;
    struct tprof_graph_event event;
};

/* Works in their order, linked by `next`. */
struct list {
    struct work *first, *last;
};

/* Work that a section under a lock defers until the lock is free. */
struct deferred {
    struct list ending; /* whose outcome is known: their ends are to be made known */
    struct list ready; /* to queue; each is kept alive by whoever released it */
    struct thread *woken; /* linked by `next`: to wake, taken off the lists of idle threads */
    struct logged *events, few_events[4]; /* in their order */
    size_t event_count, event_capacity;
    struct work *ended; /* linked by `next`, each with a reference */
    PyObject **references; /* to drop */
    size_t reference_count, reference_capacity;
    size_t threads_wanted;
    bool edges_wanted; /* the predecessors of the work that enters are collected */
    uint64_t *edges; /* their numbers */
    struct table *table; /* to free, NULL: none */
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

/* domain.c; the first without the mutex, the other two under it */
void tprof_latch_fall(struct scheduler *scheduler, struct latch *latch);
/* Returns whether the thread has to wait: the count may have fallen meanwhile. */
bool tprof_latch_add_waiter(struct latch *latch, struct waiter *waiter, size_t enough);
void tprof_latch_remove_waiter(struct latch *latch, struct waiter *waiter);
/* Under the mutex. */
/* Acknowledged failures are removed whenever the list would double. */
void tprof_failures_add(struct failures *failures, struct work *work, struct deferred *deferred);
/* Called by the thread that runs the parent, or for NULL. Returns NULL without memory. */
struct domain *tprof_domain_of(struct scheduler *scheduler, struct work *parent);
struct domain *tprof_domain_around(const struct work *work); /* that contains the work */
/* The domain's works have been waited for: their failures are handled, and unwritten data cancels no work any more. */
void tprof_graph_mark_handled(struct scheduler *scheduler, struct domain *domain, struct deferred *deferred);
/* Under the domain's lock, up to `tprof_graph_poisoned_by`. */
struct works {
    struct work **list; /* with references; the caller drops them and frees the list */
    size_t count, capacity;
    bool failed; /* there was no memory for all of them */
};
/* Add the works that touch the datum and have not ended. */
void tprof_graph_touching(struct domain *domain, const struct datum *datum, struct works *works,
                          struct deferred *deferred);
/* The work whose failure left the datum unwritten, with a reference, or NULL. */
struct work *tprof_graph_poisoned_by(struct domain *domain, const struct datum *datum, struct deferred *deferred);

/* node.c */
int tprof_node_make(struct work *work, size_t access_count); /* -1 without memory */
void tprof_node_drop(struct node *node); /* one reference, unless the work contains the node */
/* Nobody can add to the work's successors any more. */
void tprof_node_end(struct work *work);
struct work *tprof_node_running(struct node *node); /* its work with a reference, NULL once it has ended */
/* Let the work wait for the node's unless that has ended. Returns 1 if it waits, 0 if it need not, -1 without memory. */
int tprof_node_add_successor(struct node *node, struct work *work, bool needs, struct deferred *deferred);

/* entering.c and ending.c, without a lock unless it says otherwise. What they make ready or let end is in `deferred`
 * afterwards, and `tprof_graph_settle` has to follow. */
/* Find the work's predecessors. Its node has as many accesses as there are data. Returns -1 without memory; the work
 * ends then. Returns 1 if the runtime has ended; the work has not entered then. */
int tprof_graph_enter(struct work *work, struct datum *data, struct work *const *needed, size_t needed_count,
                      struct deferred *deferred);
void tprof_graph_body_ended(struct work *work, struct deferred *deferred);
/* A predecessor has ended: without others the work is ready, or is cancelled if that was requested. */
void tprof_graph_released(struct work *work, uint64_t released_by, struct deferred *deferred);
/* Make ends known and queue what is ready, until nothing is left; wake idle threads. A worker between tasks takes one
 * of the ready ones itself, unless it has to call callbacks first. */
void tprof_graph_settle(struct scheduler *scheduler, bool takes_one, struct deferred *deferred);
/* Returns whether it could be cancelled, that is, had not begun. */
bool tprof_graph_cancel(struct work *work, struct deferred *deferred);
/* A work that nobody can claim any more ends without having begun. */
void tprof_graph_end_cancelled(struct work *work, struct deferred *deferred);
/* A work that was taken may have been cancelled with others while its entry was on the way: it ends then. */
bool tprof_graph_may_begin(struct work *work, struct deferred *deferred);
/* The first group, from this one outwards, that holds children of `parent` (NULL: works without parent), or NULL. */
struct group *tprof_group_around(struct group *group, const struct scheduler *scheduler, const struct work *parent);
/* The same among groups whose block is entered now. */
struct group *tprof_open_group(struct group *group, const struct scheduler *scheduler, const struct work *parent);
/* The group that waits for the work, or NULL. */
struct group *tprof_waiting_group(const struct work *work);
/* Cancel all works, or the group's, that were spawned so far, and what they spawn: queued ones now, others when they become
 * ready. */
void tprof_graph_cancel_all(struct scheduler *scheduler, struct group *group, struct deferred *deferred);

/* A future of another runtime that the work needs has ended. */
void tprof_graph_future_ended(struct work *work, struct work *needed, struct deferred *deferred);
/* Under the domain's lock. Call it when the data is, or will be, written again. */
void tprof_clear_poison(struct region *region, struct deferred *deferred);
/* Likewise. The failed work that left the data unwritten, or NULL. Failures that were handled do not count. */
struct work *tprof_poisoned_by(struct region *region, const struct domain *domain, struct deferred *deferred);
/* Set the cause of the work's cancellation unless it has one. */
void tprof_set_cause(struct work *work, struct work *cause);
struct work *tprof_root_cause(struct work *work);
/* Log an event of this work if it is recorded. */
void tprof_log_event(uint8_t kind, const struct work *work, uint64_t other, struct deferred *deferred);

/* binding_deferred.c; works and groups are counted as objects of Python. A reference may be taken under a lock, and is
 * dropped after it. All may be NULL. */
void *tprof_ref(void *body); /* of a work, group or scheduler, which it returns */
PyObject *tprof_ref_object(PyObject *object);
void tprof_defer_unref(struct deferred *deferred, void *body);
void tprof_defer_decref(struct deferred *deferred, PyObject *object);
void tprof_add_edge(struct deferred *deferred, uint64_t number);
/* The caller fills it. NULL without memory: the event is lost. */
struct tprof_graph_event *tprof_new_event(struct deferred *deferred, uint64_t generation);

/* slots.c; under the mutex */
uint16_t tprof_worker_number(const struct scheduler *scheduler, int slot);
bool tprof_slot_take_empty(struct scheduler *scheduler, struct thread *thread);
/* Take an empty slot, or that of an idle thread. If there is none, the thread gets one later, and is woken then. */
bool tprof_slot_regain(struct scheduler *scheduler, struct thread *thread);
void tprof_slot_leave(struct scheduler *scheduler, struct thread *thread, struct deferred *deferred);
/* A thread with a slot found no work. Returns whether it has to sleep: works may have come meanwhile. */
bool tprof_slot_rest(struct scheduler *scheduler, struct thread *thread);
/* A thread without a slot may sleep. */
void tprof_slot_park(struct scheduler *scheduler, struct thread *thread);
/* Wake so many idle threads, or start one. */
void tprof_wake_for(struct scheduler *scheduler, size_t works, struct deferred *deferred);
void tprof_wake_all(struct scheduler *scheduler);
void tprof_slots_activate(struct scheduler *scheduler, uint32_t active, struct deferred *deferred);
void tprof_all_ended(struct scheduler *scheduler);
/* slots.c; without the mutex */
/* So many works were queued: wake idle threads for those for which none is on its way. */
void tprof_works_queued(struct scheduler *scheduler, size_t works, struct deferred *deferred);
/* The thread has found a work: one that was woken wakes the next if there are more. */
void tprof_search_ended(struct thread *thread, struct deferred *deferred);
void tprof_wake_deferred(struct deferred *deferred);
/* If the runtime ends and all works have ended, nobody can enter any more; returns whether it is so. Workers leave only
 * then. */
bool tprof_close(struct scheduler *scheduler);

#endif
