/* A source is polled while recording: an energy domain, the machine's busy time, the program's CPU time. A failed read
 * is missing, never zero; the analysis decides whether a falling value is a wrap. The source of an
 * observer has neither a stream nor a live page, only its sum. */
#ifndef TPROF_SOURCE_H
#define TPROF_SOURCE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "counters.h"
#include "increments.h"
#include "live.h"
#include "stream.h"

enum tprof_source_kind { TPROF_FILE = 1, TPROF_PERF, TPROF_ESTIMATE, TPROF_BUSY, TPROF_PROGRAM, TPROF_GIVEN };
/* GIVEN: another thread reads it, and hands over each value with `tprof_source_take`. */

struct tprof_source {
    enum tprof_source_kind kind;
    uint64_t period_ns;
    int package; /* its slot of the live page; -1: none */
    struct tprof_stream stream;
    struct tprof_live *live;
    struct tprof_count count;

    char path[PATH_MAX];   /* FILE: energy_uj; BUSY, ESTIMATE: proc/stat */
    char search[PATH_MAX]; /* FILE: where to search for its zone if the path is gone */
    char zone[64], subzone[64];
    struct tprof_event event;
    int cpu;
    double idle_w, per_core_w;
    uint64_t cpus[TPROF_MAX_PACKAGES]; /* BUSY, ESTIMATE: bit set of the processors that count */

    int fd; /* -1: closed */
    bool reopened, has_value, missing;
    uint64_t last_value, last_success_ns, last_record_ns, next_poll_ns, next_reopen_ns;
    uint64_t quickest_ns, took_ns;         /* shortest read so far, and the last one */
    uint64_t suspended_ns;                 /* of the machine, at the last record */
    uint64_t running_ns, ran_at_ns;        /* PERF: how long it had counted at the last read, and when that was */
    uint64_t last_change_ns;
    /* Of the polling schedule: */
    uint64_t polled_ns, last_update_ns, gap_ns; /* the gap between updates, on average */
    bool close_polling;                         /* until the next update */
    bool exact;                                 /* the last update was seen within about a period */
    uint64_t started_ns, started_busy_ns; /* ESTIMATE */
    uint64_t busy_ns, counted_at_ns; /* BUSY, ESTIMATE: since the first reading, and when the kernel last counted */
    int64_t counted_ns; /* what it counted then */
    double total_uj; /* energy since the first value; what the live page shows */
    uint32_t changes, failures;
};

/* Read once; record a change, a failure, and at least one reading each 100 ms, or with `force` any value. Returns
 * whether the value changed. */
bool tprof_source_poll(struct tprof_source *source, bool force);

/* Record a value that was read at `now_ns`, or the errno of the failed read, under the same rules. */
bool tprof_source_take(struct tprof_source *source, uint64_t now_ns, uint64_t value, int error, bool force);
void tprof_source_close(struct tprof_source *source);

/* source_file.c, source_busy.c: 0 or errno. */
int tprof_file_read(struct tprof_source *source, uint64_t *value);
int tprof_busy_read(struct tprof_source *source, uint64_t *value);

#endif
