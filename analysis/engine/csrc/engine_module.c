/* What Python sees of the engine: functions that check their arrays, and run without the interpreter's lock. */
#include "arrays.h"
#include "engine.h"

#include <math.h>
#include <string.h>

static_assert(sizeof(struct tprof_engine_thread) == 104, "THREAD of blocks.py");
static_assert(sizeof(struct tprof_engine_instance) == 96, "INSTANCE of instance_table.py");
static_assert(sizeof(struct tprof_engine_part) == 56, "PART of segments.py");

/* Numbers that `follow` writes of a thread, and from how many bytes of samples on it lets other threads run: to get the
 * interpreter's lock back may take milliseconds, of each of many threads that ran little. */
#define PLACES 5
#define MANY_BYTES (1 << 18)

/* What the functions on samples are given. */
struct given {
    struct tprof_arrays arrays;
    struct tprof_engine_thread *thread;
    uint64_t *counts;
    int number;
    struct tprof_engine_layout layout;
    struct tprof_engine_block block;
    struct tprof_engine_table table;
    struct tprof_engine_segments segments;
};

static bool is_within(int64_t offset, size_t width, size_t bytes)
{
    return offset >= 0 && (uint64_t)offset + width <= bytes;
}

static bool is_absent_or_within(int64_t offset, size_t width, size_t bytes)
{
    return offset < 0 || is_within(offset, width, bytes);
}

static void take_layout(struct tprof_arrays *arrays, PyObject *given, size_t columns,
                        struct tprof_engine_layout *layout)
{
    PyObject *of_columns, *tasks, *packages;
    Py_ssize_t bytes;
    long long t_ns, instance, task, cpu, kind, flags, cpu_ns;
    size_t column_count;
    if (!tprof_arrays_parse(arrays, given, "nLLLLLLLOOO", &bytes, &t_ns, &instance, &task, &cpu, &kind, &flags, &cpu_ns,
                            &of_columns, &tasks, &packages))
        return;
    *layout = (struct tprof_engine_layout){.bytes = (size_t)bytes,
                                           .t_ns = t_ns,
                                           .instance = instance,
                                           .task = task,
                                           .cpu = cpu,
                                           .kind = kind,
                                           .flags = flags,
                                           .cpu_ns = cpu_ns};
    layout->columns = tprof_arrays_take_any(arrays, of_columns, "the columns", INT64, READ, &column_count);
    bool good = bytes > 0 && is_within(t_ns, 8, layout->bytes) && is_within(instance, 8, layout->bytes) &&
                is_within(task, 4, layout->bytes) && is_within(cpu, 2, layout->bytes) &&
                is_within(kind, 1, layout->bytes) && is_within(flags, 1, layout->bytes) &&
                is_absent_or_within(cpu_ns, 8, layout->bytes) && column_count == columns;
    for (size_t at = 0; good && at < columns; at++)
        good = is_absent_or_within(layout->columns[at], 8, layout->bytes);
    if (!good)
        tprof_arrays_refuse(arrays, "fields must lie within a record");
    if (tasks != Py_None)
        layout->tasks = tprof_arrays_take_any(arrays, tasks, "the tasks", UINT32, READ, &layout->task_count);
    if (packages != Py_None)
        layout->packages = tprof_arrays_take_any(arrays, packages, "the packages", "h", READ, &layout->package_count);
}

static void take_table(struct tprof_arrays *arrays, PyObject *given, struct tprof_engine_table *table)
{
    PyObject *instances, *counts, *index;
    Py_ssize_t count, columns;
    *table = (struct tprof_engine_table){.count = 0};
    if (!tprof_arrays_parse(arrays, given, "OOOnn", &instances, &counts, &index, &count, &columns))
        return;
    table->count = (size_t)count;
    table->columns = (size_t)columns;
    table->instances =
        tprof_arrays_take_records(arrays, instances, "the instances", sizeof *table->instances, &table->room);
    if (count < 0 || table->count > table->room || columns < 0 || columns > INT32_MAX)
        tprof_arrays_refuse(arrays, "there is no room for so many instances, or columns");
    table->counts =
        tprof_arrays_take(arrays, counts, "the counts", FLOAT64, WRITABLE, (Py_ssize_t)table->room * columns);
    table->index = tprof_arrays_take_any(arrays, index, "the index", INT32, WRITABLE, &table->places);
    if (table->places < 2 * table->room || table->places == 0 || (table->places & (table->places - 1)) != 0)
        tprof_arrays_refuse(arrays, "the index must have a power of 2 of places, and twice as many as instances");
}

static void take_segments(struct tprof_arrays *arrays, PyObject *given, size_t columns,
                          struct tprof_engine_segments *to)
{
    PyObject *t_ns, *slot, *cpu_s, *cpu, *package, *package_end, *increments, *parts;
    Py_ssize_t count, part_count;
    if (!tprof_arrays_parse(arrays, given, "OOOOOOOOnn", &t_ns, &slot, &cpu_s, &cpu, &package, &package_end,
                            &increments, &parts, &count, &part_count))
        return;
    *to = (struct tprof_engine_segments){.count = (size_t)count, .part_count = (size_t)part_count};
    to->t_ns = tprof_arrays_take_any(arrays, t_ns, "the times", INT64, WRITABLE, &to->room);
    const Py_ssize_t room = (Py_ssize_t)to->room;
    to->slot = tprof_arrays_take(arrays, slot, "the slots", INT32, WRITABLE, room);
    to->cpu_s = tprof_arrays_take(arrays, cpu_s, "the CPU seconds", FLOAT64, WRITABLE, room);
    to->cpu = tprof_arrays_take(arrays, cpu, "the processors", UINT16, WRITABLE, room);
    to->package = tprof_arrays_take(arrays, package, "the packages", "h", WRITABLE, room);
    to->package_end = tprof_arrays_take(arrays, package_end, "the packages", "h", WRITABLE, room);
    to->increments =
        tprof_arrays_take(arrays, increments, "the increments", FLOAT64, WRITABLE, room * (Py_ssize_t)columns);
    to->parts = tprof_arrays_take_records(arrays, parts, "the parts", sizeof *to->parts, &to->part_room);
    if (count < 0 || to->count > to->room || part_count < 0 || to->part_count > to->part_room)
        tprof_arrays_refuse(arrays, "there is no room for so many segments, or parts");
}

static void take_block(struct given *given, PyObject *block, PyObject *table, PyObject *segments)
{
    long long since_ns, until_ns, own_begin_ns, own_end_ns, begin_ns, end_ns;
    if (!tprof_arrays_parse(&given->arrays, block, "LLLLLL", &since_ns, &until_ns, &own_begin_ns, &own_end_ns,
                            &begin_ns, &end_ns))
        return;
    given->block = (struct tprof_engine_block){since_ns, until_ns, {own_begin_ns, own_end_ns}, {begin_ns, end_ns}};
    take_table(&given->arrays, table, &given->table);
    take_segments(&given->arrays, segments, given->table.columns, &given->segments);
}

static bool take_thread(struct given *given, PyObject *thread)
{
    PyObject *state, *counts;
    size_t count;
    if (!tprof_arrays_parse(&given->arrays, thread, "OOi", &state, &counts, &given->number))
        return false;
    given->thread = tprof_arrays_take_records(&given->arrays, state, "the thread", sizeof *given->thread, &count);
    given->counts = tprof_arrays_take(&given->arrays, counts, "the thread's counts", UINT64, WRITABLE,
                                      2 * (Py_ssize_t)given->table.columns);
    if (count != 1)
        tprof_arrays_refuse(&given->arrays, "one thread");
    return !given->arrays.failed;
}

/* What may come after the samples of a thread that are given. */
enum { RUNS_ON, ENDS, IS_CLOSED, IS_THERE };

/* What a thread has in a block, and what comes after its samples. */
struct course {
    const char *records;
    size_t bytes;
    Py_ssize_t begin, end;        /* of its segments in the block before */
    int then;                     /* one of the above */
    long long after_ns, clock_ns; /* a time after them, and its CPU clock then; -1: not known */
    double cut_off_s;             /* the most that it took since then, if that is not known */
    const uint64_t *end_counts;   /* at its end; NULL: those of the last sample */
};

static bool take_course_of(struct given *given, PyObject *thread, struct course *course)
{
    PyObject *state, *layout, *records, *end_counts;
    if (!tprof_arrays_parse(&given->arrays, thread, "OOOnniLLdO", &state, &layout, &records, &course->begin,
                            &course->end, &course->then, &course->after_ns, &course->clock_ns, &course->cut_off_s,
                            &end_counts))
        return false;
    take_thread(given, state);
    take_layout(&given->arrays, layout, given->table.columns, &given->layout);
    course->records = tprof_arrays_take_any(&given->arrays, records, "the samples", UINT8, READ, &course->bytes);
    course->end_counts = end_counts == Py_None ? NULL
                                               : tprof_arrays_take(&given->arrays, end_counts, "the counts at the end",
                                                                   UINT64, READ, (Py_ssize_t)given->table.columns);
    if (course->begin < 0 || course->end < course->begin)
        tprof_arrays_refuse(&given->arrays, "places of segments must be some");
    return !given->arrays.failed;
}

/* Let the running sample of a thread run to the end of the block, or to the thread's end if that is there. Returns
 * false without room. */
static bool go_on(struct given *given, const struct course *course)
{
    struct tprof_engine_thread *thread = given->thread;
    if (course->then == IS_THERE)
        return true;
    uint64_t clock_ns = (uint64_t)course->clock_ns;
    double cpu_s = -1.0;
    if (course->clock_ns < 0) {
        const double wall_s = fmax((double)(course->after_ns - thread->t_ns), 0.0) * 1e-9;
        const double most_s = thread->instance != 0 ? fmin(wall_s, course->cut_off_s) : 0.0;
        clock_ns = thread->cpu_ns + (uint64_t)(most_s * 1e9 + 0.5);
        cpu_s = thread->instance != 0 ? most_s : -1.0;
    }
    if (course->then == RUNS_ON || (course->then == ENDS && course->after_ns > given->block.until_ns))
        return tprof_engine_run_on(thread, given->counts, given->number, clock_ns, course->after_ns, &given->layout,
                                   &given->block, &given->table, &given->segments);
    const uint64_t *end_counts = course->end_counts == NULL ? given->counts : course->end_counts;
    thread->end_ns = course->after_ns > thread->t_ns ? course->after_ns : thread->t_ns;
    if (!tprof_engine_close(thread, given->counts, given->number, clock_ns, end_counts, cpu_s, &given->layout,
                            &given->block, &given->table, &given->segments))
        return false;
    const int32_t row = thread->instance == 0 ? -1 : tprof_engine_find(&given->table, thread->instance);
    if (course->then == ENDS && row >= 0)
        given->table.instances[row].ended = true;
    return true;
}

/* Let a thread go on in a block. `place` is set to where its segments begin, where those are that the block before did
 * not have, where they end, its first part, and how many samples were taken. Returns false without room. */
static bool follow_one(struct given *given, const struct course *course, const struct tprof_engine_segments *before,
                       int64_t place[PLACES])
{
    struct tprof_engine_segments *segments = &given->segments;
    const size_t begin = segments->count, part = segments->part_count, records = course->bytes / given->layout.bytes;
    if (course->end > course->begin &&
        !tprof_engine_retain(given->thread, given->number, before, (size_t)course->begin, (size_t)course->end,
                             &given->block, &given->table, segments))
        return false;
    const size_t fresh = segments->count;
    const size_t taken = tprof_engine_take(given->thread, given->counts, given->number, course->records, records,
                                           &given->layout, &given->block, &given->table, segments);
    const bool is_done = given->thread->is_running && given->thread->t_ns >= given->block.until_ns;
    if (!is_done && (taken < records || (given->thread->is_running && !go_on(given, course))))
        return false;
    const int64_t found[] = {(int64_t)begin, (int64_t)fresh, (int64_t)segments->count, (int64_t)part, (int64_t)taken};
    memcpy(place, found, sizeof found);
    if (segments->count > begin && segments->count >= segments->room)
        return false;
    if (segments->count > begin)
        tprof_engine_end_part(segments, given->table.columns);
    return true;
}

static PyObject *follow(PyObject *self, PyObject *args)
{
    PyObject *threads, *of_before, *of_places, *block, *table, *of_segments;
    struct given given;
    struct tprof_engine_segments before;
    struct course course;
    bool good = true;
    (void)self;
    if (!tprof_arrays_begin(&given.arrays, args, "O!OO(OOO)", &PyTuple_Type, &threads, &of_before, &of_places, &block,
                            &table, &of_segments))
        return NULL;
    take_block(&given, block, table, of_segments);
    take_segments(&given.arrays, of_before, given.table.columns, &before);
    int64_t *places =
        tprof_arrays_take(&given.arrays, of_places, "the places", INT64, WRITABLE, PLACES * PyTuple_GET_SIZE(threads));
    const int common = given.arrays.taken;
    for (Py_ssize_t at = 0; good && !given.arrays.failed && at < PyTuple_GET_SIZE(threads); at++) {
        if (take_course_of(&given, PyTuple_GET_ITEM(threads, at), &course)) {
            if (course.bytes < MANY_BYTES) {
                good = follow_one(&given, &course, &before, places + PLACES * at);
            } else {
                Py_BEGIN_ALLOW_THREADS
                good = follow_one(&given, &course, &before, places + PLACES * at);
                Py_END_ALLOW_THREADS
            }
        }
        while (given.arrays.taken > common)
            PyBuffer_Release(&given.arrays.views[--given.arrays.taken]);
    }
    if (!good)
        tprof_arrays_refuse(&given.arrays, "there is no room for more segments, or places of segments are none");
    return tprof_arrays_release(&given.arrays, true)
               ? Py_BuildValue("nnn", (Py_ssize_t)given.table.count, (Py_ssize_t)given.segments.count,
                               (Py_ssize_t)given.segments.part_count)
               : NULL;
}

static PyObject *fill_index(PyObject *self, PyObject *of_table)
{
    struct tprof_arrays arrays = {.taken = 0};
    struct tprof_engine_table table;
    (void)self;
    take_table(&arrays, of_table, &table);
    Py_BEGIN_ALLOW_THREADS
    if (!arrays.failed)
        tprof_engine_index(&table);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, true);
}

static PyObject *find(PyObject *self, PyObject *args)
{
    PyObject *of_table, *ids, *rows;
    struct tprof_arrays arrays;
    struct tprof_engine_table table;
    size_t count;
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "OOO", &of_table, &ids, &rows))
        return NULL;
    take_table(&arrays, of_table, &table);
    const uint64_t *instance = tprof_arrays_take_any(&arrays, ids, "the ids", UINT64, READ, &count);
    int32_t *row = tprof_arrays_take(&arrays, rows, "the rows", INT32, WRITABLE, (Py_ssize_t)count);
    for (size_t at = 0; !arrays.failed && at < count; at++)
        row[at] = tprof_engine_find(&table, instance[at]);
    return tprof_arrays_finished(&arrays, true);
}

/* Take segments, where those of threads are, and edges. */
static void take_course(struct tprof_arrays *arrays, PyObject *given, struct tprof_engine_course *to)
{
    PyObject *t_ns, *begins, *ends, *edges_ns;
    size_t times;
    *to = (struct tprof_engine_course){.threads = 1};
    if (!tprof_arrays_parse(arrays, given, "OOOO", &t_ns, &begins, &ends, &edges_ns))
        return;
    to->t_ns = tprof_arrays_take_any(arrays, t_ns, "the times", INT64, READ, &times);
    to->count = times == 0 ? 0 : times - 1;
    to->edges_ns = tprof_arrays_take_any(arrays, edges_ns, "the edges", INT64, READ, &to->edges);
    if (begins == Py_None)
        return;
    to->begins = tprof_arrays_take_any(arrays, begins, "the begins", INT64, READ, &to->threads);
    to->ends = tprof_arrays_take(arrays, ends, "the ends", INT64, READ, (Py_ssize_t)to->threads);
    for (size_t at = 0; !arrays->failed && at < to->threads; at++)
        if (to->begins[at] < 0 || to->ends[at] < to->begins[at] || (size_t)to->ends[at] > to->count)
            tprof_arrays_refuse(arrays, "threads must have places among the segments, one after the other");
}

/* Take a value of each segment, and a rate of each interval. */
static const double *take_values(struct tprof_arrays *arrays, PyObject *values,
                                 const struct tprof_engine_course *course)
{
    return tprof_arrays_take(arrays, values, "the values", FLOAT64, READ, (Py_ssize_t)course->count);
}

static const double *take_rates(struct tprof_arrays *arrays, PyObject *rates, const struct tprof_engine_course *course)
{
    return tprof_arrays_take(arrays, rates, "the rates", FLOAT64, READ, (Py_ssize_t)course->edges + 1);
}

static PyObject *spread(PyObject *self, PyObject *args)
{
    PyObject *of_course, *of_values, *of_row, *of_sums;
    Py_ssize_t rows;
    struct tprof_arrays arrays;
    struct tprof_engine_course course;
    const int32_t *row = NULL;
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "OOOnO", &of_course, &of_values, &of_row, &rows, &of_sums))
        return NULL;
    if (rows < 1 || rows > INT32_MAX)
        tprof_arrays_refuse(&arrays, "at least one row and at most 2147483647");
    take_course(&arrays, of_course, &course);
    const double *values = take_values(&arrays, of_values, &course);
    if (of_row != Py_None)
        row = tprof_arrays_take(&arrays, of_row, "the rows", INT32, READ, (Py_ssize_t)course.count);
    double *sums =
        tprof_arrays_take(&arrays, of_sums, "the sums", FLOAT64, WRITABLE, rows * ((Py_ssize_t)course.edges + 1));
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = !arrays.failed && tprof_engine_spread(&course, values, row, (size_t)rows, sums);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
}

static PyObject *gather(PyObject *self, PyObject *args)
{
    PyObject *of_course, *of_values, *of_rates, *of_energies;
    struct tprof_arrays arrays;
    struct tprof_engine_course course;
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "OOOO", &of_course, &of_values, &of_rates, &of_energies))
        return NULL;
    take_course(&arrays, of_course, &course);
    const double *values = take_values(&arrays, of_values, &course), *rates = take_rates(&arrays, of_rates, &course);
    double *energies =
        tprof_arrays_take(&arrays, of_energies, "the energies", FLOAT64, WRITABLE, (Py_ssize_t)course.count);
    Py_BEGIN_ALLOW_THREADS
    if (!arrays.failed)
        tprof_engine_gather(&course, values, rates, energies);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, true);
}

/* Take whose segments are, and where joules are added. */
static void take_owners(struct tprof_arrays *arrays, PyObject *given, const struct tprof_engine_course *course,
                        struct tprof_engine_owners *to)
{
    PyObject *slot, *row, *energy_j, *edges, *piece_of, *first, *last, *first_j, *last_j;
    *to = (struct tprof_engine_owners){.slots = 0};
    if (!tprof_arrays_parse(arrays, given, "OOOO", &slot, &row, &energy_j, &edges))
        return;
    to->slot = tprof_arrays_take(arrays, slot, "the slots", INT32, READ, (Py_ssize_t)course->count);
    to->row = tprof_arrays_take_any(arrays, row, "the rows", INT32, READ, &to->slots);
    to->energy_j = tprof_arrays_take_any(arrays, energy_j, "the energies", FLOAT64, WRITABLE, &to->rows);
    const Py_ssize_t rows = (Py_ssize_t)to->rows;
    if (edges == Py_None || !tprof_arrays_parse(arrays, edges, "OOOOO", &piece_of, &first, &last, &first_j, &last_j))
        return;
    if (piece_of != Py_None)
        to->piece_of = tprof_arrays_take(arrays, piece_of, "the pieces", INT32, READ, (Py_ssize_t)course->edges + 1);
    to->first = tprof_arrays_take(arrays, first, "the first intervals", INT32, READ, rows);
    to->last = tprof_arrays_take(arrays, last, "the last intervals", INT32, READ, rows);
    to->first_j = tprof_arrays_take(arrays, first_j, "the energies", FLOAT64, WRITABLE, rows);
    to->last_j = tprof_arrays_take(arrays, last_j, "the energies", FLOAT64, WRITABLE, rows);
}

static PyObject *share(PyObject *self, PyObject *args)
{
    PyObject *of_course, *of_values, *of_rates, *of_owners;
    struct tprof_arrays arrays;
    struct tprof_engine_course course;
    struct tprof_engine_owners owners;
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "OOOO", &of_course, &of_values, &of_rates, &of_owners))
        return NULL;
    take_course(&arrays, of_course, &course);
    const double *values = take_values(&arrays, of_values, &course), *rates = take_rates(&arrays, of_rates, &course);
    take_owners(&arrays, of_owners, &course, &owners);
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = !arrays.failed && tprof_engine_share(&course, values, rates, &owners);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
}

static PyObject *count_running(PyObject *self, PyObject *args)
{
    PyObject *of_course, *of_slot, *of_running;
    struct tprof_arrays arrays;
    struct tprof_engine_course course;
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "OOO", &of_course, &of_slot, &of_running))
        return NULL;
    take_course(&arrays, of_course, &course);
    const int32_t *slot = tprof_arrays_take(&arrays, of_slot, "the slots", INT32, READ, (Py_ssize_t)course.count);
    int64_t *running =
        tprof_arrays_take(&arrays, of_running, "what runs", INT64, WRITABLE, (Py_ssize_t)course.edges + 2);
    Py_BEGIN_ALLOW_THREADS
    if (!arrays.failed)
        tprof_engine_count_running(&course, slot, running);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, true);
}

static PyObject *find_ends(PyObject *self, PyObject *args)
{
    PyObject *records, *of_edges, *of_kept, *of_first, *of_last;
    long long before;
    Py_ssize_t from, width;
    size_t rows, edges;
    struct tprof_arrays arrays;
    const struct tprof_engine_instance *instances;
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "OOLOnnOO", &records, &of_edges, &before, &of_kept, &from, &width, &of_first,
                            &of_last))
        return NULL;
    if (from < 0 || from > INT32_MAX || width < from + 4 || width > INT32_MAX)
        tprof_arrays_refuse(&arrays, "four of the numbers that are kept must be there");
    instances = tprof_arrays_take_records(&arrays, records, "the instances", sizeof *instances, &rows);
    const Py_ssize_t count = (Py_ssize_t)rows;
    const int64_t *edges_ns = tprof_arrays_take_any(&arrays, of_edges, "the edges", INT64, READ, &edges);
    double *kept = tprof_arrays_take(&arrays, of_kept, "what is kept", FLOAT64, WRITABLE, count * width);
    int32_t *first = tprof_arrays_take(&arrays, of_first, "the first intervals", INT32, WRITABLE, count);
    int32_t *last = tprof_arrays_take(&arrays, of_last, "the last intervals", INT32, WRITABLE, count);
    Py_BEGIN_ALLOW_THREADS
    if (!arrays.failed)
        tprof_engine_find_ends(instances, rows, edges_ns, edges, before, kept + from, (size_t)width, first, last);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, true);
}

static PyMethodDef methods[] = {
    {"count_running", count_running, METH_VARARGS, NULL},
    {"fill_index", fill_index, METH_O, NULL},
    {"find", find, METH_VARARGS, NULL},
    {"find_ends", find_ends, METH_VARARGS, NULL},
    {"follow", follow, METH_VARARGS, NULL},
    {"gather", gather, METH_VARARGS, NULL},
    {"share", share, METH_VARARGS, NULL},
    {"spread", spread, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "tprof.analysis.engine._engine",
                                        .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__engine(void)
{
    return PyModuleDef_Init(&definition);
}
