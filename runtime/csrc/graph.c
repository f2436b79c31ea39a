/* The dependences between works of one domain: found when a work enters, released when it ends.
 *
 * A work that reads waits for the last writer of every region that shares a byte with what it reads; one that writes
 * waits for the readers since then as well. Only works that have not ended are waited for. A work whose needed data
 * was left unwritten by one that failed is cancelled, whether it entered before the failure or after: how fast the
 * other was does not matter. A cancelled work keeps its place until all that it waits for has ended, since others
 * wait for these through it. */
#include "core.h"

#include "regions.h"

#include <stdlib.h>

static void tell(uint8_t kind, const struct work *work, uint64_t other)
{
    if (work->instance.number == 0 || work->instance.generation != tprof_api->join())
        return;
    const struct tprof_graph_event event = {tprof_api->now_ns(), work->instance.number, other, work->task,
                                            TPROF_NO_WORKER, kind, 0};
    tprof_api->tell(&event);
}

struct domain *tprof_domain_of(struct scheduler *scheduler, struct work *parent)
{
    if (parent == NULL)
        return &scheduler->root;
    if (parent->children == NULL)
        parent->children = calloc(1, sizeof *parent->children);
    return parent->children;
}

static int wait_for(struct work *work, struct work *predecessor, struct aftermath *after)
{
    if (predecessor == NULL || predecessor == work || tprof_has_ended(predecessor))
        return 0;
    const uint32_t count = predecessor->successor_count;
    if (count > 0 && predecessor->successors[count - 1] == work)
        return 0;
    if (count == predecessor->successor_room) {
        const uint32_t room = count == 0 ? 4 : count * 2;
        struct work **grown = realloc(predecessor->successors, room * sizeof *grown);
        if (grown == NULL)
            return -1;
        predecessor->successors = grown;
        predecessor->successor_room = room;
    }
    predecessor->successors[predecessor->successor_count++] = work;
    Py_INCREF(work);
    work->unmet++;
    tell(TPROF_DEPENDENCE, work, predecessor->instance.number);
    if (after->edges_wanted)
        tprof_note_edge(after, predecessor->number);
    return 0;
}

static int wait_for_region(struct work *work, struct region *region, enum mode mode, struct aftermath *after)
{
    if (region->writer != NULL && wait_for(work, region->writer->work, after) < 0)
        return -1;
    if (mode != TPROF_READS)
        for (struct access *reader = region->readers; reader != NULL; reader = reader->next)
            if (wait_for(work, reader->work, after) < 0)
                return -1;
    return 0;
}

static void heal(struct region *region, struct aftermath *after)
{
    tprof_loosen(after, region->cause);
    tprof_loosen(after, region->keep);
    region->cause = NULL;
    region->keep = NULL;
}

/* The failure that keeps the data from being read, or NULL. One that somebody has been told of keeps nobody. */
static struct work *spoilt(struct region *region, const struct domain *domain, struct aftermath *after)
{
    const struct work *cause = region->cause;
    if (cause != NULL && (cause->acknowledged || cause->number <= domain->forgiven))
        heal(region, after);
    return region->cause;
}

static struct work *spoilt_around(struct region *region, const struct domain *domain, struct aftermath *after)
{
    struct work *cause = spoilt(region, domain, after);
    for (uint32_t i = 0; cause == NULL && i < region->neighbour_count; i++)
        cause = spoilt(region->neighbours[i], domain, after);
    return cause;
}

static void claim(struct access *access, struct region *region)
{
    access->region = region;
    if (access->mode == TPROF_READS) {
        access->previous = NULL;
        access->next = region->readers;
        if (region->readers != NULL)
            region->readers->previous = access;
        region->readers = access;
        return;
    }
    /* Whoever comes later waits for this writer, which waits for them. */
    for (struct access *reader = region->readers, *next; reader != NULL; reader = next) {
        next = reader->next;
        reader->region = NULL;
        reader->next = reader->previous = NULL;
    }
    region->readers = NULL;
    if (region->writer != NULL)
        region->writer->region = NULL;
    region->writer = access;
}

static void blame(struct work *work, struct work *cause)
{
    if (work->cause == NULL)
        work->cause = (struct work *)Py_XNewRef((PyObject *)cause);
}

static int enter_access(struct access *access, struct region *region, const struct domain *domain,
                        struct aftermath *after)
{
    struct work *work = access->work;
    if (wait_for_region(work, region, access->mode, after) < 0)
        return -1;
    for (uint32_t i = 0; i < region->neighbour_count; i++)
        if (wait_for_region(work, region->neighbours[i], access->mode, after) < 0)
            return -1;
    if (access->mode == TPROF_WRITES)
        heal(region, after);
    else
        blame(work, spoilt_around(region, domain, after));
    claim(access, region);
    return 0;
}

static void leave_access(struct access *access)
{
    struct region *region = access->region;
    if (region == NULL)
        return;
    access->region = NULL;
    if (access->mode != TPROF_READS) {
        region->writer = NULL;
        return;
    }
    if (access->previous != NULL)
        access->previous->next = access->next;
    else
        region->readers = access->next;
    if (access->next != NULL)
        access->next->previous = access->previous;
}

/* What the work was to write is not there: whoever needs it is cancelled too. */
static void spoil(struct access *access, struct work *cause, struct aftermath *after)
{
    struct region *region = access->region;
    if (region == NULL || access->mode == TPROF_READS || cause->acknowledged)
        return;
    heal(region, after);
    region->cause = (struct work *)Py_NewRef((PyObject *)cause);
    region->keep = Py_NewRef(access->object);
}

static struct work *root_cause(struct work *work)
{
    return work->cause != NULL ? work->cause : work;
}

static int enter_data(struct work *work, struct domain *domain, const struct datum *data, struct aftermath *after)
{
    if (work->access_count > 0 && domain->table == NULL && (domain->table = tprof_table_make()) == NULL)
        return -1;
    for (uint32_t i = 0; i < work->access_count; i++) {
        work->accesses[i] = (struct access){.work = work, .object = data[i].object, .mode = data[i].mode};
        struct region *region = tprof_region_find(domain->table, &data[i].shape, data[i].handle);
        if (region == NULL || enter_access(&work->accesses[i], region, domain, after) < 0)
            return -1;
    }
    return 0;
}

static int enter_needed(struct work *work, struct work *const *needed, size_t count, struct aftermath *after)
{
    for (size_t i = 0; i < count; i++) {
        if (wait_for(work, needed[i], after) < 0)
            return -1;
        if (needed[i]->state == TPROF_FAILED_WORK || needed[i]->state == TPROF_CANCELLED)
            blame(work, root_cause(needed[i]));
    }
    return 0;
}

static bool is_unwanted(const struct work *work)
{
    return work->scheduler->cancelling || (work->group != NULL && work->group->cancelling);
}

/* It has ended: put it on the list of those whose end others have to learn of. */
static void conclude(struct work *work, enum state state, struct work **ended)
{
    work->state = (uint8_t)state;
    work->next = *ended;
    *ended = work;
}

static void cancel(struct work *work, struct work *cause, struct work **ended)
{
    blame(work, cause);
    tell(TPROF_CANCEL, work, cause == NULL ? 0 : cause->instance.number);
    conclude(work, TPROF_CANCELLED, ended);
}

static void make_ready(struct work *work, const struct work *released_by, struct work **ended,
                       struct aftermath *after)
{
    if (is_unwanted(work)) {
        work->acknowledged = true;
        cancel(work, NULL, ended);
        return;
    }
    tell(TPROF_READY, work, released_by == NULL ? 0 : released_by->instance.number);
    tprof_queue_push(work->scheduler, work, tprof_thread_here);
    after->readied++;
}

/* All that it waited for has ended. */
static void release(struct work *work, const struct work *released_by, struct work **ended, struct aftermath *after)
{
    if (work->doomed)
        cancel(work, work->cause, ended);
    else
        make_ready(work, released_by, ended, after);
}

static void release_successors(struct work *work, struct work **ended, struct aftermath *after)
{
    for (uint32_t i = 0; i < work->successor_count; i++) {
        struct work *successor = work->successors[i];
        if (work->state != TPROF_FINISHED) {
            successor->doomed = true;
            blame(successor, root_cause(work));
        }
        if (--successor->unmet == 0)
            release(successor, work, ended, after);
    }
}

/* A failure is kept for whoever waits: the group, else the parent or the whole runtime. */
static void report(struct work *work, struct domain *domain)
{
    struct work **list = work->group != NULL ? &work->group->failed : &domain->failed;
    work->next_failed = *list;
    *list = (struct work *)Py_NewRef((PyObject *)work);
}

static struct work *first_failure(const struct domain *domain)
{
    struct work *first = NULL;
    for (struct work *work = domain->failed; work != NULL; work = work->next_failed)
        if (!work->acknowledged)
            first = work;
    return first;
}

/* The body has returned and so have all that it spawned; a child's failure that nobody asked about is its own. */
static void complete(struct work *work, struct work **ended)
{
    struct work *failure = work->children == NULL ? NULL : first_failure(work->children);
    if (failure != NULL && work->error == NULL) {
        work->error = Py_NewRef(failure->error);
        failure->acknowledged = true;
    }
    conclude(work, work->error != NULL ? TPROF_FAILED_WORK : TPROF_FINISHED, ended);
}

static void count_out(struct work *work, struct work **ended)
{
    struct scheduler *scheduler = work->scheduler;
    struct work *parent = work->parent;
    struct domain *domain = parent != NULL ? parent->children : &scheduler->root;
    if (work->state == TPROF_FAILED_WORK)
        report(work, domain);
    tprof_latch_fall(&work->done);
    if (work->group != NULL)
        tprof_latch_fall(&work->group->unfinished);
    tprof_latch_fall(&domain->unfinished);
    if (parent != NULL && parent->body_ended && domain->unfinished.count == 0)
        complete(parent, ended);
    if (--scheduler->unfinished == 0)
        tprof_all_ended(scheduler);
}

static void end_all(struct work *ended, struct aftermath *after)
{
    while (ended != NULL) {
        struct work *work = ended;
        ended = work->next;
        work->next = NULL;
        for (uint32_t i = 0; i < work->access_count; i++) {
            if (work->state != TPROF_FINISHED)
                spoil(&work->accesses[i], root_cause(work), after);
            leave_access(&work->accesses[i]);
        }
        release_successors(work, &ended, after);
        count_out(work, &ended);
        work->next_settled = after->settled;
        after->settled = (struct work *)Py_NewRef((PyObject *)work);
    }
}

static void count_in(struct work *work, struct domain *domain)
{
    struct scheduler *scheduler = work->scheduler;
    work->done.count = 1;
    domain->unfinished.count++;
    if (work->group != NULL)
        work->group->unfinished.count++;
    if (++scheduler->unfinished > scheduler->peak)
        scheduler->peak = scheduler->unfinished;
    work->number = ++scheduler->spawned;
}

int tprof_graph_enter(struct work *work, const struct datum *data, struct work *const *needed, size_t needed_count,
                      struct aftermath *after)
{
    struct domain *domain = work->parent != NULL ? work->parent->children : &work->scheduler->root;
    struct work *ended = NULL;
    count_in(work, domain);
    tell(TPROF_SPAWN, work, tprof_api->running());
    const int failed = enter_needed(work, needed, needed_count, after) < 0 || enter_data(work, domain, data, after) < 0;
    work->doomed = failed || work->cause != NULL;
    if (work->unmet == 0)
        release(work, NULL, &ended, after);
    end_all(ended, after);
    return failed ? -1 : 0;
}

void tprof_graph_body_ended(struct work *work, struct aftermath *after)
{
    struct work *ended = NULL;
    work->body_ended = true;
    if (work->children == NULL || work->children->unfinished.count == 0)
        complete(work, &ended);
    end_all(ended, after);
}

bool tprof_graph_cancel(struct work *work, struct aftermath *after)
{
    struct work *ended = NULL;
    if (work->state != TPROF_PENDING && work->state != TPROF_QUEUED)
        return false;
    work->doomed = true;
    if (work->state == TPROF_QUEUED) {
        tprof_queue_remove(work->scheduler, work);
        tprof_loosen(after, work);
        cancel(work, NULL, &ended);
        end_all(ended, after);
    }
    return true;
}

void tprof_graph_cancel_queued(struct scheduler *scheduler, const struct group *group, struct aftermath *after)
{
    for (int level = 0; level < TPROF_LEVELS; level++)
        for (uint32_t queue = 0; queue <= scheduler->seats; queue++)
            for (struct work *work = scheduler->queues[level][queue].front, *next; work != NULL; work = next) {
                next = work->next;
                if (group != NULL && work->group != group)
                    continue;
                work->acknowledged = true;
                (void)tprof_graph_cancel(work, after);
            }
}

void tprof_graph_forgive(struct scheduler *scheduler, struct domain *domain, struct aftermath *after)
{
    domain->forgiven = scheduler->spawned;
    /* Nothing depends on anything here: handles that come no more need not be kept for ever. */
    if (domain->unfinished.count > 0 || scheduler->entering > 0)
        return;
    if (domain->table != NULL)
        tprof_table_free(domain->table, after);
    tprof_loosen(after, domain->handles);
    domain->table = NULL;
    domain->handles = NULL;
}

struct collection {
    struct work **works;
    size_t count, room;
    bool failed;
};

static void collect(struct collection *collection, struct work *work)
{
    if (collection->count == collection->room) {
        const size_t room = collection->room == 0 ? 16 : collection->room * 2;
        struct work **grown = realloc(collection->works, room * sizeof *grown);
        if (grown == NULL) {
            collection->failed = true;
            return;
        }
        collection->works = grown;
        collection->room = room;
    }
    collection->works[collection->count++] = (struct work *)Py_NewRef((PyObject *)work);
}

static void collect_users(struct region *region, void *context)
{
    if (region->writer != NULL)
        collect(context, region->writer->work);
    for (struct access *reader = region->readers; reader != NULL; reader = reader->next)
        collect(context, reader->work);
}

int tprof_graph_touching(struct domain *domain, const struct datum *datum, struct work ***works, size_t *count)
{
    struct collection collection = {0};
    if (domain->table != NULL && datum->handle != NULL) {
        struct region *region = tprof_region_find(domain->table, &datum->shape, datum->handle);
        if (region != NULL)
            collect_users(region, &collection);
    } else if (domain->table != NULL)
        tprof_regions_touching(domain->table, &datum->shape, collect_users, &collection);
    *works = collection.works;
    *count = collection.count;
    return collection.failed ? -1 : 0;
}
