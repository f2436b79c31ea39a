"""What a trace names, and has no file for: somebody removed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .plain_values import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path


def missing_threads(end: Mapping[str, Any], gone: int, files: Collection[Path]) -> Iterator[str]:
    """Yield a sentence if there are fewer files of samples than threads that recorded; older traces do not say.

    A limit of the size removed those of `gone` threads.
    """
    written = int(end.get("thread_count", 0)) - int(end.get("lost_threads", 0)) - gone
    if written > len(files):
        what = f"threads/ lacks {written - len(files)} of {counted(written, 'file')} of samples"
        yield f"{what}: what their threads ran is not in the figures"


def missing_readings(manifest: Mapping[str, Any], end: Mapping[str, Any], known: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each domain of a recording that ended which has no readings.

    Parameters
    ----------
    manifest, end : of the trace; a recording that was killed may have begun to read none of its sensors
    known : names of readings that are there, and of files
    """
    named = [one.get("name") for one in manifest.get("domains", ()) if isinstance(one, dict)] if end else []
    for name in dict.fromkeys(one for one in named if isinstance(one, str) and one not in known):
        yield f"the file of readings of {name} is missing in readings/: its joules are not in the figures"


def missing_tables(processes: Collection[int]) -> Iterator[str]:
    """Yield a sentence if processes have samples of tasks, but no table of these."""
    if processes:
        numbers = ", ".join(map(str, sorted(processes)))
        yield f"the table of tasks of process {numbers} is missing in tasks/: its tasks have no names"
