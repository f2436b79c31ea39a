/* The threads of this process that are followed, with what was last read of each. Everything here belongs to the holder
 * of the lock. */
#ifndef TPROF_NATIVE_FOLLOWERS_H
#define TPROF_NATIVE_FOLLOWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "births.h"
#include "counters.h"
#include "process_threads.h"

/* Left out: it records samples, is our own, or has ended and is still listed. */
enum tprof_follower_role { TPROF_LEFT_OUT, TPROF_FOLLOWED };

struct tprof_follower {
    pid_t tid;
    uint32_t number; /* in the file */
    enum tprof_follower_role role;
    bool listed, stands, has_library, has_creator;
    uint32_t polls, searches, attempts;
    uint64_t appeared_ns;
    uint64_t cpu_ns, read_ns; /* of the last read */
    struct tprof_birth *birth; /* NULL: not seen */
    struct tprof_counters *open; /* NULL: not counted */
    uint64_t absent; /* a mask of columns, if it is counted */
    bool is_uncountable; /* no event could be opened */
    char name[TPROF_THREAD_NAME_BYTES];
};

struct tprof_followers {
    struct tprof_follower *all; /* ascending by tid */
    size_t count, room, followed;
    uint32_t numbered; /* threads in the file */
    uint64_t recording;
    bool relist; /* a thread has got the number of another */
};

extern struct tprof_followers tprof_followers;

void tprof_followers_lock(void);
void tprof_followers_unlock(void);

/* NULL: not listed; `place` becomes where it would be. */
struct tprof_follower *tprof_follower_find(pid_t tid, size_t *place);
/* Add one that is left out. NULL: no memory. */
struct tprof_follower *tprof_follower_insert(pid_t tid, size_t place);
void tprof_follower_erase(struct tprof_follower *one);

/* Follow the thread under a number of its own, or leave it out from now on. */
void tprof_follower_begin(struct tprof_follower *one, uint64_t t_ns, uint64_t cpu_ns);
void tprof_follower_stop(struct tprof_follower *one);
void tprof_follower_drop_birth(struct tprof_follower *one);

/* There is room in the file for another thread. */
bool tprof_followers_have_number(void);
void tprof_followers_clear(void);
/* For a forked child, in which the list is whole: the lock was held around the fork. */
void tprof_followers_forget(void);

#endif
