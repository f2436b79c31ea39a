/* A library calls functions of others through addresses in a table of its own (its GOT), which the linker fills. The
 * entries for pthread_create get ours instead. docs/internals.md says why this and not LD_PRELOAD.
 *
 * Another thread may be loading a library at any time. The linker lists it before it has filled the table, then makes
 * the table read-only, if it is one of the part that is so protected (RELRO). So an entry in that part is only touched
 * when /proc/self/maps shows it as read-only, that is, after the linker has finished with it; any other entry is always
 * writable, and is only touched when it holds what the linker writes. No library is unmapped while the linker calls us
 * for it. Redirected entries stay so: without a recording ours passes on every call. */
#include "libraries.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "births.h"
#include "clock.h"

/* The linker has finished with a library before the last retry, or does not protect it in the way that is expected. */
#define FIRST_RETRY_NS UINT64_C(20000000)
#define LAST_RETRY_NS UINT64_C(2000000000)

#if defined(__x86_64__)
#define CALL_ENTRY R_X86_64_JUMP_SLOT
#define ADDRESS_ENTRY R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define CALL_ENTRY R_AARCH64_JUMP_SLOT
#define ADDRESS_ENTRY R_AARCH64_GLOB_DAT
#else
#define CALL_ENTRY UINT32_MAX
#define ADDRESS_ENTRY UINT32_MAX
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tprof_library *libraries;
static size_t library_count, library_room;
static uint32_t last_number;
static uint64_t came, gone; /* the linker's counts at the last scan */
static bool unsettled;
static uint64_t retry_ns, retry_gap_ns;

/* What the linker says of a library, as far as it is needed here. */
struct image {
    uintptr_t base, start, end;
    const ElfW(Dyn) * dynamic;
    uintptr_t protected_start, protected_end; /* RELRO, whole pages */
    const ElfW(Sym) * symbols;
    const char *strings;
};

struct range {
    uintptr_t start, end;
};

struct scan {
    uint64_t came, gone;
    bool redirect, outdated;
    struct range *writable; /* from /proc/self/maps; NULL: only find out whether there is something to redirect */
    size_t writable_count;
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

/* False: /proc is not there, so nothing may be redirected. */
static bool read_writable(struct scan *scan)
{
    char *text = read_whole("/proc/self/maps");
    size_t room = 0;
    for (char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n') + 1) {
        char *rest;
        const uintptr_t start = strtoull(line, &rest, 16);
        const uintptr_t end = *rest == '-' ? strtoull(rest + 1, &rest, 16) : 0;
        if (*rest == ' ' && rest[2] == 'w') {
            if (scan->writable_count == room) {
                struct range *more = realloc(scan->writable, (room = 2 * room + 256) * sizeof *more);
                if (more == NULL)
                    break;
                scan->writable = more;
            }
            scan->writable[scan->writable_count++] = (struct range){start, end};
        }
        if (strchr(line, '\n') == NULL)
            break;
    }
    free(text);
    return scan->writable_count > 0;
}

static bool is_writable(const struct scan *scan, uintptr_t address)
{
    for (size_t i = 0; i < scan->writable_count; i++)
        if (address >= scan->writable[i].start && address < scan->writable[i].end)
            return true;
    return false;
}

static struct image describe(const struct dl_phdr_info *info)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct image image = {.base = info->dlpi_addr, .start = UINTPTR_MAX};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const uintptr_t start = image.base + part->p_vaddr, end = start + part->p_memsz;
        if (part->p_type == PT_LOAD && start < image.start)
            image.start = start;
        if (part->p_type == PT_LOAD && end > image.end)
            image.end = end;
        if (part->p_type == PT_DYNAMIC)
            image.dynamic = (const ElfW(Dyn) *)start;
        if (part->p_type == PT_GNU_RELRO) {
            image.protected_start = start & ~(page - 1);
            image.protected_end = end & ~(page - 1);
        }
    }
    return image;
}

/* Some linkers replace offsets in this table by addresses, some do not. */
static uintptr_t address_in(const struct image *image, const ElfW(Dyn) * entry)
{
    return entry->d_un.d_ptr < image->base ? image->base + entry->d_un.d_ptr : entry->d_un.d_ptr;
}

/* True: there is nothing more to do about this entry. */
static bool redirect_entry(const struct scan *scan, const struct image *image, uintptr_t *entry, bool is_call)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)entry & ~(page - 1);
    const uintptr_t genuine = (uintptr_t)tprof_births_genuine(), ours = (uintptr_t)tprof_births_create;
    const bool is_protected = at >= image->protected_start && at < image->protected_end;
    uintptr_t found = __atomic_load_n(entry, __ATOMIC_RELAXED);
    if (found < image->end - image->start)
        return false; /* an offset, which the linker has yet to replace */
    /* An entry that was not called yet leads into the library itself. Any other function is that of another tool. */
    if (found != genuine && !(is_call && found >= image->start && found < image->end))
        return found == ours || found >= image->end || found < image->start;
    if (scan->writable == NULL || is_writable(scan, at) == is_protected)
        return false;
    if (is_protected && mprotect((void *)at, page, PROT_READ | PROT_WRITE) != 0)
        return true;
    (void)__atomic_compare_exchange_n(entry, &found, ours, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (is_protected)
        (void)mprotect((void *)at, page, PROT_READ);
    return true;
}

#if __SIZEOF_POINTER__ == 8
static bool redirect_in(const struct scan *scan, const struct image *image, uintptr_t table, size_t bytes)
{
    const ElfW(Rela) *const entries = (const ElfW(Rela) *)table;
    bool settled = true;
    for (size_t i = 0; i < bytes / sizeof *entries; i++) {
        const uint64_t type = ELF64_R_TYPE(entries[i].r_info);
        if (type != CALL_ENTRY && type != ADDRESS_ENTRY)
            continue;
        const ElfW(Sym) *symbol = &image->symbols[ELF64_R_SYM(entries[i].r_info)];
        if (symbol->st_shndx != SHN_UNDEF || strcmp(image->strings + symbol->st_name, "pthread_create") != 0)
            continue;
        uintptr_t *entry = (uintptr_t *)(image->base + entries[i].r_offset);
        settled &= redirect_entry(scan, image, entry, type == CALL_ENTRY);
    }
    return settled;
}

/* Returns whether the linker had finished with the library. */
static bool redirect(const struct scan *scan, struct image *image)
{
    uintptr_t calls = 0, others = 0;
    size_t call_bytes = 0, other_bytes = 0;
    for (const ElfW(Dyn) *entry = image->dynamic; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            image->symbols = (const ElfW(Sym) *)address_in(image, entry);
        else if (entry->d_tag == DT_STRTAB)
            image->strings = (const char *)address_in(image, entry);
        else if (entry->d_tag == DT_JMPREL)
            calls = address_in(image, entry);
        else if (entry->d_tag == DT_PLTRELSZ)
            call_bytes = entry->d_un.d_val;
        else if (entry->d_tag == DT_RELA)
            others = address_in(image, entry);
        else if (entry->d_tag == DT_RELASZ)
            other_bytes = entry->d_un.d_val;
    }
    if (image->symbols == NULL || image->strings == NULL)
        return true;
    const bool settled = calls == 0 || redirect_in(scan, image, calls, call_bytes);
    return (others == 0 || redirect_in(scan, image, others, other_bytes)) && settled;
}
#else
static bool redirect(const struct scan *scan, struct image *image)
{
    (void)scan;
    (void)image;
    return true;
}
#endif

static struct tprof_library *find(const struct image *image, const char *path)
{
    for (size_t i = 0; i < library_count; i++) {
        struct tprof_library *library = &libraries[i];
        if (library->base == image->base && library->start == image->start && strcmp(library->path, path) == 0)
            return library;
    }
    return NULL;
}

static struct tprof_library *add(const struct image *image, const char *path)
{
    if (library_count == library_room) {
        struct tprof_library *more = realloc(libraries, (library_room * 2 + 64) * sizeof *more);
        if (more == NULL)
            return NULL;
        libraries = more;
        library_room = library_room * 2 + 64;
    }
    struct tprof_library *library = &libraries[library_count];
    *library = (struct tprof_library){.base = image->base, .start = image->start, .end = image->end};
    library->path = strdup(path);
    if (library->path == NULL)
        return NULL;
    library->number = last_number++;
    library_count++;
    return library;
}

static int visit(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct scan *scan = argument;
    char program[PATH_MAX] = "";
    (void)size;
    /* Another library may have come since, at an address of which the maps say something else. */
    if (info->dlpi_adds != scan->came || info->dlpi_subs != scan->gone) {
        scan->outdated = true;
        return 1;
    }
    struct image image = describe(info);
    const bool is_program = info->dlpi_name == NULL || info->dlpi_name[0] == '\0';
    if (is_program)
        (void)!readlink("/proc/self/exe", program, sizeof program - 1);
    struct tprof_library *library = find(&image, is_program ? program : info->dlpi_name);
    if (library == NULL)
        library = add(&image, is_program ? program : info->dlpi_name);
    if (library == NULL)
        return 0;
    library->seen = true;
    const uintptr_t own = (uintptr_t)tprof_births_create;
    if (own >= image.start && own < image.end)
        library->settled = true;
    if (scan->redirect && !library->settled)
        library->settled = redirect(scan, &image);
    unsettled |= scan->redirect && !library->settled;
    return 0;
}

static int read_counts(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct scan *scan = argument;
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
        scan->came = info->dlpi_adds;
        scan->gone = info->dlpi_subs;
    }
    return 1;
}

static void drop_unseen(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < library_count; i++) {
        if (libraries[i].seen)
            libraries[kept++] = libraries[i];
        else
            free(libraries[i].path);
    }
    library_count = kept;
}

/* Where the program itself provides the function, its address may be a stub that leads to a redirected entry. */
static bool may_redirect(void)
{
    const struct tprof_library *from = tprof_library_at((uintptr_t)tprof_births_genuine());
    return from != NULL && from != &libraries[0];
}

static void scan_all(struct scan *scan)
{
    for (size_t i = 0; i < library_count; i++)
        libraries[i].seen = false;
    unsettled = false;
    (void)dl_iterate_phdr(visit, scan);
    if (scan->outdated) {
        unsettled = true;
        return;
    }
    drop_unseen();
    came = scan->came;
    gone = scan->gone;
}

static void refresh(void)
{
    struct scan scan = {0};
    const uint64_t now_ns = tprof_now_ns();
    (void)dl_iterate_phdr(read_counts, &scan);
    const bool changed = scan.came != came || scan.gone != gone;
    if (!changed && !(unsettled && now_ns >= retry_ns && retry_gap_ns <= LAST_RETRY_NS))
        return;
    retry_gap_ns = changed ? FIRST_RETRY_NS : 2 * retry_gap_ns;
    retry_ns = now_ns + retry_gap_ns;
    if (library_count == 0)
        scan_all(&scan);
    scan.redirect = may_redirect();
    scan_all(&scan);
    /* The maps take most of the time, and few libraries create threads. */
    if (unsettled && !scan.outdated && scan.redirect && read_writable(&scan))
        scan_all(&scan);
    free(scan.writable);
}

void tprof_libraries_refresh(void)
{
    pthread_mutex_lock(&lock);
    refresh();
    pthread_mutex_unlock(&lock);
}

struct tprof_library *tprof_library_at(uintptr_t address)
{
    for (size_t i = 0; i < library_count; i++)
        if (address >= libraries[i].start && address < libraries[i].end)
            return &libraries[i];
    return NULL;
}

void tprof_libraries_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void tprof_libraries_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}
