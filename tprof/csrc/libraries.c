/* Lists what the linker has loaded. A library may come or go at any time in another thread; none is unmapped while the
 * linker calls us for it. */
#include "libraries.h"

#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "births.h"
#include "calls.h"
#include "clock.h"
#include "image.h"
#include "redirection.h"

/* The linker has finished with a library before the last retry, or does not protect it in the way that is expected. */
#define FIRST_RETRY_NS UINT64_C(20000000)
#define LAST_RETRY_NS UINT64_C(2000000000)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tprof_library *libraries;
static size_t library_count, library_room;
static uint32_t last_number;
static uint64_t came, gone; /* the linker's counts at the last scan */
static bool unsettled;
static uint64_t retry_ns, retry_gap_ns;

struct scan {
    uint64_t came, gone;
    bool redirect, outdated;
    struct tprof_writable writable;
};

static bool is_openblas(const struct tprof_image *image)
{
    static const char *const names[] = {"openblas_get_num_threads", "openblas_get_num_threads64_",
                                        "scipy_openblas_get_num_threads", "scipy_openblas_get_num_threads64_"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (tprof_image_defines(image, names[i]))
            return true;
    return false;
}

static struct tprof_library *find(const struct tprof_image *image, const char *path)
{
    for (size_t i = 0; i < library_count; i++) {
        struct tprof_library *library = &libraries[i];
        if (library->base == image->base && library->start == image->start && strcmp(library->path, path) == 0)
            return library;
    }
    return NULL;
}

static struct tprof_library *add(const struct tprof_image *image, const char *path)
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
    struct tprof_image image = tprof_image_of(info);
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
        library->settled = tprof_redirect(&scan->writable, &image);
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
    if (library->has_stubs)
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
    if (unsettled && !scan.outdated && scan.redirect && tprof_writable_read(&scan.writable))
        scan_all(&scan);
    free(scan.writable.ranges);
}

void tprof_libraries_refresh(void)
{
    pthread_mutex_lock(&lock);
    refresh();
    pthread_mutex_unlock(&lock);
}

void tprof_libraries_loaded(void)
{
    pthread_mutex_lock(&lock);
    retry_ns = 0; /* another thread may have looked while the linker was not done with it */
    refresh();
    pthread_mutex_unlock(&lock);
}

void tprof_libraries_unsettle(void)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < library_count; i++)
        libraries[i].settled = false;
    came = gone = 0;
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
