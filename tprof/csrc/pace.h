/* When to look at a sensor next. A sensor updates about every millisecond, irregularly, and how well the moment of an
 * update is known decides how well short tasks are told apart. Looking every 50 us all the time would cost several
 * percent of a core, so it is done around the expected update only, and only for as many updates as a budget of CPU
 * time allows; each reading says how wide its own window was. Used by the sensor thread alone. */
#ifndef TPROF_PACE_H
#define TPROF_PACE_H

#include "source.h"

struct tprof_pace {
    double budget; /* part of one core that the thread may take */
    double rate;   /* part of the updates that are looked for closely */
    double credit;
    uint64_t checked_ns, checked_cpu_ns;
};

void tprof_pace_begin(struct tprof_pace *pace, double budget, uint64_t now_ns, uint64_t cpu_ns);
/* Let the rate follow what was used; cheap enough to be called at every wake-up. */
void tprof_pace_check(struct tprof_pace *pace, uint64_t now_ns);
/* After a look at a sensor: when to look again. */
uint64_t tprof_pace_next(struct tprof_pace *pace, struct tprof_source *source, uint64_t now_ns, bool changed);

#endif
