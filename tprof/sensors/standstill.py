"""Whether counters count: a virtual machine may show its host's registers of energy, and they never move."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tprof import _core
from tprof.trace.plain_values import listed

from .contract import FileReader, Found, LeftOut, Omission, PerfReader, Quality, Unavailable
from .topology import read_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .contract import Domain

LONGEST_S = 0.2
"""A package and its DRAM draw power also while nothing runs, and RAPL's registers move each millisecond."""
STEP_S = 0.0005


def without_still(found: Found) -> Found | Unavailable:
    """Leave out measured domains of the total that the native thread reads and that do not count.

    It returns as soon as all of them have moved, and takes at most about `LONGEST_S`, or twice that if perf counts.
    """
    still = _still([one for one in found.domains if one.counted and one.quality is Quality.MEASURED])
    if not still:
        return found
    kept = tuple(domain for domain in found.domains if domain.name not in still)
    if not any(domain.counted for domain in kept):
        why = f"the counts of {listed(still)} did not move in {LONGEST_S:g} s, as on virtual machines that do not count"
        return Unavailable(why, notable=True)
    why = f"its count did not move in {LONGEST_S:g} s"
    lost = (LeftOut(name, why, Omission.UNREADABLE) for name in still)
    return replace(found, domains=kept, left_out=(*found.left_out, *lost))


def _still(domains: Sequence[Domain]) -> list[str]:
    files = {one.name: Path(one.reader.path) for one in domains if isinstance(one.reader, FileReader)}
    before = {name: read_text(path) for name, path in files.items()}
    deadline_s, is_over = time.monotonic() + LONGEST_S, not files
    while not is_over:
        # Before the last read, so that however late this comes it sees what moved in that time.
        is_over = time.monotonic() >= deadline_s
        files = {name: path for name, path in files.items() if read_text(path) == before[name]}
        is_over |= not files
        time.sleep(0 if is_over else STEP_S)
    events = {one.name: one.reader for one in domains if isinstance(one.reader, PerfReader)}
    return [*files, *(name for name, event in events.items() if not _counts(event, LONGEST_S / len(events)))]


def _counts(event: PerfReader, longest_s: float) -> bool:
    """Return whether an event, which begins at 0, counts something."""
    counted = _core.perf_open_probe(
        type=event.type, config=event.config, pid=-1, cpu=event.cpu, exclude_kernel=False,
        longest_ns=round(longest_s * 1e9),
    )  # fmt: skip
    return counted[1] > 0
