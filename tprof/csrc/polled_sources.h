/* All that is polled: the sources of the recording, and those of observers, who read energy whether there is a
 * recording or not. */
#ifndef TPROF_POLLED_SOURCES_H
#define TPROF_POLLED_SOURCES_H

#include "polling_schedule.h"
#include "source.h"

struct tprof_observer {
    struct tprof_source *sources;
    int count;
    struct tprof_observer *next;
    uint64_t t_ns;    /* of the last change of any source */
    double energy_uj; /* of all sources since they were first read */
};

struct tprof_polled {
    struct tprof_source *sources; /* of the recording */
    int count;
    struct tprof_observer *observers;
    struct tprof_polling_schedule schedule;
};

bool tprof_polled_due(const struct tprof_polled *polled, uint64_t now_ns);
/* Poll what is due; returns when the next source is. */
uint64_t tprof_polled_poll(struct tprof_polled *polled, uint64_t now_ns);
/* Whether an update was seen of each energy source of the recording that can be read. */
bool tprof_polled_settled(const struct tprof_polled *polled);
/* Wait for one more change of each energy source of the recording until then, and record a last reading each. */
void tprof_polled_last(struct tprof_polled *polled, uint64_t deadline_ns);
void tprof_polled_release(struct tprof_polled *polled);

/* An observer owns its sources, from their first reading here until it is closed. */
void tprof_polled_add(struct tprof_polled *polled, struct tprof_observer *observer);
/* Returns where the observer is linked; what is there is NULL if it is not. */
struct tprof_observer **tprof_polled_place(struct tprof_polled *polled, const struct tprof_observer *observer);
void tprof_observer_close(struct tprof_observer *observer);
/* From any thread. */
void tprof_observer_read(const struct tprof_observer *observer, uint64_t *t_ns, double *energy_uj);

/* For a forked child: closes what the parent had open, and is empty then. */
void tprof_polled_forget(struct tprof_polled *polled);

#endif
