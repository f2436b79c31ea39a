/* The gate between tasks and a policy: which events of tasks the policy's Python has to handle.
 *
 * Threads report each begin, end, pause and resume of a task. The gate knows what runs, counts the instances of each
 * task, and asks Python only if
 * - it is time for Python to read its sensors, or another recording began,
 * - a task that runs, or this one, is watched: the policy learns from each of its instances,
 * - it is not known that the control of the frequency keeps its frequency with what runs there now.
 *
 * What runs on a control is known by a fingerprint: the sum of a random number for each running task. Python remembers
 * (fingerprint, control, held frequency) for which its decision was to keep the frequency. A thread first adds its
 * task, then asks whether the sum is remembered. Python first makes the control unknown, then reads what runs. So either
 * Python sees the task, or the thread asks. That needs sequential consistency of these four steps and no lock.
 *
 * gate.c has no Python; binding_gate.c is the type Gate. Events of one place come from one thread at a time. */
#ifndef TPROF_RUNTIME_GATE_H
#define TPROF_RUNTIME_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tprof_gate;

enum moment { TPROF_TASK_BEGINS, TPROF_TASK_ENDS, TPROF_TASK_PAUSES, TPROF_TASK_RESUMES, TPROF_TASK_UNDECIDED };

/* How the policy treats a task. Python is asked about an unseen one. Ignored ones change nothing. */
enum task_kind { TPROF_UNSEEN, TPROF_SETTLED, TPROF_IGNORED, TPROF_WATCHED };

/* What Python is asked: nothing; the whole event, which the gate has not applied yet; or only the frequency. */
enum question { TPROF_ASKS_NOTHING, TPROF_ASKS_EVENT, TPROF_ASKS_FREQUENCY };

#define TPROF_NO_PLACE UINT32_MAX /* of a thread whose events are ignored: there was no memory for it */
#define TPROF_SAME_GENERATION UINT64_MAX

struct tprof_event {
    uint32_t place; /* of the thread */
    enum moment moment;
    uint32_t task;
    int slot;
    uint64_t generation; /* of the recording that the thread knows */
};

/* `controls`: the control of each slot. `times`: add up the time in which tasks run. Returns NULL without memory. */
struct tprof_gate *tprof_gate_make(const uint32_t *controls, size_t slots, bool times);
void tprof_gate_free(struct tprof_gate *gate);
/* From now on all events are ignored. */
void tprof_gate_close(struct tprof_gate *gate);
bool tprof_gate_is_closed(const struct tprof_gate *gate);

/* A number for a thread, until it is released. */
uint32_t tprof_gate_place(struct tprof_gate *gate);
void tprof_gate_release(struct tprof_gate *gate, uint32_t place);

/* Take an event. If the answer is TPROF_ASKS_EVENT, Python applies it by the functions below. */
enum question tprof_gate_take(struct tprof_gate *gate, const struct tprof_event *event, uint64_t now_ns);
/* Returns the depth of the instance among those of the thread, from 0, or -1 if the place is unknown. */
int tprof_gate_enter(struct tprof_gate *gate, uint32_t place, uint32_t task, int slot, uint64_t now_ns);
/* Returns the depth that the instance had, or -1 if the thread's innermost instance is not of this task. */
int tprof_gate_leave(struct tprof_gate *gate, uint32_t place, uint32_t task, uint64_t now_ns);
/* Return whether the thread has an instance that was not paused already, or was paused. */
bool tprof_gate_pause(struct tprof_gate *gate, uint32_t place, uint64_t now_ns);
bool tprof_gate_resume(struct tprof_gate *gate, uint32_t place, int slot, uint64_t now_ns);

/* Called under the policy's lock. */
void tprof_gate_set_due(struct tprof_gate *gate, uint64_t due_ns);
/* Returns -1 without memory. */
int tprof_gate_set_kind(struct tprof_gate *gate, uint32_t task, enum task_kind kind);
enum task_kind tprof_gate_kind(const struct tprof_gate *gate, uint32_t task);
/* Nothing is known of the control of the thread until it is held. */
void tprof_gate_unsettle(struct tprof_gate *gate, uint32_t place);
void tprof_gate_hold(struct tprof_gate *gate, uint32_t control, uint64_t hz);
/* Remember that the control keeps its frequency with these tasks. */
void tprof_gate_remember(struct tprof_gate *gate, uint32_t control, const uint32_t *tasks, size_t count);
/* Forget all that was remembered: the policy decides otherwise from now on. */
void tprof_gate_renew(struct tprof_gate *gate);

/* What the thread of a place runs now, innermost. Returns whether it runs anything that is not ignored. */
struct tprof_running {
    uint32_t task, control;
    int depth;
};
bool tprof_gate_running(const struct tprof_gate *gate, uint32_t place, struct tprof_running *running);
uint32_t tprof_gate_places(const struct tprof_gate *gate);
/* Ended instances of the task, of all threads. Tasks from `tprof_gate_tasks` on have none. */
uint64_t tprof_gate_ended(const struct tprof_gate *gate, uint32_t task);
uint32_t tprof_gate_tasks(const struct tprof_gate *gate);
/* Nanoseconds so far in which some task ran. */
uint64_t tprof_gate_busy_ns(struct tprof_gate *gate, uint64_t now_ns);

#endif
