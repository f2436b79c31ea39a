/* Functions of ending.c that other files use; under the mutex. */
#ifndef TPROF_ENDING_H
#define TPROF_ENDING_H

#include "core.h"

struct region;

/* All predecessors have ended: queue the work, or cancel it if that was requested. */
void tprof_graph_released(struct work *work, struct deferred *deferred);
/* Call it when the data is, or will be, written again. */
void tprof_clear_poison(struct region *region, struct deferred *deferred);
/* The failed work that left the data unwritten, or NULL. Failures that were handled do not count. */
struct work *tprof_poisoned_by(struct region *region, const struct domain *domain, struct deferred *deferred);
/* Set the cause of the work's cancellation unless it has one. */
void tprof_set_cause(struct work *work, struct work *cause);
struct work *tprof_root_cause(struct work *work);
/* Write an event of this work if it is recorded. */
void tprof_log_event(uint8_t kind, const struct work *work, uint64_t other);

#endif
