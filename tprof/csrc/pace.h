/* When to look at a sensor next. A sensor updates about every millisecond, irregularly, and how well the moment of an
 * update is known decides how well short tasks are told apart. Looking every 50 us all the time would cost several
 * percent of a core, so it is done around some updates only, and each reading says how wide its own window was. The
 * thread as a whole keeps to a budget of CPU time: first fewer updates are looked for closely, then the sensor is
 * looked at less often, since a few moments known well tell tasks apart as well as many known badly. Used by the sensor
 * thread alone. */
#ifndef TPROF_PACE_H
#define TPROF_PACE_H

#include "source.h"

struct tprof_pace {
    double budget;  /* part of one core that the thread may take; 0: each period, never closely */
    double rate;    /* part of the updates seen that are followed by a close look for the next one */
    double stretch; /* of the period between looks that are not close; 1 or more */
    double credit;
    uint64_t checked_ns, checked_cpu_ns;
    uint64_t earlier_cpu_ns; /* of threads before this one: forks end them */
};

void tprof_pace_begin(struct tprof_pace *pace, double budget, uint64_t now_ns);
/* Let rate and stretch follow what was used; cheap enough to be called at every wake-up. */
void tprof_pace_check(struct tprof_pace *pace, uint64_t now_ns);
/* After a look at a source: when to look again. `sensor`: its updates are worth looking for. */
uint64_t tprof_pace_next(struct tprof_pace *pace, struct tprof_source *source, uint64_t now_ns, bool sensor, bool changed);

#endif
