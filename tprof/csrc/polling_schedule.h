/* When to poll a sensor next. A sensor updates about every millisecond, irregularly. The better the time of an update
 * is known, the better short tasks can be separated. Polling every 50 us all the time would cost several percent of a
 * core, so it is done around some updates only, and each reading records its own window. The thread keeps to a budget
 * of CPU time: it first polls fewer updates closely, then polls every source less often, since a few exact times
 * separate tasks as well as many inexact ones. Used by the sensor thread alone. */
#ifndef TPROF_POLLING_SCHEDULE_H
#define TPROF_POLLING_SCHEDULE_H

#include "source.h"

struct tprof_polling_schedule {
    double budget;  /* part of one core that the thread may use; 0: poll once per period, never closely */
    double rate;    /* part of the updates after which the next one is polled closely */
    double stretch; /* milliseconds between other polls of a source, at least; 1 or more */
    double credit;
    double mean_used; /* of the budget, lately; 1: all of it */
    uint64_t checked_ns, checked_cpu_ns;
    uint64_t earlier_cpu_ns; /* of the threads before this one: a fork ends the thread */
    uint64_t other_cpu_ns;   /* that the thread took for something else */
};

void tprof_polling_begin(struct tprof_polling_schedule *schedule, double budget, uint64_t now_ns);
/* Adapt rate and stretch to the CPU time used; cheap enough for every wake-up. */
void tprof_polling_check(struct tprof_polling_schedule *schedule, uint64_t now_ns);
/* How much earlier than due a source is polled when another one is: fewer wake-ups, once they cost too much. */
uint64_t tprof_polling_tolerance(const struct tprof_polling_schedule *schedule);
/* Call after each poll of a source; returns when to poll it again. `sensor`: its updates may be polled closely. */
uint64_t tprof_polling_next(struct tprof_polling_schedule *schedule, struct tprof_source *source, uint64_t now_ns,
                            bool sensor, bool changed);

#endif
