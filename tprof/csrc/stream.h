/* One append-only file of fixed-size records with a committed count: a header, a small window that is written in
 * place through a shared mapping, and a body to which a full window is appended.
 *
 * Why a window: a record costs one cache line and no system call, it survives kill -9 the moment it is committed,
 * and only these few pages are ever mapped, so a full disk shows as an error of pwrite, never as SIGBUS. Mapping the
 * growing file itself was measured at two to ten times the cost (a page fault per 64 records).
 * No descriptor is kept: a program with thousands of threads keeps its descriptors, and one that closes all of them
 * loses nothing.
 *
 * A stream is written by one thread; only the end_* fields may be written by another. */
#ifndef TPROF_STREAM_H
#define TPROF_STREAM_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "layout.h"

struct tprof_stream {
    struct tprof_header *header; /* NULL: the file could not be made */
    char *window;
    uint32_t record_bytes, capacity, used;
    uint64_t flushed;
    int error; /* errno of the failed write that ended this file, or 0 */
    dev_t device;
    ino_t inode;
    char path[PATH_MAX];
};

/* Make the file with this header, as the last part of `path` in this directory, or at `path` with AT_FDCWD. Returns 0
 * or errno; a failure leaves no file. */
int tprof_stream_create(struct tprof_stream *stream, int directory, const char *path,
                        const struct tprof_header *header);

/* Append the full window to the body. Returns whether there is space again. */
bool tprof_stream_flush(struct tprof_stream *stream);

/* Unmap; the file stays. With flush the window's records go to the body first. */
void tprof_stream_close(struct tprof_stream *stream, bool flush);

/* Count a record that could not be written since `error` struck. */
void tprof_stream_drop(struct tprof_stream *stream);

/* The place of the next record, or NULL when it has to be dropped. */
static inline void *tprof_stream_slot(struct tprof_stream *stream)
{
    if (stream->header == NULL)
        return NULL;
    if (stream->error != 0 || (stream->used == stream->capacity && !tprof_stream_flush(stream))) {
        tprof_stream_drop(stream);
        return NULL;
    }
    return stream->window + (size_t)stream->used * stream->record_bytes;
}

static inline void tprof_stream_commit(struct tprof_stream *stream)
{
    stream->used++;
    __atomic_store_n(&stream->header->committed, stream->flushed + stream->used, __ATOMIC_RELEASE);
}

#endif
