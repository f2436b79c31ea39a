#ifndef TPROF_FAILURES_H
#define TPROF_FAILURES_H

#include "core.h"

/* Empties the list, and marks all as told of. Attached to Python, without the mutex. */
PyObject *tprof_failures_take(struct scheduler *scheduler, struct work **list);

#endif
