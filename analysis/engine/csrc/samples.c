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
static int32_t row_of(struct tprof_engine_table *table, const struct tprof_engine_thread *thread, int32_t number,
                      int64_t begin_ns)
{
    const size_t place = place_of(table, thread->instance);
    const int32_t known = table->index[place];
    if (known >= 0) {
        if (begin_ns < table->instances[known].start_ns)
            begin_instance(&table->instances[known], thread, number, begin_ns);
        return known;
    }
    const int32_t row = (int32_t)table->count++;
    struct tprof_engine_instance *one = &table->instances[row];
    *one = (struct tprof_engine_instance){
        .instance = thread->instance, .part = -1, .end_ns = INT64_MIN, .last_ns = INT64_MIN};
    begin_instance(one, thread, number, begin_ns);
    memset(table->counts + (size_t)row * table->columns, 0, table->columns * sizeof *table->counts);
    table->index[place] = row;
    return row;
}

/* Return the slot of an instance in the thread's part of the block; there is room. */
static int32_t slot_of(struct tprof_engine_instance *one, int32_t row, int32_t number, int64_t begin_ns, uint16_t cpu,
                       int16_t package, struct tprof_engine_segments *segments)
{
    if (one->part < 0 || one->part_thread != number) {
        one->part = (int32_t)segments->part_count++;
        one->part_thread = number;
        segments->parts[one->part] =
            (struct tprof_engine_part){.row = row,
                                       .start_ns = begin_ns,
                                       .cpu = cpu,
                                       .package = package,
                                       .begun = one->begun && one->thread == number && one->start_ns == begin_ns};
    }
    return one->part + 1;
}

static void add_to_part(struct tprof_engine_part *part, const struct tprof_engine_block *block, int64_t begin_ns,
                        int64_t end_ns, double cpu_s)
{
    part->end_ns = end_ns;
    part->last_ns = begin_ns;
    if (begin_ns >= block->own_ns[0] && begin_ns < block->own_ns[1]) {
        part->own_s += (double)(end_ns - begin_ns) * 1e-9;
        part->cpu_s += cpu_s;
    }
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

static bool has_room(const struct tprof_engine_table *table, const struct tprof_engine_segments *segments)
{
    return table->count < table->room && segments->count + 2 < segments->room &&
           segments->part_count < segments->part_room;
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
static void add_segment(struct tprof_engine_thread *thread, const uint64_t *counts, const uint64_t *until,
                        int32_t number, const struct span *span, uint8_t end_kind, uint8_t end_flags,
                        const struct tprof_engine_layout *layout, const struct tprof_engine_block *block,
                        struct tprof_engine_table *table, struct tprof_engine_segments *segments)
{
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
        const int32_t row = row_of(table, thread, number, cut.begin_ns);
        struct tprof_engine_instance *one = &table->instances[row];
        slot = slot_of(one, row, number, cut.begin_ns, thread->cpu, thread->package, segments);
        struct tprof_engine_part *part = &segments->parts[slot - 1];
        add_to_part(part, block, cut.begin_ns, cut.end_ns, cpu_s);
        one->own_s += (double)(cut.end_ns - cut.begin_ns) * 1e-9;
        one->cpu_s += cpu_s;
        one->end_ns = cut.end_ns > one->end_ns ? cut.end_ns : one->end_ns;
        one->last_ns = cut.begin_ns > one->last_ns ? cut.begin_ns : one->last_ns;
        if (end_kind == FINISH) {
            one->ended = part->ended = true;
            one->failed |= (end_flags & FAILED) != 0;
            part->failed |= (end_flags & FAILED) != 0;
        }
        of_instance = table->counts + (size_t)row * table->columns;
        thread->moved += span->package_end != thread->package;
    }
    write(segments, cut.begin_ns, cut.end_ns, slot, cpu_s, thread->cpu, thread->package, span->package_end);
    for (size_t column = 0; column < table->columns; column++) {
        const double more = layout->columns[column] < 0 ? NAN : increase(counts[column], until[column]) * cut.part;
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

size_t tprof_engine_take(struct tprof_engine_thread *thread, uint64_t *counts, int32_t number, const char *records,
                         size_t record_count, const struct tprof_engine_layout *layout,
                         const struct tprof_engine_block *block, struct tprof_engine_table *table,
                         struct tprof_engine_segments *segments)
{
    const size_t columns = table->columns;
    uint64_t *until = counts + columns;
    size_t taken = 0;
    for (; taken < record_count && !(thread->is_running && thread->t_ns >= block->until_ns); taken++) {
        const char *record = records + taken * layout->bytes;
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
            if (!has_room(table, segments))
                break;
            thread->disordered += raw_ns < thread->raw_ns;
            const double length_s = (double)(t_ns - thread->t_ns) * 1e-9;
            const double cpu_s = layout->cpu_ns >= 0     ? increase(thread->cpu_ns, sample.cpu_ns) * 1e-9
                                 : thread->instance != 0 ? length_s
                                                         : 0.0;
            const struct span span = {thread->t_ns, t_ns, cpu_s, package};
            add_segment(thread, counts, until, number, &span, sample.kind, sample.flags, layout, block, table,
                        segments);
        } else {
            thread->earlier_ns = sample.cpu_ns < MOST_NS ? (int64_t)sample.cpu_ns : MOST_NS;
        }
        run(thread, &sample, t_ns, raw_ns, package);
        memcpy(counts, until, columns * sizeof *counts);
    }
    return taken;
}

bool tprof_engine_close(struct tprof_engine_thread *thread, const uint64_t *counts, int32_t number, uint64_t end_cpu_ns,
                        const uint64_t *end_counts, double cpu_s, const struct tprof_engine_layout *layout,
                        const struct tprof_engine_block *block, struct tprof_engine_table *table,
                        struct tprof_engine_segments *segments)
{
    if (!thread->is_running)
        return true;
    if (!has_room(table, segments))
        return false;
    const int64_t end_ns = thread->end_ns > thread->t_ns ? thread->end_ns : thread->t_ns;
    const double length_s = (double)(end_ns - thread->t_ns) * 1e-9;
    const double clock_s = layout->cpu_ns >= 0     ? increase(thread->cpu_ns, end_cpu_ns) * 1e-9
                           : thread->instance != 0 ? length_s
                                                   : 0.0;
    const struct span span = {thread->t_ns, end_ns, cpu_s < 0 ? clock_s : cpu_s, thread->package};
    add_segment(thread, counts, end_counts, number, &span, 0, 0, layout, block, table, segments);
    thread->is_running = false;
    return true;
}

bool tprof_engine_run_on(struct tprof_engine_thread *thread, const uint64_t *counts, int32_t number, uint64_t clock_ns,
                         int64_t now_ns, const struct tprof_engine_layout *layout,
                         const struct tprof_engine_block *block, struct tprof_engine_table *table,
                         struct tprof_engine_segments *segments)
{
    const int64_t until_ns = block->until_ns, passed_ns = until_ns - thread->t_ns;
    if (!thread->is_running || passed_ns <= 0)
        return true;
    if (!has_room(table, segments))
        return false;
    const double part = (double)passed_ns / (double)(now_ns > until_ns ? now_ns - thread->t_ns : passed_ns);
    const uint64_t cpu_ns = thread->cpu_ns + (uint64_t)(increase(thread->cpu_ns, clock_ns) * part);
    const double cpu_s = layout->cpu_ns >= 0     ? increase(thread->cpu_ns, cpu_ns) * 1e-9
                         : thread->instance != 0 ? (double)passed_ns * 1e-9
                                                 : 0.0;
    const struct span span = {thread->t_ns, until_ns, cpu_s, thread->package};
    add_segment(thread, counts, counts, number, &span, 0, 0, layout, block, table, segments);
    const struct sample sample = {
        .instance = thread->instance, .cpu_ns = cpu_ns, .task = thread->task, .cpu = thread->cpu};
    run(thread, &sample, until_ns, until_ns, thread->package);
    return true;
}

bool tprof_engine_retain(struct tprof_engine_thread *thread, int32_t number, const struct tprof_engine_segments *before,
                         size_t begin, size_t end, const struct tprof_engine_block *block,
                         struct tprof_engine_table *table, struct tprof_engine_segments *segments)
{
    if (end < begin || end >= before->count)
        return false;
    for (size_t at = begin; at < end; at++) {
        const int64_t begin_ns = before->t_ns[at], end_ns = before->t_ns[at + 1];
        if (end_ns < block->since_ns) {
            thread->earlier_ns = later(thread->earlier_ns, before->cpu_s[at]);
            continue;
        }
        int32_t slot = before->slot[at];
        const size_t to = segments->count;
        if (!has_room(table, segments) || slot < 0 || (size_t)slot > before->part_count)
            return false;
        if (slot > 0) {
            const int32_t row = before->parts[slot - 1].row;
            if (row < 0 || (size_t)row >= table->count)
                return false;
            slot =
                slot_of(&table->instances[row], row, number, begin_ns, before->cpu[at], before->package[at], segments);
            add_to_part(&segments->parts[slot - 1], block, begin_ns, end_ns, before->cpu_s[at]);
        }
        write(segments, begin_ns, end_ns, slot, before->cpu_s[at], before->cpu[at], before->package[at],
              before->package_end[at]);
        for (size_t column = 0; column < table->columns; column++)
            segments->increments[column * segments->room + to] = before->increments[column * before->room + at];
    }
    return true;
}

void tprof_engine_end_part(struct tprof_engine_segments *segments, size_t columns)
{
    const size_t at = segments->count++;
    segments->slot[at] = 0;
    segments->cpu_s[at] = 0;
    segments->cpu[at] = 0;
    segments->package[at] = segments->package_end[at] = 0;
    for (size_t column = 0; column < columns; column++)
        segments->increments[column * segments->room + at] = 0;
}
