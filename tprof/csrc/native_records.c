#include "native_records.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "layout.h"
#include "native_calls.h"
#include "native_counters.h"
#include "native_file.h"
#include "recorder.h"
#include "start_routines.h"

void tprof_native_write_appear(const struct tprof_follower *one)
{
    const struct tprof_native record = {
        .kind = TPROF_NATIVE_APPEAR,
        .thread = one->number,
        .t_ns = one->appeared_ns,
        .value = one->cpu_ns,
        .tid = (uint32_t)one->tid,
    };
    tprof_native_write(&record);
}

void tprof_native_write_clock(const struct tprof_follower *one, uint64_t t_ns, uint64_t cpu_ns)
{
    const struct tprof_native record = {
        .kind = TPROF_NATIVE_CLOCK, .thread = one->number, .t_ns = t_ns, .value = cpu_ns};
    tprof_native_write(&record);
}

void tprof_native_write_standing(struct tprof_follower *one)
{
    if (one->stands)
        tprof_native_write_clock(one, one->read_ns, one->cpu_ns);
    one->stands = false;
}

void tprof_native_write_end(struct tprof_follower *one, uint64_t t_ns, uint64_t cpu_ns, uint8_t flags)
{
    tprof_native_write_standing(one);
    const struct tprof_native record = {
        .kind = TPROF_NATIVE_END, .thread = one->number, .t_ns = t_ns, .value = cpu_ns, .flags = flags};
    tprof_native_write(&record);
}

uint64_t tprof_native_write_last(struct tprof_follower *one, uint64_t t_ns, uint64_t cpu_ns, uint8_t flags)
{
    const uint64_t end_ns = t_ns < one->read_ns ? one->read_ns : t_ns;
    tprof_native_write_end(one, end_ns, cpu_ns < one->cpu_ns ? one->cpu_ns : cpu_ns, flags);
    return end_ns;
}

bool tprof_native_write_own_end(struct tprof_follower *one, const struct tprof_birth *birth)
{
    if (tprof_birth_joined(birth)) {
        tprof_native_write_last(one, birth->joined_ns, birth->joined_cpu_ns, TPROF_NATIVE_EXACT | TPROF_NATIVE_JOINED);
        return true;
    }
    if (!tprof_birth_ended(birth))
        return false;
    /* Its counters stand still since then. */
    tprof_native_write_last_counts(one,
                                   tprof_native_write_last(one, birth->ended_ns, birth->cpu_ns, TPROF_NATIVE_EXACT));
    return true;
}

void tprof_native_write_begin(struct tprof_follower *one, uint64_t t_ns, struct tprof_library *library)
{
    tprof_native_write_path(library, tprof_followers.recording, t_ns);
    const struct tprof_native begin = {
        .kind = TPROF_NATIVE_BEGIN, .thread = one->number, .t_ns = t_ns, .value = library->number};
    tprof_native_write(&begin);
    one->has_library = true;
}

static void write_library(struct tprof_follower *one, uint64_t t_ns, uintptr_t routine, uintptr_t argument)
{
    struct tprof_library *library = tprof_library_at(routine);
    uintptr_t table = 0;
    if (library == NULL)
        return;
    /* std::thread begins in the library of C++. Its argument is an object of the caller's, whose first word points to
     * a table in the caller's file. */
    if (strstr(library->path, "libstdc++.so") != NULL &&
        tprof_read_memory(argument, &table, sizeof table) == sizeof table && tprof_library_at(table) != NULL)
        library = tprof_library_at(table);
    tprof_native_write_begin(one, t_ns, library);
}

void tprof_native_find_library(struct tprof_follower *one, uint64_t t_ns)
{
    struct tprof_start_routine found;
    switch (tprof_start_routine_of(one->tid, &found)) {
    case TPROF_FOUND:
        one->searches++;
        write_library(one, t_ns, found.routine, found.argument);
        break;
    case TPROF_NOT_FOUND:
        one->searches++;
        break;
    case TPROF_RUNS:
        one->attempts++;
        break;
    }
}

void tprof_native_write_birth(struct tprof_follower *one, struct tprof_birth *birth)
{
    tprof_follower_drop_birth(one);
    one->birth = birth;
    const struct tprof_native record = {
        .kind = TPROF_NATIVE_CREATOR,
        .thread = one->number,
        .t_ns = birth->created_ns,
        .value = birth->instance,
        .tid = (uint32_t)birth->creator,
        .task = birth->task,
    };
    tprof_native_write(&record);
    if (!one->has_library)
        write_library(one, birth->created_ns, (uintptr_t)birth->routine, (uintptr_t)birth->argument);
}

void tprof_native_write_creator(struct tprof_follower *one, uint64_t created_ns)
{
    const struct tprof_thread *self = tprof_self;
    const bool is_current = self != NULL && self->generation == __atomic_load_n(&tprof_generation, __ATOMIC_RELAXED);
    const struct tprof_native record = {
        .kind = TPROF_NATIVE_CREATOR,
        .thread = one->number,
        .t_ns = created_ns,
        .value = is_current ? self->instance : 0,
        .tid = (uint32_t)syscall(SYS_gettid),
        .task = is_current ? self->task : TPROF_NO_TASK,
    };
    tprof_native_write_clock(one, created_ns, 0);
    tprof_native_write(&record);
    one->has_creator = true;
}

void tprof_native_write_name(struct tprof_follower *one, uint64_t t_ns)
{
    char name[TPROF_THREAD_NAME_BYTES];
    if (!tprof_thread_name(one->tid, name) || strcmp(name, one->name) == 0)
        return;
    strcpy(one->name, name);
    const struct tprof_native record = {.kind = TPROF_NATIVE_NAME, .thread = one->number, .t_ns = t_ns};
    tprof_native_write_text(record, name);
}
