/* What Python sees of the engine: functions that check their arrays, and run without the interpreter's lock. */
#include "arrays.h"
#include "engine.h"

static_assert(sizeof(struct tprof_engine_thread) == 104, "THREAD of blocks.py");
static_assert(sizeof(struct tprof_engine_instance) == 88, "INSTANCE of instance_table.py");

/* From so many bytes of samples on other threads may run: to get the interpreter's lock back may take milliseconds, of
 * each of many threads that ran little. */
#define MANY_BYTES (1 << 18)

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
    PyObject *t_ns, *slot, *cpu_s, *cpu, *package, *package_end, *increments;
    Py_ssize_t count;
    if (!tprof_arrays_parse(arrays, given, "OOOOOOOn", &t_ns, &slot, &cpu_s, &cpu, &package, &package_end, &increments,
                            &count))
        return;
    *to = (struct tprof_engine_segments){.count = (size_t)count};
    to->t_ns = tprof_arrays_take_any(arrays, t_ns, "the times", INT64, WRITABLE, &to->room);
    const Py_ssize_t room = (Py_ssize_t)to->room;
    to->slot = tprof_arrays_take(arrays, slot, "the slots", INT32, WRITABLE, room);
    to->cpu_s = tprof_arrays_take(arrays, cpu_s, "the CPU seconds", FLOAT64, WRITABLE, room);
    to->cpu = tprof_arrays_take(arrays, cpu, "the processors", UINT16, WRITABLE, room);
    to->package = tprof_arrays_take(arrays, package, "the packages", "h", WRITABLE, room);
    to->package_end = tprof_arrays_take(arrays, package_end, "the packages", "h", WRITABLE, room);
    to->increments =
        tprof_arrays_take(arrays, increments, "the increments", FLOAT64, WRITABLE, room * (Py_ssize_t)columns);
    if (count < 0 || to->count > to->room)
        tprof_arrays_refuse(arrays, "there is no room for so many segments");
}

/* Take a thread, and what it has in a block. */
static bool take_thread(struct tprof_arrays *arrays, PyObject *thread, struct tprof_engine_step *step)
{
    PyObject *of_state, *state, *of_counts, *layout, *of_records, *end_counts;
    const Py_ssize_t columns = (Py_ssize_t)step->table.columns;
    Py_ssize_t begin, end;
    long long after_ns, clock_ns;
    size_t count, bytes;
    if (!tprof_arrays_parse(arrays, thread, "OOOnniLLdO", &of_state, &layout, &of_records, &begin, &end, &step->then,
                            &after_ns, &clock_ns, &step->cut_off_s, &end_counts) ||
        !tprof_arrays_parse(arrays, of_state, "OOi", &state, &of_counts, &step->number))
        return false;
    step->begin = (size_t)begin;
    step->end = (size_t)end;
    step->after_ns = after_ns;
    step->clock_ns = clock_ns;
    step->thread = tprof_arrays_take_records(arrays, state, "the thread", sizeof *step->thread, &count);
    step->counts = tprof_arrays_take(arrays, of_counts, "the thread's counts", UINT64, WRITABLE, 2 * columns);
    take_layout(arrays, layout, step->table.columns, &step->layout);
    step->records = tprof_arrays_take_any(arrays, of_records, "the samples", UINT8, READ, &bytes);
    step->end_counts = NULL;
    if (end_counts != Py_None)
        step->end_counts = tprof_arrays_take(arrays, end_counts, "the counts at the end", UINT64, READ, columns);
    if (count != 1 || begin < 0 || end < begin)
        tprof_arrays_refuse(arrays, "one thread, whose places are some");
    step->record_count = arrays->failed ? 0 : bytes / step->layout.bytes;
    return !arrays->failed;
}

static PyObject *follow(PyObject *self, PyObject *args)
{
    PyObject *threads, *of_before, *of_places, *of_table, *of_segments;
    long long since_ns, until_ns, begin_ns, end_ns;
    struct tprof_arrays arrays;
    struct tprof_engine_step step;
    bool good = true;
    (void)self;
    if (!tprof_arrays_begin(&arrays, args, "O!OO((LLLL)OO)", &PyTuple_Type, &threads, &of_before, &of_places, &since_ns,
                            &until_ns, &begin_ns, &end_ns, &of_table, &of_segments))
        return NULL;
    step.block = (struct tprof_engine_block){since_ns, until_ns, {begin_ns, end_ns}};
    take_table(&arrays, of_table, &step.table);
    take_segments(&arrays, of_segments, step.table.columns, &step.segments);
    take_segments(&arrays, of_before, step.table.columns, &step.before);
    int64_t *places = tprof_arrays_take(&arrays, of_places, "the places", INT64, WRITABLE,
                                        TPROF_ENGINE_PLACES * PyTuple_GET_SIZE(threads));
    const int common = arrays.taken;
    for (Py_ssize_t at = 0; good && !arrays.failed && at < PyTuple_GET_SIZE(threads); at++) {
        if (take_thread(&arrays, PyTuple_GET_ITEM(threads, at), &step)) {
            PyThreadState *state = step.record_count * step.layout.bytes < MANY_BYTES ? NULL : PyEval_SaveThread();
            good = tprof_engine_follow(&step, places + TPROF_ENGINE_PLACES * at);
            if (state != NULL)
                PyEval_RestoreThread(state);
        }
        while (arrays.taken > common)
            PyBuffer_Release(&arrays.views[--arrays.taken]);
    }
    if (!good)
        tprof_arrays_refuse(&arrays, "there is no room for more segments, or places of segments are none");
    return tprof_arrays_release(&arrays, true)
               ? Py_BuildValue("nn", (Py_ssize_t)step.table.count, (Py_ssize_t)step.segments.count)
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
    PyObject *slot, *energy_j, *of_edges, *number, *most_j, *edges;
    const Py_ssize_t width = (Py_ssize_t)(sizeof *to->edges / sizeof(double)),
                     intervals = (Py_ssize_t)course->edges + 1;
    *to = (struct tprof_engine_owners){.rows = 0};
    if (!tprof_arrays_parse(arrays, given, "OOO", &slot, &energy_j, &of_edges))
        return;
    to->slot = tprof_arrays_take(arrays, slot, "the slots", INT32, READ, (Py_ssize_t)course->count);
    to->energy_j = tprof_arrays_take_any(arrays, energy_j, "the energies", FLOAT64, WRITABLE, &to->rows);
    if (of_edges == Py_None || !tprof_arrays_parse(arrays, of_edges, "OOO", &number, &most_j, &edges))
        return;
    to->number = tprof_arrays_take(arrays, number, "the numbers", INT32, READ, intervals);
    to->most_j = tprof_arrays_take(arrays, most_j, "the most joules", FLOAT64, READ, intervals);
    to->edges = tprof_arrays_take(arrays, edges, "the edges", FLOAT64, WRITABLE, width * ((Py_ssize_t)to->rows - 1));
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

static PyMethodDef methods[] = {
    {"count_running", count_running, METH_VARARGS, NULL},
    {"fill_index", fill_index, METH_O, NULL},
    {"find", find, METH_VARARGS, NULL},
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
