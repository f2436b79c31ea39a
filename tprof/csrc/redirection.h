/* The entries of a library's table of addresses that are to lead to ours. */
#ifndef TPROF_REDIRECTION_H
#define TPROF_REDIRECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image.h"

/* The memory that may be written, from /proc/self/maps; without ranges: only find out whether there is something to do. */
struct tprof_writable {
    struct tprof_range {
        uintptr_t start, end;
    } *ranges;
    size_t count;
};

/* A function whose entries get ours, in all libraries that are not settled. */
struct tprof_redirected {
    const char *name;
    uintptr_t genuine, ours;
};

void tprof_redirect_also(const struct tprof_redirected *function);
/* False: /proc is not there, so nothing may be redirected. The ranges are to be freed. */
bool tprof_writable_read(struct tprof_writable *writable);
/* Returns whether there is nothing more to do for this library. */
bool tprof_redirect(const struct tprof_writable *writable, struct tprof_image *image);

#endif
