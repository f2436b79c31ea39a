/* The file of a process's native threads. Called by the sensor thread, or while it does not run. */
#ifndef TPROF_NATIVE_FILE_H
#define TPROF_NATIVE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"

#define TPROF_NATIVE_TEXT_BYTES 16

/* Make the file in this session directory; returns 0 or errno. */
int tprof_native_file_create(const char *directory, uint32_t process, const char *description);
void tprof_native_file_close(void);
bool tprof_native_file_is_open(void);
/* For a forked child, which does not have its parent's mapping. */
void tprof_native_file_forget(void);

void tprof_native_write(const struct tprof_native *record);
/* Write it in as many records as it needs, behind this one's other fields. */
void tprof_native_write_text(struct tprof_native record, const char *text);
/* Records since the file was made. */
uint64_t tprof_native_written(void);

#endif
