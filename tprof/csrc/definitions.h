/* The tasks that this process knows, of all its interpreters: whoever begins a recording writes those of the others
 * too, which may run at the same time and cannot be asked. Needs neither Python nor the lock of an interpreter. */
#ifndef TPROF_DEFINITIONS_H
#define TPROF_DEFINITIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tprof_text {
    char *bytes; /* NULL: not said */
    size_t length;
};

struct tprof_definition {
    uint32_t number; /* no other task of this process has it, nor ever had */
    int32_t line;    /* -1: not said */
    double flops, traffic_bytes, budget_j; /* NAN: not said */
    struct tprof_text name, file;
    struct tprof_definition *next;
};

/* Those of one interpreter. */
struct tprof_definitions {
    bool listed;
    struct tprof_definition *first;
    struct tprof_definitions *next, *previous;
};

/* Prepares for forks, once per process. Returns 0 or errno. */
int tprof_definitions_initialise(void);

/* An interpreter begins, and ends: then its tasks can run in no later recording. */
void tprof_definitions_list(struct tprof_definitions *of);
void tprof_definitions_unlist(struct tprof_definitions *of);

/* Number the definition and keep it, with its texts. Writes the path of the table that this process writes now: the
 * empty text where it writes none, and then whoever begins one finds the definition. */
void tprof_define(struct tprof_definitions *of, struct tprof_definition *definition, char table[PATH_MAX]);

/* The process writes this table from now on. Fills in copies of what the other interpreters have defined by now, for
 * the caller to free. False: there is no memory. */
bool tprof_table_begin(const char *path, const struct tprof_definitions *own, struct tprof_definition **others);
void tprof_definitions_free(struct tprof_definition *first);

/* The table is written no more. Returns how many lines of other interpreters were lost. */
uint32_t tprof_table_end(void);
void tprof_table_lost(void);

#endif
