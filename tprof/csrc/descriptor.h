/* Where descriptors that stay open stand. Any thread calls it; needs neither Python nor a lock. */
#ifndef TPROF_DESCRIPTOR_H
#define TPROF_DESCRIPTOR_H

/* Move a descriptor above the numbers that programs expect for their own files, and return its new number. It stays
 * where it is if there is no room above; a negative one is returned as it is. errno is kept. */
int tprof_descriptor_raise(int fd);

/* The same for one of the many descriptors of counters: the upper half of the numbers is left to the program and to
 * short uses by the recorder. Returns -1 with EMFILE, and closes the descriptor, if there is no room. */
int tprof_descriptor_raise_counter(int fd);

/* How many descriptors may count threads that record no samples: an eighth of all that are permitted, 1024 at most. */
int tprof_descriptor_native_share(void);

#endif
