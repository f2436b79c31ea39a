/* Keeps a program's signal handlers from running while something is done that must be done whole: signals are noted, and
 * sent again when it is done. Masking them would not do, since another thread would take them. */
#ifndef TPROF_SIGNALS_H
#define TPROF_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

#define TPROF_SIGNAL_BIT(number) (UINT64_C(1) << ((number) - 1))

/* Signals that have a handler, but for those that say what a thread itself did. */
uint64_t tprof_signals_handled(void);

/* Note these, and run no handler of theirs, until release was called as often. The first call says which. */
void tprof_signals_hold(uint64_t which);
bool tprof_signals_are_held(void);

/* Put the handlers back, but for those that somebody has set meanwhile, and send what was noted to this thread. */
void tprof_signals_release(void);

/* For pthread_atfork, in a child: what its parent noted is not the child's, and where the thread that held signals is not
 * the one that forked, nobody would put the handlers back. */
void tprof_signals_forget(void);

#endif
