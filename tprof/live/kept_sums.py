"""Keeps the sums of a recording that runs, and gives the samples and readings back that they were made of.

A block is written at the end of each span. What was followed by then is freed one block later: whoever follows the
recording, and whoever goes on after a killed keeper, begins at the end of the last block and finds all samples since.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tprof.analysis.attribution.instance_bounds import bounds
from tprof.analysis.attribution.instance_sums import joined, joined_domains
from tprof.errors import TraceError
from tprof.trace.estimate import most_watts
from tprof.trace.freeing import remove_records, remove_stream
from tprof.trace.layout import NO_TASK
from tprof.trace.manifest import read_manifest
from tprof.trace.metadata import MAX_NS, sound_manifest, start_ns_of
from tprof.trace.sums import DOMAIN_SUMS, NO_THREAD, TASK_SUMS, THREAD, THREADS, Block, SumsFile, SumsReader

from .domains import RunningDomains
from .meter import Meter
from .sharing import joules_of_segments
from .watch import records_into

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from . import sharing
    from .threads import FollowedThread

Floats = NDArray[np.float64]
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
    open_count : number of instances that have not ended
    until_ns : up to when the sums are written
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
        self.session, self._frees, self._left_processes = session, frees, left
        self.problem: OSError | None = None
        manifest, _ = sound_manifest(read_manifest(session))
        self._file = SumsFile(session, start_ns_of(manifest) or 0, span_ns)
        resume_ns = self._file.until_ns
        self.until_ns = self._file.begin_ns if resume_ns is None else resume_ns
        self._before_ns = -1 if resume_ns is None else resume_ns
        domains = manifest.get("domains", ())
        self._places = {str(one.get("name")): place for place, one in enumerate(domains)}
        qualities = {str(one.get("quality")) for one in domains if one.get("counted")}
        self._most_w = most_watts(manifest) if qualities == {"estimated"} else np.inf
        self._by_thread = manifest.get("keep") == THREADS
        blocks = SumsReader(session).blocks()
        self._named = {(one["process"], one["thread"]) for block in blocks for one in block.threads}
        self._rows: list[Table] = []
        self._open: Table = np.empty(0, TASK_SUMS)
        self.open_count = 0
        self._domains: list[Table] = []
        self._followed: dict[Path, int] = {}
        self._removable: list[FollowedThread] = []
        self._meter = Meter(
            session,
            has_clock=partial(records_into, session=session),
            is_over=is_over and resume_ns is None,
            keeper=self._add,
            resume_ns=resume_ns,
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written yet."""
        return self._file.until_ns is None

    def step(self) -> bool:
        """Follow a part of the recording; returns whether there is more. Raises TraceError."""
        at_ns = self._meter.until_ns
        more = self._meter.step(min(LONGEST_STEP_NS, self._end_of_span(at_ns) - at_ns))
        if self._meter.until_ns >= self._end_of_span(self.until_ns):
            self._write()
        return more

    def finish(self) -> None:
        """Follow what is left of a session that has ended, and write its sums. Raises TraceError."""
        while self.step():
            pass
        self._meter.finish()
        self._rows.append(joined([self._open]))
        self.open_count = 0
        self._write()
        if self.problem is None:
            try:
                self._file.end(self.until_ns)
            except OSError as error:
                self.problem = error

    def _span_of(self, t_ns: int) -> int:
        """Return the number of the span in which a time lies."""
        return max(t_ns - self._file.begin_ns, 0) // self._file.span_ns

    def _end_of_span(self, t_ns: int) -> int:
        return self._file.begin_ns + (self._span_of(t_ns) + 1) * self._file.span_ns

    def _add(self, block: sharing.Block) -> None:
        """Add what a block gave."""
        ran, records = block.ran, block.records
        # What each thread ran of a task, of segments that begin in the block.
        thread = ran.joints.of_segments(np.array(ran.numbers, np.int64))
        own = (ran.slot > 0) & (ran.t_ns[:-1] >= block.own_ns[0]) & (ran.t_ns[:-1] < block.own_ns[1])
        pairs, place = np.unique(np.stack((thread, ran.owners.task[ran.slot])), axis=1, return_inverse=True)
        of_parts, place = self._keyed(block, *pairs), place.ravel()
        sums = {"cpu_s": np.where(own, ran.cpu_s, 0.0), "own_s": np.where(own, np.diff(ran.t_ns) * 1e-9, 0.0)}
        for one in block.shared:
            self._add_domain(one)
            joules = () if one.plan is None else joules_of_segments(one.plan)
            for name, values in zip(("energy_j", "dynamic_j"), joules, strict=False):
                sums[name] = sums.get(name, 0.0) + np.where(ran.slot > 0, values, 0.0)
        for name, values in sums.items():
            of_parts[name] = np.bincount(place, weights=values, minlength=len(of_parts))
        begun, ended = (self._keyed(block, records["thread"], records["task"]) for _ in range(2))
        begun["begun"] = block.new & (records["start_ns"] > self._before_ns)
        duration_s = (records["end_ns"] - records["start_ns"]) * 1e-9
        energy_j = records["dynamic_j"] + records["static_j"]
        half_j, resolved = self._bounds(block, energy_j)
        ended["ended"], ended["ended_s"], ended["resolved"] = 1, duration_s, resolved
        ended["resolved_j"], ended["resolved_s"] = energy_j * resolved, duration_s * resolved
        ended["half_j2"] = half_j**2 * resolved
        rows = np.concatenate((of_parts, begun, ended[block.over]))
        self._rows.append(joined([rows[rows["task"] != NO_TASK]]))
        self.open_count = int(np.count_nonzero(~block.over))
        is_open = ~block.over & (records["task"] != NO_TASK)
        self._open = ended[is_open]  # of a session that ends here, each has ended where its last segment did

    def _keyed(self, block: sharing.Block, thread: NDArray[np.integer], task: NDArray[np.uint32]) -> Table:
        rows, processes = np.zeros(len(task), TASK_SUMS), self._meter.threads.processes
        rows["span"], rows["task"] = self._span_of(block.own_ns[0]), task
        rows["process"] = [processes[one] for one in thread.tolist()]
        rows["thread"] = thread if self._by_thread else NO_THREAD
        return rows

    def _add_domain(self, one: sharing.SharedDomain) -> None:
        """Add what a domain measured in a block, and where it went."""
        if one.name in self._places and len(one.quanta):
            edges_ns = one.quanta.edges_ns
            tasks_j, runtime_j, other_j, idle_j, *native_j = one.sums.tolist()
            joules = float(one.quanta.energy_j.sum()), tasks_j, runtime_j + sum(native_j), other_j, idle_j
            seconds = float(edges_ns[-1] - edges_ns[0]) * 1e-9
            row = self._span_of(int(edges_ns[0])), self._places[one.name], seconds, *joules
            self._domains.append(np.array([row], DOMAIN_SUMS))

    def _bounds(self, block: sharing.Block, energy_j: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return half the bounds of instances, as those of a profile, and whether any quantum holds them."""
        kept, domains = list(block.table.sums.values()), self._meter.domains
        measured_ns = [(0, MAX_NS)] * len(kept)
        low_j, high_j, covered = bounds(kept, measured_ns, block.records, packages=len(domains.packages) > 1)
        high_j = energy_j + high_j
        if np.isfinite(self._most_w):
            high_j = np.minimum(high_j, self._most_w * block.records["own_s"])
        return (np.maximum(high_j, energy_j) - np.clip(energy_j + low_j, 0.0, energy_j)) / 2, covered

    def remove_streams(self) -> None:
        """Remove all samples and readings, of which the sums are written."""
        for place in STREAMS:
            for path in (self.session / place).glob("*"):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self) -> None:
        """Write a block; without space for it, its sums go into the next one."""
        rows, self._domains = joined(self._rows), [joined_domains(self._domains)]
        until_ns = self._meter.until_ns
        self._rows = [rows]
        if until_ns <= self.until_ns and not len(rows):
            return
        new = self._new_threads()
        try:
            self._file.append(Block(self.until_ns, until_ns, self._numbered(rows), self._domains[0], new))
        except OSError as error:
            self.problem = error
            if len(rows) > MOST_PENDING:
                rows["span"] = rows["span"].min()
            return
        self.problem, self.until_ns, self._rows, self._domains = None, until_ns, [], []
        self._named |= set(zip(new["process"].tolist(), new["thread"].tolist(), strict=True))
        self._free()

    def _new_threads(self) -> Table:
        """Return the threads that no block names yet, if threads are kept."""
        followed = (*self._meter.threads.followed, *(self._meter.left or ())) if self._by_thread else ()
        threads = [one.thread for one in followed]
        new = [one for one in threads if (one.process, one.ordinal) not in self._named]
        return np.array([(one.process, one.ordinal, one.tid, one.name.encode()[:32]) for one in new], THREAD)

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
        if not (self._frees and isinstance(meter.domains, RunningDomains)):
            return
        for path, count in self._followed.items():
            with suppress(FileNotFoundError):
                remove_records(path, count)
        for thread in self._removable:
            remove_stream(thread.path)
            meter.forget(thread)
        self._free_events()
        with suppress(TraceError):
            meter.leave_processes(self._left_processes())
        self._removable, meter.left = meter.left or [], []
        self._followed = {one.path: one.done for one in meter.threads.followed} | meter.domains.read_counts()

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
