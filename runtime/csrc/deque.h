/* A queue of works that one thread, its owner, pushes to and pops from at the bottom, and that any thread takes from at
 * the top, without a lock (D. Chase and Y. Lev, "Dynamic circular work-stealing deque", SPAA 2005). The owner may
 * change: the slot that it belongs to passes from thread to thread under the scheduler's mutex.
 *
 * The owner lowers the bottom before it reads the top, and a thief reads the top before the bottom: one of both sees
 * the other, and only the last work is decided by a compare-and-swap of the top. This needs sequential consistency
 * (N. M. Lê, A. Pop, A. Cohen and F. Zappa Nardelli, "Correct and efficient work-stealing for weak memory models",
 * PPoPP 2013, have it by fences, which ThreadSanitizer does not see; here the accesses have it).
 * tests/runtime/test_protocols.py explores it.
 *
 * A thief may still read a buffer that has grown since, so each buffer keeps the smaller one that it replaced until the
 * deque is freed. All of them together are no larger than twice the largest. */
#ifndef TPROF_RUNTIME_DEQUE_H
#define TPROF_RUNTIME_DEQUE_H

#include <stdbool.h>

struct deque;
struct work;

struct deque *tprof_deque_make(void); /* NULL without memory */
void tprof_deque_free(struct deque *deque);
bool tprof_deque_is_empty(const struct deque *deque);
/* The oldest, NULL: none. */
struct work *tprof_deque_steal(struct deque *deque);

/* By the owner. */
/* Make room for one more; false without memory. */
bool tprof_deque_reserve(struct deque *deque);
void tprof_deque_push(struct deque *deque, struct work *work);
/* The youngest, NULL: none. */
struct work *tprof_deque_pop(struct deque *deque);
/* Whether the work would be popped. Only the address is compared: the work itself may be gone. */
bool tprof_deque_ends_with(const struct deque *deque, const struct work *work);

#endif
