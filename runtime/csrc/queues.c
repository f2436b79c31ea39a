/* Queues of works that are ready. Each slot has a deque for each level of priority, and there is a shared queue for each
 * level, for works that no worker made ready. A worker takes the youngest of its own deque (its data is still in the
 * cache), else the oldest that is shared, else the oldest of another worker (the largest part of a nested algorithm),
 * that is, it steals.
 *
 * An entry is a work with a reference. Whoever takes a work, or cancels it, first changes its state from TPROF_QUEUED,
 * by a compare-and-swap; its entry may stay where it is, and whoever comes to it drops it. A work is queued once, so its
 * entry is never mistaken for another.
 *
 * No function but those of the shared queue takes a lock. */
#include "queues.h"

#include <stdlib.h>
#include <string.h>

int tprof_queues_make(struct scheduler *scheduler)
{
    const size_t bytes = sizeof(struct queues) + scheduler->slot_count * sizeof(struct slot_queues);
    scheduler->queues = aligned_alloc(TPROF_LINE, bytes);
    if (scheduler->queues == NULL)
        return -1;
    memset(scheduler->queues, 0, bytes);
    atomic_init(&scheduler->queues->has_idle, true); /* all slots are empty */
    return 0;
}

void tprof_queues_free(struct scheduler *scheduler)
{
    if (scheduler->queues == NULL)
        return;
    for (uint32_t slot = 0; slot < scheduler->slot_count; slot++)
        for (int level = 0; level < TPROF_LEVELS; level++)
            tprof_deque_free(scheduler->queues->of_slot[slot].deques[level]);
    free(scheduler->queues);
}

static uint64_t bit_of(int level)
{
    return UINT64_C(1) << level;
}

static int highest(uint64_t levels)
{
    return 63 - __builtin_clzll(levels);
}

static struct deque *deque_at(const struct slot_queues *queues, int level)
{
    return atomic_load_explicit(&queues->deques[level], memory_order_acquire);
}

/* By the owner: the deque with room for one more, NULL without memory. */
static struct deque *own_deque(struct slot_queues *own, int level)
{
    struct deque *deque = deque_at(own, level);
    if (deque == NULL && (deque = tprof_deque_make()) != NULL)
        atomic_store_explicit(&own->deques[level], deque, memory_order_release);
    return deque != NULL && tprof_deque_reserve(deque) ? deque : NULL;
}

static struct slot_queues *queues_of(const struct scheduler *scheduler, const struct thread *by)
{
    return by != NULL && by->scheduler == scheduler && by->slot >= 0 ? &scheduler->queues->of_slot[by->slot] : NULL;
}

/* Thieves may look for a bit that was set; only the owner changes it. */
static void set_levels(struct slot_queues *own, uint64_t levels)
{
    if (atomic_load_explicit(&own->levels, memory_order_relaxed) != levels)
        atomic_store(&own->levels, levels);
}

bool tprof_queue_claim(struct work *work, enum state state)
{
    uint8_t queued = TPROF_QUEUED;
    return atomic_compare_exchange_strong(&work->state, &queued, (uint8_t)state);
}

/* From now on others may take or cancel it. Returns whether it is to be queued: a work that was cancelled meanwhile ends. */
static bool show(struct work *work, struct deferred *deferred)
{
    uint8_t pending = TPROF_PENDING;
    if (atomic_compare_exchange_strong(&work->state, &pending, TPROF_QUEUED))
        return true;
    tprof_graph_end_cancelled(work, deferred);
    return false;
}

static void append(struct shared_queue *queue, struct work *work)
{
    work->next_queued = NULL;
    if (queue->first == NULL)
        queue->first = work;
    else
        queue->last->next_queued = work;
    queue->last = work;
}

/* Shown under the lock: a work that ends at once has its entry there before the last worker drops what is left. */
static bool push_shared(struct scheduler *scheduler, struct work *work, struct deferred *deferred)
{
    struct queues *queues = scheduler->queues;
    tprof_acquire(&queues->lock);
    const bool shown = show(work, deferred);
    if (shown) {
        append(&queues->shared[work->level], tprof_ref(work));
        if (!(queues->shared_levels & bit_of(work->level)))
            atomic_store(&queues->shared_levels, queues->shared_levels | bit_of(work->level));
    }
    tprof_release(&queues->lock);
    return shown;
}

bool tprof_queue_push(struct scheduler *scheduler, struct work *work, const struct thread *by,
                      struct deferred *deferred)
{
    if (work->level != TPROF_LEVEL_OF_ZERO &&
        !atomic_load_explicit(&scheduler->queues->has_levels, memory_order_relaxed))
        atomic_store(&scheduler->queues->has_levels, true);
    struct slot_queues *own = queues_of(scheduler, by);
    struct deque *deque = own == NULL ? NULL : own_deque(own, work->level);
    if (deque == NULL)
        return push_shared(scheduler, work, deferred);
    if (!show(work, deferred))
        return false;
    set_levels(own, own->levels | bit_of(work->level));
    tprof_deque_push(deque, tprof_ref(work));
    return true;
}

/* The entry's reference is the caller's then. */
static bool begin(struct work *work, struct deferred *deferred)
{
    if (tprof_queue_claim(work, TPROF_RUNNING))
        return true;
    tprof_defer_unref(deferred, work);
    return false;
}

static struct work *take_own(struct slot_queues *own, int level, struct deferred *deferred)
{
    struct deque *deque = deque_at(own, level);
    for (struct work *work; deque != NULL && (work = tprof_deque_pop(deque)) != NULL;)
        if (begin(work, deferred))
            return work;
    set_levels(own, own->levels & ~bit_of(level));
    return NULL;
}

static struct work *next_shared(struct queues *queues, int level)
{
    if (!(atomic_load(&queues->shared_levels) & bit_of(level)))
        return NULL;
    struct shared_queue *queue = &queues->shared[level];
    tprof_acquire(&queues->lock);
    struct work *work = queue->first;
    if (work != NULL && (queue->first = work->next_queued) == NULL)
        atomic_store(&queues->shared_levels, queues->shared_levels & ~bit_of(level));
    tprof_release(&queues->lock);
    return work;
}

static struct work *take_shared(struct scheduler *scheduler, int level, struct deferred *deferred)
{
    for (struct work *work; (work = next_shared(scheduler->queues, level)) != NULL;)
        if (begin(work, deferred))
            return work;
    return NULL;
}

static struct work *steal_from(const struct slot_queues *queues, int level, struct deferred *deferred)
{
    if (!(atomic_load(&queues->levels) & bit_of(level)))
        return NULL;
    for (struct work *work; (work = tprof_deque_steal(deque_at(queues, level))) != NULL;)
        if (begin(work, deferred))
            return work;
    return NULL;
}

static struct work *steal(struct scheduler *scheduler, const struct thread *by, int level, int *victim,
                          struct deferred *deferred)
{
    for (uint32_t i = 1; i < scheduler->slot_count; i++) {
        const uint32_t other = ((uint32_t)by->slot + i) % scheduler->slot_count;
        struct work *work = steal_from(&scheduler->queues->of_slot[other], level, deferred);
        if (work == NULL)
            continue;
        *victim = (int)other;
        (void)atomic_fetch_add_explicit(&scheduler->stolen, 1, memory_order_relaxed);
        return work;
    }
    return NULL;
}

/* That may have works: all that ever had an entry, as long as no program sets priorities. */
static uint64_t levels_of(const struct scheduler *scheduler)
{
    const struct queues *queues = scheduler->queues;
    if (!atomic_load_explicit(&queues->has_levels, memory_order_relaxed))
        return bit_of(TPROF_LEVEL_OF_ZERO);
    uint64_t levels = atomic_load(&queues->shared_levels);
    for (uint32_t slot = 0; slot < scheduler->slot_count; slot++)
        levels |= atomic_load(&queues->of_slot[slot].levels);
    return levels;
}

struct work *tprof_queue_take(struct scheduler *scheduler, const struct thread *by, int *victim,
                              struct deferred *deferred)
{
    *victim = -1;
    for (uint64_t levels = levels_of(scheduler); levels != 0;) {
        const int level = highest(levels);
        levels &= ~bit_of(level);
        struct work *work = take_own(&scheduler->queues->of_slot[by->slot], level, deferred);
        if (work == NULL)
            work = take_shared(scheduler, level, deferred);
        if (work == NULL)
            work = steal(scheduler, by, level, victim, deferred);
        if (work != NULL)
            return work;
    }
    return NULL;
}

bool tprof_queues_are_empty(const struct scheduler *scheduler)
{
    const struct queues *queues = scheduler->queues;
    if (atomic_load(&queues->shared_levels) != 0)
        return false;
    for (uint32_t slot = 0; slot < scheduler->slot_count; slot++)
        for (uint64_t levels = atomic_load(&queues->of_slot[slot].levels); levels != 0; levels &= levels - 1)
            if (!tprof_deque_is_empty(deque_at(&queues->of_slot[slot], __builtin_ctzll(levels))))
                return false;
    return true;
}

bool tprof_queue_take_this(struct scheduler *scheduler, const struct thread *by, struct work *work,
                           struct deferred *deferred)
{
    if (tprof_state_of(work) != TPROF_QUEUED)
        return false;
    const struct slot_queues *own = queues_of(scheduler, by);
    struct deque *deque = own == NULL ? NULL : deque_at(own, work->level);
    if (deque != NULL && tprof_deque_ends_with(deque, work) && tprof_deque_pop(deque) == work)
        return begin(work, deferred);
    if (!tprof_queue_claim(work, TPROF_RUNNING))
        return false;
    (void)tprof_ref(work); /* the entry keeps its own */
    return true;
}

static bool descends_from(const struct work *work, const struct work *ancestor)
{
    while (work != NULL && work->depth > ancestor->depth)
        work = work->parent;
    return work == ancestor;
}

/* Its parents are kept only as long as it cannot end: so nobody else may take it while they are looked at. */
static struct work *youngest_descendant(struct slot_queues *own, int level, const struct work *ancestor,
                                        struct deferred *deferred)
{
    struct deque *deque = deque_at(own, level);
    for (struct work *work; deque != NULL && (work = tprof_deque_pop(deque)) != NULL;
         tprof_defer_unref(deferred, work)) {
        if (!tprof_queue_claim(work, TPROF_PENDING))
            continue;
        const bool descends = descends_from(work, ancestor);
        if (!show(work, deferred))
            continue;
        if (descends && tprof_queue_claim(work, TPROF_RUNNING))
            return work;
        if (descends)
            continue;
        tprof_deque_push(deque, work);
        tprof_works_queued(work->scheduler, 1, deferred); /* the deque seemed empty meanwhile */
        return NULL;
    }
    return NULL;
}

struct work *tprof_queue_descendant(struct scheduler *scheduler, const struct thread *by, const struct work *work,
                                    struct deferred *deferred)
{
    struct slot_queues *own = queues_of(scheduler, by);
    for (uint64_t levels = own == NULL ? 0 : own->levels; levels != 0;) {
        const int level = highest(levels);
        levels &= ~bit_of(level);
        struct work *found = youngest_descendant(own, level, work, deferred);
        if (found != NULL)
            return found;
    }
    return NULL;
}

/* In the order in which a worker would take them that has none of its own. */
struct work *tprof_queues_drain(struct scheduler *scheduler)
{
    struct shared_queue all = {NULL, NULL};
    for (int level = TPROF_LEVELS - 1; level >= 0; level--) {
        for (struct work *work; (work = next_shared(scheduler->queues, level)) != NULL;)
            append(&all, work);
        for (uint32_t slot = 0; slot < scheduler->slot_count; slot++) {
            struct deque *deque = deque_at(&scheduler->queues->of_slot[slot], level);
            for (struct work *work; deque != NULL && (work = tprof_deque_steal(deque)) != NULL;)
                append(&all, work);
        }
    }
    return all.first;
}
