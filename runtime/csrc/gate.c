/* See gate.h. Called by the threads that run tasks, and by the policy's Python under its lock. */
#include "gate_state.h"

#include <stdlib.h>
#include <string.h>

struct tprof_gate *tprof_gate_make(const uint32_t *controls, size_t slots, bool times)
{
    struct tprof_gate *gate = aligned_alloc(64, (sizeof *gate + 63) / 64 * 64);
    if (gate == NULL)
        return NULL;
    memset(gate, 0, sizeof *gate);
    pthread_mutex_init(&gate->mutex, NULL);
    gate->times = times;
    gate->slots = (uint32_t)slots;
    for (size_t slot = 0; slot < slots; slot++)
        if (controls[slot] >= gate->controls)
            gate->controls = controls[slot] + 1;
    gate->control_of = malloc(slots * sizeof *controls);
    gate->control = aligned_alloc(64, gate->controls * sizeof *gate->control);
    if (gate->control_of == NULL || gate->control == NULL) {
        tprof_gate_free(gate);
        return NULL;
    }
    memcpy(gate->control_of, controls, slots * sizeof *controls);
    memset(gate->control, 0, gate->controls * sizeof *gate->control);
    return gate;
}

void tprof_gate_free(struct tprof_gate *gate)
{
    tprof_gate_free_places(gate);
    for (struct kinds *kinds = gate->kinds, *former; kinds != NULL; kinds = former) {
        former = kinds->former;
        free(kinds);
    }
    free(gate->control_of);
    free(gate->control);
    pthread_mutex_destroy(&gate->mutex);
    free(gate);
}

void tprof_gate_close(struct tprof_gate *gate)
{
    atomic_store(&gate->closed, true);
}

bool tprof_gate_is_closed(const struct tprof_gate *gate)
{
    return atomic_load_explicit(&gate->closed, memory_order_relaxed);
}

static bool is_known(const struct tprof_gate *gate, const struct place *place)
{
    const struct control *control = &gate->control[place->control];
    const uint64_t key = mix(atomic_load(&control->fingerprint) + atomic_load(&control->state));
    return atomic_load_explicit(&gate->remembered[key % REMEMBERED], memory_order_relaxed) == key;
}

enum task_kind tprof_gate_kind(const struct tprof_gate *gate, uint32_t task)
{
    const struct kinds *kinds = atomic_load_explicit(&gate->kinds, memory_order_acquire);
    if (kinds == NULL || task >= kinds->capacity)
        return TPROF_UNSEEN;
    return (enum task_kind)atomic_load_explicit(&kinds->of[task], memory_order_relaxed);
}

int tprof_gate_set_kind(struct tprof_gate *gate, uint32_t task, enum task_kind kind)
{
    struct kinds *kinds = gate->kinds;
    if (kinds == NULL || task >= kinds->capacity) {
        const uint32_t capacity = capacity_for(task);
        struct kinds *larger = calloc(1, sizeof *larger + capacity * sizeof *larger->of);
        if (larger == NULL)
            return -1;
        larger->capacity = capacity;
        larger->former = kinds;
        for (uint32_t i = 0; kinds != NULL && i < kinds->capacity; i++)
            larger->of[i] = kinds->of[i];
        atomic_store_explicit(&gate->kinds, larger, memory_order_release);
        kinds = larger;
    }
    atomic_store_explicit(&kinds->of[task], (uint8_t)kind, memory_order_relaxed);
    return 0;
}

/* The one thread that finds it due asks. */
static bool is_due(struct tprof_gate *gate, const struct tprof_event *event, uint64_t now_ns)
{
    uint64_t due_ns = atomic_load_explicit(&gate->due_ns, memory_order_relaxed);
    if (now_ns >= due_ns && atomic_compare_exchange_strong(&gate->due_ns, &due_ns, UINT64_MAX))
        return true;
    if (event->generation == TPROF_SAME_GENERATION)
        return false;
    const uint64_t known = atomic_load_explicit(&gate->generation, memory_order_relaxed);
    return known != event->generation && atomic_exchange(&gate->generation, event->generation) != event->generation;
}

static enum task_kind kind_of(const struct entry *entry)
{
    return entry == NULL ? TPROF_SETTLED : entry->kind;
}

/* The kind of what runs after the event. */
static enum task_kind next_kind(const struct tprof_gate *gate, const struct place *place,
                                const struct tprof_event *event)
{
    if (event->moment == TPROF_TASK_BEGINS)
        return tprof_gate_kind(gate, event->task);
    if (place->depth == 0 || event->moment == TPROF_TASK_PAUSES)
        return TPROF_SETTLED;
    if (event->moment == TPROF_TASK_RESUMES)
        return kind_of(tprof_gate_innermost(place, place->depth));
    if (place->entries[place->depth - 1].kind == TPROF_IGNORED)
        return TPROF_IGNORED;
    return kind_of(tprof_gate_innermost(place, place->depth - 1));
}

static bool has_to_see(struct tprof_gate *gate, const struct place *place, const struct tprof_event *event,
                       uint64_t now_ns)
{
    if (is_due(gate, event, now_ns))
        return true;
    const enum task_kind kind = next_kind(gate, place, event);
    if (kind == TPROF_UNSEEN || kind == TPROF_WATCHED)
        return true;
    return kind != TPROF_IGNORED && atomic_load_explicit(&gate->watched, memory_order_relaxed) > 0;
}

static void apply(struct tprof_gate *gate, const struct tprof_event *event, uint64_t now_ns)
{
    if (event->moment == TPROF_TASK_BEGINS)
        (void)tprof_gate_enter(gate, event->place, event->task, event->slot, now_ns);
    else if (event->moment == TPROF_TASK_ENDS)
        (void)tprof_gate_leave(gate, event->place, event->task, now_ns);
    else if (event->moment == TPROF_TASK_PAUSES)
        (void)tprof_gate_pause(gate, event->place, now_ns);
    else
        (void)tprof_gate_resume(gate, event->place, event->slot, now_ns);
}

enum question tprof_gate_take(struct tprof_gate *gate, const struct tprof_event *event, uint64_t now_ns)
{
    struct place *place = place_at(gate, event->place);
    if (place == NULL || tprof_gate_is_closed(gate))
        return TPROF_ASKS_NOTHING;
    if (has_to_see(gate, place, event, now_ns))
        return TPROF_ASKS_EVENT;
    const uint64_t former = atomic_load_explicit(&place->running, memory_order_relaxed);
    apply(gate, event, now_ns);
    const uint64_t running = atomic_load_explicit(&place->running, memory_order_relaxed);
    const bool changed = running != former && running != 0;
    return changed && !is_known(gate, place) ? TPROF_ASKS_FREQUENCY : TPROF_ASKS_NOTHING;
}

void tprof_gate_set_due(struct tprof_gate *gate, uint64_t due_ns)
{
    atomic_store_explicit(&gate->due_ns, due_ns, memory_order_relaxed);
}

void tprof_gate_unsettle(struct tprof_gate *gate, uint32_t number)
{
    const struct place *place = place_at(gate, number);
    const uint64_t running = place == NULL ? 0 : atomic_load(&place->running);
    if (running != 0)
        atomic_store(&gate->control[running >> 48].state, mix(~++gate->unsettled));
}

static void set_state(struct tprof_gate *gate, uint32_t number)
{
    struct control *control = &gate->control[number];
    atomic_store(&control->state, mix(control->hz ^ mix(gate->epoch << 16 | number)));
}

void tprof_gate_hold(struct tprof_gate *gate, uint32_t control, uint64_t hz)
{
    if (control >= gate->controls)
        return;
    gate->control[control].hz = hz;
    set_state(gate, control);
}

void tprof_gate_remember(struct tprof_gate *gate, uint32_t control, const uint32_t *tasks, size_t count)
{
    uint64_t fingerprint = 0;
    if (control >= gate->controls)
        return;
    for (size_t i = 0; i < count; i++)
        fingerprint += share_of(tasks[i] + 1);
    const uint64_t key = mix(fingerprint + gate->control[control].state);
    atomic_store_explicit(&gate->remembered[key % REMEMBERED], key, memory_order_relaxed);
}

void tprof_gate_renew(struct tprof_gate *gate)
{
    gate->epoch++;
    for (uint32_t control = 0; control < gate->controls; control++)
        set_state(gate, control);
}

uint32_t tprof_gate_tasks(const struct tprof_gate *gate)
{
    const struct kinds *kinds = atomic_load_explicit(&gate->kinds, memory_order_acquire);
    return kinds == NULL ? 0 : kinds->capacity;
}
