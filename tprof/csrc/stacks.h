/* The file of a process's sampled stacks: functions, stacks as a tree of functions, and what each thread ran when.
 * Called by one thread at a time, with Python's lock; nothing here is Python. */
#ifndef TPROF_STACKS_H
#define TPROF_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"
#include "stream.h"

#define TPROF_NO_STACK UINT32_MAX
#define TPROF_STACK_TEXT_BYTES 16
#define TPROF_MAX_FUNCTIONS (1u << 16)
#define TPROF_MAX_STACKS (1u << 20)

/* Numbers by key; keys are not 0. */
struct tprof_numbers {
    uint64_t *keys;
    uint32_t *values;
    uint32_t count, capacity;
};

struct tprof_stacks {
    struct tprof_stream stream;
    struct tprof_numbers functions, stacks;
};

/* Make the file; returns 0 or errno. */
int tprof_stacks_create(struct tprof_stacks *stacks, const char *path, uint32_t process);
/* Free the tables; the file is closed first, if it is this process's. */
void tprof_stacks_close(struct tprof_stacks *stacks, bool is_ours);

/* The number of the function with this key; TPROF_NO_STACK: it has none. */
uint32_t tprof_stacks_function(const struct tprof_stacks *stacks, uint64_t key);
/* Give it one, with its text; TPROF_NO_STACK if there are too many, or no memory. */
uint32_t tprof_stacks_add_function(struct tprof_stacks *stacks, uint64_t key, const char *text, uint8_t flags);
/* The stack of this function called by that stack (TPROF_NO_STACK: by none). If there are too many, that of the caller. */
uint32_t tprof_stacks_call(struct tprof_stacks *stacks, uint32_t caller, uint32_t function);
void tprof_stacks_sample(struct tprof_stacks *stacks, const struct tprof_stack *sample);

#endif
