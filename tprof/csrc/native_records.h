/* What the file says of a followed thread. Called under the lock of the followers. */
#ifndef TPROF_NATIVE_RECORDS_H
#define TPROF_NATIVE_RECORDS_H

#include "libraries.h"
#include "native_followers.h"

void tprof_native_write_appear(const struct tprof_follower *one);
void tprof_native_write_clock(const struct tprof_follower *one, uint64_t t_ns, uint64_t cpu_ns);
/* Since when the clock has stood still at least; without this the next movement would seem to have begun earlier. */
void tprof_native_write_standing(struct tprof_follower *one);

void tprof_native_write_end(struct tprof_follower *one, uint64_t t_ns, uint64_t cpu_ns, uint8_t flags);
/* The same no earlier than its last reading: it may have ended while its clock was read. Returns when. */
uint64_t tprof_native_write_last(struct tprof_follower *one, uint64_t t_ns, uint64_t cpu_ns, uint8_t flags);
/* The thread's own word that it is not to be followed any more, which comes with its clock. Returns whether it has said
 * so. */
bool tprof_native_write_own_end(struct tprof_follower *one, const struct tprof_birth *birth);

/* Who created it; takes ownership of the birth. */
void tprof_native_write_birth(struct tprof_follower *one, struct tprof_birth *birth);
/* The calling thread created it. */
void tprof_native_write_creator(struct tprof_follower *one, uint64_t created_ns);

void tprof_native_write_name(struct tprof_follower *one, uint64_t t_ns);
void tprof_native_write_begin(struct tprof_follower *one, uint64_t t_ns, struct tprof_library *library);
/* Find the library in which a thread began that nobody saw begin: it has to wait meanwhile. */
void tprof_native_find_library(struct tprof_follower *one, uint64_t t_ns);

#endif
