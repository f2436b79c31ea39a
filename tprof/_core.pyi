"""The native core: tasks, samples, sensors. Only `tprof` itself calls it."""

import threading
import types
from collections.abc import Callable
from contextvars import ContextVar
from types import CodeType, TracebackType
from typing import Any, Self

from tprof.declarations import Access

VERSION: str
"""Of the distribution, as meson.build has it."""
LATE_NS: int
STILL_NS: int
USUAL_UPDATES: int
"""Of the rule of csrc/increments.c, in nanoseconds and usual updates."""
runtime_api: object
"""A capsule with the recorder's interface for a task runtime: csrc/runtime_api.h."""

class Task:
    """A callable that is a task; `functools.update_wrapper` gives it the function's attributes."""

    number: int
    access: Access | None
    resumed: bool
    def __new__(
        cls,
        function: Callable[..., Any],
        number: int,
        access: Access | None = None,
        original: Callable[..., Any] = ...,
        resumed: bool = False,
    ) -> Self: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]: ...

class Region:
    """A with-block that is a task."""

    number: int
    def __new__(cls, number: int) -> Self: ...
    def silence(self) -> None:
        """Stop being a task."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool: ...

class ThreadTask:
    """A method of `threading.Thread`; each call is an instance of the task whose number is found for the thread."""

    def __new__(cls, method: Callable[..., Any], number_of: Callable[[threading.Thread], int | None]) -> Self: ...

class Span:
    """The instance of a span of OpenTelemetry: it runs on a thread while the span is the current one there."""

    number: int
    def __new__(cls, number: int) -> Self: ...
    def finish(self, failed: bool, /) -> None:
        """End it."""

    def rename(self, number: int, /) -> None:
        """Continue as another instance, of the task with this number."""

    def cpu_s(self) -> float:
        """Return the CPU time in which it was current, in this recording."""

class SpanContext:
    """Attaches and detaches OpenTelemetry's context by these functions, and then runs the current span's instance."""

    def __new__(cls, attach: Callable[..., Any], detach: Callable[..., None]) -> Self: ...
    def attach(self, context: Any, /) -> Any: ...
    def detach(self, token: Any, /) -> None: ...

class Monitor:
    """The callbacks of sys.monitoring, and the marks of code objects; Python 3.12 and newer."""

    def __new__(
        cls,
        define: Callable[[CodeType], int],
        observe: Callable[[CodeType, Any], object],
        classify: Callable[[CodeType], object],
        files: dict[str, bool],
        disable: object,
    ) -> Self: ...
    def on_start(self, code: CodeType, offset: int, /) -> None: ...
    def on_resume(self, code: CodeType, offset: int, /) -> None: ...
    def on_throw(self, code: CodeType, offset: int, error: BaseException, /) -> None: ...
    def on_yield(self, code: CodeType, offset: int, value: object, /) -> None: ...
    def on_return(self, code: CodeType, offset: int, value: object, /) -> None: ...
    def on_unwind(self, code: CodeType, offset: int, error: BaseException, /) -> None: ...
    def mark(self, code: CodeType, mark: int, /) -> None:
        """Mark a code object.

        0 is nothing yet, 1 nothing for good, 2 calls `observe` at each return, 3 is a task that `define` numbers at its
        first call, 4 and more are the task of the number that is 4 less.
        """

    def marked(self, code: CodeType, /) -> int:
        """Return the mark of a code object."""

    def unseen(self, function: Callable[..., Any], first: object, second: object = ..., /) -> Any:
        """Call the function without monitoring events of this thread."""

class Tail:
    """The records of a stream that were committed since the last read."""

    done: int
    """Number of records read so far."""
    end: tuple[int, tuple[int, ...] | None] | None
    """When the stream ended, as of the last read, and its columns then, None after lost records; None: it may go on."""
    def __new__(
        cls,
        path: str,
        record_bytes: int,
        body_at: int,
        first: int = 0,
        fetch: Callable[[int, int], bytes] | None = None,
    ) -> Self:
        """Begin at record number `first`; `fetch` returns compressed records from a number on, at most so many.

        It returns none if they are gone.
        """

    def read(self, most: int, /) -> tuple[bytes, bool]:
        """Return at most `most` new records, and whether there are more. Raises OSError, and what `fetch` raises."""

class EnergyObserver:
    """The sum of energy counters that the sensor thread reads, beside those of a recording or alone, until `close`.

    `sources` and `budget` are as `sensors_start` takes them, with empty `file`.
    """

    def __new__(cls, sources: tuple[dict[str, Any], ...], budget: float = 0.0) -> Self: ...
    def read(self) -> tuple[int, float]:
        """Return the time of the last change that the thread saw, and the plausible energy until then, in uJ."""
    def close(self) -> None:
        """End it; `read` goes on to return the last values."""

class Count:
    """The count of a domain, followed from reading to reading by the rule of csrc/increments.c.

    More than `limit_w` watts are a fault; `modulus` is 0 if it is not known where the count wraps.
    """

    def __new__(cls, *, unit_j: float, modulus: int, limit_w: float, is_calculated: bool) -> Self: ...
    def follow(self, records: Any, ended: Any, longest_ns: float, /) -> tuple[int, int]:
        """Go on with readings, and fill in the increments that end with them, for which `ended` has a place more.

        The last reading ends one too if its value has stood for longer than `longest_ns`. Returns how many ended, and
        how many readings so far were not later than the one before.
        """

class ReadingFile:
    """A file of readings that a Python thread takes, one of a domain; written by one thread at a time.

    `source` is as in `sensors_start`, of the kind GIVEN; `update_ns` is the usual gap between updates, 0 if it is not
    known. Only the process that made it writes.
    """

    def __new__(cls, source: dict[str, Any], update_ns: int = 0) -> Self: ...
    def take(self, t_ns: int, took_ns: int, value: int, error: int = 0, reopened: bool = False) -> bool:
        """Record a count that was read at `t_ns`, or the errno of the failed read.

        Unchanged counts are recorded ten times a second. `reopened`: the count may have been reset, so the time since
        the last reading has no joules. Returns False if the file is closed, or `t_ns` is not later than the last
        reading's.
        """
    def close(self) -> None:
        """End the file; later readings are ignored."""

class StackFile:
    """A file of the Python stacks of this interpreter's threads; absent in free-threaded builds.

    `own` is the folder whose functions are marked as tprof's own. Only the process that made it writes.
    """

    def __new__(cls, path: str, process: int, own: str) -> Self: ...
    def sample(self) -> int:
        """Record the stack of every thread but the calling one, and return the nanoseconds that this took.

        The threads are those that Python's lock keeps from running meanwhile; no code of the program is called.
        """
    def close(self) -> None:
        """End the file; later samples are ignored."""

def now_ns() -> int:
    """Return CLOCK_MONOTONIC in nanoseconds."""

def suspended_ns() -> int:
    """Return CLOCK_BOOTTIME minus CLOCK_MONOTONIC in nanoseconds."""

def generation() -> int:
    """Return the number of this process's recording; 0 without one."""

def running() -> tuple[int, int]:
    """Return the instance that runs on the calling thread, and its task; 0 and 2^32 - 1 if none does."""

def next_instance() -> int:
    """Return the instance that the calling thread begins next; 0 if it records none."""

def set_segment_bytes(size: int, /) -> None:
    """Let streams that this process makes from now on have their bodies in files of so many bytes; 0: in one file."""

def layout() -> dict[str, Any]:
    """Return sizes and offsets of the structs on disk."""

def follow_mpi(functions: list[tuple[str, int]], /) -> None:
    """Make calls of these functions instances of the tasks with these numbers; sorted by name, once in a process."""

def leave_out_thread(begins: bool, /) -> None:
    """Leave the calling thread, which is tprof's own, out of the native threads, or no more."""

def session_create(directory: str, /) -> int:
    """Make the session's shared page and enter as its first process; returns the process ordinal."""

def session_join(directory: str, /) -> int:
    """Enter a session of another process. Raises OSError if it has ended."""

def session_rejoin() -> int | None:
    """In a forked child, enter the parent's session; None without one."""

def session_leave(process: int, /) -> None:
    """Write this process's last CPU time."""

def session_watch(directory: str, /) -> None:
    """Open the page of a running session without joining it, to list its processes and to end it. Raises OSError."""

def await_at_exit(process: int, channel: int, /) -> None:
    """Let this process end only after a child that it started.

    When the interpreter has ended, the sensors go on until the child writes to the socket, which is closed then.
    """

def session_processes() -> list[tuple[int, int, int, int]]:
    """Return ordinal, process number, last CPU time and end (0: it has not left) of the session's processes."""

def session_leave_at_exit(process: int, /) -> None:
    """Let the process record until Python ends, even if interpreters end before, and then leave."""

def session_end() -> dict[str, Any]:
    """End the session for all processes; returns counts of processes, threads and losses."""

def session_threads() -> int:
    """Return the number of threads that have joined the session so far; 0 without one."""

def used_ns() -> int:
    """Return the CPU time of this process in nanoseconds."""

def thread_used_ns(pid: int, tid: int, own: bool, /) -> int:
    """Return the CPU time of a thread in nanoseconds, `own`: of this process; 0 if it cannot be read."""

def start(
    *,
    directory: str,
    process: int,
    description: bytes,
    groups: tuple[tuple[bool, tuple[tuple[int, int, int], ...]], ...],
    papi: tuple[str, ...],
    packages: bytes,
    native: str | None,
) -> int:
    """Begin to record in this process, and its native threads in a file so described; returns the generation."""

def run_main(code: types.CodeType, names: dict[str, Any], depth: int, /) -> None:
    """Execute a program's code with no frame below it, and with the recursion limit raised by `depth`."""

def stop() -> None:
    """End recording in this process."""

def set_spawner(spawner: Callable[..., Any] | None, /) -> None:
    """Pass calls of tasks with declared data to the spawner, with the task as the first argument."""

def drive(body: Any, number: int, /) -> Any:
    """Return what stands for a generator or coroutine while each of its steps runs as the task."""

def set_pause(share: float, /) -> None:
    """Let each thread sleep after a task, so many times as long as the task took; 0: stop."""

def is_main_interpreter() -> bool:
    """Return whether the calling interpreter is the one in which the process began."""

def claim() -> bool:
    """Claim the beginning and ending of recordings for this interpreter; False: another one has the claim."""

def release() -> None:
    """Release this interpreter's claim, if it has one."""

def define(
    name: str, file: str | None, line: int, *, flops: float = ..., bytes: float = ..., budget_j: float = ...
) -> tuple[int, str | None]:
    """Enter a task; its line is -1 without one.

    Returns its number in this process, and the table that the process writes now; where that is None, whoever begins
    one finds the task.
    """

def raise_descriptor(fd: int, /) -> int:
    """Move a descriptor that stays open above those of the program, if there is room; returns its new number."""

def table_begin(
    path: str, /
) -> list[tuple[int, str, str | None, int | None, float | None, float | None, float | None]]:
    """Let all interpreters write their definitions into this table.

    Returns what others have defined by now: number, name, file, line, flops, bytes, joules of its budget.
    """

def table_end() -> int:
    """Close the table; returns the number of lines of other interpreters that could not be written."""

def table_lost() -> None:
    """Count a line that could not be written."""

def fail_at_exit(status: int, /) -> None:
    """Let this process end with this status if it would end with 0.

    It is called first before the program begins, so that what the program leaves to its exit is done before.
    """

def set_fork_work(
    functions: tuple[Callable[[], None], Callable[[], None], Callable[[], None], Callable[[], None]], /
) -> None:
    """Set the functions to call around forks.

    The first before a fork of a process that records, the second in it once the fork has returned; the third in any
    child at once, the fourth once the fork has returned in the child of a process that records.
    """

def fork_before() -> None:
    """The hook before a fork."""

def fork_in_parent() -> None:
    """The hook in the parent after a fork."""

def fork_in_child() -> None:
    """The hook in the child after a fork."""

def hold_signals() -> None:
    """Defer signal handlers until `release_signals`; those that are due run first."""

def release_signals() -> None:
    """Let handlers run again, once for each signal that arrived meanwhile."""

def await_thread_end(native_id: int, /) -> None:
    """Wait until the kernel does not count an ended thread any more, 20 ms at most."""

def sensors_start(sources: tuple[dict[str, Any], ...], budget: float = 0.0) -> None:
    """Start the native sensor thread; `budget` is the part of a core that polling may use. Raises OSError."""

def sensors_refused() -> int:
    """Return how often the system refused to begin the thread since its start."""

def sensors_stop() -> int:
    """Stop it after a last reading; returns the CPU time it took in nanoseconds."""

def drawn_uj() -> int:
    """Return the last reading of all packages' energy since the session's start; 0 without a session."""

def follow_spans(variable: ContextVar[Any], key: str, attribute: str, /) -> bool:
    """Run the instances of current spans also where threads enter and leave contexts.

    `variable` holds OpenTelemetry's context, a dict with the current span at `key`, whose `attribute` is a `Span`.
    Returns False if `Context.run` cannot be followed. Raises RuntimeError if spans are followed already.
    """

def papi_load(path: str, version: int, /) -> str | None:
    """Load PAPI's library and initialise it; returns the reason why it cannot be used."""

def papi_try(names: tuple[str, ...], /) -> tuple[int | str, ...]:
    """Count these events of PAPI for a moment in this thread: each one's count, or PAPI's sentence on why not."""

def perf_open_probe(
    *,
    type: int,
    config: int,
    pid: int,
    cpu: int,
    exclude_kernel: bool,
    longest_ns: int = 0,
) -> tuple[int, int, int, int]:
    """Open, run, read and close one perf event: errno (0: it counts), value, enabled_ns, running_ns.

    While the value is 0 it reads again, for `longest_ns`.
    """
