/* The first numbers are left to the program: it may close every descriptor, like a daemon, and get the lowest ones for
 * its own files, or compare which of them are open before and after it starts a child. */
#include "descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define HIGHEST_FLOOR 1024

/* The lowest number for ours; also the number of all that are permitted. */
static int floor_of(rlim_t *permitted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    *permitted = limit.rlim_cur;
    return limit.rlim_cur / 8 < HIGHEST_FLOOR ? (int)(limit.rlim_cur / 8) : HIGHEST_FLOOR;
}

static int raise_to(int fd, int floor)
{
    const int error = errno;
    const int moved = fd < 0 || fd >= floor ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, floor);
    if (moved >= 0)
        close(fd);
    errno = error;
    return moved < 0 ? fd : moved;
}

int tprof_descriptor_raise(int fd)
{
    rlim_t permitted = 0;
    return raise_to(fd, floor_of(&permitted));
}

int tprof_descriptor_raise_counter(int fd)
{
    rlim_t permitted = 0;
    const int floor = floor_of(&permitted);
    const int moved = raise_to(fd, floor);
    if (moved < 0 || floor == 0 || (moved >= floor && (rlim_t)moved < permitted / 2))
        return moved;
    close(moved);
    errno = EMFILE;
    return -1;
}

int tprof_descriptor_native_share(void)
{
    rlim_t permitted = 0;
    return floor_of(&permitted);
}
