/* Counters that wake the threads that wait for them to fall. Each thread sleeps on a semaphore of its own, since a
 * signal (Ctrl-C) ends such a sleep and would not end the wait for a condition variable. */
#include "core.h"

static void wake_satisfied(struct latch *latch)
{
    for (struct waiter **at = &latch->waiters; *at != NULL;) {
        struct waiter *waiter = *at;
        if (waiter->enough < tprof_latch_count(latch)) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        waiter->woken = true;
        sem_post(&waiter->semaphore);
    }
}

void tprof_latch_rise(struct latch *latch)
{
    tprof_latch_set(latch, tprof_latch_count(latch) + 1);
}

void tprof_latch_fall(struct latch *latch)
{
    tprof_latch_set(latch, tprof_latch_count(latch) - 1);
    if (latch->waiters != NULL)
        wake_satisfied(latch);
}

void tprof_latch_add_waiter(struct latch *latch, struct waiter *waiter, size_t enough)
{
    waiter->enough = enough;
    waiter->woken = false;
    waiter->next = latch->waiters;
    latch->waiters = waiter;
}

void tprof_latch_remove_waiter(struct latch *latch, struct waiter *waiter)
{
    for (struct waiter **at = &latch->waiters; *at != NULL; at = &(*at)->next)
        if (*at == waiter) {
            *at = waiter->next;
            return;
        }
}
