"""Sampled stacks of a trace: which Python functions the threads of each process ran, about a hundred times a second.

A file holds records of `layout.STACK`: functions, stacks as a tree of calls, and samples that name a stack.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.errors import TraceError

from . import kinds, layout
from .kinds import StackFlag, StackKind
from .metadata import MAX_NS
from .stream import open_stream
from .thread import MAX_PID

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from .stream import Stream

WORD = "python"
MAX_TEXT_CHARACTERS = 1000
TEXT_BYTES = 16

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


@dataclass(frozen=True)
class Stacks:
    """The sampled stacks of one process.

    Attributes
    ----------
    process, pid : as of its samples
    functions : those that stacks name
    caller : (m,) int64, for each stack that of its innermost function's caller, a smaller number; -1: none
    function : (m,) int64, for each stack the index of its innermost function
    t_ns : (n,) int64, CLOCK_MONOTONIC nanoseconds of each sample, as in the file
    cpu_ns : (n,) int64, nanoseconds of CPU time of the thread until then; 0 if not known
    tid : (n,) int64, the thread, as `Thread.tid`
    stack : (n,) int64, which stack it ran
    left_out : number of records that are damaged
    """

    process: int
    pid: int
    functions: tuple[Function, ...]
    caller: npt.NDArray[np.int64]
    function: npt.NDArray[np.int64]
    t_ns: npt.NDArray[np.int64]
    cpu_ns: npt.NDArray[np.int64]
    tid: npt.NDArray[np.int64]
    stack: npt.NDArray[np.int64]
    left_out: int = 0

    def path(self, stack: int) -> list[int]:
        """Return the functions of a stack as indices, the outermost first."""
        found = []
        while stack >= 0:
            found.append(int(self.function[stack]))
            stack = int(self.caller[stack])
        return found[::-1]


@dataclass(frozen=True)
class StackFile:
    """The file of one process's sampled stacks.

    Attributes
    ----------
    process, pid : of the process
    count : committed records that can be read
    dropped : records that could not be written
    """

    process: int
    pid: int
    count: int
    dropped: int
    stream: Stream = field(repr=False)

    def read(self) -> Stacks:
        """Read the stacks. Raises TraceError."""
        return stacks_of(self.stream.read(layout.STACK), self.process, self.pid)


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
    kind = records["kind"]
    functions, place_of = _functions(records[kind == StackKind.FUNCTION])
    calls = records[kind == StackKind.CALL]
    caller, function, place_of_stack = _calls(calls, place_of)
    samples = records[kind == StackKind.SAMPLE]
    stack = np.array([place_of_stack.get(number, -1) for number in samples["number"].tolist()], np.int64)
    good = (stack >= 0) & (samples["t_ns"] <= MAX_NS) & (samples["cpu_ns"] <= MAX_NS)
    kept = samples[good]
    return Stacks(
        process, pid, functions, caller, function, kept["t_ns"].astype(np.int64), kept["cpu_ns"].astype(np.int64),
        kept["tid"].astype(np.int64), stack[good], len(calls) - len(caller) + len(samples) - len(kept),
    )  # fmt: skip


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


def _calls(records: Records, place_of: dict[int, int]) -> tuple[Integers, Integers, dict[int, int]]:
    """Return the caller and function of each stack, and the index of each number; callers stand before the called."""
    caller: list[int] = []
    function: list[int] = []
    places = {layout.NO_STACK: -1}
    columns = (records[name].tolist() for name in ("number", "other", "cpu_ns"))
    for number, other, called in zip(*columns, strict=True):
        if other in places and called in place_of and number not in places:
            places[number] = len(caller)
            caller.append(places[other])
            function.append(place_of[called])
    del places[layout.NO_STACK]
    return np.array(caller, np.int64), np.array(function, np.int64), places
