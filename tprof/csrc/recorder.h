/* The recording, its threads, and the hot path: one sample.
 *
 * Every thread writes its own file; a thread joins at its first sample. `tprof_generation` is 0 without a recording and
 * a new number in every recording of this process, so a decorated call needs one load to check for a recording, and
 * for the one in which it began. */
#ifndef TPROF_RECORDER_H
#define TPROF_RECORDER_H

#include <linux/perf_event.h>
#include <sched.h>
#include <stdatomic.h>

#include "clock.h"
#include "counters.h"
#include "live.h"
#include "plan.h"
#include "processor.h"
#include "stream.h"

struct tprof_thread {
    /* What each sample needs, beside the first fields of `counters` and `stream`: few cache lines. */
    uint64_t generation;
    bool busy;     /* it is writing: samples of signal handlers are dropped, an end waits */
    bool finished; /* the recording has ended, and so has this file; under the lock */
    int cpu;       /* of the last sample */
    uint32_t task;
    uint64_t instance; /* that runs now; 0: none */
    uint64_t next_instance;
    uint64_t last_ns;            /* of the last sample: the next one is not before it */
    const uint64_t *energy_uj;   /* the last reading of the package of `cpu` */
    struct tprof_live *live;     /* of the plan */
    struct tprof_counters counters;
    struct tprof_stream stream;

    struct tprof_plan *plan;
    struct tprof_stream graph; /* events of a runtime; begun with the first one */
    bool graph_begun;
    uint64_t span; /* the instance of OpenTelemetry's current span; 0: none */
    pid_t tid;
    int lost_error;  /* errno of the file that could not be made, or 0 */
    clockid_t clock; /* CPU time of this thread, readable by the thread that stops the recording */
    struct tprof_thread *next, *previous;
};

/* The instance of a sample, which runs from now on, and the one to return to. */
struct tprof_frame {
    struct tprof_thread *thread;
    uint64_t generation;
    uint64_t instance;
    uint64_t outer_instance;
    uint32_t outer_task;
};

extern uint64_t tprof_generation;
extern _Thread_local struct tprof_thread *tprof_self;

/* Returns the new generation, or 0 with errno set. One thread at a time, without a current recording. */
uint64_t tprof_recorder_start(const struct tprof_setup *setup);
/* End the recording in this process: write the ends of all threads' files, and stop recording. */
void tprof_recorder_stop(void);
/* Register the key for thread exit, once per process. Returns 0 or errno. */
int tprof_recorder_initialise(void);
/* Around forks, called by process.c. */
void tprof_recorder_before_fork(void);
void tprof_recorder_after_fork_in_parent(void);
void tprof_recorder_after_fork_in_child(void);
/* Unmap the page of an ended session as soon as no thread samples it any more. NULL: does nothing. */
void tprof_recorder_close_live(struct tprof_live *live);
/* How often threads have joined, and those that are listed now, for the caller to free. */
uint64_t tprof_recorder_joins(void);
size_t tprof_recorder_tids(pid_t **tids);
/* Let the calling thread join the current recording. NULL: there is none any more, or no memory. */
struct tprof_thread *tprof_recorder_join(void);
/* binding_session.c: called for each new thread, attached to Python, to set its name; initially the system's. */
void tprof_name_thread(char name[TPROF_NAME_BYTES]);

static inline bool tprof_recording(void)
{
    return __atomic_load_n(&tprof_generation, __ATOMIC_RELAXED) != 0;
}

static inline struct tprof_thread *tprof_current_thread(uint64_t generation)
{
    struct tprof_thread *thread = tprof_self;
    return thread != NULL && thread->generation == generation ? thread : tprof_recorder_join();
}

/* The time of the next sample. Two snapshots of the fast clock may differ by some nanoseconds. */
static inline uint64_t tprof_sample_time_ns(const struct tprof_thread *thread)
{
    const uint64_t now_ns = tprof_fast_now_ns(&thread->live->clock);
    return now_ns < thread->last_ns ? thread->last_ns : now_ns;
}

static inline uint64_t tprof_cpu_time_ns(struct tprof_counters *counters, uint64_t *now_ns)
{
    uint64_t cpu_ns;
    if (counters->switches != NULL &&
        __atomic_load_n(&counters->switches->lock, __ATOMIC_ACQUIRE) == counters->switches_seen)
        cpu_ns = *now_ns - counters->behind_ns;
    else
        cpu_ns = tprof_counters_anchor(counters, now_ns);
    /* Time of a hypervisor or an interrupt shows only at the next anchor: never let the sum fall. */
    if (cpu_ns < counters->last_cpu_ns)
        cpu_ns = counters->last_cpu_ns;
    counters->last_cpu_ns = cpu_ns;
    return cpu_ns;
}

/* The thread runs on this processor (negative: not known) from now on. */
void tprof_thread_moved(struct tprof_thread *thread, int cpu);

static inline uint64_t tprof_last_energy_uj(struct tprof_thread *thread, int cpu)
{
    if (cpu != thread->cpu)
        tprof_thread_moved(thread, cpu);
    return __atomic_load_n(thread->energy_uj, __ATOMIC_RELAXED);
}

/* Begin to write to the thread's files: true unless its recording has ended. The thread marks itself as busy and then
 * checks for the recording; the end of the recording does these two in reverse order (recorder.c has the barrier for
 * both), so that it finds either no writer or one to wait for. */
static inline bool tprof_begin_writing(struct tprof_thread *thread)
{
    __atomic_store_n(&thread->busy, true, __ATOMIC_RELAXED);
    atomic_signal_fence(memory_order_seq_cst);
    if (__atomic_load_n(&tprof_generation, __ATOMIC_RELAXED) == thread->generation)
        return true;
    __atomic_store_n(&thread->busy, false, __ATOMIC_RELAXED);
    return false;
}

/* Release: makes the writes visible to the thread that ends the recording. */
static inline void tprof_end_writing(struct tprof_thread *thread)
{
    __atomic_store_n(&thread->busy, false, __ATOMIC_RELEASE);
}

void tprof_sample_lost(struct tprof_thread *thread);
/* Write an event of the task graph into the thread's second file. */
void tprof_graph_write(struct tprof_thread *thread, const struct tprof_graph_event *event);

/* Write a sample of the instance that runs from now on. */
static inline void tprof_sample(struct tprof_thread *thread, uint8_t kind, uint8_t flags)
{
    if (__atomic_load_n(&thread->busy, __ATOMIC_RELAXED)) {
        if (thread->stream.header != NULL)
            thread->stream.header->dropped_reentrant++;
        return;
    }
    if (!tprof_begin_writing(thread))
        return;
    struct tprof_sample *sample = tprof_stream_slot(&thread->stream);
    if (sample != NULL) {
        struct tprof_counters *counters = &thread->counters;
        uint64_t now_ns = tprof_sample_time_ns(thread);
        const int cpu = tprof_processor();
        sample->columns[1] = tprof_cpu_time_ns(counters, &now_ns);
        if (counters->columns > 0) {
            flags |= tprof_counters_read(counters, true);
            for (int i = 0; i < counters->columns; i++)
                sample->columns[2 + i] = counters->values[i];
        }
        sample->columns[0] = tprof_last_energy_uj(thread, cpu);
        sample->t_ns = thread->last_ns = now_ns;
        sample->instance = thread->instance;
        sample->task = thread->task;
        sample->cpu = cpu < 0 ? TPROF_NO_CPU : (uint16_t)cpu;
        sample->kind = kind;
        sample->flags = flags;
        tprof_stream_commit(&thread->stream);
    } else if (thread->stream.header == NULL) {
        tprof_sample_lost(thread);
    }
    tprof_end_writing(thread);
}

/* Run an instance of the task from now on: a new one (instance 0), or one that began or was numbered before. */
static inline bool tprof_enter(struct tprof_frame *frame, uint32_t task, uint64_t instance, uint8_t kind)
{
    frame->generation = __atomic_load_n(&tprof_generation, __ATOMIC_ACQUIRE);
    if (frame->generation == 0)
        return false;
    struct tprof_thread *thread = tprof_current_thread(frame->generation);
    if (thread == NULL) {
        frame->generation = 0;
        return false;
    }
    frame->generation = thread->generation; /* another recording may have begun meanwhile */
    frame->thread = thread;
    frame->outer_instance = thread->instance;
    frame->outer_task = thread->task;
    frame->instance = instance != 0 ? instance : thread->next_instance++;
    thread->instance = frame->instance;
    thread->task = task;
    tprof_sample(thread, kind, 0);
    return true;
}

/* Whether the frame's recording still runs, on the thread that began the frame. */
static inline bool tprof_frame_holds(const struct tprof_frame *frame)
{
    return frame->generation != 0 && frame->thread == tprof_self &&
           frame->generation == __atomic_load_n(&tprof_generation, __ATOMIC_ACQUIRE) &&
           frame->thread->generation == frame->generation;
}

static inline void tprof_return(const struct tprof_frame *frame, uint8_t kind, uint8_t flags)
{
    frame->thread->instance = frame->outer_instance;
    frame->thread->task = frame->outer_task;
    tprof_sample(frame->thread, kind, flags);
}

static inline void tprof_leave(const struct tprof_frame *frame, uint8_t kind, uint8_t flags)
{
    if (tprof_frame_holds(frame))
        tprof_return(frame, kind, flags);
}

/* Leave a frame of a function in C, which returns on the thread that entered it: as long as the recording is the same,
 * so is the thread. */
static inline void tprof_leave_call(const struct tprof_frame *frame, uint8_t kind, uint8_t flags)
{
    if (frame->generation == __atomic_load_n(&tprof_generation, __ATOMIC_ACQUIRE))
        tprof_return(frame, kind, flags);
}

/* What a suspended generator or coroutine goes on with. Its steps run inside what runs at each of them; but a span that
 * began inside it and is still current runs at the next step already, and is not what to return to after it. */
struct tprof_suspension {
    uint64_t instance; /* the innermost at the suspension */
    uint64_t span;     /* the current one at the suspension; 0: none */
    uint64_t outer_instance, outer_span; /* at the last step's begin */
    uint32_t task, outer_task;
};

static inline void tprof_step_began(struct tprof_suspension *at, const struct tprof_frame *frame)
{
    at->outer_instance = frame->outer_instance;
    at->outer_task = frame->outer_task;
    at->outer_span = frame->thread->span;
}

static inline bool tprof_continue(struct tprof_frame *frame, struct tprof_suspension *at)
{
    if (!tprof_enter(frame, at->task, at->instance, TPROF_RESUME))
        return false;
    if (at->span != 0 && at->span != at->outer_span && at->span == frame->thread->span) {
        frame->outer_instance = at->outer_instance;
        frame->outer_task = at->outer_task;
    } else {
        tprof_step_began(at, frame);
    }
    return true;
}

/* Called while the frame holds. */
static inline void tprof_suspend(const struct tprof_frame *frame, struct tprof_suspension *at)
{
    at->instance = frame->thread->instance;
    at->task = frame->thread->task;
    at->span = frame->thread->span;
    tprof_leave(frame, TPROF_SUSPEND, 0);
}

#endif
