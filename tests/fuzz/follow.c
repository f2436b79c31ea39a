/* libFuzzer's target for what follows a recording: any file of samples, read in steps by the code of `tprof top`.
 *
 * The first bytes say how the follower is set up and where its steps end; the rest is the file, which changes once
 * between two steps, as another process may change it. */
#include "follow.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEPS 3

static char path[64];

static bool learn(void *owner, struct tprof_known *known)
{
    (void)owner;
    known->index = known->number % 5 == 4 ? -1 : (int64_t)(known->number % 5);
    known->watched = known->number % 2 == 0;
    return known->number % 251 != 250;
}

static void put(const uint8_t *data, size_t size)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
}

static void remove_file(void)
{
    unlink(path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    snprintf(path, sizeof path, "/dev/shm/tprof-fuzz-%d", (int)getpid());
    return atexit(remove_file);
}

/* The rows between two edges lie between them, in order, and their CPU time is no less than 0. */
static void check(const struct tprof_follower *follower, const int64_t *edges_ns)
{
    for (size_t i = 0; i < follower->row_count; i++) {
        const struct tprof_row *row = &follower->rows[i];
        if (row->begin_ns < edges_ns[0] || row->end_ns > edges_ns[2] || row->begin_ns > row->end_ns || row->cpu_s < 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int16_t packages[] = {0, 0, 1, -1};
    struct {
        uint8_t columns, cpu_column, finished, cut;
        uint32_t edges_ns[STEPS * 2];
    } setup;
    if (size < sizeof setup)
        return 0;
    memcpy(&setup, data, sizeof setup);
    data += sizeof setup;
    size -= sizeof setup;
    const unsigned columns = setup.columns % (TPROF_MAX_COLUMNS + 1);
    struct tprof_follower follower = {
        .tail = {.body_at = TPROF_HEADER_BYTES, .record_bytes = (uint32_t)(sizeof(struct tprof_sample) + 8 * columns)},
        .pid = (uint32_t)getpid(),
        .tid = (uint32_t)getpid(),
        .own = true,
        .finished = (setup.finished & 1) != 0,
        .end_ns = setup.finished,
        .cut_off_ns = 1e9,
        .cpu_column = columns == 0 ? -1 : (int)(setup.cpu_column % (columns + 1)) - 1,
        .packages = packages,
        .cpus = sizeof packages / sizeof *packages,
        .learn = learn,
    };
    strcpy(follower.tail.path, path);
    int64_t edge_ns = 0;
    for (int step = 0; step < STEPS; step++) {
        put(data, step == 0 ? size * setup.cut / 255 : size);
        int64_t edges_ns[3] = {edge_ns};
        for (int i = 1; i < 3; i++)
            edges_ns[i] = edges_ns[i - 1] + 1 + setup.edges_ns[step * 2 + i - 1];
        edge_ns = edges_ns[2];
        if (tprof_follow(&follower, edges_ns, 3, (uint64_t)edge_ns) == TPROF_FOLLOWED)
            check(&follower, edges_ns);
        struct tprof_running running;
        tprof_follower_running(&follower, &running);
    }
    tprof_follower_free(&follower);
    return 0;
}
