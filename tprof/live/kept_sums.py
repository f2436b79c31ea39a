"""Keeps the sums of a recording that runs, and gives the samples and readings back that they were made of.

A block is written at the end of each span. What was followed by then is freed one block later: whoever follows the
recording, and whoever goes on after a killed keeper, begins at the end of the last block and finds all samples since.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tprof.analysis.attribution.instance_sums import joined
from tprof.errors import TraceError
from tprof.trace.freeing import remove_records, remove_stream
from tprof.trace.manifest import read_manifest
from tprof.trace.metadata import sound_manifest, start_ns_of
from tprof.trace.sums import DOMAIN_SUMS, THREAD, THREADS, Block, SumsFile, SumsReader

from .kept_rows import KeptRows
from .meter import Meter
from .processes import records_into
from .readings import RunningReadings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from .blocks import FollowedThread

    Table = NDArray[np.void]

STREAMS = ("threads", "readings", "graph")
MOST_PENDING = 100_000
"""Rows that wait for space on the disk; of more, all wait as those of one span."""
LONGEST_STEP_NS = 500_000_000


class KeptSums:
    """The sums of a session, made in steps by the one process that keeps them.

    Attributes
    ----------
    problem : why the last block could not be written; None: it was
    """

    def __init__(
        self,
        session: Path,
        span_ns: int,
        *,
        is_over: bool = False,
        frees: bool = True,
        left: Callable[[], Collection[int]] = tuple,
    ) -> None:
        """Begin where the last block of the session ends, or at its begin. Raises TraceError and OSError.

        With `is_over` nothing more is written into the session; if nothing was kept of it yet, its figures are then
        exactly those of the profile. Without `frees` samples stay. `left` returns the numbers
        of the session's processes that have left it.
        """
        self.session, self._frees, self._left = session, frees, left
        self.problem: OSError | None = None
        manifest, _ = sound_manifest(read_manifest(session))
        self._file = SumsFile(session, start_ns_of(manifest) or 0, span_ns)
        resume_ns = self._file.until_ns
        self._written_ns = self._resumed_ns = self._file.begin_ns if resume_ns is None else resume_ns
        self._places = {str(one.get("name")): place for place, one in enumerate(manifest.get("domains", ()))}
        by_thread = manifest.get("keep") == THREADS
        self._sums = KeptRows(self._file.begin_ns, self._file.span_ns, by_thread=by_thread, resume_ns=resume_ns)
        self._named = {(one["process"], one["thread"]) for one in _threads_in(session)} if by_thread else None
        self._meter = Meter(
            session,
            has_clock=partial(records_into, session=session),
            is_over=is_over and resume_ns is None,
            sums=self._sums,
            by_thread=by_thread,
            resume_ns=resume_ns,
        )
        self._domains: list[Table] = []
        self._known: dict[str, tuple[int, float, tuple[float, ...]]] = {}
        self._followed: dict[Path, int] = {}
        self._removable: list[FollowedThread] = []

    @property
    def until_ns(self) -> int:
        """Up to when the sums are written."""
        return self._written_ns

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written yet."""
        return self._file.until_ns is None

    @property
    def open_count(self) -> int:
        """Number of instances that have not ended."""
        return self._sums.open_count

    def step(self) -> bool:
        """Follow a part of the recording; returns whether there is more. Raises TraceError."""
        at_ns = self._meter.until_ns
        span_end_ns = self._begin_of(self._sums.span_of(at_ns) + 1)
        more = self._meter.step(min(LONGEST_STEP_NS, span_end_ns - at_ns))
        self._note_domains()
        if self._meter.until_ns >= self._begin_of(self._sums.span_of(self._written_ns) + 1):
            self._write()
        return more

    def finish(self) -> None:
        """Follow what is left of a session that has ended, and write its sums. Raises TraceError."""
        while self.step():
            pass
        self._meter.finish()
        self._sums.finish()
        self._write()
        if self.problem is None:
            try:
                self._file.end(self._written_ns)
            except OSError as error:
                self.problem = error

    def remove_streams(self) -> None:
        """Remove all samples and readings, of which the sums are written."""
        for place in STREAMS:
            for path in (self.session / place).glob("*"):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _begin_of(self, span: int) -> int:
        return self._file.begin_ns + span * self._file.span_ns

    def _note_domains(self) -> None:
        """Add what the domains measured in a step, and where it went."""
        readings, parts = self._meter.readings, self._meter.by_domain()
        for shown in readings.shown:
            quanta = shown.quanta
            last_ns = quanta.first_ns if shown.counted else quanta.last_ns
            last_ns = (quanta.last_ns if last_ns is None else last_ns) or 0
            now = (last_ns, quanta.known_j - quanta.lead_in_j, parts.get(shown.name, ()))
            begin_ns, before_j, before = self._known.get(shown.name, (self._resumed_ns, 0.0, ()))
            self._known[shown.name] = now
            if shown.name not in self._places or last_ns <= begin_ns:
                continue
            row = np.zeros(1, DOMAIN_SUMS)
            row["span"], row["domain"] = self._sums.span_of(begin_ns), self._places[shown.name]
            row["seconds"], row["measured_j"] = (last_ns - begin_ns) * 1e-9, now[1] - before_j
            if shown.counted:
                tasks_j, runtime_j, other_j, idle_j, *native_j = np.array(now[2]) - np.array(before or (0.0,) * 6)
                row["tasks_j"], row["runtime_j"] = tasks_j, runtime_j + sum(native_j)
                row["other_j"], row["idle_j"] = other_j, idle_j
                row["measured_j"] = sum(now[2]) - sum(before)
            self._domains.append(row)

    def _write(self) -> None:
        """Write a block; without space for it, its sums go into the next one."""
        rows, domains = self._sums.take(), joined_domains(self._domains)
        until_ns = self._meter.until_ns
        if until_ns <= self._written_ns and not len(rows):
            return
        self._domains = [domains]
        try:
            self._file.append(Block(self._written_ns, until_ns, self._numbered(rows), domains, self._new_threads()))
        except OSError as error:
            self.problem = error
            if len(rows) > MOST_PENDING:
                rows["span"] = rows["span"].min()
            self._sums.put_back(joined([rows]))
            return
        self.problem, self._domains, self._written_ns = None, [], until_ns
        if self._named is not None:
            self._named |= {(one.process, one.ordinal) for one in self._followed_threads()}
        self._free()

    def _followed_threads(self) -> Iterable[FollowedThread]:
        return (*self._meter.threads, *self._meter.left)

    def _new_threads(self) -> Table:
        """Return the threads that no block names yet, if threads are kept."""
        if self._named is None:
            return np.empty(0, THREAD)
        new = [one for one in self._followed_threads() if (one.process, one.ordinal) not in self._named]
        rows = [(one.process, one.ordinal, one.tid, one.name.encode()[:32]) for one in new]
        return np.array(rows, THREAD)

    def _numbered(self, rows: Table) -> Table:
        """Return rows with the numbers that tasks have in the tables of their processes."""
        found = rows.copy()
        for process in np.unique(rows["process"]).tolist():
            numbers = {index: number for number, index in self._meter.table.numbers(process).items()}
            mine = rows["process"] == process
            found["task"][mine] = [numbers[index] for index in rows["task"][mine].tolist()]
        return found

    def _free(self) -> None:
        """Free what was followed at the block before, and remove the files of threads that had ended then."""
        meter = self._meter
        if not (self._frees and isinstance(meter.readings, RunningReadings)):
            return
        for path, count in self._followed.items():
            with suppress(FileNotFoundError):
                remove_records(path, count)
        for thread in self._removable:
            remove_stream(thread.stream.path)
            meter.forget(thread)
        self._free_events()
        with suppress(TraceError):
            meter.leave_processes(self._left())
        self._removable, meter.left = meter.left, []
        self._followed = {one.stream.path: one.done for one in meter.threads} | meter.readings.read_counts()

    def _free_events(self) -> None:
        """Remove the events of a task runtime, of which nothing is kept."""
        for path in (self.session / "graph").glob("*.events"):
            if remove_records(path):
                remove_stream(path)


def finish_keeping(session: Path, kept: KeptSums | None = None) -> None:
    """Write the last sums of a recording that has ended, and remove its samples.

    Parameters
    ----------
    session : whose lock of helpers this process holds
    kept : who kept its sums so far; None: nobody is left who did

    Raises
    ------
    TraceError
        If its samples cannot be read.
    OSError
        If the sums cannot be written, as on a full disk: the samples stay.
    """
    span_ns = round(float(read_manifest(session)["span_s"]) * 1e9)
    kept = kept or KeptSums(session, span_ns)
    try:
        if kept.is_empty:
            kept.close()
            kept = KeptSums(session, span_ns, is_over=True)
        kept.finish()
        if kept.problem is not None:
            raise kept.problem
        kept.remove_streams()
    finally:
        kept.close()


def _threads_in(session: Path) -> list[np.void]:
    return [one for block in SumsReader(session).blocks() for one in block.threads]


def joined_domains(tables: Iterable[Table]) -> Table:
    """Return one row for each domain and span of tables of `DOMAIN_SUMS`."""
    rows = np.concatenate([np.empty(0, DOMAIN_SUMS), *tables])
    keys, place = np.unique(np.column_stack((rows["span"], rows["domain"])), axis=0, return_inverse=True)
    found = np.zeros(len(keys), DOMAIN_SUMS)
    found["span"], found["domain"] = keys[:, 0], keys[:, 1]
    for name in (DOMAIN_SUMS.names or ())[2:]:
        found[name] = np.bincount(place.ravel(), weights=rows[name], minlength=len(keys))
    return found
