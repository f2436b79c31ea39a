/* See deque.h. */
#include "deque.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 64

/* The work with the number i is at i modulo the capacity, which is a power of two. */
struct buffer {
    int64_t capacity;
    struct buffer *former;
    struct work *_Atomic works[];
};

/* Works are numbered as they are pushed: those from `top` to before `bottom` are here. */
struct deque {
    _Alignas(64) _Atomic int64_t top;
    _Alignas(64) _Atomic int64_t bottom;
    struct buffer *_Atomic buffer;
};

static struct buffer *make_buffer(int64_t capacity)
{
    struct buffer *buffer = malloc(sizeof *buffer + (size_t)capacity * sizeof *buffer->works);
    if (buffer != NULL)
        *buffer = (struct buffer){.capacity = capacity};
    return buffer;
}

struct deque *tprof_deque_make(void)
{
    struct deque *deque = aligned_alloc(64, sizeof *deque);
    struct buffer *buffer = make_buffer(FIRST_CAPACITY);
    if (deque == NULL || buffer == NULL) {
        free(deque);
        free(buffer);
        return NULL;
    }
    memset(deque, 0, sizeof *deque);
    atomic_init(&deque->buffer, buffer);
    return deque;
}

void tprof_deque_free(struct deque *deque)
{
    if (deque == NULL)
        return;
    for (struct buffer *buffer = deque->buffer, *former; buffer != NULL; buffer = former) {
        former = buffer->former;
        free(buffer);
    }
    free(deque);
}

static struct work *_Atomic *place_of(struct buffer *buffer, int64_t number)
{
    return &buffer->works[number & (buffer->capacity - 1)];
}

bool tprof_deque_is_empty(const struct deque *deque)
{
    const int64_t top = atomic_load(&deque->top);
    return top >= atomic_load(&deque->bottom);
}

bool tprof_deque_reserve(struct deque *deque)
{
    const int64_t bottom = atomic_load_explicit(&deque->bottom, memory_order_relaxed);
    const int64_t top = atomic_load_explicit(&deque->top, memory_order_acquire);
    struct buffer *buffer = atomic_load_explicit(&deque->buffer, memory_order_relaxed);
    if (bottom - top < buffer->capacity)
        return true;
    struct buffer *larger = make_buffer(buffer->capacity * 2);
    if (larger == NULL)
        return false;
    for (int64_t at = top; at < bottom; at++)
        atomic_init(place_of(larger, at), atomic_load_explicit(place_of(buffer, at), memory_order_relaxed));
    larger->former = buffer;
    atomic_store_explicit(&deque->buffer, larger, memory_order_release);
    return true;
}

void tprof_deque_push(struct deque *deque, struct work *work)
{
    const int64_t bottom = atomic_load_explicit(&deque->bottom, memory_order_relaxed);
    struct buffer *buffer = atomic_load_explicit(&deque->buffer, memory_order_relaxed);
    atomic_store_explicit(place_of(buffer, bottom), work, memory_order_relaxed);
    /* Sequentially consistent also for who sleeps, see slots.c. */
    atomic_store(&deque->bottom, bottom + 1);
}

/* The bottom that is put back equals the top, or what the top is about to be: whichever of them a thief sees, it finds
 * nothing more. So it need not be ordered with the top. */
struct work *tprof_deque_pop(struct deque *deque)
{
    const int64_t last = atomic_load_explicit(&deque->bottom, memory_order_relaxed) - 1;
    if (last < atomic_load_explicit(&deque->top, memory_order_relaxed))
        return NULL;
    atomic_store(&deque->bottom, last);
    int64_t top = atomic_load(&deque->top);
    struct work *work = NULL;
    if (top <= last)
        work = atomic_load_explicit(place_of(atomic_load_explicit(&deque->buffer, memory_order_relaxed), last),
                                    memory_order_relaxed);
    if (top == last && !atomic_compare_exchange_strong(&deque->top, &top, top + 1))
        work = NULL;
    if (top >= last)
        atomic_store_explicit(&deque->bottom, last + 1, memory_order_release);
    return work;
}

bool tprof_deque_ends_with(const struct deque *deque, const struct work *work)
{
    const int64_t last = atomic_load_explicit(&deque->bottom, memory_order_relaxed) - 1;
    struct buffer *buffer = atomic_load_explicit(&deque->buffer, memory_order_relaxed);
    return last >= atomic_load_explicit(&deque->top, memory_order_relaxed) &&
           atomic_load_explicit(place_of(buffer, last), memory_order_relaxed) == work;
}

/* Another thief's success, or the owner's, makes it look again. */
struct work *tprof_deque_steal(struct deque *deque)
{
    for (;;) {
        int64_t top = atomic_load(&deque->top);
        if (top >= atomic_load(&deque->bottom))
            return NULL;
        struct buffer *buffer = atomic_load_explicit(&deque->buffer, memory_order_acquire);
        struct work *work = atomic_load_explicit(place_of(buffer, top), memory_order_relaxed);
        if (atomic_compare_exchange_strong(&deque->top, &top, top + 1))
            return work;
    }
}
