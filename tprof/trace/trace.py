"""An opened recording: its tasks, threads, readings and events, which are read when they are needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tprof.errors import UsageError

from .directory import MATCHES
from .metadata import MAX_NS
from .native import NativeFile, NativeThread, read_calls, read_native
from .unmatched import read_unmatched

if TYPE_CHECKING:
    from pathlib import Path

    from tprof.analysis import Profile

    from .decisions import Decision
    from .gone import Gone
    from .gpu import GpuTrace
    from .graph import EventFile
    from .keys import KeyFile
    from .native_calls import PoolCalls
    from .readings import Readings
    from .stacks import StackFile, Stacks
    from .tasks import TaskEntry
    from .thread import Thread


@dataclass(frozen=True)
class Trace:
    """A recording on disk.

    Attributes
    ----------
    path : the session directory.
    manifest, end : the two JSON files; `end` is empty if the program was killed.
    tasks : the tasks; a sample's `task` is an index here.
    threads : one for each sample file.
    readings : by name.
    events : one for each file of a task runtime's events; most traces have none.
    native : one for each process whose native threads were recorded; older traces have none.
    complete : whether the recording ended by itself.
    start_ns, end_ns : of the recorded block, CLOCK_MONOTONIC; sensors may have been read before and after.
    process_end_ns : end of each process that ended, by its ordinal.
    decisions : of runtimes' policies, in order of time.
    gpu : work on GPUs, and who used them; older traces have none.
    labels : of each process that has any, by its ordinal.
    stack_files : with sampled stacks, one for each process that has any; most traces have none.
    key_files : with keys of an engine's tasks; most traces have none.
    notes : sentences on the state of the files, and those that the recording left at its end.
    recorded : the whole trace of which this is a window; None: this is the whole one.
    gone : what a size limit removed; the trace then is the window from there on. None: nothing.
    """

    path: Path
    manifest: dict[str, Any]
    end: dict[str, Any]
    tasks: tuple[TaskEntry, ...]
    threads: tuple[Thread, ...]
    readings: dict[str, Readings]
    events: tuple[EventFile, ...]
    native: tuple[NativeFile, ...]
    complete: bool
    start_ns: int
    end_ns: int
    process_end_ns: dict[int, int]
    decisions: tuple[Decision, ...]
    gpu: GpuTrace
    labels: dict[int, dict[str, str]]
    key_files: tuple[KeyFile, ...]
    notes: tuple[str, ...]
    stack_files: tuple[StackFile, ...] = ()
    recorded: Trace | None = None
    gone: Gone | None = None

    @cached_property
    def native_threads(self) -> tuple[NativeThread, ...]:
        """The threads that record no samples, by process number and first reading; read at first use.

        Raises
        ------
        TraceError
            If a file is missing, or does not fit into memory.
        """
        threads = read_native(self.native)
        if self.recorded is None:
            return threads
        return tuple(part for one in threads if (part := one.between(*self.reach_ns)) is not None)

    @cached_property
    def native_calls(self) -> tuple[PoolCalls, ...]:
        """The calls that gave work to libraries' pools, as far as they were noted; read at first use.

        Raises
        ------
        TraceError
            If a file is missing, or does not fit into memory.
        """
        return read_calls(self.native)

    def stacks(self) -> tuple[Stacks, ...]:
        """Read the sampled stacks of each process; they are not cached. Raises TraceError."""
        return tuple(one.read() for one in self.stack_files)

    @property
    def names_no_task(self) -> bool:
        """Whether the program defined no tasks, so that default tasks stand for its threads and processes."""
        return bool(self.tasks) and not any(entry.is_own for entry in self.tasks)

    @property
    def program_task(self) -> str | None:
        """The name of the default task that stands for the program's main thread; None if it defined tasks itself."""
        return self.tasks[0].name if self.names_no_task and self.tasks[0].is_default else None

    @property
    def unmatched(self) -> tuple[str, ...]:
        """Sentences on why no function became a task by ``--task``; empty if one did, or none was to."""
        return read_unmatched(self.path / MATCHES) if self.names_no_task else ()

    @property
    def reach_ns(self) -> tuple[int, int]:
        """From when to when samples and readings count; a window that begins or ends with the block is open there."""
        whole = self if self.recorded is None else self.recorded
        return (
            self.start_ns if self.start_ns > whole.start_ns else 0,
            self.end_ns if self.end_ns < whole.end_ns else MAX_NS,
        )

    @property
    def between_s(self) -> tuple[float, float] | None:
        """Seconds from the recording's begin at which this window begins and ends; None for the whole recording."""
        if self.recorded is None:
            return None
        begin_ns = self.recorded.start_ns
        return (self.start_ns - begin_ns) * 1e-9, (self.end_ns - begin_ns) * 1e-9

    def between(self, start_s: float | None = None, end_s: float | None = None) -> Trace:
        """Return a window of the recording, of whose samples only the part that it needs will be read.

        Parameters
        ----------
        start_s, end_s : seconds from the begin of the recording; None: its begin, its end. A later end is its end.

        Raises
        ------
        UsageError
            If they are no window of the recording, or this is a window already.
        """
        whole = self if self.recorded is None else self.recorded
        if (self.start_ns, self.end_ns) != (self.kept_ns, whole.end_ns):
            raise UsageError("this is a window of a recording already: take the window of the whole recording")
        length_s, least_s = (whole.end_ns - whole.start_ns) * 1e-9, (self.kept_ns - whole.start_ns) * 1e-9
        begin, end = least_s if start_s is None else start_s, length_s if end_s is None else min(end_s, length_s)
        # A comparison with NaN is false.
        if not least_s <= begin < length_s:
            gone = " (what was before is gone by --max-size)" if least_s else ""
            raise UsageError(
                f"the window must begin at {least_s:.6g} to {length_s:.6g} s of the recording{gone}, got {begin:.6g} s"
            )
        if not end > begin:
            raise UsageError(f"the window must end after it begins, got {begin:.6g} s to {end_s or end:.6g} s")
        start_ns = self.start_ns if start_s is None else whole.start_ns + round(begin * 1e9)
        end_ns = whole.end_ns if end >= length_s else whole.start_ns + round(end * 1e9)
        return whole.window(start_ns, max(end_ns, start_ns + 1))

    @property
    def kept_ns(self) -> int:
        """From when on all samples are there: the begin of the recording, unless a size limit removed the first."""
        whole = self if self.recorded is None else self.recorded
        return whole.start_ns if self.gone is None else min(max(whole.start_ns, self.gone.until_ns), whole.end_ns - 1)

    def window(self, start_ns: int, end_ns: int) -> Trace:
        """Return the window between two times of this whole recording."""
        window = replace(self, recorded=self, start_ns=start_ns, end_ns=end_ns)
        begin_ns, after_ns = window.reach_ns
        return replace(
            window,
            threads=tuple(one.between(begin_ns, after_ns) for one in self.threads),
            decisions=tuple(one for one in self.decisions if begin_ns <= one.t_ns < after_ns),
        )

    def profile(
        self, model: str = "auto", *, start_s: float | None = None, end_s: float | None = None, **options: Any
    ) -> Profile:
        """Attribute the joules to the tasks.

        Parameters
        ----------
        model : of the power
        start_s, end_s : a window of the recording, as for `between`; times of the profile count from its begin
        **options : as for `tprof.analysis.build_profile`
        """
        from tprof.analysis import build_profile  # noqa: PLC0415 - the door to analysis

        trace = self if start_s is None and end_s is None else self.between(start_s, end_s)
        return build_profile(trace, model=model, **options)
