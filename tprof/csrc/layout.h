/* The layout of a trace on disk, documented in docs/trace-format.md and mirrored in tprof/trace/layout.py. */
#ifndef TPROF_LAYOUT_H
#define TPROF_LAYOUT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define TPROF_MAGIC "TPROF\r\n\x1a"
#define TPROF_MAJOR 1
#define TPROF_MINOR 9
#define TPROF_FITTED_MAJOR 2 /* of samples as long as their columns need, which earlier readers refuse */
#define TPROF_BESIDE_MAJOR 2 /* of a stream whose records are in files beside it: earlier readers refuse it */
#define TPROF_ENDIAN 0x01020304u
#define TPROF_HEADER_BYTES 4096u
#define TPROF_DESCRIPTION_BYTES 3640u
#define TPROF_MAX_COLUMNS 13
#define TPROF_NAME_BYTES 128
#define TPROF_NO_TASK UINT32_MAX
#define TPROF_NO_THREAD UINT32_MAX
#define TPROF_NO_CPU UINT16_MAX
#define TPROF_NO_WORKER UINT16_MAX

enum tprof_stream_kind { TPROF_SAMPLES = 1, TPROF_READINGS = 2, TPROF_EVENTS = 3, TPROF_NATIVE = 4, TPROF_STACKS = 5 };
enum tprof_kind { TPROF_START = 1, TPROF_FINISH, TPROF_SUSPEND, TPROF_RESUME, TPROF_CLOSE, TPROF_JOIN };
enum tprof_flag { TPROF_FAILED = 1, TPROF_SCALED = 2, TPROF_UNCOUNTED = 4, TPROF_ABORTED = 8 };
enum tprof_end { TPROF_OPEN = 0, TPROF_ENDED = 1, TPROF_STOPPED = 2, TPROF_END_ABORTED = 3 };
enum tprof_reading_flag { TPROF_MISSING = 1, TPROF_REOPENED = 2 };
enum tprof_event_kind {
    TPROF_EVENT_SPAWN = 1,
    TPROF_EVENT_DEPENDENCE,
    TPROF_EVENT_READY,
    TPROF_EVENT_STEAL,
    TPROF_EVENT_CANCEL,
    TPROF_EVENT_BEGIN,
    TPROF_EVENT_END
};
enum tprof_event_flag { TPROF_EVENT_AT_ONCE = 1 };

enum tprof_native_kind {
    TPROF_NATIVE_APPEAR = 1,
    TPROF_NATIVE_CREATOR,
    TPROF_NATIVE_NAME,
    TPROF_NATIVE_PATH,
    TPROF_NATIVE_BEGIN,
    TPROF_NATIVE_CLOCK,
    TPROF_NATIVE_END,
    TPROF_NATIVE_NOTED,
    TPROF_NATIVE_CALLS,
    TPROF_NATIVE_MISSED,
    TPROF_NATIVE_COUNTS
};
enum tprof_native_flag {
    TPROF_NATIVE_EXACT = 1,
    TPROF_NATIVE_JOINED = 2,
    TPROF_NATIVE_SEVERAL = 4,
    TPROF_NATIVE_SCALED = 8,
    TPROF_NATIVE_PAIR = 16
};

enum tprof_stack_kind { TPROF_STACK_FUNCTION = 1, TPROF_STACK_CALL, TPROF_STACK_SAMPLE };
enum tprof_stack_flag { TPROF_STACK_OWN = 1, TPROF_STACK_CUT = 2 };

struct tprof_header {
    char magic[8];
    uint16_t major, minor;
    uint32_t endian, kind, header_bytes, window_bytes, record_bytes;
    uint32_t process, thread, pid, tid;
    uint64_t start_ns;
    uint64_t absent;
    uint64_t committed; /* published with release after the record is whole */
    uint64_t flushed;   /* of these, records in the body */
    uint64_t dropped_enospc, dropped_io, dropped_reentrant;
    uint64_t first_drop_ns;
    uint64_t packed; /* of those in the body, records that are compressed in another file instead */
    uint64_t segment_records; /* 0: the body is in this file; else so many are in each file beside it */
    uint32_t end_reason, end_flags;
    uint64_t end_ns;
    uint64_t end_columns[TPROF_MAX_COLUMNS];
    uint64_t modulus;
    double unit;
    uint64_t reserved_264[7];
    char thread_name[TPROF_NAME_BYTES];
    uint32_t description_bytes;
    char description[TPROF_DESCRIPTION_BYTES];
    char reserved_4092[4];
};

struct tprof_sample {
    uint64_t t_ns;
    uint64_t instance;
    uint32_t task;
    uint16_t cpu;
    uint8_t kind, flags;
    uint64_t columns[];
};

struct tprof_reading {
    uint64_t t_ns;
    uint64_t value;
    uint32_t window_ns;
    uint16_t flags, error;
    uint64_t suspended_ns;
};

/* An event of a task runtime; tprof_event in counters.h is a perf event. */
struct tprof_graph_event {
    uint64_t t_ns;
    uint64_t instance;
    uint64_t other;
    uint32_t task;
    uint16_t worker;
    uint8_t kind, flags;
};

/* A native thread: a reading of its clock or of its counters, or a fact about it. A text, and the counts of a pair of
 * columns, are in the 16 bytes from `value` on. */
struct tprof_native {
    uint64_t t_ns;
    uint64_t value;
    uint32_t tid;
    uint32_t task;
    uint32_t thread;
    uint16_t part;
    uint8_t kind, flags;
};

/* What a thread ran when its stack was sampled, or a function or a stack that such samples name. A text is in the 16
 * bytes from `cpu_ns` on. */
struct tprof_stack {
    uint64_t t_ns;
    uint64_t cpu_ns;
    uint32_t tid;
    uint32_t other;
    uint32_t number;
    uint16_t part;
    uint8_t kind, flags;
};

static_assert(sizeof(struct tprof_header) == TPROF_HEADER_BYTES, "header is one page");
static_assert(offsetof(struct tprof_header, start_ns) == 48, "header layout");
static_assert(offsetof(struct tprof_header, committed) == 64, "header layout");
static_assert(offsetof(struct tprof_header, packed) == 112, "header layout");
static_assert(offsetof(struct tprof_header, segment_records) == 120, "header layout");
static_assert(offsetof(struct tprof_header, end_reason) == 128, "header layout");
static_assert(offsetof(struct tprof_header, modulus) == 248, "header layout");
static_assert(offsetof(struct tprof_header, thread_name) == 320, "header layout");
static_assert(offsetof(struct tprof_header, description_bytes) == 448, "header layout");
static_assert(offsetof(struct tprof_header, description) == 452, "header layout");
static_assert(offsetof(struct tprof_sample, columns) == 24, "sample layout");
static_assert(sizeof(struct tprof_reading) == 32, "reading layout");
static_assert(offsetof(struct tprof_graph_event, task) == 24, "event layout");
static_assert(sizeof(struct tprof_graph_event) == 32, "event layout");
static_assert(offsetof(struct tprof_native, thread) == 24, "native layout");
static_assert(sizeof(struct tprof_native) == 32, "native layout");
static_assert(offsetof(struct tprof_stack, number) == 24, "stack layout");
static_assert(sizeof(struct tprof_stack) == 32, "stack layout");

#endif
