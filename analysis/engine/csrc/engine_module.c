/* What Python sees of the engine: functions that check their arrays, and run without the interpreter's lock. */
#include "arrays.h"
#include "engine.h"

static_assert(sizeof(struct tprof_engine_thread) == 104, "THREAD of blocks.py");
static_assert(sizeof(struct tprof_engine_instance) == 96, "INSTANCE of instance_table.py");
static_assert(sizeof(struct tprof_engine_part) == 56, "PART of segments.py");

#define WRITABLE PyBUF_WRITABLE

/* What the functions on samples are given, after it was checked. */
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

/* Take records of so many bytes each; `count` is set to how many there are. */
static void *take_records(struct tprof_arrays *arrays, PyObject *array, const char *name, size_t bytes, size_t *count)
{
    void *found = tprof_arrays_take(arrays, array, name, UINT8, WRITABLE, -1);
    if (found == NULL)
        return NULL;
    const size_t length = (size_t)arrays->views[arrays->taken - 1].len;
    *count = length / bytes;
    if (length % bytes == 0 && *count <= INT32_MAX)
        return found;
    PyErr_Format(PyExc_ValueError, "%s must have records of %zu bytes, at most %d", name, bytes, INT32_MAX);
    return NULL;
}

static void *take_any(struct tprof_arrays *arrays, PyObject *array, const char *name, const char *formats,
                      size_t *count)
{
    void *found = tprof_arrays_take(arrays, array, name, formats, PyBUF_SIMPLE, -1);
    const Py_buffer *view = &arrays->views[arrays->taken - 1];
    if (found != NULL)
        *count = (size_t)(view->len / view->itemsize);
    return found;
}

static bool is_within(int64_t offset, size_t width, size_t bytes)
{
    return offset >= 0 && (uint64_t)offset + width <= bytes;
}

static bool take_layout(struct tprof_arrays *arrays, PyObject *given, size_t columns,
                        struct tprof_engine_layout *layout)
{
    PyObject *of_columns, *tasks, *packages;
    Py_ssize_t bytes;
    long long t_ns, instance, task, cpu, kind, flags, cpu_ns;
    size_t column_count;
    if (!PyArg_ParseTuple(given, "nLLLLLLLOOO", &bytes, &t_ns, &instance, &task, &cpu, &kind, &flags, &cpu_ns,
                          &of_columns, &tasks, &packages))
        return false;
    *layout = (struct tprof_engine_layout){.bytes = (size_t)bytes,
                                           .t_ns = t_ns,
                                           .instance = instance,
                                           .task = task,
                                           .cpu = cpu,
                                           .kind = kind,
                                           .flags = flags,
                                           .cpu_ns = cpu_ns};
    layout->columns = take_any(arrays, of_columns, "the columns", INT64, &column_count);
    if (layout->columns == NULL)
        return false;
    bool good = bytes > 0 && is_within(t_ns, 8, layout->bytes) && is_within(instance, 8, layout->bytes) &&
                is_within(task, 4, layout->bytes) && is_within(cpu, 2, layout->bytes) &&
                is_within(kind, 1, layout->bytes) && is_within(flags, 1, layout->bytes) &&
                (cpu_ns < 0 || is_within(cpu_ns, 8, layout->bytes)) && column_count == columns;
    for (size_t at = 0; good && at < columns; at++)
        good = layout->columns[at] < 0 || is_within(layout->columns[at], 8, layout->bytes);
    if (!good) {
        PyErr_SetString(PyExc_ValueError, "fields must lie within a record");
        return false;
    }
    if (tasks != Py_None && (layout->tasks = take_any(arrays, tasks, "the tasks", UINT32, &layout->task_count)) == NULL)
        return false;
    return packages == Py_None ||
           (layout->packages = take_any(arrays, packages, "the packages", "h", &layout->package_count)) != NULL;
}

static bool take_table(struct tprof_arrays *arrays, PyObject *given, struct tprof_engine_table *table)
{
    PyObject *instances, *counts, *index;
    Py_ssize_t count, columns;
    if (!PyArg_ParseTuple(given, "OOOnn", &instances, &counts, &index, &count, &columns))
        return false;
    *table = (struct tprof_engine_table){.count = (size_t)count, .columns = (size_t)columns};
    table->instances = take_records(arrays, instances, "the instances", sizeof *table->instances, &table->room);
    if (table->instances == NULL)
        return false;
    if (count < 0 || table->count > table->room || columns < 0 || columns > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "there is room for %zu instances, got %zd, of %zd columns", table->room, count,
                     columns);
        return false;
    }
    table->counts =
        tprof_arrays_take(arrays, counts, "the counts", FLOAT64, WRITABLE, (Py_ssize_t)table->room * columns);
    if (table->counts == NULL)
        return false;
    table->index = tprof_arrays_take(arrays, index, "the index", INT32, WRITABLE, -1);
    if (table->index == NULL)
        return false;
    table->places = (size_t)arrays->views[arrays->taken - 1].len / sizeof *table->index;
    if (table->places >= 2 * table->room && table->places > 0 && (table->places & (table->places - 1)) == 0)
        return true;
    PyErr_SetString(PyExc_ValueError, "the index must have a power of 2 of places, and twice as many as instances");
    return false;
}

static bool take_segments(struct tprof_arrays *arrays, PyObject *given, size_t columns,
                          struct tprof_engine_segments *segments)
{
    PyObject *t_ns, *slot, *cpu_s, *cpu, *package, *package_end, *increments, *parts;
    Py_ssize_t count, part_count;
    if (!PyArg_ParseTuple(given, "OOOOOOOOnn", &t_ns, &slot, &cpu_s, &cpu, &package, &package_end, &increments, &parts,
                          &count, &part_count))
        return false;
    *segments = (struct tprof_engine_segments){.count = (size_t)count, .part_count = (size_t)part_count};
    segments->t_ns = tprof_arrays_take(arrays, t_ns, "the times", INT64, WRITABLE, -1);
    if (segments->t_ns == NULL)
        return false;
    const Py_ssize_t room = arrays->views[arrays->taken - 1].len / (Py_ssize_t)sizeof *segments->t_ns;
    segments->room = (size_t)room;
    if ((segments->slot = tprof_arrays_take(arrays, slot, "the slots", INT32, WRITABLE, room)) == NULL ||
        (segments->cpu_s = tprof_arrays_take(arrays, cpu_s, "the CPU seconds", FLOAT64, WRITABLE, room)) == NULL ||
        (segments->cpu = tprof_arrays_take(arrays, cpu, "the processors", UINT16, WRITABLE, room)) == NULL ||
        (segments->package = tprof_arrays_take(arrays, package, "the packages", "h", WRITABLE, room)) == NULL ||
        (segments->package_end = tprof_arrays_take(arrays, package_end, "the packages", "h", WRITABLE, room)) == NULL ||
        (segments->increments = tprof_arrays_take(arrays, increments, "the increments", FLOAT64, WRITABLE,
                                                  room * (Py_ssize_t)columns)) == NULL ||
        (segments->parts = take_records(arrays, parts, "the parts", sizeof *segments->parts, &segments->part_room)) ==
            NULL)
        return false;
    if (count >= 0 && count <= room && part_count >= 0 && segments->part_count <= segments->part_room)
        return true;
    PyErr_Format(PyExc_ValueError, "there is room for %zd segments and %zu parts, got %zd and %zd", room,
                 segments->part_room, count, part_count);
    return false;
}

static bool take_place(struct given *given, PyObject *place)
{
    PyObject *layout, *block, *table, *segments;
    long long since_ns, until_ns, own_begin_ns, own_end_ns, begin_ns, end_ns;
    if (!PyArg_ParseTuple(place, "OO!OO", &layout, &PyTuple_Type, &block, &table, &segments) ||
        !PyArg_ParseTuple(block, "LLLLLL", &since_ns, &until_ns, &own_begin_ns, &own_end_ns, &begin_ns, &end_ns))
        return false;
    given->block = (struct tprof_engine_block){since_ns, until_ns, {own_begin_ns, own_end_ns}, {begin_ns, end_ns}};
    return take_table(&given->arrays, table, &given->table) &&
           take_layout(&given->arrays, layout, given->table.columns, &given->layout) &&
           take_segments(&given->arrays, segments, given->table.columns, &given->segments);
}

static bool take_thread(struct given *given, PyObject *thread)
{
    PyObject *state, *counts;
    size_t count = 0;
    if (!PyArg_ParseTuple(thread, "OOi", &state, &counts, &given->number))
        return false;
    given->thread = take_records(&given->arrays, state, "the thread", sizeof *given->thread, &count);
    if (given->thread == NULL)
        return false;
    given->counts = tprof_arrays_take(&given->arrays, counts, "the thread's counts", UINT64, WRITABLE,
                                      2 * (Py_ssize_t)given->table.columns);
    if (given->counts != NULL && count != 1)
        PyErr_Format(PyExc_ValueError, "one thread, got %zu", count);
    return given->counts != NULL && count == 1;
}

static PyObject *refused(struct given *given)
{
    tprof_arrays_release(&given->arrays);
    return NULL;
}

/* Take what all functions on a thread are given; the arrays are released if that fails. */
static bool take_given(struct given *given, PyObject *thread, PyObject *place)
{
    given->arrays.taken = 0;
    if (take_place(given, place) && take_thread(given, thread))
        return true;
    refused(given);
    return false;
}

/* Return how many samples were taken and where everything ends now, or that there was no room. */
static PyObject *reached(struct given *given, size_t taken, bool good)
{
    tprof_arrays_release(&given->arrays);
    if (good)
        return Py_BuildValue("nnnn", (Py_ssize_t)taken, (Py_ssize_t)given->table.count,
                             (Py_ssize_t)given->segments.count, (Py_ssize_t)given->segments.part_count);
    PyErr_SetString(PyExc_ValueError, "there is no room for more segments, or places of segments are none");
    return NULL;
}

static PyObject *take(PyObject *self, PyObject *args)
{
    PyObject *thread, *of_records, *place;
    struct given given;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!OO!", &PyTuple_Type, &thread, &of_records, &PyTuple_Type, &place) ||
        !take_given(&given, thread, place))
        return NULL;
    const char *records = tprof_arrays_take(&given.arrays, of_records, "the samples", UINT8, PyBUF_SIMPLE, -1);
    if (records == NULL)
        return refused(&given);
    const size_t count = (size_t)given.arrays.views[given.arrays.taken - 1].len / given.layout.bytes;
    size_t taken;
    Py_BEGIN_ALLOW_THREADS
    taken = tprof_engine_take(given.thread, given.counts, given.number, records, count, &given.layout, &given.block,
                              &given.table, &given.segments);
    Py_END_ALLOW_THREADS
    return reached(&given, taken, true);
}

static PyObject *close_thread(PyObject *self, PyObject *args)
{
    PyObject *thread, *of_end, *place;
    unsigned long long end_cpu_ns;
    double cpu_s;
    struct given given;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!KOdO!", &PyTuple_Type, &thread, &end_cpu_ns, &of_end, &cpu_s, &PyTuple_Type,
                          &place) ||
        !take_given(&given, thread, place))
        return NULL;
    const uint64_t *end_counts = tprof_arrays_take(&given.arrays, of_end, "the counts at the end", UINT64, PyBUF_SIMPLE,
                                                   (Py_ssize_t)given.table.columns);
    if (end_counts == NULL)
        return refused(&given);
    return reached(&given, 0,
                   tprof_engine_close(given.thread, given.counts, given.number, end_cpu_ns, end_counts, cpu_s,
                                      &given.layout, &given.block, &given.table, &given.segments));
}

static PyObject *run_on(PyObject *self, PyObject *args)
{
    PyObject *thread, *place;
    unsigned long long clock_ns;
    long long now_ns;
    struct given given;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!KLO!", &PyTuple_Type, &thread, &clock_ns, &now_ns, &PyTuple_Type, &place) ||
        !take_given(&given, thread, place))
        return NULL;
    return reached(&given, 0,
                   tprof_engine_run_on(given.thread, given.counts, given.number, clock_ns, now_ns, &given.layout,
                                       &given.block, &given.table, &given.segments));
}

static PyObject *retain(PyObject *self, PyObject *args)
{
    PyObject *thread, *of_before, *place;
    Py_ssize_t begin, end;
    struct given given;
    struct tprof_engine_segments before;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!O!nnO!", &PyTuple_Type, &thread, &PyTuple_Type, &of_before, &begin, &end,
                          &PyTuple_Type, &place) ||
        !take_given(&given, thread, place))
        return NULL;
    if (!take_segments(&given.arrays, of_before, given.table.columns, &before))
        return refused(&given);
    bool good = begin >= 0 && end >= begin;
    Py_BEGIN_ALLOW_THREADS
    good = good && tprof_engine_retain(given.thread, given.number, &before, (size_t)begin, (size_t)end, &given.block,
                                       &given.table, &given.segments);
    Py_END_ALLOW_THREADS
    return reached(&given, 0, good);
}

static PyObject *end_part(PyObject *self, PyObject *place)
{
    struct given given = {.arrays = {.taken = 0}};
    (void)self;
    if (!PyTuple_Check(place))
        return PyErr_Format(PyExc_TypeError, "a tuple, got %R", place);
    if (!take_place(&given, place))
        return refused(&given);
    const bool good = given.segments.count < given.segments.room;
    if (good)
        tprof_engine_end_part(&given.segments, given.table.columns);
    return reached(&given, 0, good);
}

static PyObject *fill_index(PyObject *self, PyObject *given)
{
    struct tprof_arrays arrays = {.taken = 0};
    struct tprof_engine_table table;
    (void)self;
    if (!take_table(&arrays, given, &table)) {
        tprof_arrays_release(&arrays);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    tprof_engine_index(&table);
    Py_END_ALLOW_THREADS
    tprof_arrays_release(&arrays);
    Py_RETURN_NONE;
}

static PyObject *find(PyObject *self, PyObject *args)
{
    PyObject *of_table, *ids, *rows;
    struct tprof_arrays arrays = {.taken = 0};
    struct tprof_engine_table table;
    size_t count = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO", &of_table, &ids, &rows))
        return NULL;
    if (!take_table(&arrays, of_table, &table))
        goto error;
    const uint64_t *instance = take_any(&arrays, ids, "the ids", UINT64, &count);
    if (instance == NULL)
        goto error;
    int32_t *row = tprof_arrays_take(&arrays, rows, "the rows", INT32, WRITABLE, (Py_ssize_t)count);
    if (row == NULL)
        goto error;
    for (size_t at = 0; at < count; at++)
        row[at] = tprof_engine_find(&table, instance[at]);
    tprof_arrays_release(&arrays);
    Py_RETURN_NONE;
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

/* Take segments, where those of threads are, and edges. */
static bool take_course(struct tprof_arrays *arrays, PyObject *given, struct tprof_engine_course *course)
{
    PyObject *t_ns, *begins, *ends, *edges_ns;
    if (!PyArg_ParseTuple(given, "OOOO", &t_ns, &begins, &ends, &edges_ns))
        return false;
    size_t times = 0;
    *course = (struct tprof_engine_course){.threads = 1};
    course->t_ns = take_any(arrays, t_ns, "the times", INT64, &times);
    if (course->t_ns == NULL)
        return false;
    course->count = times == 0 ? 0 : times - 1;
    course->edges_ns = take_any(arrays, edges_ns, "the edges", INT64, &course->edges);
    if (course->edges_ns == NULL)
        return false;
    if (begins == Py_None)
        return true;
    struct tprof_loops_threads threads;
    if (!tprof_arrays_take_threads(arrays, begins, ends, (Py_ssize_t)course->count, &threads))
        return false;
    for (size_t at = 0; at < threads.threads; at++)
        if (threads.begin[at] < 0 || threads.end[at] < threads.begin[at] || (size_t)threads.end[at] > course->count) {
            tprof_arrays_refuse_places((Py_ssize_t)course->count);
            return false;
        }
    course->begins = threads.begin;
    course->ends = threads.end;
    course->threads = threads.threads;
    return true;
}

static PyObject *spread(PyObject *self, PyObject *args)
{
    PyObject *of_course, *of_values, *of_row, *of_sums;
    Py_ssize_t rows;
    struct tprof_arrays arrays = {.taken = 0};
    struct tprof_engine_course course;
    const int32_t *row = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOnO", &of_course, &of_values, &of_row, &rows, &of_sums))
        return NULL;
    if (rows < 1 || rows > INT32_MAX)
        return PyErr_Format(PyExc_ValueError, "at least one row and at most %d, got %zd", INT32_MAX, rows);
    if (!take_course(&arrays, of_course, &course))
        goto error;
    const Py_ssize_t count = (Py_ssize_t)course.count;
    const double *values = tprof_arrays_take(&arrays, of_values, "the values", FLOAT64, PyBUF_SIMPLE, count);
    if (values == NULL || (of_row != Py_None &&
                           (row = tprof_arrays_take(&arrays, of_row, "the rows", INT32, PyBUF_SIMPLE, count)) == NULL))
        goto error;
    double *sums =
        tprof_arrays_take(&arrays, of_sums, "the sums", FLOAT64, WRITABLE, rows * ((Py_ssize_t)course.edges + 1));
    if (sums == NULL)
        goto error;
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_engine_spread(&course, values, row, (size_t)rows, sums);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

static PyObject *gather(PyObject *self, PyObject *args)
{
    PyObject *of_course, *of_values, *of_rates, *of_energies;
    struct tprof_arrays arrays = {.taken = 0};
    struct tprof_engine_course course;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO", &of_course, &of_values, &of_rates, &of_energies))
        return NULL;
    if (!take_course(&arrays, of_course, &course))
        goto error;
    const Py_ssize_t count = (Py_ssize_t)course.count;
    const double *values = tprof_arrays_take(&arrays, of_values, "the values", FLOAT64, PyBUF_SIMPLE, count);
    if (values == NULL)
        goto error;
    const double *rates =
        tprof_arrays_take(&arrays, of_rates, "the rates", FLOAT64, PyBUF_SIMPLE, (Py_ssize_t)course.edges + 1);
    if (rates == NULL)
        goto error;
    double *energies = tprof_arrays_take(&arrays, of_energies, "the energies", FLOAT64, WRITABLE, count);
    if (energies == NULL)
        goto error;
    Py_BEGIN_ALLOW_THREADS
    tprof_engine_gather(&course, values, rates, energies);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, true);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

/* Take whose segments are, and where joules are added. */
static bool take_owners(struct tprof_arrays *arrays, PyObject *given, const struct tprof_engine_course *course,
                        struct tprof_engine_owners *owners)
{
    PyObject *slot, *row, *energy_j, *edges;
    if (!PyArg_ParseTuple(given, "OOOO", &slot, &row, &energy_j, &edges))
        return false;
    *owners = (struct tprof_engine_owners){.slots = 0};
    owners->slot = tprof_arrays_take(arrays, slot, "the slots", INT32, PyBUF_SIMPLE, (Py_ssize_t)course->count);
    if (owners->slot == NULL)
        return false;
    if ((owners->row = take_any(arrays, row, "the rows", INT32, &owners->slots)) == NULL)
        return false;
    owners->energy_j = tprof_arrays_take(arrays, energy_j, "the energies", FLOAT64, WRITABLE, -1);
    if (owners->energy_j == NULL)
        return false;
    const Py_ssize_t rows = arrays->views[arrays->taken - 1].len / (Py_ssize_t)sizeof(double);
    owners->rows = (size_t)rows;
    if (edges == Py_None)
        return true;
    PyObject *piece_of, *first, *last, *first_j, *last_j;
    if (!PyArg_ParseTuple(edges, "OOOOO", &piece_of, &first, &last, &first_j, &last_j))
        return false;
    if (piece_of != Py_None) {
        owners->piece_of =
            tprof_arrays_take(arrays, piece_of, "the pieces", INT32, PyBUF_SIMPLE, (Py_ssize_t)course->edges + 1);
        if (owners->piece_of == NULL)
            return false;
    }
    return (owners->first = tprof_arrays_take(arrays, first, "the first intervals", INT32, PyBUF_SIMPLE, rows)) !=
               NULL &&
           (owners->last = tprof_arrays_take(arrays, last, "the last intervals", INT32, PyBUF_SIMPLE, rows)) != NULL &&
           (owners->first_j = tprof_arrays_take(arrays, first_j, "the energies", FLOAT64, WRITABLE, rows)) != NULL &&
           (owners->last_j = tprof_arrays_take(arrays, last_j, "the energies", FLOAT64, WRITABLE, rows)) != NULL;
}

static PyObject *share(PyObject *self, PyObject *args)
{
    PyObject *of_course, *of_values, *of_rates, *of_owners;
    struct tprof_arrays arrays = {.taken = 0};
    struct tprof_engine_course course;
    struct tprof_engine_owners owners;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO", &of_course, &of_values, &of_rates, &of_owners))
        return NULL;
    if (!take_course(&arrays, of_course, &course))
        goto error;
    const double *values =
        tprof_arrays_take(&arrays, of_values, "the values", FLOAT64, PyBUF_SIMPLE, (Py_ssize_t)course.count);
    if (values == NULL)
        goto error;
    const double *rates =
        tprof_arrays_take(&arrays, of_rates, "the rates", FLOAT64, PyBUF_SIMPLE, (Py_ssize_t)course.edges + 1);
    if (rates == NULL || !take_owners(&arrays, of_owners, &course, &owners))
        goto error;
    bool good;
    Py_BEGIN_ALLOW_THREADS
    good = tprof_engine_share(&course, values, rates, &owners);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, good);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

static PyObject *count_running(PyObject *self, PyObject *args)
{
    PyObject *of_course, *of_slot, *of_running;
    struct tprof_arrays arrays = {.taken = 0};
    struct tprof_engine_course course;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO", &of_course, &of_slot, &of_running))
        return NULL;
    if (!take_course(&arrays, of_course, &course))
        goto error;
    const int32_t *slot =
        tprof_arrays_take(&arrays, of_slot, "the slots", INT32, PyBUF_SIMPLE, (Py_ssize_t)course.count);
    if (slot == NULL)
        goto error;
    int64_t *running =
        tprof_arrays_take(&arrays, of_running, "what runs", INT64, WRITABLE, (Py_ssize_t)course.edges + 2);
    if (running == NULL)
        goto error;
    Py_BEGIN_ALLOW_THREADS
    tprof_engine_count_running(&course, slot, running);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, true);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

static PyObject *find_ends(PyObject *self, PyObject *args)
{
    PyObject *records, *of_edges, *of_kept, *of_first, *of_last;
    long long before;
    Py_ssize_t from, width;
    size_t count = 0, edges = 0;
    struct tprof_arrays arrays = {.taken = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OOLOnnOO", &records, &of_edges, &before, &of_kept, &from, &width, &of_first, &of_last))
        return NULL;
    const struct tprof_engine_instance *instances =
        take_records(&arrays, records, "the instances", sizeof *instances, &count);
    if (instances == NULL)
        goto error;
    if (from < 0 || from > INT32_MAX || width < from + 4 || width > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "four of the numbers that are kept must be there");
        goto error;
    }
    const int64_t *edges_ns = take_any(&arrays, of_edges, "the edges", INT64, &edges);
    if (edges_ns == NULL)
        goto error;
    double *kept = tprof_arrays_take(&arrays, of_kept, "what is kept", FLOAT64, WRITABLE, (Py_ssize_t)count * width);
    if (kept == NULL)
        goto error;
    int32_t *first = tprof_arrays_take(&arrays, of_first, "the first intervals", INT32, WRITABLE, (Py_ssize_t)count);
    if (first == NULL)
        goto error;
    int32_t *last = tprof_arrays_take(&arrays, of_last, "the last intervals", INT32, WRITABLE, (Py_ssize_t)count);
    if (last == NULL)
        goto error;
    Py_BEGIN_ALLOW_THREADS
    tprof_engine_find_ends(instances, count, edges_ns, edges, before, kept + from, (size_t)width, first, last);
    Py_END_ALLOW_THREADS
    return tprof_arrays_finished(&arrays, true);
error:
    tprof_arrays_release(&arrays);
    return NULL;
}

static PyMethodDef methods[] = {
    {"close", close_thread, METH_VARARGS, NULL},
    {"count_running", count_running, METH_VARARGS, NULL},
    {"end_part", end_part, METH_O, NULL},
    {"fill_index", fill_index, METH_O, NULL},
    {"find", find, METH_VARARGS, NULL},
    {"find_ends", find_ends, METH_VARARGS, NULL},
    {"gather", gather, METH_VARARGS, NULL},
    {"retain", retain, METH_VARARGS, NULL},
    {"run_on", run_on, METH_VARARGS, NULL},
    {"share", share, METH_VARARGS, NULL},
    {"spread", spread, METH_VARARGS, NULL},
    {"take", take, METH_VARARGS, NULL},
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
