/* A library calls functions of others through addresses in a table of its own (its GOT), which the linker fills. The
 * entries for pthread_create get ours instead, and those for functions that give work to a pool of threads a stub:
 * whatever leads into an OpenBLAS library, and what begins a parallel region of OpenMP. So do functions of MPI, if they are
 * to be tasks, and functions that others name. docs/internals.md says why this and not LD_PRELOAD.
 *
 * Another thread may be loading a library at any time. The linker lists it before it has filled the table, then makes
 * the table read-only, if it is one of the part that is so protected (RELRO). So an entry in that part is only touched
 * when /proc/self/maps shows it as read-only, that is, after the linker has finished with it; any other entry is always
 * writable, and is only touched when it holds what the linker writes. No library is unmapped while the linker calls us
 * for it. Redirected entries stay so: without a recording ours passes on every call. */
#include "redirection.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "births.h"
#include "calls.h"
#include "clock.h"
#include "layout.h"
#include "libraries.h"
#include "mpi_calls.h"

#if defined(__x86_64__)
#define CALL_ENTRY R_X86_64_JUMP_SLOT
#define ADDRESS_ENTRY R_X86_64_GLOB_DAT
#define DATA_ENTRY R_X86_64_64
#elif defined(__aarch64__)
#define CALL_ENTRY R_AARCH64_JUMP_SLOT
#define ADDRESS_ENTRY R_AARCH64_GLOB_DAT
#define DATA_ENTRY R_AARCH64_ABS64
#else
#define CALL_ENTRY UINT32_MAX
#define ADDRESS_ENTRY UINT32_MAX
#define DATA_ENTRY UINT32_MAX
#endif

static struct tprof_redirected redirected[4];
static size_t redirected_count;

struct entry {
    uintptr_t *place;
    const char *name;
    bool is_call, is_weak;
};

static char *read_whole(const char *path)
{
    size_t room = 1 << 17, used = 0;
    char *text = malloc(room);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (text != NULL && fd >= 0) {
        const ssize_t count = read(fd, text + used, room - used - 1);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        used += (size_t)count;
        if (room - used < 4096) {
            char *more = realloc(text, room *= 2);
            if (more == NULL)
                break;
            text = more;
        }
    }
    if (fd >= 0)
        close(fd);
    if (text != NULL)
        text[used] = '\0';
    return text;
}

bool tprof_writable_read(struct tprof_writable *writable)
{
    char *text = read_whole("/proc/self/maps");
    size_t room = 0;
    for (char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n') + 1) {
        char *rest;
        const uintptr_t start = strtoull(line, &rest, 16);
        const uintptr_t end = *rest == '-' ? strtoull(rest + 1, &rest, 16) : 0;
        if (*rest == ' ' && rest[2] == 'w') {
            if (writable->count == room) {
                struct tprof_range *more = realloc(writable->ranges, (room = 2 * room + 256) * sizeof *more);
                if (more == NULL)
                    break;
                writable->ranges = more;
            }
            writable->ranges[writable->count++] = (struct tprof_range){start, end};
        }
        if (strchr(line, '\n') == NULL)
            break;
    }
    free(text);
    return writable->count > 0;
}

static bool is_writable(const struct tprof_writable *writable, uintptr_t address)
{
    for (size_t i = 0; i < writable->count; i++)
        if (address >= writable->ranges[i].start && address < writable->ranges[i].end)
            return true;
    return false;
}

void tprof_redirect_also(const struct tprof_redirected *function)
{
    if (redirected_count < sizeof redirected / sizeof *redirected)
        redirected[redirected_count++] = *function;
}

/* Ours instead of a function that is named by the entry; NULL: none. */
static const struct tprof_redirected *redirected_function(const char *name)
{
    for (size_t i = 0; i < redirected_count; i++)
        if (strcmp(name, redirected[i].name) == 0)
            return &redirected[i];
    return NULL;
}

/* GOMP_parallel, GOMP_parallel_loop_dynamic, ..., __kmpc_fork_call, __kmpc_fork_call_if, __kmpc_fork_teams */
static bool begins_region(const char *name)
{
    return strncmp(name, "GOMP_parallel", 13) == 0 || strncmp(name, "__kmpc_fork_", 12) == 0;
}

/* Functions that only ask or set something would be noted for nothing. */
static bool is_setting(const char *name)
{
    return strstr(name, "openblas_") != NULL || strstr(name, "goto_") != NULL;
}

/* The library whose pool the function at this address gives work to, or NULL. */
static struct tprof_library *pool_of(const struct tprof_image *image, uintptr_t found, const char *name)
{
    struct tprof_library *library = tprof_library_at(found);
    if (library == NULL || library->start == image->start || found < library->code_start || found >= library->code_end)
        return NULL;
    return begins_region(name) || (library->is_openblas && !is_setting(name)) ? library : NULL;
}

/* True: the entry is in memory that was made writable, if that was needed. */
static bool make_writable(const struct tprof_writable *writable, struct tprof_image *image, uintptr_t place)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = place & ~(page - 1);
    const bool is_protected = at >= image->protected_start && at < image->protected_end;
    const size_t bytes = image->protected_end - image->protected_start;
    if (!is_protected)
        return is_writable(writable, at);
    if (!image->is_open && !is_writable(writable, at))
        image->is_open = mprotect((void *)image->protected_start, bytes, PROT_READ | PROT_WRITE) == 0;
    return image->is_open;
}

static void protect_again(struct tprof_image *image)
{
    if (image->is_open)
        (void)mprotect((void *)image->protected_start, image->protected_end - image->protected_start, PROT_READ);
    image->is_open = false;
}

/* What is to stand in an entry instead of the function that was found there. */
struct replacement {
    uintptr_t ours; /* 0: nothing else, for good */
    struct tprof_library *stubbed; /* the library whose function a stub stands in for, or NULL */
    bool is_pool, must_wait; /* until the first call of the entry */
};

/* The library that defines the function of MPI at this address, or NULL. */
static struct tprof_library *mpi_of(const struct tprof_image *image, uintptr_t found)
{
    struct tprof_library *library = tprof_library_at(found);
    return library == NULL || library->start == image->start ? NULL : library;
}

static struct replacement replacement_of(const struct tprof_image *image, const struct entry *entry, uintptr_t found)
{
    /* An entry that was not called yet leads into the library itself. Any other function is that of another tool. */
    const bool is_unused = entry->is_call && found >= image->start && found < image->end;
    const uint32_t mpi_task = tprof_mpi_task(entry->name);
    struct replacement by = {0};
    const struct tprof_redirected *function = redirected_function(entry->name);
    if (strcmp(entry->name, "pthread_create") == 0) {
        if (found == (uintptr_t)tprof_births_genuine() || is_unused)
            by.ours = (uintptr_t)tprof_births_create;
    } else if (function != NULL) {
        if (found == function->genuine || is_unused)
            by.ours = function->ours;
    } else if (tprof_is_call_stub(found)) {
        by.ours = 0; /* it was redirected before */
    } else if (is_unused) {
        by.must_wait = begins_region(entry->name) || mpi_task != TPROF_NO_TASK;
    } else if (mpi_task != TPROF_NO_TASK) {
        by.stubbed = mpi_of(image, found);
    } else {
        by.stubbed = pool_of(image, found, entry->name);
        by.is_pool = by.stubbed != NULL;
    }
    return by;
}

static uintptr_t stub_for(const struct replacement *by, uintptr_t found, const char *name)
{
    if (!by->is_pool)
        return tprof_call_stub(found, tprof_mpi_task(name), TPROF_CALL_OF_MPI);
    const bool is_counted = strcmp(name, "__kmpc_fork_call") == 0;
    return tprof_call_stub(found, by->stubbed->number, is_counted ? TPROF_CALL_OF_POOL_COUNTED : TPROF_CALL_OF_POOL);
}

/* True: there is nothing more to do about this entry. */
static bool redirect_entry(const struct tprof_writable *writable, struct tprof_image *image, const struct entry *entry)
{
    uintptr_t found = __atomic_load_n(entry->place, __ATOMIC_RELAXED);
    if (found < image->end - image->start)
        return entry->is_weak; /* an offset, which the linker has yet to replace */
    struct replacement by = replacement_of(image, entry, found);
    if (by.must_wait)
        return false;
    if (by.ours == 0 && by.stubbed == NULL)
        return true;
    if (writable->ranges == NULL || !make_writable(writable, image, (uintptr_t)entry->place))
        return false;
    if (by.stubbed != NULL)
        by.ours = stub_for(&by, found, entry->name);
    if (by.ours == 0)
        return true;
    (void)__atomic_compare_exchange_n(entry->place, &found, by.ours, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (by.stubbed != NULL)
        by.stubbed->has_stubs = true;
    if (by.is_pool && by.stubbed->noted_ns == 0)
        by.stubbed->noted_ns = tprof_now_ns();
    return true;
}

#if __SIZEOF_POINTER__ == 8
static bool redirect_in(const struct tprof_writable *writable, struct tprof_image *image, uintptr_t table, size_t bytes)
{
    const ElfW(Rela) *const entries = (const ElfW(Rela) *)table;
    bool settled = true;
    for (size_t i = 0; i < bytes / sizeof *entries; i++) {
        const uint64_t type = ELF64_R_TYPE(entries[i].r_info);
        const ElfW(Sym) *symbol = &image->symbols[ELF64_R_SYM(entries[i].r_info)];
        if (type != CALL_ENTRY && type != ADDRESS_ENTRY && (type != DATA_ENTRY || entries[i].r_addend != 0))
            continue;
        if (ELF64_R_SYM(entries[i].r_info) == 0 || symbol->st_shndx != SHN_UNDEF)
            continue;
        const struct entry entry = {
            .place = (uintptr_t *)(image->base + entries[i].r_offset),
            .name = image->strings + symbol->st_name,
            .is_call = type == CALL_ENTRY,
            .is_weak = ELF64_ST_BIND(symbol->st_info) == STB_WEAK,
        };
        settled &= redirect_entry(writable, image, &entry);
    }
    return settled;
}

bool tprof_redirect(const struct tprof_writable *writable, struct tprof_image *image)
{
    if (image->symbols == NULL || image->strings == NULL)
        return true;
    const bool settled = image->calls == 0 || redirect_in(writable, image, image->calls, image->call_bytes);
    const bool others = image->others == 0 || redirect_in(writable, image, image->others, image->other_bytes);
    protect_again(image);
    return settled && others;
}
#else
bool tprof_redirect(const struct tprof_writable *writable, struct tprof_image *image)
{
    (void)writable;
    (void)image;
    return true;
}
#endif
