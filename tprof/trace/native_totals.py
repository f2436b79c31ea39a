"""The CPU time of a process's native threads by the end of a recording: their file is read in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import layout
from .kinds import NativeFlag, NativeKind
from .metadata import MAX_NS

if TYPE_CHECKING:
    from .native import NativeFile

_FOLLOWED = (NativeKind.APPEAR, NativeKind.CLOCK, NativeKind.END)


@dataclass
class NativeTotal:
    """What one native thread used.

    Attributes
    ----------
    tid : of the system
    begin_ns, end_ns : of the time in which it recorded no samples; `MAX_NS`: its end is not known
    cpu_ns : CPU time since the thread began
    joined : whether it recorded samples later, whose clock has this time too
    """

    tid: int = 0
    begin_ns: int = MAX_NS
    end_ns: int = MAX_NS
    cpu_ns: int = 0
    joined: bool = False


def read_totals(file: NativeFile) -> list[NativeTotal]:
    """Return what each native thread used. Raises TraceError."""
    found: dict[int, NativeTotal] = {}
    for records in file.stream.read_pieces(layout.NATIVE, 0, file.stream.count):
        known = np.isin(records["kind"], _FOLLOWED)
        _add(found, records[known if file.until_ns is None else known & (records["t_ns"] <= file.until_ns)])
    return [one for one in found.values() if one.begin_ns < MAX_NS]


def _add(found: dict[int, NativeTotal], records: np.ndarray[Any, np.dtype[np.void]]) -> None:
    kind, flags = records["kind"], records["flags"]
    is_end = kind == NativeKind.END
    numbers, of = np.unique(records["thread"], return_inverse=True)
    # An end that others found has no clock that was read there.
    is_read = ~is_end | (flags & NativeFlag.EXACT != 0)
    used_ns = np.zeros(len(numbers), np.uint64)
    np.maximum.at(used_ns, of[is_read], records["value"][is_read])
    for number, most_ns in zip(numbers.tolist(), used_ns.tolist(), strict=True):
        one = found.setdefault(number, NativeTotal())
        one.cpu_ns = max(one.cpu_ns, min(most_ns, MAX_NS))
    for record in records[is_end | (kind == NativeKind.APPEAR)]:
        one, t_ns = found[int(record["thread"])], min(int(record["t_ns"]), MAX_NS)
        if record["kind"] == NativeKind.APPEAR:
            one.tid, one.begin_ns = int(record["tid"]), t_ns
        else:
            one.end_ns, one.joined = t_ns, bool(record["flags"] & NativeFlag.JOINED)
