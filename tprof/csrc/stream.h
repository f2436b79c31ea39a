/* One append-only file of fixed-size records with a committed count: a header, a small window that is written in
 * place through a shared mapping, and a body to which a full window is appended.
 *
 * Why a window: a record costs one cache line and no system call, it survives kill -9 the moment it is committed,
 * and only these few pages are ever written in place, so a full disk shows as an error of pwrite, never as SIGBUS.
 * Mapping the growing file itself was measured at two to ten times the cost (a page fault per 64 records).
 * A window begins small, since a program may have thousands of threads that record little, and doubles up to the size in
 * the header as it fills: few large appends cost much less than many small ones.
 * No descriptor is kept: a program with thousands of threads keeps its descriptors, and one that closes all of them
 * loses nothing.
 *
 * A session whose disk is limited or compressed while it runs has its bodies in segments, files of so many records
 * beside the stream's: whole ones can be replaced or removed while readers have them open.
 *
 * A stream is written by one thread; only the end_* fields may be written by another. */
#ifndef TPROF_STREAM_H
#define TPROF_STREAM_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "layout.h"

struct tprof_stream {
    /* What each record needs: */
    struct tprof_header *header; /* NULL: the file could not be made */
    char *next, *end;            /* the place of the next record, and the end of the space; equal: none is left */
    uint64_t committed;
    uint32_t record_bytes;

    uint32_t capacity; /* of the window, in records */
    char *window;
    uint64_t flushed;
    int error; /* errno of the failed write that ended this file, or 0 */
    dev_t device;
    ino_t inode;
    ino_t segment_inode; /* of the segment that is being filled */
    char path[PATH_MAX];
};

/* Bytes of the segments of streams that are made from now on, rounded to windows; 0: a body is in its stream's file.
 * Any thread. */
void tprof_stream_set_segment_bytes(uint64_t bytes);

/* Make the file with this header, as the last part of `path` in this directory, or at `path` with AT_FDCWD. Returns 0
 * or errno; a failure leaves no file. */
int tprof_stream_create(struct tprof_stream *stream, int directory, const char *path,
                        const struct tprof_header *header);

/* Let a full window grow, or append it to the body. Returns whether there is space again; if not, the next record is
 * counted as dropped, unless there is no file. */
bool tprof_stream_make_room(struct tprof_stream *stream);

/* The path of a segment of the stream with this path. Returns whether it is not too long. */
bool tprof_stream_segment_path(char path[PATH_MAX], const char *stream, uint64_t number);

/* Append the window to the body. Returns whether there is space again. */
bool tprof_stream_flush(struct tprof_stream *stream);

/* Unmap; the file stays. With flush the window's records go to the body first. */
void tprof_stream_close(struct tprof_stream *stream, bool flush);

/* In a forked child, where the file is not mapped: nothing is written any more. */
void tprof_stream_forget(struct tprof_stream *stream);

/* The place of the next record, or NULL when it has to be dropped. */
static inline void *tprof_stream_slot(struct tprof_stream *stream)
{
    if (stream->next == stream->end && !tprof_stream_make_room(stream))
        return NULL;
    return stream->next;
}

static inline void tprof_stream_commit(struct tprof_stream *stream)
{
    stream->next += stream->record_bytes;
    __atomic_store_n(&stream->header->committed, ++stream->committed, __ATOMIC_RELEASE);
}

#endif
