/* Lists of works that failed: one a group, one a domain. */
#ifndef TPROF_FAILURES_H
#define TPROF_FAILURES_H

#include "core.h"

/* Under the mutex. What somebody has asked about since is thrown out whenever the list would double. */
void tprof_failures_add(struct failures *failures, struct work *work, struct deferred *deferred);
/* Empties the list, and marks all as told of; attached to Python, without the mutex. Those that nobody has asked about
 * yet, the first that happened first, or NULL with an exception set. */
PyObject *tprof_failures_take(struct scheduler *scheduler, struct failures *failures);
/* Attached to Python, when nobody else can reach the list any more. */
void tprof_failures_drop(struct failures *failures);

#endif
