/* What the two halves of the gate share: gate.c asks, gate_running.c keeps what runs. */
#ifndef TPROF_RUNTIME_GATE_STATE_H
#define TPROF_RUNTIME_GATE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "gate.h"

#define CHUNK 64 /* places that are allocated together */
#define CHUNKS 1024
#define REMEMBERED 16384 /* a power of two; a later one replaces another of the same index */
#define FIRST_TASKS 64
#define DEEPEST 0x7fff
#define WATCHED_BIT ((uint64_t)1 << 47)

struct entry {
    uint32_t task;
    enum task_kind kind;
};

/* By task; grows by a copy, and the former one is freed with the gate: another thread may still read it. */
struct counts {
    struct counts *former;
    uint32_t capacity;
    _Atomic uint64_t of[];
};

struct kinds {
    struct kinds *former;
    uint32_t capacity;
    _Atomic uint8_t of[];
};

/* Written by one thread at a time; others read `running` and `counts`. */
struct place {
    _Alignas(64) _Atomic uint64_t running; /* control, whether watched, depth, task + 1; 0: nothing that counts */
    struct counts *_Atomic counts;
    struct entry *entries;
    uint32_t depth, capacity, control;
    uint32_t next_free; /* place + 1 */
    bool paused;
};

struct control {
    _Alignas(64) _Atomic uint64_t fingerprint;
    _Atomic uint64_t state; /* a number for (control, held frequency, decisions), another one while that is unknown */
    uint64_t hz;
};

struct tprof_gate {
    _Atomic bool closed;
    bool times;
    uint32_t slots, controls;
    uint32_t *control_of;
    struct control *control;
    _Atomic uint64_t due_ns, generation;
    _Atomic uint64_t watched; /* threads that run a watched task now */
    struct kinds *_Atomic kinds;
    struct place *_Atomic chunks[CHUNKS];
    _Atomic uint32_t places;
    uint32_t first_free;
    uint64_t epoch; /* what was remembered before belongs to another */
    uint64_t unsettled; /* how often a control was */
    pthread_mutex_t mutex; /* guards the list of places, and the time in which tasks ran */
    _Alignas(64) _Atomic uint64_t busy_threads;
    bool was_busy;
    uint64_t busy_since_ns, busy_ns;
    _Atomic uint64_t remembered[REMEMBERED];
};

/* The finaliser of SplitMix64 (Steele et al. 2014), a bijection; 0 gives 0. */
static inline uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

static inline uint64_t share_of(uint64_t running)
{
    return mix((uint32_t)running * 0x9e3779b97f4a7c15u);
}

/* NULL for none. */
static inline struct place *place_at(const struct tprof_gate *gate, uint32_t number)
{
    if (number >= atomic_load_explicit(&gate->places, memory_order_acquire))
        return NULL;
    return &atomic_load_explicit(&gate->chunks[number / CHUNK], memory_order_relaxed)[number % CHUNK];
}

static inline uint32_t capacity_for(uint32_t task)
{
    uint32_t capacity = FIRST_TASKS;
    while (capacity <= task)
        capacity *= 2;
    return capacity;
}

/* gate_running.c */
/* The innermost of the thread's first instances that is not ignored, NULL: none. */
const struct entry *tprof_gate_innermost(const struct place *place, uint32_t depth);
void tprof_gate_free_places(struct tprof_gate *gate);

#endif
