/* The scheduler without Python, for ThreadSanitizer: threads spawn works whose bodies read and add to plain bytes, cancel
 * some and run some themselves; workers run the others, and sleep. A dependence that orders nothing is a data race, and is
 * reported; a work that is left, or a worker that is not woken, keeps the program from ending. Usage: graph_stress WORKS SEED. */
#include "queues.h"

enum { SPAWNERS = 2, WORKERS = 3, ROOM = 24, HANDLES = 4, MOST_ACCESSES = 3 };

static struct scheduler scheduler = {.mutex = PTHREAD_MUTEX_INITIALIZER, .slot_count = WORKERS, .active = WORKERS};

#include "scheduler_alone.h"

static unsigned char room[ROOM];
static long added[HANDLES];
static _Atomic long expected; /* what the bodies that ran have added */
static unsigned most_works, seed;

struct body {
    unsigned begin[MOST_ACCESSES], length[MOST_ACCESSES];
    int handle[MOST_ACCESSES]; /* -1: bytes */
    enum mode mode[MOST_ACCESSES];
    unsigned count;
    long writes;
    _Atomic bool ran;
};

static void drop_work(struct work *work)
{
    if (atomic_fetch_sub(head_of(work), 1) > 1)
        return;
    tprof_node_drop(work->node);
    free(work->callable);
    free((char *)work - HEAD);
}

static void run_body(struct body *body)
{
    if (atomic_exchange(&body->ran, true))
        exit(3);
    atomic_fetch_add(&expected, body->writes);
    for (unsigned i = 0; i < body->count; i++) {
        const bool reads = body->mode[i] == TPROF_READS;
        if (body->handle[i] >= 0)
            reads ? (void)*(volatile long *)&added[body->handle[i]] : (void)added[body->handle[i]]++;
        else
            for (unsigned at = 0; at < body->length[i]; at++)
                reads ? (void)*(volatile unsigned char *)&room[body->begin[i] + at] : (void)room[body->begin[i] + at]++;
    }
}

/* A work that was taken, with its reference. */
static void run_work(struct work *work)
{
    struct deferred deferred = {0};
    run_body((struct body *)work->callable);
    tprof_graph_body_ended(work, &deferred);
    run_deferred(&deferred);
    drop_work(work);
}

/* Returns whether the thread goes on. */
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
    run_deferred(&deferred);
    if (work == NULL)
        return rest(thread);
    run_work(work);
    return true;
}

static void *serve(void *unused)
{
    struct thread thread = {.scheduler = &scheduler, .slot = -1};
    (void)unused;
    sem_init(&thread.semaphore, 0, 0);
    tprof_current_thread = &thread;
    tprof_lock(&scheduler);
    tprof_slot_take_empty(&scheduler, &thread);
    tprof_unlock(&scheduler);
    while (step(&thread))
        ;
    for (struct work *work = tprof_queues_drain(&scheduler), *next; work != NULL; work = next) {
        next = work->next_queued;
        drop_work(work);
    }
    return NULL;
}

/* As binding_data.c does it, without objects to compare. */
static struct region *find_handle(intptr_t handle, struct deferred *deferred)
{
    tprof_acquire(&scheduler.root.lock);
    struct region *region = tprof_table_of(&scheduler.root) == NULL
                                ? NULL
                                : tprof_region_of_hash(scheduler.root.table, (uint64_t)handle, NULL, 0);
    if (region != NULL)
        atomic_fetch_add(&region->users, 1);
    else
        region = tprof_region_add(&scheduler.root, (PyObject *)handle, (uint64_t)handle, deferred);
    tprof_release(&scheduler.root.lock);
    return region;
}

static void draw(struct body *body, unsigned *state)
{
    body->count = 1 + (unsigned)rand_r(state) % MOST_ACCESSES;
    for (unsigned i = 0; i < body->count; i++) {
        body->mode[i] = (enum mode)(1 + rand_r(state) % 3);
        body->handle[i] = rand_r(state) % 3 == 0 ? rand_r(state) % HANDLES : -1;
        body->begin[i] = (unsigned)rand_r(state) % ROOM;
        body->length[i] = 1 + (unsigned)rand_r(state) % (ROOM - body->begin[i]);
        body->writes += body->mode[i] == TPROF_READS ? 0 : body->handle[i] >= 0 ? 1 : (long)body->length[i];
    }
}

/* Returns the work with a reference. */
static struct work *spawn(unsigned *state)
{
    struct deferred deferred = {0};
    struct datum data[MOST_ACCESSES] = {{{0}, NULL, NULL, TPROF_READS}};
    struct body *body = calloc(1, sizeof *body);
    struct work *work = make(sizeof *work);
    draw(body, state);
    work->callable = (PyObject *)body;
    work->scheduler = &scheduler;
    work->level = (uint8_t)(TPROF_LEVEL_OF_ZERO + rand_r(state) % 2);
    atomic_fetch_add(&scheduler.root.entering, 1);
    for (unsigned i = 0; i < body->count; i++) {
        data[i].mode = body->mode[i];
        if (body->handle[i] >= 0)
            data[i].region = find_handle(body->handle[i] + 1, &deferred);
        else
            tprof_shape_make(&data[i].shape, (uintptr_t)&room[body->begin[i]], 1, 1, &(ptrdiff_t){body->length[i]},
                             NULL);
    }
    if (tprof_node_make(work, body->count) < 0 || tprof_graph_enter(work, data, NULL, 0, &deferred) != 0)
        exit(2);
    atomic_fetch_sub(&scheduler.root.entering, 1);
    run_deferred(&deferred);
    return work;
}

/* Its data counts as written: what enters later is not cancelled. */
static void cancel(struct work *work)
{
    struct deferred deferred = {0};
    tprof_acknowledge(work);
    (void)tprof_graph_cancel(work, &deferred);
    run_deferred(&deferred);
}

static void help(struct work *work)
{
    struct deferred deferred = {0};
    if (tprof_queue_take_this(&scheduler, NULL, work, &deferred))
        run_work(work);
    run_deferred(&deferred);
}

static void *spawn_all(void *number)
{
    unsigned state = seed + (unsigned)(intptr_t)number;
    for (unsigned i = 0; i < most_works; i++) {
        struct work *work = spawn(&state);
        const int way = rand_r(&state) % 8;
        if (way == 0)
            cancel(work);
        else if (way == 1)
            help(work);
        drop_work(work);
        while (tprof_unfinished(&scheduler) > 200)
            sched_yield();
    }
    return NULL;
}

static void stop(void)
{
    tprof_lock(&scheduler);
    atomic_store(&scheduler.stopping, true);
    (void)tprof_close(&scheduler);
    tprof_wake_all(&scheduler);
    tprof_unlock(&scheduler);
}

int main(int count, char **arguments)
{
    pthread_t spawners[SPAWNERS], workers[WORKERS];
    struct thread *slots[WORKERS] = {0};
    most_works = count > 1 ? (unsigned)atoi(arguments[1]) : 1000;
    seed = count > 2 ? (unsigned)atoi(arguments[2]) : 0;
    scheduler.slot_threads = slots;
    tprof_queues_make(&scheduler);
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], NULL, serve, NULL);
    for (intptr_t i = 0; i < SPAWNERS; i++)
        pthread_create(&spawners[i], NULL, spawn_all, (void *)i);
    for (int i = 0; i < SPAWNERS; i++)
        pthread_join(spawners[i], NULL);
    stop();
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    long sum = 0;
    for (int i = 0; i < HANDLES; i++)
        sum += added[i];
    unsigned char total = (unsigned char)sum;
    for (int i = 0; i < ROOM; i++)
        total = (unsigned char)(total + room[i]);
    printf("%lu works\n", (unsigned long)atomic_load(&scheduler.spawned));
    return total == (unsigned char)atomic_load(&expected) && tprof_queues_are_empty(&scheduler) ? 0 : 1;
}
