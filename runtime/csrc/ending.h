/* What entering.c needs of the end of works; under the mutex. */
#ifndef TPROF_ENDING_H
#define TPROF_ENDING_H

#include "core.h"

struct region;

/* It waits for nothing any more: queued, or cancelled where it is to be. */
void tprof_graph_released(struct work *work, struct deferred *deferred);
/* The data is, or will be, written anew. */
void tprof_clear_poison(struct region *region, struct deferred *deferred);
/* The failure that keeps the data from being read, or NULL. One that somebody has been told of keeps nobody. */
struct work *tprof_poisoned_by(struct region *region, const struct domain *domain, struct deferred *deferred);
/* Note why it will not run, unless there is a reason already. */
void tprof_set_cause(struct work *work, struct work *cause);
struct work *tprof_root_cause(struct work *work);
/* An event of this work, if it is recorded. */
void tprof_log_event(uint8_t kind, const struct work *work, uint64_t other);

#endif
