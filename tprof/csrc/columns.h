/* Columns of records, for readers: each field of many records goes to an array of its own.
 *
 * Called by binding_columns.c, which checks sizes, from any thread and without the interpreter's lock. No array overlaps
 * the records. */
#ifndef TPROF_COLUMNS_H
#define TPROF_COLUMNS_H

#include <stddef.h>
#include <stdint.h>

/* A field and where its values go; `bytes` is 1, 2, 4 or 8. */
struct tprof_column {
    size_t offset, bytes;
    void *values;
};

void tprof_columns_copy(const uint8_t *records, size_t record_bytes, size_t count, const struct tprof_column *columns,
                        size_t column_count);

#endif
