/* Called under the lock of the followers. */
#include "native_calls.h"

#include "calls.h"
#include "clock.h"
#include "layout.h"
#include "native_file.h"

static uint64_t recording; /* whose calls are written now */

void tprof_native_write_path(struct tprof_library *library, uint64_t current, uint64_t t_ns)
{
    if (library->written_in == current)
        return;
    const struct tprof_native path = {.kind = TPROF_NATIVE_PATH, .thread = library->number, .t_ns = t_ns};
    tprof_native_write_text(path, library->path);
    library->written_in = current;
}

static void write_call(const struct tprof_calls *calls, pid_t tid)
{
    struct tprof_library *library = tprof_library_numbered(calls->library);
    const uint64_t length_ns = calls->end_ns - calls->begin_ns;
    if (library == NULL)
        return;
    tprof_native_write_path(library, recording, calls->begin_ns);
    const struct tprof_native record = {
        .kind = TPROF_NATIVE_CALLS,
        .thread = calls->library,
        .t_ns = calls->begin_ns,
        .value = length_ns,
        .tid = (uint32_t)tid,
        .task = calls->task,
        .part = (uint16_t)((double)calls->inside_ns / (double)length_ns * UINT16_MAX),
        .flags = calls->several_tasks ? TPROF_NATIVE_SEVERAL : 0,
    };
    tprof_native_write(&record);
}

void tprof_native_write_calls(uint64_t current, uint64_t began_ns, bool all)
{
    recording = current;
    for (struct tprof_library *one = NULL; (one = tprof_library_next(one)) != NULL;) {
        if (one->noted_ns == 0 || one->told_in == recording)
            continue;
        tprof_native_write_path(one, recording, one->noted_ns);
        const struct tprof_native record = {
            .kind = TPROF_NATIVE_NOTED,
            .thread = one->number,
            .t_ns = one->noted_ns > began_ns ? one->noted_ns : began_ns,
        };
        tprof_native_write(&record);
        one->told_in = recording;
    }
    if (tprof_calls_take(all, write_call)) {
        const struct tprof_native record = {.kind = TPROF_NATIVE_MISSED, .t_ns = tprof_now_ns()};
        tprof_native_write(&record);
    }
}
