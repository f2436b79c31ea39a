/* Called while a recording begins and by threads that make their files; needs neither Python nor a lock. */
#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_WINDOW_BYTES 131072u
#define PAGE_BYTES 4096u

/* The largest window of whole pages that stays a number of whole records when it is halved twice, as it grows. */
static uint32_t window_bytes(uint32_t record_bytes)
{
    uint32_t unit = 4 * record_bytes;
    while (unit % PAGE_BYTES != 0)
        unit *= 2;
    return MOST_WINDOW_BYTES / unit * unit;
}

static void note_directory(struct tprof_directory *directory, const char *parent, const char *name)
{
    snprintf(directory->path, sizeof directory->path, "%s/%s", parent, name);
    if (lstat(directory->path, &directory->identity) != 0)
        memset(&directory->identity, 0, sizeof directory->identity);
}

/* Open the directory by name, if it still is the one in which the recording began: another process may have replaced it
 * by another directory or a link. Returns -1 with errno set. */
static int open_directory(const struct tprof_directory *directory)
{
    struct stat status;
    const int fd = open(directory->path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &status) == 0 && status.st_dev == directory->identity.st_dev &&
        status.st_ino == directory->identity.st_ino)
        return fd;
    close(fd);
    errno = ESTALE;
    return -1;
}

static void fill_header(struct tprof_header *header, const struct tprof_setup *setup)
{
    memcpy(header->magic, TPROF_MAGIC, sizeof header->magic);
    header->major = TPROF_MAJOR;
    header->minor = TPROF_MINOR;
    header->endian = TPROF_ENDIAN;
    header->kind = TPROF_SAMPLES;
    header->header_bytes = TPROF_HEADER_BYTES;
    header->record_bytes = (uint32_t)(sizeof(struct tprof_sample) + setup->columns * sizeof(uint64_t));
    if (header->record_bytes != 64 && header->record_bytes != 128)
        header->major = TPROF_FITTED_MAJOR;
    header->window_bytes = window_bytes(header->record_bytes);
    header->process = setup->process;
    header->pid = (uint32_t)getpid();
    header->description_bytes = (uint32_t)strnlen(setup->description, TPROF_DESCRIPTION_BYTES);
    memcpy(header->description, setup->description, header->description_bytes);
}

struct tprof_plan *tprof_plan_make(const struct tprof_setup *setup)
{
    struct tprof_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return NULL;
    plan->live = setup->live;
    fill_header(&plan->header, setup);
    note_directory(&plan->samples, setup->directory, "threads");
    note_directory(&plan->graph, setup->directory, "graph");
    plan->counted = setup->counted;
    for (uint32_t cpu = 0; cpu < TPROF_MAX_CPUS; cpu++)
        plan->package_of_cpu[cpu] = cpu < setup->cpus ? setup->package_of_cpu[cpu] : -1;
    return plan;
}

void tprof_plan_free(struct tprof_plan *plan)
{
    if (plan->owns_live)
        tprof_live_close(plan->live);
    free(plan);
}

int tprof_plan_create_stream(const struct tprof_plan *plan, struct tprof_stream *stream,
                             const struct tprof_header *header)
{
    char path[PATH_MAX];
    const bool events = header->kind == TPROF_EVENTS;
    const struct tprof_directory *in = events ? &plan->graph : &plan->samples;
    if (snprintf(path, sizeof path, "%s/%08u.%s", in->path, header->thread, events ? "events" : "samples") >=
        (int)sizeof path)
        return ENAMETOOLONG;
    const int directory = open_directory(in);
    if (directory < 0)
        return errno;
    const int error = tprof_stream_create(stream, directory, path, header);
    close(directory);
    return error;
}
