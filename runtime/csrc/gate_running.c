/* See gate.h. What runs on each thread, how many instances of each task have ended, and how long any task ran. */
#include "gate_state.h"

#include <stdlib.h>
#include <string.h>

static void free_place(struct place *place)
{
    for (struct counts *counts = place->counts, *former; counts != NULL; counts = former) {
        former = counts->former;
        free(counts);
    }
    free(place->entries);
}

void tprof_gate_free_places(struct tprof_gate *gate)
{
    for (size_t chunk = 0; chunk < CHUNKS && gate->chunks[chunk] != NULL; chunk++) {
        for (size_t i = 0; i < CHUNK; i++)
            free_place(&gate->chunks[chunk][i]);
        free(gate->chunks[chunk]);
    }
}

/* Under the mutex. */
static uint32_t add_place(struct tprof_gate *gate)
{
    const uint32_t number = gate->places;
    if (number == CHUNK * CHUNKS)
        return TPROF_NO_PLACE;
    if (number % CHUNK == 0) {
        struct place *chunk = aligned_alloc(64, CHUNK * sizeof *chunk);
        if (chunk == NULL)
            return TPROF_NO_PLACE;
        memset(chunk, 0, CHUNK * sizeof *chunk);
        gate->chunks[number / CHUNK] = chunk;
    }
    atomic_store_explicit(&gate->places, number + 1, memory_order_release);
    return number;
}

uint32_t tprof_gate_place(struct tprof_gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    uint32_t number;
    if (gate->first_free != 0) {
        number = gate->first_free - 1;
        gate->first_free = place_at(gate, number)->next_free;
    } else
        number = add_place(gate);
    pthread_mutex_unlock(&gate->mutex);
    return number;
}

void tprof_gate_release(struct tprof_gate *gate, uint32_t number)
{
    struct place *place = place_at(gate, number);
    if (place == NULL || tprof_gate_is_closed(gate))
        return;
    pthread_mutex_lock(&gate->mutex);
    place->next_free = gate->first_free;
    gate->first_free = number + 1;
    pthread_mutex_unlock(&gate->mutex);
}

/* Several threads may begin and end to be busy at once; the last of them to come here finds what holds. */
static void time_busy(struct tprof_gate *gate, uint64_t now_ns)
{
    pthread_mutex_lock(&gate->mutex);
    const bool is_busy = atomic_load_explicit(&gate->busy_threads, memory_order_relaxed) > 0;
    if (is_busy && !gate->was_busy)
        gate->busy_since_ns = now_ns;
    else if (!is_busy && gate->was_busy && now_ns > gate->busy_since_ns)
        gate->busy_ns += now_ns - gate->busy_since_ns;
    gate->was_busy = is_busy;
    pthread_mutex_unlock(&gate->mutex);
}

uint64_t tprof_gate_busy_ns(struct tprof_gate *gate, uint64_t now_ns)
{
    pthread_mutex_lock(&gate->mutex);
    const uint64_t since_ns = gate->was_busy && now_ns > gate->busy_since_ns ? now_ns - gate->busy_since_ns : 0;
    const uint64_t busy_ns = gate->busy_ns + since_ns;
    pthread_mutex_unlock(&gate->mutex);
    return busy_ns;
}

const struct entry *tprof_gate_innermost(const struct place *place, uint32_t depth)
{
    while (depth > 0 && place->entries[depth - 1].kind == TPROF_IGNORED)
        depth--;
    return depth == 0 ? NULL : &place->entries[depth - 1];
}

static uint64_t what_runs(const struct place *place)
{
    const struct entry *entry = place->paused ? NULL : tprof_gate_innermost(place, place->depth);
    if (entry == NULL)
        return 0;
    return (uint64_t)place->control << 48 | (entry->kind == TPROF_WATCHED ? WATCHED_BIT : 0) |
           (uint64_t)(entry - place->entries) << 32 | (entry->task + 1);
}

static void show(struct tprof_gate *gate, struct place *place, uint64_t now_ns)
{
    const uint64_t former = atomic_load_explicit(&place->running, memory_order_relaxed);
    const uint64_t next = what_runs(place);
    if (former == next)
        return;
    if ((former & WATCHED_BIT) != (next & WATCHED_BIT))
        atomic_fetch_add(&gate->watched, (next & WATCHED_BIT) != 0 ? 1 : UINT64_MAX);
    atomic_store(&place->running, next);
    struct control *from = &gate->control[former >> 48], *to = &gate->control[next >> 48];
    if (former != 0)
        atomic_fetch_sub(&from->fingerprint, share_of(former));
    if (next != 0)
        atomic_fetch_add(&to->fingerprint, share_of(next));
    if (!gate->times || (former != 0) == (next != 0))
        return;
    const uint64_t others =
        next != 0 ? atomic_fetch_add(&gate->busy_threads, 1) : atomic_fetch_sub(&gate->busy_threads, 1) - 1;
    if (others == 0)
        time_busy(gate, now_ns);
}

/* Without memory the instance is not counted. */
static void count(struct place *place, uint32_t task)
{
    struct counts *counts = atomic_load_explicit(&place->counts, memory_order_relaxed);
    if (counts == NULL || task >= counts->capacity) {
        const uint32_t capacity = capacity_for(task);
        struct counts *larger = calloc(1, sizeof *larger + capacity * sizeof *larger->of);
        if (larger == NULL)
            return;
        larger->capacity = capacity;
        larger->former = counts;
        for (uint32_t i = 0; counts != NULL && i < counts->capacity; i++)
            larger->of[i] = counts->of[i];
        atomic_store_explicit(&place->counts, larger, memory_order_release);
        counts = larger;
    }
    const uint64_t ended = atomic_load_explicit(&counts->of[task], memory_order_relaxed);
    atomic_store_explicit(&counts->of[task], ended + 1, memory_order_relaxed);
}

static bool push(struct place *place, uint32_t task, enum task_kind kind)
{
    if (place->depth == place->capacity) {
        const uint32_t capacity = place->capacity == 0 ? 8 : 2 * place->capacity;
        struct entry *larger = capacity > DEEPEST ? NULL : realloc(place->entries, capacity * sizeof *larger);
        if (larger == NULL)
            return false;
        place->entries = larger;
        place->capacity = capacity;
    }
    place->entries[place->depth++] = (struct entry){task, kind};
    return true;
}

static uint32_t control_of(const struct tprof_gate *gate, int slot)
{
    return gate->control_of[slot < 0 ? 0 : (uint32_t)slot % gate->slots];
}

int tprof_gate_enter(struct tprof_gate *gate, uint32_t number, uint32_t task, int slot, uint64_t now_ns)
{
    struct place *place = place_at(gate, number);
    if (place == NULL || !push(place, task, tprof_gate_kind(gate, task)))
        return -1;
    place->control = control_of(gate, slot);
    show(gate, place, now_ns);
    return (int)place->depth - 1;
}

int tprof_gate_leave(struct tprof_gate *gate, uint32_t number, uint32_t task, uint64_t now_ns)
{
    struct place *place = place_at(gate, number);
    if (place == NULL || place->depth == 0 || place->entries[place->depth - 1].task != task)
        return -1;
    place->depth--;
    count(place, task);
    show(gate, place, now_ns);
    return (int)place->depth;
}

bool tprof_gate_pause(struct tprof_gate *gate, uint32_t number, uint64_t now_ns)
{
    struct place *place = place_at(gate, number);
    if (place == NULL || place->depth == 0 || place->paused)
        return false;
    place->paused = true;
    show(gate, place, now_ns);
    return true;
}

bool tprof_gate_resume(struct tprof_gate *gate, uint32_t number, int slot, uint64_t now_ns)
{
    struct place *place = place_at(gate, number);
    if (place == NULL || !place->paused)
        return false;
    place->paused = false;
    place->control = control_of(gate, slot);
    show(gate, place, now_ns);
    return true;
}

bool tprof_gate_running(const struct tprof_gate *gate, uint32_t number, struct tprof_running *running)
{
    const struct place *place = place_at(gate, number);
    const uint64_t packed = place == NULL ? 0 : atomic_load(&place->running);
    *running = (struct tprof_running){(uint32_t)packed - 1, (uint32_t)(packed >> 48), (int)(packed >> 32 & DEEPEST)};
    return packed != 0;
}

uint32_t tprof_gate_places(const struct tprof_gate *gate)
{
    return atomic_load_explicit(&gate->places, memory_order_acquire);
}

uint64_t tprof_gate_ended(const struct tprof_gate *gate, uint32_t task)
{
    uint64_t ended = 0;
    for (uint32_t number = 0; number < tprof_gate_places(gate); number++) {
        const struct counts *counts = atomic_load_explicit(&place_at(gate, number)->counts, memory_order_acquire);
        if (counts != NULL && task < counts->capacity)
            ended += atomic_load_explicit(&counts->of[task], memory_order_relaxed);
    }
    return ended;
}
