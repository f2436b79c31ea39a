/* Called by the sensor thread while it runs, and otherwise by the holder of `turn` (sensor_thread.c): one thread at a
 * time. `tprof_observer_read` alone is called from any thread; `sums` protects what it reads, and is held only to copy
 * it. */
#include "polled_sources.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define LONGEST_SLEEP_NS UINT64_C(1000000000)
#define LAST_PAUSE_NS 200000

static pthread_mutex_t sums = PTHREAD_MUTEX_INITIALIZER;

static bool is_sensor(const struct tprof_source *source)
{
    return source->kind == TPROF_FILE || source->kind == TPROF_PERF;
}

static uint64_t earliest(const struct tprof_source *all, int count, uint64_t next_ns)
{
    for (int i = 0; i < count; i++)
        if (all[i].next_poll_ns < next_ns)
            next_ns = all[i].next_poll_ns;
    return next_ns;
}

bool tprof_polled_due(const struct tprof_polled *polled, uint64_t now_ns)
{
    uint64_t next_ns = earliest(polled->sources, polled->count, UINT64_MAX);
    for (const struct tprof_observer *observer = polled->observers; observer != NULL; observer = observer->next)
        next_ns = earliest(observer->sources, observer->count, next_ns);
    return next_ns <= now_ns;
}

/* Returns whether a value changed; `next_ns` becomes the time of the next poll, if that is earlier. */
static bool poll_all(struct tprof_polling_schedule *schedule, struct tprof_source *all, int count, uint64_t now_ns,
                     uint64_t *next_ns)
{
    const uint64_t until_ns = now_ns + tprof_polling_tolerance(schedule);
    bool any_changed = false;
    for (int i = 0; i < count; i++) {
        struct tprof_source *source = &all[i];
        if (source->next_poll_ns <= until_ns) {
            const bool changed = tprof_source_poll(source, false);
            any_changed |= changed;
            source->next_poll_ns = tprof_polling_next(schedule, source, now_ns, is_sensor(source), changed);
        }
        if (source->next_poll_ns < *next_ns)
            *next_ns = source->next_poll_ns;
    }
    return any_changed;
}

static void publish(struct tprof_observer *observer)
{
    double energy_uj = 0;
    uint64_t t_ns = 0;
    for (int i = 0; i < observer->count; i++) {
        energy_uj += observer->sources[i].total_uj;
        if (observer->sources[i].last_change_ns > t_ns)
            t_ns = observer->sources[i].last_change_ns;
    }
    pthread_mutex_lock(&sums);
    observer->energy_uj = energy_uj;
    observer->t_ns = t_ns;
    pthread_mutex_unlock(&sums);
}

uint64_t tprof_polled_poll(struct tprof_polled *polled, uint64_t now_ns)
{
    struct tprof_polling_schedule *schedule = &polled->schedule;
    uint64_t next_ns = now_ns + LONGEST_SLEEP_NS;
    (void)poll_all(schedule, polled->sources, polled->count, now_ns, &next_ns);
    for (struct tprof_observer *observer = polled->observers; observer != NULL; observer = observer->next)
        if (poll_all(schedule, observer->sources, observer->count, now_ns, &next_ns))
            publish(observer);
    return next_ns;
}

/* The first value counts as a change, so a second one means that an update was seen. */
bool tprof_polled_settled(const struct tprof_polled *polled)
{
    for (int i = 0; i < polled->count; i++) {
        const struct tprof_source *source = &polled->sources[i];
        if (is_sensor(source) && source->changes < 2 && source->failures == 0)
            return false;
    }
    return true;
}

/* The energy of the program's last moments appears at the sensor's next update. */
void tprof_polled_last(struct tprof_polled *polled, uint64_t deadline_ns)
{
    const struct timespec pause = {.tv_nsec = LAST_PAUSE_NS};
    for (int i = 0; i < polled->count; i++) {
        struct tprof_source *source = &polled->sources[i];
        while (is_sensor(source) && source->failures == 0 && tprof_now_ns() < deadline_ns) {
            if (tprof_source_poll(source, false))
                break;
            (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        }
    }
    for (int i = 0; i < polled->count; i++)
        (void)tprof_source_poll(&polled->sources[i], true);
}

static void close_all(struct tprof_source *all, int count)
{
    for (int i = 0; i < count; i++)
        tprof_source_close(&all[i]);
    free(all);
}

void tprof_polled_release(struct tprof_polled *polled)
{
    close_all(polled->sources, polled->count);
    polled->sources = NULL;
    polled->count = 0;
}

void tprof_polled_add(struct tprof_polled *polled, struct tprof_observer *observer)
{
    for (int i = 0; i < observer->count; i++)
        (void)tprof_source_poll(&observer->sources[i], false);
    publish(observer);
    observer->next = polled->observers;
    polled->observers = observer;
}

struct tprof_observer **tprof_polled_place(struct tprof_polled *polled, const struct tprof_observer *observer)
{
    struct tprof_observer **place = &polled->observers;
    while (*place != NULL && *place != observer)
        place = &(*place)->next;
    return place;
}

void tprof_observer_close(struct tprof_observer *observer)
{
    close_all(observer->sources, observer->count);
    observer->sources = NULL;
    observer->count = 0;
}

void tprof_observer_read(const struct tprof_observer *observer, uint64_t *t_ns, double *energy_uj)
{
    pthread_mutex_lock(&sums);
    *t_ns = observer->t_ns;
    *energy_uj = observer->energy_uj;
    pthread_mutex_unlock(&sums);
}

static void forget_all(struct tprof_source *all, int count)
{
    for (int i = 0; i < count; i++) {
        if (all[i].fd >= 0)
            close(all[i].fd);
        all[i].fd = -1;
    }
}

void tprof_polled_forget(struct tprof_polled *polled)
{
    pthread_mutex_init(&sums, NULL); /* A thread that is not in the child may have held it. */
    forget_all(polled->sources, polled->count);
    for (struct tprof_observer *observer = polled->observers; observer != NULL; observer = observer->next)
        forget_all(observer->sources, observer->count);
    polled->sources = NULL;
    polled->count = 0;
    polled->observers = NULL;
}
