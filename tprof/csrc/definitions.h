/* The tasks of all interpreters of this process: the one that begins a recording writes those of the others too, which
 * may be running. Needs neither Python nor the lock of an interpreter. */
#ifndef TPROF_DEFINITIONS_H
#define TPROF_DEFINITIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tprof_text {
    char *bytes; /* NULL: not declared */
    size_t length;
};

struct tprof_definition {
    uint32_t number; /* unique in this process, never reused */
    int32_t line;    /* -1: not declared */
    double flops, traffic_bytes, budget_j; /* NAN: not declared */
    struct tprof_text name, file;
    struct tprof_definition *next;
};

/* The tasks of one interpreter. */
struct tprof_definitions {
    bool listed;
    struct tprof_definition *first;
    struct tprof_definitions *next, *previous;
};

/* Around forks, called by process.c. */
void tprof_definitions_before_fork(void);
void tprof_definitions_after_fork_in_parent(void);
void tprof_definitions_after_fork_in_child(void);

/* Begin and end of an interpreter; after its end no recording includes its tasks. */
void tprof_definitions_list(struct tprof_definitions *of);
void tprof_definitions_unlist(struct tprof_definitions *of);

/* Number the definition and store it, with copies of its texts. Returns in `table` the path of the process's open
 * table, or an empty text without one; a table that is begun later includes the definition. */
void tprof_define(struct tprof_definitions *of, struct tprof_definition *definition, char table[PATH_MAX]);

/* Open this table for the process. Fills in copies of the definitions of the other interpreters, for the caller to
 * free. False: no memory. */
bool tprof_table_begin(const char *path, const struct tprof_definitions *own, struct tprof_definition **others);
void tprof_definitions_free(struct tprof_definition *first);

/* Close the table. Returns the number of lost lines of other interpreters. */
uint32_t tprof_table_end(void);
void tprof_table_lost(void);

#endif
