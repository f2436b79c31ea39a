#include "process_threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define TASKS "/proc/self/task"
/* A read that took longer was interrupted, and the time of its value is not known well. */
#define SLOW_READ_NS UINT64_C(50000)
#define MOST_READS 3

static int compare(const void *one, const void *other)
{
    const pid_t left = *(const pid_t *)one, right = *(const pid_t *)other;
    return (left > right) - (left < right);
}

size_t tprof_thread_tids(pid_t **tids)
{
    size_t count = 0, room = 0;
    struct dirent *entry;
    *tids = NULL;
    DIR *directory = opendir(TASKS);
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        const long tid = strtol(entry->d_name, NULL, 10);
        if (tid <= 0)
            continue;
        if (count == room) {
            pid_t *more = realloc(*tids, (room = 2 * room + 64) * sizeof *more);
            if (more == NULL)
                break;
            *tids = more;
        }
        (*tids)[count++] = (pid_t)tid;
    }
    if (directory != NULL)
        closedir(directory);
    if (count > 1)
        qsort(*tids, count, sizeof **tids, compare);
    return count;
}

/* The directory has a link for each thread, and two. */
size_t tprof_thread_count(void)
{
    struct stat status;
    return stat(TASKS, &status) == 0 && status.st_nlink > 2 ? (size_t)status.st_nlink - 2 : 0;
}

/* The clock's number as pthread_getcpuclockid makes it, which needs more than the thread's number. */
bool tprof_thread_clock(pid_t tid, uint64_t *cpu_ns, uint64_t *t_ns)
{
    const clockid_t clock = (clockid_t)((~(unsigned int)tid << 3) | 6u);
    for (int attempt = 1;; attempt++) {
        struct timespec value;
        const uint64_t before_ns = tprof_now_ns();
        if (clock_gettime(clock, &value) != 0)
            return false;
        *t_ns = tprof_now_ns();
        *cpu_ns = (uint64_t)value.tv_sec * 1000000000u + (uint64_t)value.tv_nsec;
        if (*t_ns - before_ns < SLOW_READ_NS || attempt == MOST_READS)
            return true;
    }
}

bool tprof_thread_name(pid_t tid, char name[TPROF_THREAD_NAME_BYTES])
{
    char path[64];
    snprintf(path, sizeof path, TASKS "/%d/comm", (int)tid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    memset(name, 0, TPROF_THREAD_NAME_BYTES);
    const ssize_t count = read(fd, name, TPROF_THREAD_NAME_BYTES - 1);
    close(fd);
    name[strcspn(name, "\n")] = '\0';
    return count > 0;
}
