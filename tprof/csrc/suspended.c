/* A hash table of lists under one lock, which is held for a few loads. */
#include "suspended.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

static struct {
    pthread_mutex_t lock;
    struct tprof_suspended **buckets;
    size_t count, capacity; /* the capacity is a power of two */
} suspended = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t bucket_of(const void *frame)
{
    return (size_t)(((uint64_t)(uintptr_t)frame * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (suspended.capacity - 1);
}

/* As many buckets as generators; without memory the lists get longer. */
static void grow_unlocked(void)
{
    const size_t former_capacity = suspended.capacity;
    struct tprof_suspended **former = suspended.buckets;
    struct tprof_suspended **buckets = calloc(former_capacity == 0 ? 64 : former_capacity * 2, sizeof *buckets);
    if (buckets == NULL)
        return;
    suspended.buckets = buckets;
    suspended.capacity = former_capacity == 0 ? 64 : former_capacity * 2;
    for (size_t i = 0; i < former_capacity; i++) {
        for (struct tprof_suspended *one = former[i], *next; one != NULL; one = next) {
            next = one->next;
            one->next = buckets[bucket_of(one->frame)];
            buckets[bucket_of(one->frame)] = one;
        }
    }
    free(former);
}

void tprof_suspended_put(struct tprof_suspended *generator)
{
    pthread_mutex_lock(&suspended.lock);
    if (suspended.count >= suspended.capacity)
        grow_unlocked();
    const bool kept = suspended.capacity != 0;
    if (kept) {
        struct tprof_suspended **bucket = &suspended.buckets[bucket_of(generator->frame)];
        generator->next = *bucket;
        *bucket = generator;
        suspended.count++;
    }
    pthread_mutex_unlock(&suspended.lock);
    if (!kept)
        free(generator);
}

struct tprof_suspended *tprof_suspended_take(const void *frame)
{
    struct tprof_suspended *found = NULL;
    pthread_mutex_lock(&suspended.lock);
    if (suspended.count != 0) {
        struct tprof_suspended **at = &suspended.buckets[bucket_of(frame)];
        while (*at != NULL && (*at)->frame != frame)
            at = &(*at)->next;
        if ((found = *at) != NULL) {
            *at = found->next;
            suspended.count--;
        }
    }
    pthread_mutex_unlock(&suspended.lock);
    return found;
}

void tprof_suspended_forget(void)
{
    pthread_mutex_init(&suspended.lock, NULL);
}
