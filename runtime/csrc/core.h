/* What the files of the scheduler share: works, the data they touch, queues, threads.
 *
 * One mutex a scheduler guards all of it. Under the mutex no Python code runs and no reference is dropped: what has to
 * be told to Python afterwards is strung on a list and done when the mutex is free ("settled"). Sections are short
 * (a push, a pop, the release of some successors), so one mutex serves the few dozen threads of a processor. What is
 * read without it is in unlocked.h. */
#ifndef TPROF_RUNTIME_CORE_H
#define TPROF_RUNTIME_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../tprof/csrc/runtime_api.h"
#include "shape.h"

#if PY_VERSION_HEX < 0x030D0000
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

#define TPROF_LEVELS 64 /* of priority, one bit each: -32 to 31 */
#define TPROF_LEVEL_OF_ZERO 32

struct scheduler;
struct work;

/* Something that counts down, and threads that wait for it to fall. */
struct waiter {
    sem_t semaphore;
    size_t enough; /* woken once the count is no larger */
    bool woken;
    struct waiter *next;
};

struct latch {
    _Atomic size_t count;
    struct waiter *waiters;
};

enum mode { TPROF_READS = 1, TPROF_WRITES = 2, TPROF_UPDATES = 3 };

/* One datum that a work touches; in the list of readers of its region while it reads and has not ended. */
struct access {
    struct work *work;
    struct region *region; /* NULL: nobody has to wait for this access any more */
    struct access *next, *previous;
    PyObject *object; /* borrowed from the arguments */
    enum mode mode;
};

/* What a work says of one datum before it enters: bytes, or (with `region`) an object that stands for itself. */
struct datum {
    struct shape shape;
    struct region *region; /* of a handle; it stays until `tprof_reading_end` */
    PyObject *object;
    enum mode mode;
};

/* Works that failed and that nobody has asked about, perhaps. */
struct failures {
    struct work *first; /* by `next_failed`, the last first, each with a reference */
    size_t count, sweep_at;
};

/* The works that a with-block spawned; those of a block inside it are its own too. */
struct group {
    PyObject_HEAD
    struct scheduler *scheduler;
    struct group *outer; /* whose block is around this one's; of another scheduler or another work's, it holds nothing here */
    _Atomic bool begun, open; /* somebody was in the block, somebody is */
    bool waits;          /* at its end, and hears of failures; else whoever is around does */
    struct latch unfinished;
    struct failures failures;
    uint64_t inside;     /* number of the work whose body entered it, 0: none */
    uint64_t cancelled;  /* its works up to this number do not begin any more */
};

/* Works with the same parent, and the data by which they depend on each other. */
struct domain {
    struct latch unfinished;
    struct table *table; /* regions.h; made with the first access */
    struct failures failures;
    uint64_t handled_up_to;   /* what was left unwritten up to this event keeps nobody from it */
};

/* A work that waits for another: for what that leaves, or only until it no longer reads or writes there. */
struct successor {
    struct work *work;
    bool needs;
};

enum state { TPROF_PENDING, TPROF_QUEUED, TPROF_RUNNING, TPROF_FINISHED, TPROF_FAILED_WORK, TPROF_CANCELLED };

struct work {
    PyObject_HEAD
    struct scheduler *scheduler;
    PyObject *callable, *args, *names; /* as vectorcall has them; NULL once settled */
    PyObject *result, *error;
    PyObject *callbacks;
    struct work *parent;
    struct group *group; /* the innermost */
    struct work *_Atomic cause; /* why it was cancelled: the work that failed or was cancelled first */
    struct domain *children;
    struct access *accesses;
    struct successor *successors;
    uint32_t access_count, successor_count, successor_capacity;
    uint32_t unmet; /* predecessors that have not ended */
    uint32_t task;  /* number of the task in the trace */
    uint32_t depth; /* of nested spawning */
    uint16_t queue; /* where it lies while it is queued */
    uint8_t level;
    _Atomic uint8_t state;
    _Atomic bool cancel_requested; /* to be cancelled as soon as what it waits for has ended */
    _Atomic bool acknowledged, has_callbacks;
    bool body_ended, callbacks_called;
    struct latch done;
    struct tprof_instance instance;
    uint64_t number; /* from 1, in the order of spawning */
    struct work *next, *previous; /* in a queue */
    struct work *next_ended, *next_failed;
};

struct queue {
    struct work *front, *back;
};

/* A thread that works. It holds a slot while it runs tasks; there are as many slots as workers. */
struct thread {
    struct scheduler *scheduler;
    struct work *work; /* that it runs, NULL: none */
    int slot, former_slot;
    int depth;         /* of works that it runs inside waits */
    sem_t semaphore;
    struct thread *next;
    uint64_t logged_generation; /* the recording that knows of its slot */
};

struct scheduler {
    PyObject_HEAD
    pthread_mutex_t mutex;
    uint32_t slot_count;
    uint32_t active; /* slots from this one on are not taken, and left after the task that runs there */
    uint32_t first_worker; /* in the trace slot 0 has this number: a process may have had other runtimes */
    struct thread **slot_threads; /* who holds which slot, NULL: nobody */
    struct thread *sleeping; /* seated, nothing to run */
    struct thread *parked;   /* no slot and none wanted */
    struct thread *returning; /* no slot, in the midst of a task that goes on as soon as there is one */
    size_t threads, starting;
    _Atomic size_t groups; /* that are open */
    struct queue *queues[TPROF_LEVELS]; /* one a slot, and the last for works spawned by other threads */
    size_t queued[TPROF_LEVELS];
    uint64_t levels; /* bit set: something is queued there */
    struct domain root;
    size_t unfinished; /* works in all domains */
    size_t entering;   /* threads that have looked at data and hold no mutex: what is known of it must stay */
    uint64_t spawned, executed, stolen, peak;
    uint64_t poison_count; /* events of data that was left unwritten */
    size_t most_unfinished; /* in one domain before spawning waits; 0: no limit */
    uint64_t cancelled; /* works up to this number do not begin any more, nor what they spawn */
    bool cancelling;    /* it, or a group, was cancelled and not all has ended since */
    _Atomic bool stopping;
    bool dead;
    PyTypeObject *future_type;
    PyObject *start_thread; /* asks for one more thread */
    PyObject *on_slot_taken;    /* told which slot a thread has now */
    PyObject *operate;      /* told before and after each task, by the thread that runs it; NULL: nobody */
    PyObject *group_variable;
    PyObject *note;  /* adds to an exception where it came from */
    PyObject *graph; /* list of what was spawned, NULL: not kept */
};

/* What a section under the mutex leaves to be done when it is free. */
struct deferred {
    struct work *ended;   /* works that ended, by `next_settled`, each with a reference */
    PyObject **references;       /* references to drop */
    size_t reference_count, reference_capacity;
    size_t readied;         /* works queued */
    size_t threads_wanted;
    bool edges_wanted;      /* whoever enters a work wants to know its predecessors */
    uint64_t *edges;        /* their numbers */
    size_t edge_count, edge_capacity;
};

extern const struct tprof_runtime_api *tprof_api;
extern _Thread_local struct thread *tprof_current_thread;
extern PyType_Spec tprof_work_spec, tprof_group_spec, tprof_scheduler_spec;
extern PyTypeObject *tprof_work_type, *tprof_group_type, *tprof_scheduler_type;

static inline void tprof_lock(struct scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->mutex);
}

static inline void tprof_unlock(struct scheduler *scheduler)
{
    pthread_mutex_unlock(&scheduler->mutex);
}

#include "unlocked.h"

/* latch.c; under the mutex, except to wait */
void tprof_latch_rise(struct latch *latch);
void tprof_latch_fall(struct latch *latch);
void tprof_latch_add_waiter(struct latch *latch, struct waiter *waiter, size_t enough);
void tprof_latch_remove_waiter(struct latch *latch, struct waiter *waiter);

/* queues.c; under the mutex */
int tprof_queues_make(struct scheduler *scheduler);
void tprof_queues_free(struct scheduler *scheduler);
void tprof_queue_push(struct scheduler *scheduler, struct work *work, const struct thread *by);
struct work *tprof_queue_take(struct scheduler *scheduler, const struct thread *by, int *victim);
void tprof_queue_remove(struct scheduler *scheduler, struct work *work);
/* The youngest of the slot's own queue if the work spawned it, directly or not. */
struct work *tprof_queue_descendant(struct scheduler *scheduler, const struct thread *by, const struct work *work);

/* domain.c; under the mutex */
struct domain *tprof_domain_of(struct scheduler *scheduler, struct work *parent); /* NULL without memory */
struct domain *tprof_domain_around(const struct work *work); /* the one it is in */
/* The domain's works have been waited for: nobody is kept from what failed ones left unwritten. */
void tprof_graph_mark_handled(struct scheduler *scheduler, struct domain *domain, struct deferred *deferred);
struct works {
    struct work **list; /* with references; the caller's to drop and to free */
    size_t count, capacity;
    bool failed; /* without memory for all of them */
};
/* Add the works that touch it and have not ended. */
void tprof_graph_touching(struct domain *domain, const struct datum *datum, struct works *works);
/* Whose failure left it unwritten, with a reference, or NULL. */
struct work *tprof_graph_poisoned_by(struct domain *domain, const struct datum *datum, struct deferred *deferred);

/* entering.c and ending.c; under the mutex */
/* Find what it depends on and queue it if that is nothing; the work has room for as many accesses as there are data.
 * Returns -1 without memory: the work has ended then. Returns 1 where the runtime has ended: nobody would run it, and it
 * has not entered. */
int tprof_graph_enter(struct work *work, const struct datum *data, struct work *const *needed, size_t needed_count,
                      struct deferred *deferred);
void tprof_graph_body_ended(struct work *work, struct deferred *deferred);
/* Returns whether it had not begun and so could be cancelled. */
bool tprof_graph_cancel(struct work *work, struct deferred *deferred);
/* From this group outwards, the first that holds the children of a work (NULL: what no work spawned); NULL: none. */
struct group *tprof_group_around(struct group *group, const struct scheduler *scheduler, const struct work *parent);
/* Likewise, and somebody is in its block. */
struct group *tprof_open_group(struct group *group, const struct scheduler *scheduler, const struct work *parent);
/* The one that waits for the work, NULL: none. */
struct group *tprof_waiting_group(const struct work *work);
/* Those of all, or of the group, that were spawned so far, with what they spawn: the queued ones now, the others when
 * they become ready. */
void tprof_graph_cancel_all(struct scheduler *scheduler, struct group *group, struct deferred *deferred);

uint16_t tprof_worker_number(const struct scheduler *scheduler, int slot); /* slots.c */

/* One of the futures that it needs and that belong to another runtime has ended. */
void tprof_graph_future_ended(struct work *work, struct work *needed, struct deferred *deferred); /* ending.c */
/* Call it with this work once it has ended, or at once; work.c, without the mutex. */
int tprof_work_call_back(struct work *work, PyObject *callback);

/* settle.c; settle without the mutex, the others under it */
void tprof_run_deferred(struct scheduler *scheduler, struct deferred *deferred);
void tprof_defer_decref(struct deferred *deferred, void *object); /* drop this reference later */
void tprof_add_edge(struct deferred *deferred, uint64_t number);

/* slots.c; under the mutex */
void tprof_slot_take(struct scheduler *scheduler, struct thread *thread, int slot);
bool tprof_slot_find(struct scheduler *scheduler, struct thread *thread); /* an empty or an idle one */
void tprof_slot_leave(struct scheduler *scheduler, struct thread *thread);
void tprof_wake_for(struct scheduler *scheduler, size_t works, struct deferred *deferred);
void tprof_wake_all(struct scheduler *scheduler);
void tprof_slots_activate(struct scheduler *scheduler, uint32_t active, struct deferred *deferred);
void tprof_all_ended(struct scheduler *scheduler);
struct thread *tprof_pop(struct thread **list);
void tprof_push_last(struct thread **list, struct thread *thread);

/* threads.c; attached to Python, without the mutex */
void tprof_run(struct thread *thread, struct work *work, int victim);
void tprof_thread_serve(struct scheduler *scheduler);
void tprof_thread_sleep(struct thread *thread);
void tprof_thread_report_slot(struct thread *thread); /* it may have another slot than before: say so */
enum moment { TPROF_TASK_BEGINS, TPROF_TASK_ENDS, TPROF_TASK_PAUSES, TPROF_TASK_RESUMES };
/* Tell whoever sets the processor's operating point, between tasks. An exception that is set stays. */
void tprof_notify_operator(const struct thread *thread, const struct work *work, enum moment moment);

/* waiting.c; attached to Python, without the mutex. 0, 1 when the time was up, or -1 with an exception set. A worker
 * runs what the waiting depends on meanwhile: the work it wants, and what its own work spawned. No time limit: < 0. In a
 * forked child there is nothing to wait for. */
int tprof_wait(struct scheduler *scheduler, struct latch *latch, size_t enough, struct work *wanted, double timeout_s);

/* Seconds, of NULL and None below 0 for ever; -2 with an exception set. work.c */
double tprof_timeout_of(PyObject *object);

/* data.c; attached to Python, without the mutex */
struct reading {
    struct scheduler *scheduler;
    struct domain *domain; /* NULL without memory */
    struct datum *data;
    size_t count, capacity;
    struct datum few[6];
};
/* What is looked up in between stays until the end. */
void tprof_reading_begin(struct reading *reading, struct scheduler *scheduler, struct work *parent);
void tprof_reading_end(struct reading *reading);
/* Returns -1 with an exception set if the object can carry no dependence, and 1 if it is an array with a larger extent
 * than a memory can have. */
int tprof_data_add(struct reading *reading, PyObject *object, enum mode mode);

/* here.c; attached to Python */
struct scheduler *tprof_current_scheduler(void); /* with a reference, NULL: none */
void tprof_initialise_current(void);
PyObject *tprof_enter_scheduler(PyObject *module, PyObject *scheduler);
PyObject *tprof_leave_scheduler(PyObject *module, PyObject *scheduler);
PyObject *tprof_set_default(PyObject *module, PyObject *scheduler);
PyObject *tprof_current_scheduler_method(PyObject *module, PyObject *unused);

/* spawn.c */
PyObject *tprof_spawn(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);
/* None where the runtime has ended. */
PyObject *tprof_submit(struct scheduler *scheduler, PyObject *callable, PyObject *access, PyObject *const *args,
                       size_t count, PyObject *names);

#endif
