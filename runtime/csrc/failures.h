/* Lists of works that failed: one a group, one a domain. */
#ifndef TPROF_FAILURES_H
#define TPROF_FAILURES_H

#include "core.h"

/* Under the mutex. Acknowledged failures are removed whenever the list would double. */
void tprof_failures_add(struct failures *failures, struct work *work, struct deferred *deferred);
/* Empties the list and acknowledges its works; attached to Python, without the mutex. Returns those that were not
 * acknowledged before, in the order of failure, or NULL with an exception set. */
PyObject *tprof_failures_take(struct scheduler *scheduler, struct failures *failures);
/* Attached to Python; no other thread can reach the list. */
void tprof_failures_drop(struct failures *failures);

#endif
