/* A library calls functions of others through addresses in a table of its own (its GOT), which the linker fills. The
 * entries for pthread_create get ours instead, and those for functions that give work to a pool of threads a stub:
 * whatever leads into an OpenBLAS library, and what begins a parallel region of OpenMP. docs/internals.md says why this
 * and not LD_PRELOAD.
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
#include "calls.h"
#include "clock.h"

/* The linker has finished with a library before the last retry, or does not protect it in the way that is expected. */
#define FIRST_RETRY_NS UINT64_C(20000000)
#define LAST_RETRY_NS UINT64_C(2000000000)

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
    uintptr_t code_start, code_end;
    uintptr_t protected_start, protected_end; /* RELRO, whole pages */
    bool is_open; /* the protected part is writable for the moment */
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *names; /* the table of hashes of names */
    uintptr_t calls, others; /* tables of entries */
    size_t call_bytes, other_bytes;
};

struct entry {
    uintptr_t *place;
    const char *name;
    bool is_call, is_weak;
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
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0 && end - start > image.code_end - image.code_start) {
            image.code_start = start;
            image.code_end = end;
        }
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

static void read_dynamic(struct image *image)
{
    for (const ElfW(Dyn) *entry = image->dynamic; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            image->symbols = (const ElfW(Sym) *)address_in(image, entry);
        else if (entry->d_tag == DT_STRTAB)
            image->strings = (const char *)address_in(image, entry);
        else if (entry->d_tag == DT_GNU_HASH)
            image->names = (const uint32_t *)address_in(image, entry);
        else if (entry->d_tag == DT_JMPREL)
            image->calls = address_in(image, entry);
        else if (entry->d_tag == DT_PLTRELSZ)
            image->call_bytes = entry->d_un.d_val;
        else if (entry->d_tag == DT_RELA)
            image->others = address_in(image, entry);
        else if (entry->d_tag == DT_RELASZ)
            image->other_bytes = entry->d_un.d_val;
    }
}

/* Look a name up as the linker does, in the library's own table only. */
static bool defines(const struct image *image, const char *name)
{
    if (image->names == NULL || image->symbols == NULL || image->strings == NULL || image->names[0] == 0)
        return false;
    const uint32_t bucket_count = image->names[0], first = image->names[1], filter_words = image->names[2];
    const uint32_t *const buckets = (const uint32_t *)((const uintptr_t *)&image->names[4] + filter_words);
    const uint32_t *const chain = &buckets[bucket_count];
    uint32_t hash = 5381;
    for (const char *letter = name; *letter != '\0'; letter++)
        hash = hash * 33 + (unsigned char)*letter;
    for (uint32_t i = buckets[hash % bucket_count]; i >= first; i++) {
        const uint32_t other = chain[i - first];
        if ((other | 1) == (hash | 1) && strcmp(image->strings + image->symbols[i].st_name, name) == 0)
            return image->symbols[i].st_shndx != SHN_UNDEF;
        if ((other & 1) != 0)
            break;
    }
    return false;
}

static bool is_openblas(const struct image *image)
{
    static const char *const names[] = {"openblas_get_num_threads", "openblas_get_num_threads64_",
                                        "scipy_openblas_get_num_threads", "scipy_openblas_get_num_threads64_"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (defines(image, names[i]))
            return true;
    return false;
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
static struct tprof_library *pool_of(const struct image *image, uintptr_t found, const char *name)
{
    struct tprof_library *library = tprof_library_at(found);
    if (library == NULL || library->start == image->start || found < library->code_start || found >= library->code_end)
        return NULL;
    return begins_region(name) || (library->is_openblas && !is_setting(name)) ? library : NULL;
}

/* True: the entry is in memory that was made writable, if that was needed. */
static bool make_writable(const struct scan *scan, struct image *image, uintptr_t place)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = place & ~(page - 1);
    const bool is_protected = at >= image->protected_start && at < image->protected_end;
    const size_t bytes = image->protected_end - image->protected_start;
    if (!is_protected)
        return is_writable(scan, at);
    if (!image->is_open && !is_writable(scan, at))
        image->is_open = mprotect((void *)image->protected_start, bytes, PROT_READ | PROT_WRITE) == 0;
    return image->is_open;
}

static void protect_again(struct image *image)
{
    if (image->is_open)
        (void)mprotect((void *)image->protected_start, image->protected_end - image->protected_start, PROT_READ);
    image->is_open = false;
}

/* True: there is nothing more to do about this entry. */
static bool redirect_entry(const struct scan *scan, struct image *image, const struct entry *entry)
{
    const uintptr_t genuine = (uintptr_t)tprof_births_genuine();
    const bool creates = strcmp(entry->name, "pthread_create") == 0;
    uintptr_t found = __atomic_load_n(entry->place, __ATOMIC_RELAXED), ours = 0;
    if (found < image->end - image->start)
        return entry->is_weak; /* an offset, which the linker has yet to replace */
    struct tprof_library *pool = creates ? NULL : pool_of(image, found, entry->name);
    /* An entry that was not called yet leads into the library itself. Any other function is that of another tool. */
    const bool is_unused = entry->is_call && found >= image->start && found < image->end;
    if (creates && (found == genuine || is_unused))
        ours = (uintptr_t)tprof_births_create;
    else if (is_unused && begins_region(entry->name))
        return false; /* until its first call */
    else if (pool == NULL)
        return true;
    if (scan->writable == NULL || !make_writable(scan, image, (uintptr_t)entry->place))
        return false;
    if (pool != NULL)
        ours = tprof_call_stub(found, pool->number, strcmp(entry->name, "__kmpc_fork_call") == 0);
    if (ours != 0)
        (void)__atomic_compare_exchange_n(entry->place, &found, ours, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (pool != NULL && ours != 0 && pool->noted_ns == 0)
        pool->noted_ns = tprof_now_ns();
    return true;
}

#if __SIZEOF_POINTER__ == 8
static bool redirect_in(const struct scan *scan, struct image *image, uintptr_t table, size_t bytes)
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
        settled &= redirect_entry(scan, image, &entry);
    }
    return settled;
}

/* Returns whether the linker had finished with the library. */
static bool redirect(const struct scan *scan, struct image *image)
{
    if (image->symbols == NULL || image->strings == NULL)
        return true;
    const bool settled = image->calls == 0 || redirect_in(scan, image, image->calls, image->call_bytes);
    const bool others = image->others == 0 || redirect_in(scan, image, image->others, image->other_bytes);
    protect_again(image);
    return settled && others;
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
    *library = (struct tprof_library){
        .base = image->base,
        .start = image->start,
        .end = image->end,
        .code_start = image->code_start,
        .code_end = image->code_end,
        .is_openblas = is_openblas(image),
    };
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
    read_dynamic(&image);
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

static void forget(struct tprof_library *library)
{
    if (library->noted_ns != 0)
        tprof_call_stubs_drop(library->start, library->end);
    free(library->path);
}

static void drop_unseen(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < library_count; i++) {
        if (libraries[i].seen)
            libraries[kept++] = libraries[i];
        else
            forget(&libraries[i]);
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
    if (changed)
        scan_all(&scan); /* a library may come before those that it calls */
    scan.redirect = !scan.outdated && may_redirect();
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

struct tprof_library *tprof_library_numbered(uint32_t number)
{
    for (size_t i = 0; i < library_count; i++)
        if (libraries[i].number == number)
            return &libraries[i];
    return NULL;
}

struct tprof_library *tprof_library_next(const struct tprof_library *library)
{
    const size_t place = library == NULL ? 0 : (size_t)(library - libraries) + 1;
    return place < library_count ? &libraries[place] : NULL;
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
