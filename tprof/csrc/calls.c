/* Enter and leave are called by any thread of the program, from a stub, around a function of a library: no locks, no
 * allocation, no system call but the first time in a thread. What they note waits in a place of the thread's own until
 * the sensor thread takes it. A thread is busy while it writes there, and then checks whether calls are noted. The end
 * of a recording does these two in reverse order, so it finds either no writer or one to wait for.
 *
 * A call that does not return, but is left by an exception or a jump, stays open. It is forgotten at the thread's next
 * call that has its frame no deeper in the stack. */
#include "calls.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "mpi_calls.h"
#include "recorder.h"

#define MOST_CALLERS 512
#define MOST_WAITING 256
#define MOST_DEPTH 4
/* Calls of one task that follow each other within this time are one entry. */
#define TOGETHER_NS UINT64_C(5000000)
/* A call that goes on for longer is shown in parts. */
#define LONG_NS UINT64_C(50000000)
/* LAPACK's longest have about 40 arguments, and lengths of texts behind them. */
#define MOST_WORDS 48
#define MOST_COUNTED 1000
#define PATIENCE 100000
#if defined(__aarch64__)
#define REGISTERS 8
#else
#define REGISTERS 6
#endif

struct open_call {
    uintptr_t frame;
    uint64_t begin_ns, recording;
    uint64_t shown_ns; /* until then the sensor thread has shown it */
    uint32_t library, task;
};

struct caller {
    pid_t tid; /* 0: free */
    bool busy, pending, ended;
    uint64_t changes; /* of the open calls */
    uint32_t depth;
    struct open_call open[MOST_DEPTH];
    uint32_t written, taken; /* numbers of entries; the one to be written next may be pending */
    struct tprof_calls entries[MOST_WAITING];
};

bool tprof_calls_on; /* or else stubs only jump on */
struct tprof_call_target tprof_call_targets[TPROF_CALL_STUBS];
#if TPROF_CALLS_ARE_NOTED
extern const char tprof_call_stubs[];
#else
static const char tprof_call_stubs[1];
#endif

static bool noting, follows_mpi;
static uint32_t target_count;
static struct caller *callers;
static uint32_t used_callers; /* all behind are free */
static uint32_t next_to_check;
static uint64_t recording, since_ns;
static uint32_t process;
static bool missed;
static _Thread_local struct caller *own;
static _Thread_local uint32_t own_process;

intptr_t tprof_call_enter(const struct tprof_call_target *target, uintptr_t frame, uint64_t second);
void tprof_call_leave(uintptr_t frame);

static struct caller *claim(void)
{
    struct caller *all = __atomic_load_n(&callers, __ATOMIC_ACQUIRE);
    const pid_t tid = (pid_t)syscall(SYS_gettid);
    for (uint32_t i = 0; all != NULL && i < MOST_CALLERS; i++) {
        pid_t expected = 0;
        if (__atomic_load_n(&all[i].tid, __ATOMIC_RELAXED) != 0 ||
            !__atomic_compare_exchange_n(&all[i].tid, &expected, tid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        uint32_t used = __atomic_load_n(&used_callers, __ATOMIC_RELAXED);
        while (used <= i &&
               !__atomic_compare_exchange_n(&used_callers, &used, i + 1, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            ;
        own = &all[i];
        own_process = process;
        return own;
    }
    __atomic_store_n(&missed, true, __ATOMIC_RELAXED);
    return NULL;
}

static bool begin_writing(struct caller *self)
{
    if (self->busy) /* a signal handler */
        return false;
    __atomic_store_n(&self->busy, true, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&noting, __ATOMIC_SEQ_CST))
        return true;
    __atomic_store_n(&self->busy, false, __ATOMIC_RELEASE);
    return false;
}

static void end_writing(struct caller *self)
{
    __atomic_store_n(&self->busy, false, __ATOMIC_RELEASE);
}

static uint32_t current_task(void)
{
    const struct tprof_thread *thread = tprof_self;
    const bool runs = thread != NULL && thread->instance != 0 &&
                      thread->generation == __atomic_load_n(&tprof_generation, __ATOMIC_RELAXED);
    return runs ? thread->task : TPROF_NO_TASK;
}

/* Fields that the sensor thread reads meanwhile. */
static void open_call(struct caller *self, const struct tprof_call_target *target, uintptr_t frame)
{
    struct open_call *call = &self->open[self->depth];
    __atomic_store_n(&self->changes, self->changes + 1, __ATOMIC_RELEASE);
    call->frame = frame;
    __atomic_store_n(&call->recording, recording, __ATOMIC_RELAXED);
    __atomic_store_n(&call->library, target->number, __ATOMIC_RELAXED);
    __atomic_store_n(&call->task, current_task(), __ATOMIC_RELAXED);
    __atomic_store_n(&call->shown_ns, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&call->begin_ns, tprof_now_ns(), __ATOMIC_RELAXED);
    __atomic_store_n(&self->depth, self->depth + 1, __ATOMIC_RELEASE);
}

static void set_depth(struct caller *self, uint32_t depth)
{
    __atomic_store_n(&self->changes, self->changes + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&self->depth, depth, __ATOMIC_RELEASE);
}

static bool may_note(const struct caller *self, uint32_t library)
{
    for (uint32_t i = 0; i < self->depth; i++)
        if (self->open[i].library == library)
            return false; /* a part of the call that is noted already */
    return self->depth < MOST_DEPTH;
}

static intptr_t words_of(const struct tprof_call_target *target, uint64_t second)
{
    const intptr_t count = (intptr_t)(uint32_t)second + 3 - REGISTERS;
    if (target->kind != TPROF_CALL_OF_POOL_COUNTED)
        return MOST_WORDS;
    return count > 0 ? (count + 1) & ~(intptr_t)1 : 0;
}

/* Returns the words of arguments to copy, or TPROF_CALL_DIRECT: this call is not noted. */
intptr_t tprof_call_enter(const struct tprof_call_target *target, uintptr_t frame, uint64_t second)
{
    struct caller *self = own_process == process ? own : NULL;
    if (target->kind == TPROF_CALL_OF_MPI)
        return tprof_mpi_enter(target->number, frame);
    if (target->kind == TPROF_CALL_OF_POOL_COUNTED && (uint32_t)second > MOST_COUNTED)
        return TPROF_CALL_DIRECT;
    if (self == NULL)
        self = claim();
    if (self == NULL || !begin_writing(self))
        return TPROF_CALL_DIRECT;
    uint32_t depth = self->depth;
    while (depth > 0 && (self->open[depth - 1].frame <= frame || self->open[depth - 1].recording != recording))
        depth--;
    if (depth != self->depth)
        set_depth(self, depth);
    const bool is_noted = may_note(self, target->number);
    if (is_noted)
        open_call(self, target, frame);
    end_writing(self);
    return is_noted ? words_of(target, second) : TPROF_CALL_DIRECT;
}

/* Returns whether the last entry holds this call now. */
static bool put_together(struct tprof_calls *last, const struct tprof_calls *calls, bool is_full)
{
    if (last->library != calls->library || calls->begin_ns < last->begin_ns)
        return false;
    if (!is_full && (last->task != calls->task || calls->end_ns - last->begin_ns > TOGETHER_NS))
        return false;
    last->several_tasks |= last->task != calls->task;
    last->end_ns = calls->end_ns;
    last->inside_ns += calls->inside_ns;
    return true;
}

static void note(struct caller *self, const struct tprof_calls *calls)
{
    struct tprof_calls *last = &self->entries[self->written % MOST_WAITING];
    const bool is_full = self->written - __atomic_load_n(&self->taken, __ATOMIC_ACQUIRE) == MOST_WAITING - 1;
    if (self->pending && put_together(last, calls, is_full))
        return;
    if (self->pending && is_full) {
        __atomic_store_n(&missed, true, __ATOMIC_RELAXED);
        return;
    }
    if (self->pending)
        __atomic_store_n(&self->written, self->written + 1, __ATOMIC_RELEASE);
    self->entries[self->written % MOST_WAITING] = *calls;
    self->pending = true;
}

void tprof_call_leave(uintptr_t frame)
{
    struct caller *self = own_process == process ? own : NULL;
    if (tprof_mpi_leave(frame) || self == NULL || !begin_writing(self))
        return;
    uint32_t depth = self->depth;
    while (depth > 0 && self->open[depth - 1].frame != frame)
        depth--;
    const struct open_call *call = depth > 0 ? &self->open[depth - 1] : NULL;
    if (call != NULL && call->recording == recording) {
        const uint64_t shown_ns = __atomic_load_n(&call->shown_ns, __ATOMIC_RELAXED);
        struct tprof_calls calls = {
            .begin_ns = shown_ns > call->begin_ns ? shown_ns : call->begin_ns,
            .end_ns = tprof_now_ns(),
            .library = call->library,
            .task = call->task,
        };
        calls.inside_ns = calls.end_ns > calls.begin_ns ? calls.end_ns - calls.begin_ns : 0;
        if (calls.inside_ns > 0)
            note(self, &calls);
    }
    if (call != NULL)
        set_depth(self, depth - 1);
    end_writing(self);
}

void tprof_calls_leave_thread(void)
{
    struct caller *self = own_process == process ? own : NULL;
    own = NULL;
    if (self != NULL)
        __atomic_store_n(&self->ended, true, __ATOMIC_RELEASE);
}

static void show(const struct caller *one, const struct tprof_calls *calls, tprof_calls_visitor *visit)
{
    if (calls->begin_ns >= since_ns)
        visit(calls, __atomic_load_n(&one->tid, __ATOMIC_RELAXED));
}

/* Show calls that go on; what their thread does meanwhile shows in `changes`. */
static void take_open(struct caller *one, bool all, tprof_calls_visitor *visit)
{
    const uint64_t changes = __atomic_load_n(&one->changes, __ATOMIC_ACQUIRE), now_ns = tprof_now_ns();
    const uint32_t depth = __atomic_load_n(&one->depth, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < depth && i < MOST_DEPTH; i++) {
        struct open_call *call = &one->open[i];
        struct tprof_calls calls = {
            .begin_ns = __atomic_load_n(&call->begin_ns, __ATOMIC_RELAXED),
            .end_ns = now_ns,
            .library = __atomic_load_n(&call->library, __ATOMIC_RELAXED),
            .task = __atomic_load_n(&call->task, __ATOMIC_RELAXED),
        };
        const bool is_old = __atomic_load_n(&call->recording, __ATOMIC_RELAXED) != recording;
        const uint64_t shown_ns = __atomic_load_n(&call->shown_ns, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if ((!all && __atomic_load_n(&one->busy, __ATOMIC_ACQUIRE)) ||
            __atomic_load_n(&one->changes, __ATOMIC_RELAXED) != changes)
            return;
        if (shown_ns > calls.begin_ns)
            calls.begin_ns = shown_ns;
        if (is_old || now_ns <= calls.begin_ns || (!all && now_ns - calls.begin_ns < LONG_NS))
            continue;
        calls.inside_ns = now_ns - calls.begin_ns;
        __atomic_store_n(&call->shown_ns, now_ns, __ATOMIC_RELAXED);
        show(one, &calls, visit);
    }
}

static void take_written(struct caller *one, tprof_calls_visitor *visit)
{
    const uint32_t written = __atomic_load_n(&one->written, __ATOMIC_ACQUIRE);
    uint32_t taken = one->taken;
    for (; taken != written; taken++)
        show(one, &one->entries[taken % MOST_WAITING], visit);
    __atomic_store_n(&one->taken, taken, __ATOMIC_RELEASE);
}

/* While the thread does not write, or is gone. */
static void take_pending(struct caller *one, tprof_calls_visitor *visit)
{
    take_written(one, visit);
    if (one->pending)
        show(one, &one->entries[one->written % MOST_WAITING], visit);
    one->pending = false;
}

static bool await_writer(const struct caller *one)
{
    for (int i = 0; i < PATIENCE; i++) {
        if (!__atomic_load_n(&one->busy, __ATOMIC_SEQ_CST))
            return true;
        if (i > 100)
            sched_yield();
    }
    return false;
}

static void free_place(struct caller *one, tprof_calls_visitor *visit)
{
    take_pending(one, visit);
    one->depth = 0;
    one->busy = one->ended = false;
    __atomic_store_n(&one->tid, 0, __ATOMIC_RELEASE);
}

/* Not every thread says that it ends; one is looked at each time. */
static void free_one(uint32_t used, tprof_calls_visitor *visit)
{
    struct caller *one = &callers[next_to_check = (next_to_check + 1) % used];
    const pid_t tid = __atomic_load_n(&one->tid, __ATOMIC_ACQUIRE);
    const int error = errno;
    if (tid != 0 && syscall(SYS_tgkill, getpid(), tid, 0) != 0 && errno == ESRCH)
        free_place(one, visit);
    errno = error;
}

bool tprof_calls_take(bool all, tprof_calls_visitor *visit)
{
    const uint32_t used = __atomic_load_n(&used_callers, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < used; i++) {
        struct caller *one = &callers[i];
        if (__atomic_load_n(&one->tid, __ATOMIC_ACQUIRE) == 0)
            continue;
        if (__atomic_load_n(&one->ended, __ATOMIC_ACQUIRE)) {
            free_place(one, visit);
            continue;
        }
        if (all && await_writer(one))
            take_pending(one, visit);
        else
            take_written(one, visit);
        take_open(one, all, visit);
    }
    if (used > 0)
        free_one(used, visit);
    return __atomic_exchange_n(&missed, false, __ATOMIC_RELAXED);
}

void tprof_calls_note(bool on)
{
    if (on && callers == NULL) {
        void *memory = mmap(NULL, MOST_CALLERS * sizeof *callers, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            return;
        __atomic_store_n(&callers, memory, __ATOMIC_RELEASE);
    }
    if (on) {
        __atomic_store_n(&recording, recording + 1, __ATOMIC_RELAXED);
        since_ns = tprof_now_ns();
    }
    __atomic_store_n(&noting, on, __ATOMIC_SEQ_CST);
    __atomic_store_n(&tprof_calls_on, on || follows_mpi, __ATOMIC_SEQ_CST);
}

void tprof_calls_follow_mpi(void)
{
    follows_mpi = true;
    __atomic_store_n(&tprof_calls_on, true, __ATOMIC_SEQ_CST);
}

/* What other threads noted is the parent's. */
void tprof_calls_after_fork_in_child(void)
{
    noting = false;
    tprof_calls_on = follows_mpi;
    process++;
    used_callers = 0;
    missed = false;
    if (callers != NULL)
        (void)madvise(callers, MOST_CALLERS * sizeof *callers, MADV_DONTNEED);
}

bool tprof_is_call_stub(uintptr_t address)
{
    const uintptr_t first = (uintptr_t)tprof_call_stubs;
    return TPROF_CALLS_ARE_NOTED && address >= first && address < first + sizeof tprof_call_targets;
}

/* Targets stay in place, since a stub may be in use; those of a library that is gone are found by their address 0. */
uintptr_t tprof_call_stub(uintptr_t function, uint32_t number, enum tprof_call_kind kind)
{
    uint32_t place = target_count;
    if (!TPROF_CALLS_ARE_NOTED)
        return 0;
    for (uint32_t i = 0; i < target_count; i++) {
        if (tprof_call_targets[i].function == function)
            return (uintptr_t)tprof_call_stubs + i * sizeof *tprof_call_targets;
        if (tprof_call_targets[i].function == 0)
            place = i;
    }
    if (place == TPROF_CALL_STUBS)
        return 0;
    tprof_call_targets[place] = (struct tprof_call_target){function, number, kind};
    target_count += place == target_count;
    return (uintptr_t)tprof_call_stubs + place * sizeof *tprof_call_targets;
}

void tprof_call_stubs_drop(uintptr_t start, uintptr_t end)
{
    for (uint32_t i = 0; i < target_count; i++)
        if (tprof_call_targets[i].function >= start && tprof_call_targets[i].function < end)
            tprof_call_targets[i] = (struct tprof_call_target){0, 0, 0};
}
