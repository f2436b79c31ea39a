/* What entering.c needs of the end of works; under the mutex. */
#ifndef TPROF_ENDING_H
#define TPROF_ENDING_H

#include "core.h"

struct region;

/* It waits for nothing any more: queued, or cancelled where it is to be. */
void tprof_graph_released(struct work *work, struct aftermath *after);
/* The data is, or will be, written anew. */
void tprof_heal(struct region *region, struct aftermath *after);
/* The failure that keeps the data from being read, or NULL. One that somebody has been told of keeps nobody. */
struct work *tprof_spoilt(struct region *region, const struct domain *domain, struct aftermath *after);
/* Note why it will not run, unless there is a reason already. */
void tprof_blame(struct work *work, struct work *cause);
struct work *tprof_root_cause(struct work *work);
/* An event of this work, if it is recorded. */
void tprof_tell_graph(uint8_t kind, const struct work *work, uint64_t other);

#endif
