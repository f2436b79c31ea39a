#include "native_followers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "native_counters.h"

#define MOST_THREADS (UINT32_C(1) << 20)

struct tprof_followers tprof_followers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void tprof_followers_lock(void)
{
    pthread_mutex_lock(&lock);
}

void tprof_followers_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

struct tprof_follower *tprof_follower_find(pid_t tid, size_t *place)
{
    struct tprof_follower *const all = tprof_followers.all;
    size_t low = 0, high = tprof_followers.count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (all[middle].tid < tid)
            low = middle + 1;
        else
            high = middle;
    }
    *place = low;
    return low < tprof_followers.count && all[low].tid == tid ? &all[low] : NULL;
}

struct tprof_follower *tprof_follower_insert(pid_t tid, size_t place)
{
    struct tprof_followers *const list = &tprof_followers;
    if (list->count == list->room) {
        struct tprof_follower *more = realloc(list->all, (2 * list->room + 64) * sizeof *more);
        if (more == NULL)
            return NULL;
        list->all = more;
        list->room = 2 * list->room + 64;
    }
    memmove(&list->all[place + 1], &list->all[place], (list->count - place) * sizeof *list->all);
    list->count++;
    list->all[place] = (struct tprof_follower){.tid = tid, .role = TPROF_LEFT_OUT};
    return &list->all[place];
}

void tprof_follower_drop_birth(struct tprof_follower *one)
{
    if (one->birth != NULL)
        tprof_birth_release(one->birth);
    one->birth = NULL;
}

void tprof_follower_begin(struct tprof_follower *one, uint64_t t_ns, uint64_t cpu_ns)
{
    one->role = TPROF_FOLLOWED;
    one->number = tprof_followers.numbered++;
    one->appeared_ns = one->read_ns = t_ns;
    one->cpu_ns = cpu_ns;
    one->stands = one->has_library = one->has_creator = one->is_uncountable = false;
    one->polls = one->searches = one->attempts = 0;
    one->name[0] = '\0';
    tprof_followers.followed++;
}

void tprof_follower_stop(struct tprof_follower *one)
{
    tprof_follower_drop_birth(one);
    tprof_native_uncount(one);
    tprof_followers.followed -= one->role == TPROF_FOLLOWED;
    one->role = TPROF_LEFT_OUT;
}

void tprof_follower_erase(struct tprof_follower *one)
{
    struct tprof_followers *const list = &tprof_followers;
    tprof_follower_stop(one);
    memmove(one, one + 1, (size_t)(list->all + list->count - one - 1) * sizeof *one);
    list->count--;
}

bool tprof_followers_have_number(void)
{
    return tprof_followers.numbered < MOST_THREADS;
}

void tprof_followers_clear(void)
{
    for (size_t i = 0; i < tprof_followers.count; i++)
        tprof_follower_stop(&tprof_followers.all[i]);
    tprof_followers.count = tprof_followers.followed = 0;
}

/* Memory is dropped without free, as what the followers hold; the descriptors are closed, since they still count the
 * parent. */
void tprof_followers_forget(void)
{
    for (size_t i = 0; i < tprof_followers.count; i++)
        if (tprof_followers.all[i].open != NULL)
            tprof_counters_forget(tprof_followers.all[i].open);
    tprof_followers.all = NULL;
    tprof_followers.count = tprof_followers.room = tprof_followers.followed = 0;
}
