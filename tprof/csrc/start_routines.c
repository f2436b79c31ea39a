/* The C library keeps a record of each thread above the thread's stack, with its number, the function in which it began
 * and that one's argument. The form is private, so it is learnt: from the record of a thread whose number and function
 * are known. Another thread's record is above its stack pointer, which /proc shows while it waits. Memory is read
 * through a file, which fails where there is none. If anything differs from this, as with musl or a sanitizer, nothing is found.
 *
 * Called by a holder of the followers' lock. */
#include "start_routines.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libraries.h"

#define RECORD_BYTES 4096
#define PIECE_BYTES (64 * 1024)
#define MOST_BYTES (256 * 1024)

static struct {
    bool known;
    size_t tid, routine; /* offsets in the record */
} form;

size_t tprof_read_memory(uintptr_t from, void *to, size_t bytes)
{
    const int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const ssize_t got = pread(fd, to, bytes, (off_t)from);
    close(fd);
    return got < 0 ? 0 : (size_t)got;
}

void tprof_start_routines_learn(uintptr_t routine)
{
    char record[RECORD_BYTES];
    const pid_t tid = (pid_t)syscall(SYS_gettid);
    const size_t bytes = tprof_read_memory((uintptr_t)pthread_self(), record, sizeof record);
    bool has_tid = false, has_routine = false;
    for (size_t at = 0; at + sizeof routine <= bytes; at += 4) {
        if (!has_tid && memcmp(record + at, &tid, sizeof tid) == 0) {
            form.tid = at;
            has_tid = true;
        }
        if (!has_routine && at % sizeof routine == 0 && memcmp(record + at, &routine, sizeof routine) == 0) {
            form.routine = at;
            has_routine = true;
        }
    }
    form.known = has_tid && has_routine;
}

/* The stack pointer of a waiting thread, or 0. */
static uintptr_t stack_pointer_of(pid_t tid)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)tid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const ssize_t count = read(fd, text, sizeof text - 1);
    close(fd);
    if (count <= 0)
        return 0;
    /* "... STACK_POINTER PROGRAM_COUNTER", or "running" */
    text[count] = '\0';
    char *last = strrchr(text, ' ');
    if (last == NULL)
        return 0;
    *last = '\0';
    char *before = strrchr(text, ' ');
    return before == NULL ? 0 : (uintptr_t)strtoull(before + 1, NULL, 16);
}

/* Search `bytes` of the memory at `words`; the record may begin anywhere in it. */
static bool find_record(const char *memory, size_t bytes, pid_t tid, struct tprof_start_routine *found)
{
    const size_t needed = (form.routine > form.tid ? form.routine : form.tid) + sizeof *found;
    for (size_t at = 0; at + needed <= bytes; at += 16) {
        if (memcmp(memory + at + form.tid, &tid, sizeof tid) != 0)
            continue;
        memcpy(found, memory + at + form.routine, sizeof *found);
        if (tprof_library_at(found->routine) != NULL)
            return true;
    }
    return false;
}

enum tprof_search tprof_start_routine_of(pid_t tid, struct tprof_start_routine *found)
{
    static char memory[PIECE_BYTES + RECORD_BYTES];
    if (!form.known)
        return TPROF_NOT_FOUND;
    const uintptr_t stack = stack_pointer_of(tid) & ~(uintptr_t)15;
    if (stack == 0)
        return TPROF_RUNS;
    /* Pieces overlap by the size of a record. */
    for (uintptr_t from = stack; from < stack + MOST_BYTES; from += PIECE_BYTES) {
        const size_t bytes = tprof_read_memory(from, memory, sizeof memory);
        if (find_record(memory, bytes, tid, found))
            return TPROF_FOUND;
        if (bytes < sizeof memory)
            break;
    }
    return TPROF_NOT_FOUND;
}
