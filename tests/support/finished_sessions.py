"""Small recordings that have ended, and the oracle for a changed one: it says so, or it has the same figures."""

from __future__ import annotations

import functools
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tprof
from tprof.trace.compress import compress
from tprof.trace.merge import merge
from tprof.trace.ring import Ring
from tprof.trace.stream_files import PLACES

from . import traces
from .segmented import size_of, split

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "compressed": {"compress": True},
    "kept": {"keep": "summary", "span_s": 0.05},
    "kept-threads": {"keep": "threads", "span_s": 0.05},
    "limited": {},
    "hosts": {},
}


@dataclass(frozen=True)
class Finished:
    """A recording: its files by name, its figures, and what its profile says of it."""

    files: dict[str, bytes]
    figures: str
    said: frozenset[str]


@tprof.task
def step(count: int) -> int:
    return sum(range(count))


def _work(count: int = 1500) -> None:
    threads = [threading.Thread(target=lambda: [step(number % 9) for number in range(count)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with tprof.region("last"):
        step(count)


@functools.cache
def finished(kind: str) -> Finished:
    """Record a session of a kind, once in a process."""
    with tempfile.TemporaryDirectory() as place:
        path = _recorded(Path(place) / "s.tprof", kind)
        figures, said = figures_of(path)
        assert figures is not None, said
        return Finished(traces.contents(path), figures, frozenset(said))


def _recorded(path: Path, kind: str) -> Path:
    with tprof.record(path, energy="estimate", counters="none", **KINDS[kind]):
        _work()
    if kind == "limited":
        split(path, 1024)
        Ring(path, 3 * size_of(path) // 4).keep()
        compress(path)
    if kind == "hosts":
        merge([path], path.with_name("job.tprof"))
        return path.with_name("job.tprof")
    return path


def figures_of(path: Path) -> tuple[str | None, list[str]]:
    """Return the figures of a recording, and the sentences on it; no figures of what is refused by one sentence."""
    try:
        profile = tprof.load(path).profile()
        summary, accounts = profile.summary(), profile.accounts
    except tprof.TprofError as error:
        return None, [str(error)]
    columns = [name for name in ("instances", "energy_j", "dynamic_j", "duration_mean_s") if name in summary]
    figures = summary[columns].to_dict(), accounts.to_dict(), profile.info["quality"]
    return repr(figures), profile.info["warnings"]


def has_checksum(name: str) -> bool:
    """Return whether a file's bytes are checked: all are but the headers and records of uncompressed streams."""
    *_, folder, file = ("", *name.split("/"))
    return folder not in PLACES or file.endswith(".packed")


def check(path: Path, whole: Finished) -> None:
    """Raise AssertionError if a changed session has other figures and does not say why."""
    figures, said = figures_of(path)
    assert figures == whole.figures or set(said) - whole.said, "other figures without a word"
