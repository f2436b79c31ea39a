/* How many works a second the scheduler's C code runs on so many workers, without Python: for scripts/scheduler-rates.
 * Parents, which are all queued before the first worker begins, spawn works that touch up to three of their parent's own
 * tiles; these spin for some nanoseconds. Usage: rates WORKERS PARENTS CHILDREN SPIN_NS ACCESSES */
#include "queues.h"

#include <time.h>

enum { MOST_WORKERS = 64, TILES = 16 };

static struct scheduler scheduler = {.mutex = PTHREAD_MUTEX_INITIALIZER};

#include "scheduler_alone.h"

static unsigned children, accesses;
static long spin_ns;

struct body {
    bool is_parent;
    double *tiles;
};

static void drop_work(struct work *work)
{
    while (work != NULL && atomic_fetch_sub(head_of(work), 1) == 1) {
        struct work *parent = work->parent;
        tprof_node_drop(work->node);
        struct body *body = (struct body *)work->callable;
        if (body->is_parent)
            free(body->tiles);
        free(body);
        if (work->children != NULL && work->children->table != NULL) {
            struct deferred freed = {0};
            tprof_table_free(work->children->table, &freed);
        }
        free(work->children);
        free((char *)work - HEAD);
        work = parent;
    }
}
static void finish(struct deferred *deferred)
{
    run_deferred(deferred);
    if (deferred->table != NULL) {
        struct deferred freed = {0};
        tprof_table_free(deferred->table, &freed);
    }
}
static long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}
static void spin(void)
{
    if (spin_ns == 0)
        return;
    const long end = now_ns() + spin_ns;
    while (now_ns() < end)
        ;
}
static void spawn(struct work *parent, struct body *body, unsigned number)
{
    struct deferred deferred = {0};
    struct datum data[3] = {{{0}, NULL, NULL, TPROF_READS}};
    struct work *work = make(sizeof *work);
    struct domain *domain = tprof_domain_of(&scheduler, parent);
    work->callable = (PyObject *)body;
    work->scheduler = &scheduler;
    work->parent = tprof_ref(parent);
    work->level = TPROF_LEVEL_OF_ZERO;
    const unsigned count = parent == NULL ? 0 : accesses;
    atomic_fetch_add(&domain->entering, 1);
    for (unsigned i = 0; i < count; i++) {
        data[i].mode = i == 0 ? TPROF_UPDATES : TPROF_READS;
        data[i].region = NULL;
        data[i].object = NULL;
        const unsigned tile = (number + i * i * 3) % TILES;
        tprof_shape_make(&data[i].shape, (uintptr_t)&body->tiles[tile * 8], 64, 1, &(ptrdiff_t){1}, NULL);
    }
    if (tprof_node_make(work, count) < 0)
        exit(2);
    tprof_ref(work);
    if (tprof_graph_enter(work, data, NULL, 0, &deferred) != 0)
        exit(2);
    tprof_graph_settle(&scheduler, false, &deferred);
    drop_work(work);
    finish(&deferred);
    struct deferred after = {0};
    atomic_fetch_sub(&domain->entering, 1);
    finish(&after);
    drop_work(work);
}
static void run_body(struct work *work)
{
    struct body *body = (struct body *)work->callable;
    if (!body->is_parent) {
        spin();
        return;
    }
    for (unsigned i = 0; i < children; i++) {
        struct body *child = calloc(1, sizeof *child);
        child->tiles = body->tiles;
        spawn(work, child, i);
    }
}
static void run_work(struct work *work)
{
    struct deferred deferred = {0};
    struct thread *thread = tprof_current_thread;
    thread->work = work;
    run_body(work);
    thread->work = NULL;
    tprof_graph_body_ended(work, &deferred);
    finish(&deferred);
    drop_work(work);
}
static bool rest(struct thread *thread)
{
    tprof_lock(&scheduler);
    const bool leaves = tprof_close(&scheduler), sleeps = !leaves && tprof_slot_rest(&scheduler, thread);
    tprof_unlock(&scheduler);
    while (sleeps && sem_wait(&thread->semaphore) != 0)
        ;
    return !leaves;
}
static bool step(struct thread *thread)
{
    int victim;
    struct deferred deferred = {0};
    struct work *work = tprof_queue_take(&scheduler, thread, &victim, &deferred);
    if (work != NULL)
        tprof_search_ended(thread, &deferred);
    finish(&deferred);
    if (work == NULL)
        return rest(thread);
    run_work(work);
    return true;
}
static void *serve(void *number)
{
    static _Thread_local struct thread thread;
    thread = (struct thread){.scheduler = &scheduler, .slot = -1};
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)(intptr_t)number, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    sem_init(&thread.semaphore, 0, 0);
    tprof_current_thread = &thread;
    tprof_lock(&scheduler);
    tprof_slot_take_empty(&scheduler, &thread);
    tprof_unlock(&scheduler);
    while (step(&thread))
        ;
    return NULL;
}
int main(int count, char **arguments)
{
    if (count < 6)
        return 2;
    const unsigned workers_count = (unsigned)atoi(arguments[1]), parents = (unsigned)atoi(arguments[2]);
    children = (unsigned)atoi(arguments[3]);
    spin_ns = atol(arguments[4]);
    accesses = (unsigned)atoi(arguments[5]);
    pthread_t workers[MOST_WORKERS];
    struct thread *slots[MOST_WORKERS] = {0};
    scheduler.slot_count = workers_count;
    scheduler.active = workers_count;
    scheduler.slot_threads = slots;
    tprof_queues_make(&scheduler);
    for (unsigned i = 0; i < parents; i++) { /* all are queued before the first worker begins */
        struct body *body = calloc(1, sizeof *body);
        body->is_parent = true;
        body->tiles = aligned_alloc(64, TILES * 64);
        spawn(NULL, body, i);
    }
    const long begin = now_ns();
    for (unsigned i = 0; i < workers_count; i++)
        pthread_create(&workers[i], NULL, serve, (void *)(intptr_t)i);
    tprof_lock(&scheduler);
    atomic_store(&scheduler.stopping, true);
    if (tprof_close(&scheduler))
        tprof_wake_all(&scheduler);
    tprof_unlock(&scheduler);
    for (unsigned i = 0; i < workers_count; i++)
        pthread_join(workers[i], NULL);
    const double seconds = (double)(now_ns() - begin) * 1e-9;
    printf("%2u workers, %u accesses, %5ld ns: %.3f million works a second\n", workers_count, accesses, spin_ns,
           (double)atomic_load(&scheduler.spawned) / seconds * 1e-6);
    return 0;
}
