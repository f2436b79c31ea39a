"""Sampled stacks of a trace: which Python functions the threads of each process ran, about a hundred times a second.

A file holds records of `layout.STACK`: functions, stacks as a tree of calls, and samples that name a stack.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tprof.errors import TraceError

from . import kinds, layout
from .kinds import StackFlag, StackKind
from .metadata import MAX_NS
from .stream import open_stream
from .thread import MAX_PID

if TYPE_CHECKING:
    from pathlib import Path

    from .stream import Stream

WORD = "python"
MAX_TEXT_CHARACTERS = 1000
TEXT_BYTES = 16
BLOCK = 1 << 18
"""Records that are in memory at a time."""

Records = np.ndarray[Any, np.dtype[np.void]]
Integers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Function:
    """A Python function.

    Attributes
    ----------
    name : with the classes and functions around it, as `__qualname__`
    file, line : where it begins; "" and 0 if not known
    is_own : whether it is one of tprof itself
    is_cut : whether it stands for callers that were not recorded, of a very deep stack
    """

    name: str
    file: str
    line: int
    is_own: bool = False
    is_cut: bool = False


class Samples(NamedTuple):
    """Sampled stacks of some threads of a process, (n,) int64 each, in the order of the file.

    Attributes
    ----------
    t_ns : CLOCK_MONOTONIC nanoseconds of each sample
    cpu_ns : nanoseconds of CPU time of the thread until then; 0 if not known
    tid : the thread, as `Thread.tid`
    stack : which stack it ran
    """

    t_ns: Integers
    cpu_ns: Integers
    tid: Integers
    stack: Integers


@dataclass(frozen=True)
class Calls:
    """The functions of one process, and the stacks in which they call each other.

    Attributes
    ----------
    process, pid : as of its samples
    functions : those that stacks name
    caller : (m,) int64, for each stack that of its innermost function's caller, a smaller number; -1: none
    function : (m,) int64, for each stack the index of its innermost function
    number, place : (m,) int64, what samples call stacks, increasing, and which stacks these are
    left_out : number of records that are damaged
    """

    process: int
    pid: int
    functions: tuple[Function, ...]
    caller: Integers
    function: Integers
    number: Integers = field(repr=False)
    place: Integers = field(repr=False)
    left_out: int = field(default=0, kw_only=True)

    def path(self, stack: int) -> list[int]:
        """Return the functions of a stack as indices, the outermost first."""
        found = []
        while stack >= 0:
            found.append(int(self.function[stack]))
            stack = int(self.caller[stack])
        return found[::-1]

    def samples(self, records: Records) -> Samples:
        """Return the samples among records of `layout.STACK`; damaged ones and those of unknown stacks are left out."""
        samples = records[records["kind"] == StackKind.SAMPLE]
        if not len(self.number):
            return Samples(*(np.empty(0, np.int64) for _ in Samples._fields))
        at = np.minimum(np.searchsorted(self.number, samples["number"]), len(self.number) - 1)
        good = (self.number[at] == samples["number"]) & (samples["t_ns"] <= MAX_NS) & (samples["cpu_ns"] <= MAX_NS)
        kept = samples[good]
        t_ns, cpu_ns, tid = (kept[name].astype(np.int64) for name in ("t_ns", "cpu_ns", "tid"))
        return Samples(t_ns, cpu_ns, tid, self.place[at[good]])


@dataclass(frozen=True)
class Stacks(Calls):
    """The sampled stacks of one process.

    Attributes
    ----------
    t_ns, cpu_ns, tid, stack : (n,) int64, as of `Samples`
    """

    t_ns: Integers
    cpu_ns: Integers
    tid: Integers
    stack: Integers


@dataclass(frozen=True)
class StackFile:
    """The file of one process's sampled stacks.

    Attributes
    ----------
    process, pid : of the process
    count : committed records that can be read
    dropped : records that could not be written
    until_ns : samples of later times are left out
    """

    process: int
    pid: int
    count: int
    dropped: int
    stream: Stream = field(repr=False)
    until_ns: int = MAX_NS

    def read(self) -> Stacks:
        """Read the stacks. Raises TraceError."""
        return stacks_of(self._until(self.stream.read(layout.STACK)), self.process, self.pid)

    def calls(self) -> Calls:
        """Read the stacks without the samples. Raises TraceError."""
        others = [np.empty(0, layout.STACK)]
        for first in range(0, self.count, BLOCK):
            records = self.stream.read_part(layout.STACK, first, first + BLOCK)
            others.append(records[records["kind"] != StackKind.SAMPLE])
        return calls_of(np.concatenate(others), self.process, self.pid)

    def samples(self, calls: Calls, first: int, stop: int) -> Samples:
        """Read the samples among some records. Raises TraceError."""
        return calls.samples(self._until(self.stream.read_part(layout.STACK, first, stop)))

    def _until(self, records: Records) -> Records:
        if self.until_ns == MAX_NS:
            return records
        kept: Records = records[(records["kind"] != StackKind.SAMPLE) | (records["t_ns"] <= self.until_ns)]
        return kept


def open_stacks(path: Path) -> StackFile:
    """Open a file of sampled stacks. Raises TraceError."""
    stream = open_stream(path, kinds.StreamKind.STACKS)
    described = stream.description.get("stacks")
    if described != WORD:
        raise TraceError(f"{path} holds stacks of {described!r}, of which this tprof knows nothing")
    number = stream.number
    pid = number("pid") if number("pid") <= MAX_PID else 0
    return StackFile(number("process"), pid, stream.count, number("dropped_enospc") + number("dropped_io"), stream)


def stacks_of(records: Records, process: int, pid: int) -> Stacks:
    """Put a file's records together; what names an unknown function or stack is left out.

    Parameters
    ----------
    records : (n,) of `layout.STACK`, in the order of the file
    process, pid : of the process
    """
    calls = calls_of(records, process, pid)
    samples = calls.samples(records)
    left_out = calls.left_out + int(np.count_nonzero(records["kind"] == StackKind.SAMPLE)) - len(samples.stack)
    return Stacks(**(vars(calls) | samples._asdict() | {"left_out": left_out}))


def calls_of(records: Records, process: int, pid: int) -> Calls:
    """Put a file's functions and calls together; callers stand before the called. The parameters are as above."""
    kind = records["kind"]
    functions, place_of = _functions(records[kind == StackKind.FUNCTION])
    calls = records[kind == StackKind.CALL]
    places = {layout.NO_STACK: -1}
    found: list[tuple[int, int, int]] = []
    for number, other, called in zip(*(calls[name].tolist() for name in ("number", "other", "cpu_ns")), strict=True):
        if other in places and called in place_of and number not in places:
            places[number] = len(found)
            found.append((places[other], place_of[called], number))
    caller, function, numbers = np.array(found, np.int64).reshape(-1, 3).T
    place = np.argsort(numbers)
    return Calls(process, pid, functions, caller, function, numbers[place], place, left_out=len(calls) - len(found))


def _functions(records: Records) -> tuple[tuple[Function, ...], dict[int, int]]:
    """Return the functions, and the index of each number."""
    parts: dict[int, list[tuple[int, bytes]]] = {}
    flags: dict[int, int] = {}
    at = layout.STACK.fields["cpu_ns"][1] if layout.STACK.fields else 0
    for record in records:
        number = int(record["number"])
        parts.setdefault(number, []).append((int(record["part"]), record.tobytes()[at : at + TEXT_BYTES]))
        flags[number] = int(record["flags"])
    texts = {number: b"".join(text for _, text in sorted(found)) for number, found in parts.items()}
    functions = tuple(_function(texts[number], flags[number]) for number in texts)
    return functions, {number: place for place, number in enumerate(texts)}


def _function(text: bytes, flags: int) -> Function:
    name, _, rest = text.split(b"\0")[0].decode("utf-8", "replace").partition("\n")
    line, _, file = rest.partition("\n")
    number = int(line) if line.isascii() and line.isdigit() and len(line) < 10 else 0
    return Function(
        name[:MAX_TEXT_CHARACTERS], file[-MAX_TEXT_CHARACTERS:], number,
        is_own=bool(flags & StackFlag.OWN), is_cut=bool(flags & StackFlag.CUT),
    )  # fmt: skip
