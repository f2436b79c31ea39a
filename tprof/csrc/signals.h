/* Defers a program's signal handlers during work that must not be interrupted: signals are stored, and sent again
 * afterwards. Masking them would not suffice, since another thread would receive them. */
#ifndef TPROF_SIGNALS_H
#define TPROF_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

#define TPROF_SIGNAL_BIT(number) (UINT64_C(1) << ((number) - 1))

/* Signals with a handler, except those for faults of a thread itself. */
uint64_t tprof_signals_handled(void);

/* Defer these signals until release was called as often. The first call selects them. */
void tprof_signals_hold(uint64_t which);
bool tprof_signals_are_held(void);

/* Restore the handlers, except those replaced meanwhile, and send the stored signals to this thread. */
void tprof_signals_release(void);

/* In a forked child: the parent's stored signals are not the child's, and if another thread deferred them,
 * no thread of the child would restore the handlers. */
void tprof_signals_forget(void);

#endif
