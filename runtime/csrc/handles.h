/* Finds the region of a handle. */
#ifndef TPROF_HANDLES_H
#define TPROF_HANDLES_H

#include "core.h"

/* The region of this object or of an equal one, made if there is none; valid until `tprof_handle_leave`. Attached to
 * Python, without the mutex, while the thread counts as entering. NULL with an exception set. */
struct region *tprof_handle_find(struct scheduler *scheduler, struct domain *domain, PyObject *object);
/* Under the mutex. */
void tprof_handle_leave(struct domain *domain, struct region *region, struct deferred *deferred);

#endif
