/* From samples to segments and instances. See engine.h. */
#include "engine.h"

#include <math.h>
#include <string.h>

/* tprof.trace.Kind */
#define START 1
#define FINISH 2
/* tprof.trace.Flag */
#define FAILED 1
#define ABORTED 8

/* A segment of the running sample, before it is cut. */
struct span {
    int64_t begin_ns, end_ns;
    double cpu_s;
    int16_t package_end;
};

/* Ids are mostly counted, with the number of a process or a thread in their upper half: neighbours share a line of the
 * cache, and all bits decide which. */
static size_t home_of(const struct tprof_engine_table *table, uint64_t instance)
{
    const uint64_t group = instance >> 4;
    const uint64_t mixed = (group ^ group >> 32) * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    return (size_t)(mixed << 4 | (instance & 15)) & (table->places - 1);
}

/* Return where an instance is in the index, or the free place where it would be. */
static size_t place_of(const struct tprof_engine_table *table, uint64_t instance)
{
    size_t at = home_of(table, instance);
    while (table->index[at] >= 0 && table->instances[table->index[at]].instance != instance)
        at = (at + 1) & (table->places - 1);
    return at;
}

int32_t tprof_engine_find(const struct tprof_engine_table *table, uint64_t instance)
{
    return table->index[place_of(table, instance)];
}

bool tprof_engine_index(struct tprof_engine_table *table)
{
    if (table->places < 2 * table->count || table->places == 0)
        return false;
    memset(table->index, 0xff, table->places * sizeof *table->index);
    for (size_t row = 0; row < table->count; row++)
        table->index[place_of(table, table->instances[row].instance)] = (int32_t)row;
    return true;
}

/* Let an instance begin where a segment of its thread does. */
static void begin_instance(struct tprof_engine_instance *one, const struct tprof_engine_thread *thread, int32_t number,
                           int64_t begin_ns)
{
    one->parent = thread->parent;
    one->task = thread->task;
    one->thread = number;
    one->cpu = thread->cpu;
    one->package = thread->package;
    one->begun = thread->kind == START;
    one->start_ns = begin_ns;
}

/* Return the row of the running instance, which is entered if it is not there; there is room. */
static int32_t row_of(struct tprof_engine_step *step, int64_t begin_ns)
{
    struct tprof_engine_table *table = &step->table;
    const struct tprof_engine_thread *thread = step->thread;
    const size_t place = place_of(table, thread->instance);
    const int32_t known = table->index[place];
    if (known >= 0) {
        if (begin_ns < table->instances[known].start_ns)
            begin_instance(&table->instances[known], thread, step->number, begin_ns);
        return known;
    }
    const int32_t row = (int32_t)table->count++;
    struct tprof_engine_instance *one = &table->instances[row];
    *one = (struct tprof_engine_instance){.instance = thread->instance, .end_ns = INT64_MIN, .last_ns = INT64_MIN};
    begin_instance(one, thread, step->number, begin_ns);
    memset(table->counts + (size_t)row * table->columns, 0, table->columns * sizeof *table->counts);
    table->index[place] = row;
    return row;
}

/* Write a segment; there is room. */
static void write(struct tprof_engine_segments *segments, int64_t begin_ns, int64_t end_ns, int32_t slot, double cpu_s,
                  uint16_t cpu, int16_t package, int16_t package_end)
{
    const size_t at = segments->count++;
    segments->t_ns[at] = begin_ns;
    segments->t_ns[at + 1] = end_ns;
    segments->slot[at] = slot;
    segments->cpu_s[at] = cpu_s;
    segments->cpu[at] = cpu;
    segments->package[at] = package;
    segments->package_end[at] = package_end;
}

/* What is left of a segment where it is cut. */
struct cut {
    int64_t begin_ns, end_ns;
    double part, before;
};

static struct cut cut_to(const struct span *span, const int64_t reach_ns[2])
{
    const int64_t length_ns = span->end_ns - span->begin_ns;
    struct cut cut = {span->begin_ns, span->end_ns, 1.0, 0.0};
    if (span->begin_ns >= reach_ns[0] && span->end_ns <= reach_ns[1] && span->begin_ns < reach_ns[1])
        return cut;
    cut.begin_ns = span->begin_ns < reach_ns[0]   ? reach_ns[0]
                   : span->begin_ns > reach_ns[1] ? reach_ns[1]
                                                  : span->begin_ns;
    cut.end_ns = span->end_ns < reach_ns[0] ? reach_ns[0] : span->end_ns > reach_ns[1] ? reach_ns[1] : span->end_ns;
    if (length_ns > 0) {
        const int64_t before_ns = cut.begin_ns - span->begin_ns;
        cut.part = (double)(cut.end_ns - cut.begin_ns) / (double)length_ns;
        cut.before = before_ns > 0 ? (double)before_ns / (double)length_ns : 0.0;
    } else {
        cut.part = span->begin_ns >= reach_ns[0] && span->begin_ns < reach_ns[1] ? 1.0 : 0.0;
        cut.before = span->begin_ns < reach_ns[0] ? 1.0 : 0.0;
    }
    return cut;
}

static bool has_room(const struct tprof_engine_step *step)
{
    const struct tprof_engine_segments *segments = &step->segments;
    return step->table.count < step->table.room && segments->count + 2 < segments->room;
}

#define MOST_NS INT64_C(9007199254740992) /* a double has all before it exactly */

/* Return a time so much later, at most MOST_NS. */
static int64_t later(int64_t t_ns, double seconds)
{
    const double found_ns = (double)t_ns + seconds * 1e9;
    return found_ns < (double)MOST_NS ? t_ns + (int64_t)(seconds * 1e9 + 0.5) : MOST_NS;
}

static double increase(uint64_t from, uint64_t to)
{
    const int64_t more = (int64_t)(to - from);
    return more > 0 ? (double)more : 0.0;
}

/* Add the segment of the running sample, which the counts `until` end, and, if there is one, a sample of this kind and
 * flags. There is room. */
static void add_segment(struct tprof_engine_step *step, const uint64_t *until, const struct span *span,
                        uint8_t end_kind, uint8_t end_flags)
{
    struct tprof_engine_thread *thread = step->thread;
    struct tprof_engine_table *table = &step->table;
    struct tprof_engine_segments *segments = &step->segments;
    const struct tprof_engine_block *block = &step->block;
    const struct cut cut = cut_to(span, block->reach_ns);
    thread->starts += thread->kind == START;
    thread->aborted += (thread->flags & ABORTED) != 0;
    if (cut.end_ns < block->since_ns) {
        thread->earlier_ns = later(thread->earlier_ns, span->cpu_s);
        return;
    }
    if (cut.before > 0)
        thread->earlier_ns = later(thread->earlier_ns, span->cpu_s * cut.before);
    const double cpu_s = span->cpu_s * cut.part;
    const size_t at = segments->count;
    double *of_instance = NULL;
    int32_t slot = 0;
    if (thread->instance != 0) {
        const int32_t row = row_of(step, cut.begin_ns);
        struct tprof_engine_instance *one = &table->instances[row];
        slot = row + 1;
        one->own_s += (double)(cut.end_ns - cut.begin_ns) * 1e-9;
        one->cpu_s += cpu_s;
        one->end_ns = cut.end_ns > one->end_ns ? cut.end_ns : one->end_ns;
        one->last_ns = cut.begin_ns > one->last_ns ? cut.begin_ns : one->last_ns;
        if (end_kind == FINISH) {
            one->ended = true;
            one->failed |= (end_flags & FAILED) != 0;
        }
        of_instance = table->counts + (size_t)row * table->columns;
        thread->moved += span->package_end != thread->package;
    }
    write(segments, cut.begin_ns, cut.end_ns, slot, cpu_s, thread->cpu, thread->package, span->package_end);
    for (size_t column = 0; column < table->columns; column++) {
        const double more =
            step->layout.columns[column] < 0 ? NAN : increase(step->counts[column], until[column]) * cut.part;
        segments->increments[column * segments->room + at] = more;
        if (of_instance != NULL)
            of_instance[column] += more;
    }
}

struct sample {
    uint64_t t_ns, instance, cpu_ns;
    uint32_t task;
    uint16_t cpu;
    uint8_t kind, flags;
};

static struct sample sample_at(const char *record, const struct tprof_engine_layout *layout)
{
    struct sample sample = {.cpu_ns = 0};
    memcpy(&sample.t_ns, record + layout->t_ns, sizeof sample.t_ns);
    memcpy(&sample.instance, record + layout->instance, sizeof sample.instance);
    memcpy(&sample.task, record + layout->task, sizeof sample.task);
    memcpy(&sample.cpu, record + layout->cpu, sizeof sample.cpu);
    memcpy(&sample.kind, record + layout->kind, sizeof sample.kind);
    memcpy(&sample.flags, record + layout->flags, sizeof sample.flags);
    if (layout->cpu_ns >= 0)
        memcpy(&sample.cpu_ns, record + layout->cpu_ns, sizeof sample.cpu_ns);
    if (layout->tasks != NULL)
        sample.task = sample.task < layout->task_count ? layout->tasks[sample.task] : TPROF_ENGINE_NO_TASK;
    return sample;
}

static int16_t package_of(const struct tprof_engine_layout *layout, uint16_t cpu)
{
    return cpu < layout->package_count ? layout->packages[cpu] : -1;
}

/* Let a sample run. */
static void run(struct tprof_engine_thread *thread, const struct sample *sample, int64_t t_ns, int64_t raw_ns,
                int16_t package)
{
    thread->parent = sample->kind == START && thread->is_running ? thread->instance : 0;
    thread->instance = sample->instance;
    thread->t_ns = t_ns;
    thread->raw_ns = raw_ns;
    thread->cpu_ns = sample->cpu_ns;
    thread->task = sample->task;
    thread->cpu = sample->cpu;
    thread->package = package;
    thread->kind = sample->kind;
    thread->flags = sample->flags;
    thread->is_running = true;
}

/* Return what a running sample takes until a time, at which the clock is known. */
static double seconds_until(const struct tprof_engine_step *step, int64_t t_ns, uint64_t cpu_ns)
{
    if (step->layout.cpu_ns >= 0)
        return increase(step->thread->cpu_ns, cpu_ns) * 1e-9;
    return step->thread->instance != 0 ? (double)(t_ns - step->thread->t_ns) * 1e-9 : 0.0;
}

static bool is_done(const struct tprof_engine_step *step)
{
    return step->thread->is_running && step->thread->t_ns >= step->block.until_ns;
}

/* Take samples up to the first that is not before the block's end; returns how many, fewer without room. */
static size_t take(struct tprof_engine_step *step)
{
    const size_t columns = step->table.columns;
    struct tprof_engine_thread *thread = step->thread;
    const struct tprof_engine_layout *layout = &step->layout;
    uint64_t *counts = step->counts, *until = counts + columns;
    size_t taken = 0;
    for (; taken < step->record_count && !is_done(step); taken++) {
        const char *record = step->records + taken * layout->bytes;
        const struct sample sample = sample_at(record, layout);
        const int64_t raw_ns = sample.t_ns < (uint64_t)thread->end_ns ? (int64_t)sample.t_ns : thread->end_ns;
        const int64_t t_ns = thread->is_running && raw_ns < thread->t_ns ? thread->t_ns : raw_ns;
        const int16_t package = package_of(layout, sample.cpu);
        for (size_t column = 0; column < columns; column++) {
            until[column] = thread->is_running ? counts[column] : 0;
            if (layout->columns[column] >= 0)
                memcpy(&until[column], record + layout->columns[column], sizeof *until);
        }
        if (thread->is_running) {
            if (!has_room(step))
                break;
            thread->disordered += raw_ns < thread->raw_ns;
            const struct span span = {thread->t_ns, t_ns, seconds_until(step, t_ns, sample.cpu_ns), package};
            add_segment(step, until, &span, sample.kind, sample.flags);
        } else {
            thread->earlier_ns = sample.cpu_ns < MOST_NS ? (int64_t)sample.cpu_ns : MOST_NS;
        }
        run(thread, &sample, t_ns, raw_ns, package);
        memcpy(counts, until, columns * sizeof *counts);
    }
    return taken;
}

/* Close the last segment at the thread's end, where its clock is known; `cpu_s`, unless it is negative, takes the place of
 * what that says. There is room. */
static void close_last(struct tprof_engine_step *step, uint64_t clock_ns, double cpu_s)
{
    struct tprof_engine_thread *thread = step->thread;
    const int64_t end_ns = step->after_ns > thread->t_ns ? step->after_ns : thread->t_ns;
    const struct span span = {thread->t_ns, end_ns, cpu_s < 0 ? seconds_until(step, end_ns, clock_ns) : cpu_s,
                              thread->package};
    add_segment(step, step->end_counts == NULL ? step->counts : step->end_counts, &span, 0, 0);
    thread->end_ns = end_ns;
    thread->is_running = false;
    const int32_t row = thread->instance == 0 ? -1 : tprof_engine_find(&step->table, thread->instance);
    if (step->then == TPROF_ENGINE_ENDS && row >= 0)
        step->table.instances[row].ended = true;
}

/* Let the running sample run on to the end of the block: a sample there goes on with it. There is room. */
static void run_on(struct tprof_engine_step *step, uint64_t clock_ns)
{
    struct tprof_engine_thread *thread = step->thread;
    const int64_t until_ns = step->block.until_ns, passed_ns = until_ns - thread->t_ns;
    const int64_t known_ns = step->after_ns > until_ns ? step->after_ns - thread->t_ns : passed_ns;
    const double part = (double)passed_ns / (double)known_ns;
    const uint64_t cpu_ns = thread->cpu_ns + (uint64_t)(increase(thread->cpu_ns, clock_ns) * part);
    const struct span span = {thread->t_ns, until_ns, seconds_until(step, until_ns, cpu_ns), thread->package};
    add_segment(step, step->counts, &span, 0, 0);
    const struct sample sample = {
        .instance = thread->instance, .cpu_ns = cpu_ns, .task = thread->task, .cpu = thread->cpu};
    run(thread, &sample, until_ns, until_ns, thread->package);
}

/* Let the running sample run to the end of the block, or to the thread's end if that is there. There is room. */
static void go_on(struct tprof_engine_step *step)
{
    const struct tprof_engine_thread *thread = step->thread;
    uint64_t clock_ns = (uint64_t)step->clock_ns;
    double cpu_s = -1.0;
    if (step->clock_ns < 0) {
        clock_ns = thread->cpu_ns;
        if (thread->instance != 0) {
            cpu_s = fmin(fmax((double)(step->after_ns - thread->t_ns), 0.0) * 1e-9, step->cut_off_s);
            clock_ns += (uint64_t)(cpu_s * 1e9 + 0.5);
        }
    }
    if (step->then == TPROF_ENGINE_RUNS_ON ||
        (step->then == TPROF_ENGINE_ENDS && step->after_ns > step->block.until_ns))
        run_on(step, clock_ns);
    else
        close_last(step, clock_ns, cpu_s);
}

/* Begin with those segments of the block before that this one needs too. Returns false without room, or if places are
 * none. */
static bool retain(struct tprof_engine_step *step)
{
    struct tprof_engine_thread *thread = step->thread;
    const struct tprof_engine_block *block = &step->block;
    const struct tprof_engine_segments *before = &step->before;
    const struct tprof_engine_table *table = &step->table;
    struct tprof_engine_segments *segments = &step->segments;
    if (step->end > step->begin && step->end >= before->count)
        return false;
    for (size_t at = step->begin; at < step->end; at++) {
        const int64_t begin_ns = before->t_ns[at], end_ns = before->t_ns[at + 1];
        if (end_ns < block->since_ns) {
            thread->earlier_ns = later(thread->earlier_ns, before->cpu_s[at]);
            continue;
        }
        const int32_t slot = before->slot[at];
        const size_t to = segments->count;
        if (!has_room(step) || slot < 0 || (size_t)slot > table->count)
            return false;
        write(segments, begin_ns, end_ns, slot, before->cpu_s[at], before->cpu[at], before->package[at],
              before->package_end[at]);
        for (size_t column = 0; column < table->columns; column++)
            segments->increments[column * segments->room + to] = before->increments[column * before->room + at];
    }
    return true;
}

/* Write what comes after the segments of a thread, and is none. There is room. */
static void end_part(struct tprof_engine_segments *segments, size_t columns)
{
    const size_t at = segments->count++;
    segments->slot[at] = 0;
    segments->cpu_s[at] = 0;
    segments->cpu[at] = 0;
    segments->package[at] = segments->package_end[at] = 0;
    for (size_t column = 0; column < columns; column++)
        segments->increments[column * segments->room + at] = 0;
}

bool tprof_engine_follow(struct tprof_engine_step *step, int64_t places[TPROF_ENGINE_PLACES])
{
    struct tprof_engine_segments *segments = &step->segments;
    const size_t begin = segments->count;
    if (!retain(step))
        return false;
    const size_t fresh = segments->count, taken = take(step);
    if (!is_done(step)) {
        if (taken < step->record_count || (step->thread->is_running && !has_room(step)))
            return false;
        if (step->thread->is_running && step->then != TPROF_ENGINE_IS_THERE)
            go_on(step);
    }
    const size_t found[TPROF_ENGINE_PLACES] = {begin, fresh, segments->count, taken};
    for (size_t at = 0; at < TPROF_ENGINE_PLACES; at++)
        places[at] = (int64_t)found[at];
    if (segments->count > begin && segments->count >= segments->room)
        return false;
    if (segments->count > begin)
        end_part(segments, step->table.columns);
    return true;
}
