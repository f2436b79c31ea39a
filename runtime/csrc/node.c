/* The node of a work in the graph of dependences. Works that enter find it in the table of regions and add themselves to
 * its successors; the thread that ends the work takes these at once. Whoever comes later sees that it has ended. So an
 * end takes no lock but its own node's, and the table may keep nodes of works that have ended long ago.
 *
 * A work that enters counts itself as one of its own unmet predecessors until it has seen all data: a predecessor that
 * ends meanwhile cannot release it too early. */
#include "core.h"

#include <stdlib.h>

int tprof_node_make(struct work *work, size_t access_count)
{
    struct node *node = &work->own;
    if (access_count > 0 && (node = calloc(1, sizeof *node + access_count * sizeof(struct access))) == NULL)
        return -1;
    node->access_count = (uint32_t)access_count;
    atomic_init(&node->references, 1);
    node->work = work;
    work->node = node;
    return 0;
}

void tprof_node_drop(struct node *node)
{
    if (node->access_count > 0 && atomic_fetch_sub_explicit(&node->references, 1, memory_order_acq_rel) == 1)
        free(node);
}

void tprof_node_end(struct work *work)
{
    struct node *node = work->node;
    node->failed = work->outcome != TPROF_FINISHED;
    tprof_acquire(&node->lock);
    node->work = NULL;
    atomic_store_explicit(&node->ended, true, memory_order_release);
    tprof_release(&node->lock);
}

struct work *tprof_node_running(struct node *node)
{
    tprof_acquire(&node->lock);
    struct work *work = tprof_ref(node->work);
    tprof_release(&node->lock);
    return work;
}

/* NULL without memory. */
static struct successor *add(struct node *node)
{
    if (node->successor_count == node->successor_capacity) {
        const uint32_t capacity = node->successor_count == 0 ? 1 : node->successor_count * 2;
        struct successor *grown = realloc(node->successors, capacity * sizeof *grown);
        if (grown == NULL)
            return NULL;
        node->successors = grown;
        node->successor_capacity = capacity;
    }
    return &node->successors[node->successor_count++];
}

/* Under the node's lock; the same outcomes as `tprof_node_add_successor`, and 0 if it waits already. */
static int add_once(struct node *node, struct work *work, bool needs)
{
    const uint32_t count = node->successor_count;
    struct successor *last = count > 0 ? &node->successors[count - 1] : NULL;
    if (last != NULL && last->work == work) {
        last->needs |= needs;
        return 0;
    }
    struct successor *successor = add(node);
    if (successor == NULL)
        return -1;
    *successor = (struct successor){tprof_ref(work), needs};
    (void)atomic_fetch_add(&work->unmet, 1);
    return 1;
}

int tprof_node_add_successor(struct node *node, struct work *work, bool needs, struct deferred *deferred)
{
    if (node == work->node || tprof_node_has_ended(node))
        return 0;
    uint64_t number = 0, instance = 0;
    int outcome = 0;
    tprof_acquire(&node->lock);
    if (!tprof_node_has_ended(node)) {
        number = node->work->number;
        instance = node->work->instance.number;
        outcome = add_once(node, work, needs);
    }
    tprof_release(&node->lock);
    if (outcome <= 0)
        return outcome;
    tprof_log_event(TPROF_EVENT_DEPENDENCE, work, instance, deferred);
    if (deferred->edges_wanted)
        tprof_add_edge(deferred, number);
    return 1;
}
