"""The membership of a process in a session: its task table, and the core's set-up.

One interpreter of a process is a member for all of them: the core records the tasks of every interpreter, and each
interpreter writes its definitions into the one table of the process.
"""

from __future__ import annotations

import array
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tprof import _core, work
from tprof.errors import SensorError, TraceError

from .process_state import this_process
from .registry import NAME_CHARACTERS
from .table_file import JsonLines, TableFile, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tprof.cuda import Marks
    from tprof.live import Meter

    from .registry import Definition
    from .stack_sampling import StackSampling

NO_PACKAGE = -1
CUDA_LIBRARIES = frozenset({"torch", "cupy", "numba.cuda"})
"""Modules through which a program may use a GPU; each process notes at its end which of them did."""
MAX_DECISIONS = 200_000
KEY_CHARACTERS = 1000
NEEDS_IN_A_LINE = 100
"""Of the longest keys, these fit into the longest line that readers take; more needs take more lines."""


class Plan(NamedTuple):
    """The columns and groups of events that every process of a session records.

    Attributes
    ----------
    directory : the session directory, absolute.
    columns : (name, unit) of the sample's columns; energy_uj and cpu_ns first.
    groups : of the events of the columns after these two; of each whether it counts on one kind of core only, and
        (column, perf type, config) of its events, where 0 is the first column after the two.
    papi : names of PAPI's events of these columns, if it counts them.
    packages : package of each processor, by its number; -1 for one that is not known.
    native : whether native threads are recorded too.
    stacks : whether the Python stacks of threads are sampled.
    segment_bytes : of the files that each stream leaves one by one; 0: its body is in one file.
    """

    directory: Path
    columns: tuple[tuple[str, str], ...]
    groups: tuple[tuple[bool, tuple[tuple[int, int, int], ...]], ...]
    papi: tuple[str, ...]
    packages: tuple[int, ...]
    native: bool
    stacks: bool = False
    segment_bytes: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the part of the manifest from which a child reads its plan."""
        return {
            "groups": [[part, [list(event) for event in events]] for part, events in self.groups],
            "papi": list(self.papi),
            "packages": list(self.packages),
            "native": self.native,
            "stacks": self.stacks,
            "segment_bytes": self.segment_bytes,
        }

    @classmethod
    def from_manifest(cls, directory: Path) -> Plan:
        """Read the plan of a running session. Raises TraceError."""
        from tprof.trace.manifest import MANIFEST, read_manifest  # noqa: PLC0415 - kept off `import tprof`

        manifest = read_manifest(directory)
        try:
            recorder = manifest["recorder"]
            columns = tuple((str(column["name"]), str(column["unit"])) for column in manifest["columns"])
            groups = tuple(
                (part is True, tuple((int(column), int(kind), int(config)) for column, kind, config in events))
                for part, events in recorder["groups"]
            )
            papi = tuple(str(name) for name in recorder["papi"])
            packages = tuple(array.array("h", [int(package) for package in recorder["packages"]]))
            native, stacks = (recorder.get(name) is True for name in ("native", "stacks"))
            segment_bytes = int(recorder.get("segment_bytes", 0))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise TraceError(
                f"{directory / MANIFEST} is damaged: it does not say what is recorded; record again"
            ) from error
        return cls(directory, columns, groups, papi, packages, native, stacks, segment_bytes)

    def description(self) -> bytes:
        """Return the description of columns in each sample file."""
        columns = [{"name": name, "unit": unit} for name, unit in self.columns]
        return to_json({"columns": columns, "clock": "CLOCK_MONOTONIC"}).encode()

    def native_description(self) -> str | None:
        """Return that of the counters in the file of a process's native threads; None if these are not recorded."""
        columns = [{"name": name, "unit": unit} for name, unit in self.columns[2:]]
        return to_json({"native": "threads", "columns": columns}) if self.native else None


class Membership:
    """The membership of one process in a session, from entering to leaving."""

    def __init__(self, plan: Plan, process: int) -> None:
        """Open the task table; recording starts with `start`. Raises OSError."""
        self.plan = plan
        self.process = process
        self.lost_definitions = 0
        self.on_budget: Callable[[], None] | None = None
        self._meter: Meter | None = None
        self._meter_lock = threading.Lock()
        self._marks: Marks | None = None
        self._stacks: StackSampling | None = None
        self._table = TableFile(plan.directory / "tasks" / f"{process:08d}.jsonl")
        self._closed = False
        self._decisions: TableFile | None = None
        self._decided = 0
        self._deciding = threading.Lock()
        self._keys: JsonLines | None = None
        self._labels = JsonLines(plan.directory / "labels" / f"{process:08d}.jsonl")
        if this_process.labels:
            self.label(this_process.labels)
        this_process.sums = work.Sums()
        this_process.tasks.listen(self._append)
        for other in _core.table_begin(os.fspath(self._table.path)):
            self._write(_foreign(*other))

    def label(self, labels: Mapping[str, str]) -> None:
        """Write labels of this process; a full disk loses them."""
        if not self._closed:
            self._labels.append(labels)

    def decide(self, decision: dict[str, Any]) -> None:
        """Write a decision of a runtime's policy, up to `MAX_DECISIONS` and as far as the disk has space."""
        with self._deciding:
            if self._closed or self._decided > MAX_DECISIONS:
                return
            self._decided += 1
            if self._decided > MAX_DECISIONS:
                decision = {"t_ns": decision["t_ns"], "kind": "cut", "policy": decision["policy"]}
            try:
                if self._decisions is None:
                    directory = self.plan.directory / "decisions"
                    directory.mkdir(mode=0o700, exist_ok=True)
                    self._decisions = TableFile(directory / f"{self.process:08d}.jsonl")
            except OSError:
                self._decided = MAX_DECISIONS + 1
                return
            self._decisions.append(to_json(decision).encode() + b"\n")

    def note_key(self, instance: int, key: str, needs: Sequence[str]) -> None:
        """Write which task of another engine an instance is: its key there, and the keys that it needed."""
        with self._deciding:
            if self._closed:
                return
            if self._keys is None:
                from tprof.trace.directory import KEYS  # noqa: PLC0415 - kept off `import tprof`

                self._keys = JsonLines(self.plan.directory / KEYS / f"{self.process:08d}.jsonl")
            for first in range(0, len(needs) or 1, NEEDS_IN_A_LINE):
                part = [one[:KEY_CHARACTERS] for one in needs[first : first + NEEDS_IN_A_LINE]]
                self._keys.append({"instance": instance, "key": key[:KEY_CHARACTERS], "needs": part})

    def _append(self, definition: Definition) -> None:
        """Write a line at once; on a full disk the trace has `<lost name>` instead."""
        self._write(_whole(definition, self.process))
        if definition.budget is not None and self.on_budget is not None:
            self.on_budget()

    def _write(self, line: dict[str, Any]) -> None:
        if not self._table.append(to_json(line).encode() + b"\n"):
            self.lost_definitions += 1

    def _append_sums(self) -> None:
        """Write the sums of declared work; a full disk loses them."""
        sums, this_process.sums = this_process.sums, None
        for number, sum_ in sums.total().items() if sums is not None else ():
            definition = this_process.tasks.definition_of(number)
            line = {**_named(definition), **work.summed(definition.work, sum_)}
            self._table.append(to_json(line).encode() + b"\n")

    def start(self) -> None:
        """Record from now on."""
        if self.plan.papi:
            from tprof.counters import papi  # noqa: PLC0415 - kept off `import tprof`

            # Without it, as in a child that was forked, the threads of this process have no counters, which the end of
            # the session says.
            with suppress(SensorError):
                papi.begin()
        _core.set_segment_bytes(self.plan.segment_bytes)
        _core.start(
            directory=os.fspath(self.plan.directory),
            process=self.process,
            description=self.plan.description(),
            groups=self.plan.groups,
            papi=self.plan.papi,
            packages=array.array("h", self.plan.packages).tobytes(),
            native=self.plan.native_description(),
        )
        if self.plan.stacks and hasattr(_core, "StackFile"):
            from .stack_sampling import StackSampling  # noqa: PLC0415 - kept off `import tprof`

            self._stacks = StackSampling(self.plan.directory, self.process)

    def meter(self) -> Meter:
        """Return the one meter of the session's joules in this process. Raises TraceError."""
        from tprof.live import Meter  # noqa: PLC0415 - NumPy's threads are not the recorded program's

        with self._meter_lock:
            if self._meter is None:
                self._meter = Meter(self.plan.directory, process=self.process, count_threads=_core.session_threads)
            return self._meter

    def gpu(self) -> Marks:
        """Return this process's marks on its streams of GPUs."""
        from tprof.cuda import Marks  # noqa: PLC0415 - kept off `import tprof`
        from tprof.trace.directory import GPU  # noqa: PLC0415 - see above

        with self._meter_lock:
            if self._marks is None:
                self._marks = Marks(self.plan.directory / GPU / f"{self.process:08d}.jsonl")
            return self._marks

    def stop(self) -> None:
        """End recording, and close the table."""
        self._stop_stacks()
        if self._marks is not None or CUDA_LIBRARIES & sys.modules.keys():
            self.gpu().close()
        _core.stop()
        self.lost_definitions += _core.table_end()
        this_process.tasks.listen(None)
        self._append_sums()
        self.close_table()
        _core.session_leave(self.process)

    def hand_over(self) -> None:
        """Leave the membership to the process's other interpreters: this one ends, the process records on."""
        self._stop_stacks()
        this_process.tasks.listen(None)
        self._append_sums()
        self.close_table()

    def _stop_stacks(self) -> None:
        if self._stacks is not None:
            self._stacks.stop()

    def close_table(self) -> None:
        """Close the tables' descriptors."""
        self._closed = True
        self._table.close()
        self._labels.close()
        if self._decisions is not None:
            self._decisions.close()
        if self._keys is not None:
            self._keys.close()


def _named(definition: Definition) -> dict[str, Any]:
    name = definition.name[:NAME_CHARACTERS]
    place = {"task": definition.number, "name": name, "file": definition.file, "line": definition.line}
    if definition.is_default:
        place["default"] = True
    if definition.library is not None:
        place["library"] = definition.library
    return place if definition.budget is None else {**place, "budget_j": definition.budget[0]}


def _whole(definition: Definition, process: int) -> dict[str, Any]:
    source = definition.source() if process == 0 else None
    return {**_named(definition), "source": source, **work.numbers(definition.work)}


def _foreign(
    number: int,
    name: str,
    file: str | None,
    line: int | None,
    flops: float | None,
    traffic: float | None,
    budget_j: float | None,
) -> dict[str, Any]:
    """Return the line of a task of another interpreter, without its source, which only that one can read."""
    figures = {"flops": flops, "bytes": traffic, "budget_j": budget_j}
    place = {"task": number, "name": name, "file": file, "line": line}
    return {**place, **{key: value for key, value in figures.items() if value is not None}}


def append_to(table: str, definition: Definition) -> None:
    """Write a task into the table of this process, which another interpreter owns."""
    line = _whole(definition, int(Path(table).stem))
    try:
        opened = TableFile(Path(table), new=False)
    except OSError:
        _core.table_lost()
        return
    if not opened.append(to_json(line).encode() + b"\n"):
        _core.table_lost()
    opened.close()


def enter(plan: Plan, process: int) -> Membership:
    """Make this process, with its rank as a label, the member with this ordinal; call `start` then. Raises OSError."""
    from .companions import rank  # noqa: PLC0415 - kept off `import tprof`

    number = rank()
    if number is not None:
        this_process.labels.setdefault("rank", number)
    member = Membership(plan, process)
    this_process.membership = member
    return member
