/* Needs neither Python nor a lock. */
#include "live.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define BORN_FIELD 22 /* of /proc/self/stat, from 1; see proc_pid_stat(5) */

static struct tprof_live *map_live(int fd)
{
    struct tprof_live *live = mmap(NULL, sizeof *live, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const int error = errno;
    close(fd);
    errno = error;
    return live == MAP_FAILED ? NULL : live;
}

struct tprof_live *tprof_live_create(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    const int error = posix_fallocate(fd, 0, sizeof(struct tprof_live));
    if (error != 0) {
        close(fd);
        unlink(path);
        errno = error;
        return NULL;
    }
    struct tprof_live *live = map_live(fd);
    if (live != NULL) {
        live->version = TPROF_LIVE_VERSION;
        live->began_boot_ns = tprof_clock_ns(CLOCK_BOOTTIME);
        __atomic_store_n(&live->state, TPROF_LIVE_RUNNING, __ATOMIC_RELEASE);
    }
    return live;
}

struct tprof_live *tprof_live_join(const char *path)
{
    struct stat status;
    const int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &status) != 0 || status.st_uid != geteuid() || status.st_size != sizeof(struct tprof_live)) {
        close(fd);
        errno = EINVAL;
        return NULL;
    }
    struct tprof_live *live = map_live(fd);
    if (live == NULL)
        return NULL;
    if (live->version != TPROF_LIVE_VERSION || __atomic_load_n(&live->state, __ATOMIC_ACQUIRE) != TPROF_LIVE_RUNNING) {
        tprof_live_close(live);
        errno = ESTALE;
        return NULL;
    }
    return live;
}

void tprof_live_close(struct tprof_live *live)
{
    if (live != NULL)
        munmap(live, sizeof *live);
}

/* When this process was born, by CLOCK_BOOTTIME, cut to the kernel's ticks; 0 if unknown. */
static uint64_t born_boot_ns(void)
{
    char text[1024];
    const int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    const ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    if (size <= 0)
        return 0;
    text[size] = 0;
    const char *at = strrchr(text, ')'); /* the name of the program may have spaces and parentheses */
    for (int field = 2; at != NULL && field < BORN_FIELD; field++)
        at = strchr(at + 1, ' ');
    const uint64_t ticks = at == NULL ? 0 : strtoull(at, NULL, 10);
    return ticks * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
}

uint32_t tprof_live_enter(struct tprof_live *live)
{
    const uint32_t process = __atomic_fetch_add(&live->next_process, 1, __ATOMIC_RELAXED);
    if (process >= TPROF_MAX_PROCESSES)
        return process;
    struct tprof_live_process *slot = &live->processes[process];
    const uint64_t born_ns = born_boot_ns();
    if (born_ns != 0 && born_ns < live->began_boot_ns) {
        slot->earlier_ns = tprof_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        __atomic_store_n(&slot->cpu_ns, slot->earlier_ns, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&slot->pid, (uint32_t)getpid(), __ATOMIC_RELEASE);
    return process;
}

void tprof_live_leave(struct tprof_live *live, uint32_t process)
{
    if (process >= TPROF_MAX_PROCESSES)
        return;
    struct tprof_live_process *slot = &live->processes[process];
    __atomic_store_n(&slot->cpu_ns, tprof_clock_ns(CLOCK_PROCESS_CPUTIME_ID), __ATOMIC_RELAXED);
    __atomic_store_n(&slot->ended_ns, tprof_now_ns(), __ATOMIC_RELEASE);
}

static void update(struct tprof_live_process *slot, uint32_t pid)
{
    clockid_t clock;
    const uint64_t cpu_ns = clock_getcpuclockid((pid_t)pid, &clock) == 0 ? tprof_clock_ns(clock) : 0;
    const uint64_t before_ns = __atomic_load_n(&slot->cpu_ns, __ATOMIC_RELAXED);
    /* A process that ended abruptly, or whose number already belongs to another one. */
    if (cpu_ns == 0 || cpu_ns < before_ns)
        __atomic_store_n(&slot->ended_ns, tprof_now_ns(), __ATOMIC_RELEASE);
    else
        __atomic_store_n(&slot->cpu_ns, cpu_ns, __ATOMIC_RELAXED);
}

uint64_t tprof_live_cpu_ns(struct tprof_live *live)
{
    uint64_t total_ns = 0;
    uint32_t count = __atomic_load_n(&live->next_process, __ATOMIC_RELAXED);
    if (count > TPROF_MAX_PROCESSES)
        count = TPROF_MAX_PROCESSES;
    for (uint32_t i = 0; i < count; i++) {
        struct tprof_live_process *slot = &live->processes[i];
        const uint32_t pid = __atomic_load_n(&slot->pid, __ATOMIC_ACQUIRE);
        if (pid == 0) /* still registering: what it has written is not whole */
            continue;
        if (__atomic_load_n(&slot->ended_ns, __ATOMIC_ACQUIRE) == 0)
            update(slot, pid);
        total_ns += __atomic_load_n(&slot->cpu_ns, __ATOMIC_RELAXED) - slot->earlier_ns;
    }
    return total_ns;
}
