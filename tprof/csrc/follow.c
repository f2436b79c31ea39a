/* Called by the meter of a recording, one thread at a time for each follower; needs no lock, and Python only if `learn`
 * does. */
#include "follow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define CHUNK_RECORDS 1024u
#define NO_ROW SIZE_MAX
/* CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED of the kernel's posix-timers.h */
#define THREAD_CLOCK 6

struct step {
    const int64_t *edges_ns;
    size_t interval;
    uint64_t until_ns;
    bool no_memory;
};

/* CPU time of the thread by now; 0 if its clock cannot be read. */
static uint64_t thread_clock_ns(const struct tprof_follower *follower)
{
    char path[64], text[64];
    if (follower->own)
        return tprof_clock_ns((clockid_t)((~follower->tid << 3) | THREAD_CLOCK));
    snprintf(path, sizeof path, "/proc/%u/task/%u/schedstat", follower->pid, follower->tid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const ssize_t count = read(fd, text, sizeof text - 1);
    close(fd);
    text[count < 0 ? 0 : count] = '\0';
    return strtoull(text, NULL, 10);
}

static struct tprof_known *place_of(struct tprof_known *known, size_t capacity, uint32_t number)
{
    size_t at = (number * UINT32_C(2654435761)) & (capacity - 1);
    while (known[at].used && known[at].number != number)
        at = (at + 1) & (capacity - 1);
    return &known[at];
}

static bool grow(struct tprof_follower *follower)
{
    const size_t capacity = follower->capacity != 0 ? follower->capacity * 2 : 16;
    struct tprof_known *known = calloc(capacity, sizeof *known);
    if (known == NULL)
        return false;
    for (size_t i = 0; i < follower->capacity; i++)
        if (follower->known[i].used)
            *place_of(known, capacity, follower->known[i].number) = follower->known[i];
    if (follower->count != 0)
        follower->place = (size_t)(place_of(known, capacity, follower->known[follower->place].number) - known);
    free(follower->known);
    follower->known = known;
    follower->capacity = capacity;
    return true;
}

/* Find the number's place; `learn` adds a new one. The place is unchanged if that fails. */
static enum tprof_follow_result find_or_learn(struct tprof_follower *follower, uint32_t number)
{
    if (follower->count != 0 && follower->known[follower->place].number == number)
        return TPROF_FOLLOWED;
    if (2 * (follower->count + 1) > follower->capacity && !grow(follower))
        return TPROF_FOLLOW_NO_MEMORY;
    struct tprof_known *found = place_of(follower->known, follower->capacity, number);
    if (!found->used) {
        struct tprof_known added = {.number = number, .used = true, .row = NO_ROW};
        if (!follower->learn(follower->owner, &added))
            return TPROF_FOLLOW_REFUSED;
        *found = added;
        follower->count++;
    }
    follower->place = (size_t)(found - follower->known);
    return TPROF_FOLLOWED;
}

static struct tprof_known *running_task(struct tprof_follower *follower)
{
    return follower->instance == 0 ? &follower->nobody : &follower->known[follower->place];
}

/* What a part of the current segment adds. */
struct part {
    uint64_t begin_ns, end_ns;
    double cpu_ns;
    int32_t package_end;
};

static bool goes_on(const struct tprof_follower *follower, const struct tprof_known *who, size_t interval,
                    int32_t package_end)
{
    if (who->row == NO_ROW || who->interval != interval)
        return false;
    const struct tprof_row *row = &follower->rows[who->row];
    return row->package == follower->package && row->package_end == package_end &&
           (!who->watched || row->instance == follower->instance);
}

static struct tprof_row *new_row(struct tprof_follower *follower)
{
    if (follower->row_count == follower->row_capacity) {
        const size_t capacity = follower->row_capacity != 0 ? follower->row_capacity * 2 : 64;
        struct tprof_row *rows = realloc(follower->rows, capacity * sizeof *rows);
        if (rows == NULL)
            return NULL;
        follower->rows = rows;
        follower->row_capacity = capacity;
    }
    return &follower->rows[follower->row_count++];
}

static int32_t package_of(const struct tprof_follower *follower, uint16_t cpu)
{
    return cpu < follower->cpus ? follower->packages[cpu] : -1;
}

/* Inlined or not so that what happens at nearly every sample stays short: a sample takes 12 ns. */
__attribute__((noinline)) static void begin_row(struct tprof_follower *follower, struct step *step, struct part part)
{
    struct tprof_known *who = running_task(follower);
    struct tprof_row *row = new_row(follower);
    if (row == NULL) {
        step->no_memory = true;
        return;
    }
    *row = (struct tprof_row){
        .begin_ns = (int64_t)part.begin_ns,
        .end_ns = (int64_t)part.end_ns,
        .cpu_s = part.cpu_ns * 1e-9,
        .own_s = (double)(part.end_ns - part.begin_ns) * 1e-9,
        .task = who->index,
        .instance = follower->instance,
        .package = follower->package,
        .package_end = part.package_end,
        .process = follower->process,
    };
    who->row = follower->row_count - 1;
    who->interval = step->interval;
}

static inline __attribute__((always_inline)) void add(struct tprof_follower *follower, struct step *step,
                                                      struct part part)
{
    const struct tprof_known *who = running_task(follower);
    if (goes_on(follower, who, step->interval, part.package_end)) {
        struct tprof_row *row = &follower->rows[who->row];
        row->cpu_s += part.cpu_ns * 1e-9;
        row->own_s += (double)(part.end_ns - part.begin_ns) * 1e-9;
        row->end_ns = (int64_t)part.end_ns;
    } else {
        begin_row(follower, step, part);
    }
}

/* CPU time of the current segment if it ends at this time with this count; a count that fell is damage. */
static double grown_ns(const struct tprof_follower *follower, uint64_t t_ns, uint64_t cpu_ns)
{
    if (follower->cpu_column < 0)
        return follower->instance != 0 && t_ns > follower->since_ns ? (double)(t_ns - follower->since_ns) : 0;
    const int64_t grown = (int64_t)(cpu_ns - follower->cpu_ns);
    return grown > 0 ? (double)grown : 0;
}

__attribute__((noinline)) static void split(struct tprof_follower *follower, struct step *step, uint64_t t_ns,
                                            uint64_t end_ns, double left_ns, int32_t package_end)
{
    const double span_ns = (double)(end_ns - follower->t_ns);
    const uint64_t first_ns = (uint64_t)step->edges_ns[0];
    uint64_t begin_ns = follower->t_ns < first_ns ? first_ns : follower->t_ns;
    while (begin_ns < t_ns) {
        while ((uint64_t)step->edges_ns[step->interval + 1] <= begin_ns)
            step->interval++;
        const uint64_t edge_ns = (uint64_t)step->edges_ns[step->interval + 1];
        const uint64_t until_ns = edge_ns < t_ns ? edge_ns : t_ns;
        const double cpu_ns = left_ns * ((double)(until_ns - begin_ns) / span_ns);
        add(follower, step, (struct part){begin_ns, until_ns, cpu_ns, package_end});
        begin_ns = until_ns;
    }
}

/* The current segment, which ends at `end_ns` with so much CPU time, ran on until then, or to the step's end. */
static inline __attribute__((always_inline)) void run(struct tprof_follower *follower, struct step *step,
                                                      uint64_t end_ns, double used_ns, int32_t package_end)
{
    const uint64_t begin_ns = follower->t_ns;
    const uint64_t t_ns = end_ns < step->until_ns ? end_ns : step->until_ns;
    if (t_ns <= begin_ns)
        return;
    const double left_ns = used_ns > follower->given_ns ? used_ns - follower->given_ns : 0;
    const int64_t *edges_ns = &step->edges_ns[step->interval];
    /* Nearly always, and without a division. */
    if (t_ns == end_ns && (uint64_t)edges_ns[0] <= begin_ns && end_ns <= (uint64_t)edges_ns[1])
        add(follower, step, (struct part){begin_ns, end_ns, left_ns, package_end});
    else
        split(follower, step, t_ns, end_ns, left_ns, package_end);
    if (t_ns != end_ns)
        follower->given_ns += left_ns * ((double)(t_ns - begin_ns) / (double)(end_ns - begin_ns));
    follower->t_ns = t_ns;
}

/* Whether what happened then was counted by whoever followed the file before. */
static bool is_known(const struct tprof_follower *follower, uint64_t t_ns)
{
    return follower->resumes && t_ns <= follower->from_ns;
}

static void note_moment(struct tprof_follower *follower, struct step *step, uint64_t t_ns, bool ends)
{
    if (!follower->notes_moments || follower->instance == 0 || is_known(follower, t_ns))
        return;
    if (follower->moment_count == follower->moment_capacity) {
        const size_t capacity = follower->moment_capacity != 0 ? follower->moment_capacity * 2 : 64;
        struct tprof_moment *moments = realloc(follower->moments, capacity * sizeof *moments);
        if (moments == NULL) {
            step->no_memory = true;
            return;
        }
        follower->moments = moments;
        follower->moment_capacity = capacity;
    }
    follower->moments[follower->moment_count++] =
        (struct tprof_moment){(int64_t)t_ns, follower->instance, running_task(follower)->index, ends};
}

static void end_instance(struct tprof_follower *follower, struct step *step, uint64_t t_ns)
{
    const struct tprof_known *who = running_task(follower);
    note_moment(follower, step, t_ns, true);
    if (who->watched && who->row != NO_ROW && follower->rows[who->row].instance == follower->instance)
        follower->rows[who->row].ends = 1;
}

static void begin(struct tprof_follower *follower, uint64_t t_ns, uint64_t since_ns)
{
    follower->begun = true;
    follower->first_ns = t_ns;
    follower->t_ns = t_ns < since_ns && !follower->finished && !follower->resumes ? since_ns : t_ns;
}

/* Samples are in order, whatever their times say; none of a finished file is after its end. */
static uint64_t time_of(const struct tprof_follower *follower, const struct tprof_sample *sample)
{
    return follower->finished && sample->t_ns > follower->end_ns ? follower->end_ns : sample->t_ns;
}

static uint64_t count_of(const struct tprof_follower *follower, const uint64_t *columns)
{
    return follower->cpu_column < 0 ? 0 : columns[follower->cpu_column];
}

/* The segment ended: what it was given too much or, as it came too late, too little counts in the next one. */
__attribute__((noinline)) static void settle(struct tprof_follower *follower, double used_ns, bool late)
{
    const double too_much_ns = follower->given_ns - used_ns;
    follower->given_ns = !follower->finished && (late || too_much_ns > 0) ? too_much_ns : 0;
}

/* Process one sample that is not after the step's end. */
static enum tprof_follow_result take(struct tprof_follower *follower, struct step *step,
                                     const struct tprof_sample *sample, uint64_t t_ns)
{
    const uint64_t cpu_ns = count_of(follower, sample->columns);
    const int32_t package = package_of(follower, sample->cpu);
    if (!follower->begun) {
        begin(follower, t_ns, (uint64_t)step->edges_ns[0]);
        follower->first_cpu_ns = cpu_ns;
    } else {
        const double used_ns = grown_ns(follower, t_ns, cpu_ns);
        const bool late = t_ns <= follower->t_ns;
        run(follower, step, t_ns, used_ns, package);
        if (late || follower->given_ns != 0)
            settle(follower, used_ns, late);
    }
    if (sample->kind == TPROF_FINISH || (sample->flags & TPROF_ABORTED) != 0)
        end_instance(follower, step, t_ns);
    follower->instance = sample->instance;
    if (sample->instance != 0) {
        const enum tprof_follow_result result = find_or_learn(follower, sample->task);
        if (result != TPROF_FOLLOWED)
            return result;
        if (follower->known[follower->place].index < 0)
            follower->instance = 0;
    }
    follower->package = package;
    follower->cpu_ns = cpu_ns;
    if (t_ns > follower->since_ns)
        follower->since_ns = t_ns;
    if (sample->kind == TPROF_START) {
        running_task(follower)->starts += !is_known(follower, t_ns);
        note_moment(follower, step, t_ns, false);
    }
    return TPROF_FOLLOWED;
}

/* CPU time of a last segment that nothing in the file closes. */
static double cut_off_ns(const struct tprof_follower *follower, uint64_t end_ns)
{
    if (follower->instance == 0 || end_ns <= follower->since_ns)
        return 0;
    const double length_ns = (double)(end_ns - follower->since_ns);
    return length_ns < follower->cut_off_ns ? length_ns : follower->cut_off_ns;
}

/* After the last sample: run up to the thread's end, or towards now. */
static void finish(struct tprof_follower *follower, struct step *step, const struct tprof_tail_state *state,
                   uint64_t now_ns, uint64_t clock_ns)
{
    if (!follower->begun)
        return;
    const bool lost = state->first_drop_ns != 0;
    const bool open = lost || follower->stops || state->end_reason == TPROF_OPEN;
    if (open && !lost && !follower->finished) {
        run(follower, step, now_ns, grown_ns(follower, now_ns, clock_ns), follower->package);
        return;
    }
    const uint64_t end_ns = follower->finished ? follower->end_ns : lost ? state->first_drop_ns : state->end_ns;
    const double used_ns =
        open ? cut_off_ns(follower, end_ns) : grown_ns(follower, end_ns, count_of(follower, state->end_columns));
    run(follower, step, end_ns, used_ns, follower->package);
    if (end_ns <= step->until_ns) {
        note_moment(follower, step, end_ns, true);
        follower->instance = 0;
        follower->ended = true;
    }
}

static size_t wanted(const struct tprof_follower *follower)
{
    const uint64_t done = follower->tail.done;
    if (!follower->stops || (done < follower->stop && follower->stop - done > CHUNK_RECORDS))
        return CHUNK_RECORDS;
    return done < follower->stop ? (size_t)(follower->stop - done) : 0;
}

static enum tprof_follow_result read_samples(struct tprof_follower *follower, struct step *step, int fd,
                                             struct tprof_tail_state *state, bool *reached)
{
    struct tprof_tail *tail = &follower->tail;
    ssize_t got = 0;
    size_t most;
    while ((most = wanted(follower)) > 0 && (got = tprof_tail_read(tail, fd, state, follower->buffer, most)) > 0) {
        for (ssize_t i = 0; i < got; i++) {
            const void *record = follower->buffer + (size_t)i * tail->record_bytes;
            const struct tprof_sample *sample = record;
            const uint64_t t_ns = time_of(follower, sample);
            if (t_ns > step->until_ns) {
                if (follower->begun)
                    run(follower, step, t_ns, grown_ns(follower, t_ns, count_of(follower, sample->columns)),
                        package_of(follower, sample->cpu));
                *reached = true;
                return TPROF_FOLLOWED;
            }
            const enum tprof_follow_result result = take(follower, step, sample, t_ns);
            if (result != TPROF_FOLLOWED)
                return result;
            tail->done++;
        }
    }
    return got < 0 ? TPROF_FOLLOW_GONE : TPROF_FOLLOWED;
}

static bool get_ready(struct tprof_follower *follower)
{
    if (follower->buffer == NULL)
        follower->buffer = malloc((size_t)CHUNK_RECORDS * follower->tail.record_bytes);
    follower->row_count = 0;
    follower->moment_count = 0;
    follower->nobody.index = -1;
    follower->nobody.row = NO_ROW;
    for (size_t i = 0; i < follower->capacity; i++)
        follower->known[i].row = NO_ROW;
    return follower->buffer != NULL;
}

enum tprof_follow_result tprof_follow(struct tprof_follower *follower, const int64_t *edges_ns, size_t edges,
                                      uint64_t now_ns)
{
    struct step step = {.edges_ns = edges_ns, .until_ns = (uint64_t)edges_ns[edges - 1]};
    struct tprof_tail_state state;
    bool reached = false;
    if (follower->from_ns == 0)
        follower->from_ns = step.edges_ns[0] > 0 ? (uint64_t)step.edges_ns[0] : 1;
    if (!get_ready(follower))
        return TPROF_FOLLOW_NO_MEMORY;
    if (follower->ended)
        return TPROF_FOLLOWED;
    /* Read the clock before the samples: a later sample is more exact than the clock. */
    const uint64_t clock_ns = follower->finished ? 0 : thread_clock_ns(follower);
    const int fd = tprof_tail_open(&follower->tail, &state);
    if (fd < 0)
        return TPROF_FOLLOW_GONE;
    const enum tprof_follow_result result = read_samples(follower, &step, fd, &state, &reached);
    const int error = errno;
    close(fd);
    errno = error;
    if (result == TPROF_FOLLOWED && !reached)
        finish(follower, &step, &state, now_ns, clock_ns);
    return step.no_memory ? TPROF_FOLLOW_NO_MEMORY : result;
}

bool tprof_follower_running(const struct tprof_follower *follower, struct tprof_running *running)
{
    const bool runs = follower->instance != 0;
    const double counted_ns = (double)(int64_t)(follower->cpu_ns - follower->first_cpu_ns);
    *running = (struct tprof_running){
        .t_ns = follower->t_ns,
        .task = runs ? follower->known[follower->place].index : -1,
        .since_ns = follower->since_ns,
        .cpu_ns = counted_ns + (follower->given_ns > 0 ? follower->given_ns : 0),
    };
    return follower->begun;
}

void tprof_follower_free(struct tprof_follower *follower)
{
    free(follower->known);
    free(follower->rows);
    free(follower->moments);
    free(follower->buffer);
}
