/* Counters by the library PAPI, which the program has installed: one event set a thread. */
#ifndef TPROF_PAPI_H
#define TPROF_PAPI_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TPROF_PAPI_EVENTS 11
#define TPROF_PAPI_NAME_BYTES 128

/* The events to count, by PAPI's names; the place of each is its column. */
struct tprof_papi_events {
    int count;
    char names[TPROF_PAPI_EVENTS][TPROF_PAPI_NAME_BYTES];
};

struct tprof_papi_set {
    bool open;
    int handle;
    pthread_t owner;
    int count;
    int columns[TPROF_PAPI_EVENTS];
};

/* Load the library at this path and initialise it, once per process. Returns NULL, or PAPI's or the loader's sentence,
 * which stays valid until the next call in this thread. */
const char *tprof_papi_load(const char *path, int version);

/* Count in the calling thread. problems[i], if wanted, becomes NULL or PAPI's sentence on event i. Returns a mask of
 * the columns that are absent. */
uint64_t tprof_papi_open(struct tprof_papi_set *set, const struct tprof_papi_events *events, const char **problems);

/* Read the counts since the set was opened into the columns of `values`. The owner's only: another thread reads nothing
 * and leaves them as they were. Returns whether PAPI could read them. */
bool tprof_papi_read(const struct tprof_papi_set *set, uint64_t *values);

/* Any thread, while the owner neither reads nor closes. */
void tprof_papi_close(struct tprof_papi_set *set);

/* The calling thread ends: let PAPI free what it keeps for it. */
void tprof_papi_end_thread(void);

#endif
