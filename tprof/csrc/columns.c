/* See columns.h. Records go through the first cache in blocks, so that each is loaded once for all of its fields. */
#include "columns.h"

#include <string.h>

#define BLOCK_BYTES 8192

/* `bytes` is a constant where this is called, so that each copy is one load and one store. */
static inline void copy_field(const uint8_t *field, size_t record_bytes, size_t count, uint8_t *values,
                              const size_t bytes)
{
    for (size_t at = 0; at < count; at++)
        memcpy(values + at * bytes, field + at * record_bytes, bytes);
}

static void copy_block(const uint8_t *records, size_t record_bytes, size_t count, const struct tprof_column *column,
                       size_t done)
{
    const uint8_t *field = records + column->offset;
    uint8_t *values = (uint8_t *)column->values + done * column->bytes;
    switch (column->bytes) {
    case 1:
        copy_field(field, record_bytes, count, values, 1);
        break;
    case 2:
        copy_field(field, record_bytes, count, values, 2);
        break;
    case 4:
        copy_field(field, record_bytes, count, values, 4);
        break;
    default:
        copy_field(field, record_bytes, count, values, 8);
    }
}

void tprof_columns_copy(const uint8_t *records, size_t record_bytes, size_t count, const struct tprof_column *columns,
                        size_t column_count)
{
    const size_t block = record_bytes < BLOCK_BYTES ? BLOCK_BYTES / record_bytes : 1;
    for (size_t done = 0; done < count; done += block) {
        const size_t here = count - done < block ? count - done : block;
        for (size_t column = 0; column < column_count; column++)
            copy_block(records + done * record_bytes, record_bytes, here, &columns[column], done);
    }
}
