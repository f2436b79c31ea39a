"""A sweep from its preparation to its last run: what can be set, the plan, then setting, settling and recording."""

from __future__ import annotations

import os
import random
import shutil
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tprof.errors import SensorError, TprofError, TraceError
from tprof.frequency import Bounds, Guard, Policy, find_policies, hold, read_bounds, refusal
from tprof.sensors.choose import sysroot
from tprof.session.recording import OWN_RECORDING
from tprof.trace import load_session
from tprof.trace.manifest import read_end
from tprof.trace.plain_values import counted

from . import child, folder
from .folder import POINTS, PROGRAM, WARM_UP, digest, earlier, identity_of
from .frequencies import clamped, shown, visited
from .output import host_warnings, is_simulated, outside_tasks, read_rows, write_output, write_rows
from .plan import DONE, FAILED, Plan, Point, save_plan
from .sweep_tables import Row, at, rows_of
from .temperature import Settled, find_sensor, read_c, settle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .order import Order


MOST_FAILURES = 3
"""So many runs in a row that fail end a sweep: the next would, too."""
MOST_SHOWN = 3
SEEDS = 1 << 32


class SweepReporter(Protocol):
    """What a sweep reports while it runs."""

    def begin(self, point: Point | None, left_s: float | None) -> None:
        """Report that a run begins (None: the warm-up), and how long all that is left takes, where that is known."""

    def note(self, text: str) -> None:
        """Report what a user must know."""


@dataclass
class Sweep:
    """A sweep that can run.

    Attributes
    ----------
    policies : what is held at each point's frequency; none where only workers are swept.
    notes : what a user must know beforehand.
    continues : whether some points were run before.
    claim : on the folder; released when the sweep has run.
    """

    order: Order
    plan: Plan
    policies: tuple[Policy, ...]
    notes: list[str] = field(default_factory=list)
    continues: bool = False
    claim: ExitStack = field(default_factory=ExitStack)

    def run(self, report: SweepReporter) -> tuple[Path, ...]:
        """Run what waits, write the tables after each point, and return the files.

        The former frequencies are back when this returns or raises, and shortly after this process was killed. A run
        that fails does not keep the others from running; see `failures`.

        Raises
        ------
        TprofError
            If runs fail one after the other, a file cannot be written or a frequency not be restored; what is done is
            kept.
        """
        with self.claim:
            for text in self.notes:
                report.note(text)
            if self.plan.waiting:
                with Guard(self.policies) as guard:
                    _Runner(self, guard, report).run()
            files = self.write(page=True)
            self.plan.written = True
            save_plan(self.plan, self.order.folder)
            return files

    @property
    def failures(self) -> str | None:
        """Which runs failed, and how; None where none did."""
        failed = self.plan.failed
        if not failed:
            return None
        failures = "; ".join(f"{point.name}: {point.facts['why']}" for point in failed[:MOST_SHOWN])
        more = f"; and {len(failed) - MOST_SHOWN} more" if len(failed) > MOST_SHOWN else ""
        what = f"{len(failed)} of {counted(len(self.plan.points), 'run')} failed"
        return f"{what}, the same command tries them again ({failures}{more})"

    def write(self, *, page: bool) -> tuple[Path, ...]:
        """Write the tables of what is done; with `page` all files. Raises TprofError."""
        return write_output(self.order.folder, self.plan, self.policies, self.rows(), page=page)

    def rows(self) -> list[Row]:
        """Return the rows of what is done, by task and setting."""
        rows: list[Row] = []
        for point in self.plan.done:
            rows += at(read_rows(self.order.folder, point), point.frequency_hz, point.workers, point.repeat)
        return sorted(rows, key=_place)


def _place(row: Row) -> tuple[Any, ...]:
    return row["task"] != "", row["task"], -(row["setting"] or 0), row["workers"], row["repeat"]


class _Runner:
    """The loop's state: what the points took so far, how many failed in a row, and the temperature's sensor."""

    def __init__(self, sweep: Sweep, guard: Guard, report: SweepReporter) -> None:
        self._sweep, self._guard, self._report = sweep, guard, report
        self._folder = sweep.order.folder
        self._sensor = find_sensor(sysroot()) if sweep.order.settle_s else None
        self._lasted_s = [float(point.facts["lasted_s"]) for point in sweep.plan.done]
        self._warm = False
        self._failed_in_a_row = 0
        self._warned: set[str] = set()

    def run(self) -> None:
        """Run a warm-up, then every point that waits."""
        for point in self._sweep.plan.waiting:
            try:
                self._warm_up(point)
                self._report.begin(point, self._left_s())
                begin_s = time.monotonic()
                point.facts = self._point(point)
                point.facts["lasted_s"] = time.monotonic() - begin_s
            except (child.RunError, SensorError, TraceError) as error:
                self._fail(point, error)
                continue
            point.state = DONE
            self._failed_in_a_row = 0
            self._lasted_s.append(point.facts["lasted_s"])
            self._keep(point)

    def _warm_up(self, point: Point) -> None:
        if self._warm:
            return
        self._report.begin(None, self._left_s())
        self._hold(point)
        self._record(point, WARM_UP)
        shutil.rmtree(self._session(WARM_UP), ignore_errors=True)
        self._warm = True

    def _fail(self, point: Point, error: TprofError) -> None:
        point.state, point.facts = FAILED, {"why": str(error)}
        save_plan(self._sweep.plan, self._folder)
        self._failed_in_a_row += 1
        if self._failed_in_a_row == MOST_FAILURES and self._sweep.plan.waiting:
            raise TprofError(f"{MOST_FAILURES} runs failed one after the other, the last: {error}") from error
        self._report.note(f"{point.name}: {error}")

    def _keep(self, point: Point) -> None:
        """Save what came of a point; at the end of each round also the page, to read meanwhile."""
        save_plan(self._sweep.plan, self._folder)
        self._sweep.write(page=all(other.repeat > point.repeat for other in self._sweep.plan.waiting))

    def _point(self, point: Point) -> dict[str, Any]:
        bounds = self._hold(point)
        settled = None if self._sensor is None else settle(self._sensor, self._sweep.order.settle_s)
        self._record(point, point.name)
        ended_c = None if self._sensor is None else read_c(self._sensor)
        warnings = self._judged(point, bounds, settled)
        profile = load_session(self._session(point.name)).profile(self._sweep.plan.what.model)
        warnings += host_warnings(profile) if is_simulated() else []
        warnings += [*map(str, profile.info["warnings"]), *outside_tasks(profile)]
        write_rows(self._folder, point, rows_of(profile))
        self._warn(point, warnings)
        names = [policy.folder.name for policy in self._sweep.policies]
        return {
            "held": {name: asdict(taken) for name, taken in zip(names, bounds, strict=False)},
            "settled": None if settled is None else asdict(settled),
            "ended_c": ended_c,
            "model": str(profile.info["model"]),
            "quality": str(profile.info["quality"]),
            "sensor": str(profile.info["sensor"]),
            "warnings": warnings,
        }

    def _warn(self, point: Point, warnings: Sequence[str]) -> None:
        """Report each once; the page names every run that it is about."""
        for text in warnings:
            if text not in self._warned:
                self._warned.add(text)
                self._report.note(f"{point.name}: {text}")

    def _hold(self, point: Point) -> list[Bounds]:
        if point.frequency_hz is None:
            return []
        return [hold(policy, point.frequency_hz) for policy in self._sweep.policies]

    def _record(self, point: Point, name: str) -> None:
        words = child.command(self._sweep.plan.what, point.workers, self._session(name))
        log = self._folder / POINTS / f"{point.name}.log"
        child.run(words, point.workers, log, guard=self._guard, timeout_s=self._sweep.order.timeout_s)
        if (read_end(self._session(name)) or {}).get("stopped") == OWN_RECORDING:
            raise child.RunError(
                "the program makes a recording of its own: take tprof.record out of it, since tprof sweep records it "
                "already"
            )

    def _session(self, name: str) -> Path:
        return self._folder / POINTS / f"{name}.tprof"

    def _judged(self, point: Point, bounds: Sequence[Bounds], settled: Settled | None) -> list[str]:
        """Return warnings about what was not as requested during the run."""
        warnings = []
        for policy, found in zip(self._sweep.policies, bounds, strict=False):
            asked_hz = policy.nearest_hz(point.frequency_hz or 0)
            if (found.lowest_hz, found.highest_hz) != (asked_hz, asked_hz):
                taken = f"{shown(found.lowest_hz)} to {shown(found.highest_hz)}"
                warnings.append(f"{policy.folder.name} was asked for {shown(asked_hz)} and took {taken}")
            if read_bounds(policy) != found:
                warnings.append(f"another program changed the frequency of {policy.folder.name} during the run")
        if settled is not None and not settled.steady:
            warnings.append(f"the temperature was not steady after {settled.waited_s:.0f} s")
        file = self._sweep.order.file
        if file is not None and digest(file) != self._sweep.plan.identity.get(PROGRAM):
            warnings.append(f"{file.name} was edited since the sweep began")
        return warnings

    def _left_s(self) -> float | None:
        if not self._lasted_s:
            return None
        return len(self._sweep.plan.waiting) * sum(self._lasted_s) / len(self._lasted_s)


@dataclass(frozen=True)
class Reach:
    """What can be held at which frequencies; where none can be set, why."""

    policies: tuple[Policy, ...] = ()
    frequencies_hz: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()
    refused: str | None = None


def prepare(order: Order) -> Sweep:
    """Find out what can be swept, draw the plan or resume the one that the folder holds, and save it.

    The folder is held from here on, until the sweep has run or this process ends.

    Raises
    ------
    UsageError
        If what is asked for cannot be done, or the folder holds another sweep.
    SensorError
        If frequencies were asked for and cannot be set.
    """
    order.check()
    reach = _reach(order)
    plan = Plan.drawn(
        order.what, reach.frequencies_hz, order.workers, repeats=order.repeats,
        seed=random.SystemRandom().randrange(SEEDS) if order.seed is None else order.seed,
    )  # fmt: skip
    plan.identity = identity_of(order.file, benchmark=order.what.kind == "benchmark")
    if not order.resume:
        folder.make(order.folder)
    with ExitStack() as claim:
        unheld = claim.enter_context(folder.claimed(order.folder)) if os.path.isdir(order.folder) else None
        existing = None if order.overwrite else earlier(order, plan, refused=reach.refused)
        if order.overwrite:
            folder.clear(order.folder)
        folder.make(order.folder / folder.POINTS)
        notes = [*reach.notes, *filter(None, [unheld])]
        sweep = Sweep(order, existing or plan, reach.policies, notes, continues=existing is not None)
        save_plan(sweep.plan, order.folder)
        sweep.claim = claim.pop_all()
    return sweep


def _reach(order: Order) -> Reach:
    if order.frequencies == "none":
        return Reach()
    try:
        policies = find_policies(sysroot())
        why = refusal(policies)
    except SensorError as error:
        policies, why = (), str(error)
    if why is None:
        visits = visited(order.frequencies or "all", policies)
        notes = (*visits.notes, *clamped(policies, visits.frequencies_hz), *_turbo(policies, visits.frequencies_hz))
        return Reach(policies, visits.frequencies_hz, notes)
    if order.frequencies is not None:
        raise SensorError(f"no frequency can be set: {why}; or sweep workers only, without --frequencies")
    return Reach(notes=(f"only workers are swept, no frequency can be set: {why}",), refused=why)


def _turbo(policies: tuple[Policy, ...], frequencies_hz: tuple[int, ...]) -> list[str]:
    if not any(policy.base_hz and max(frequencies_hz) > policy.base_hz for policy in policies):
        return []
    base_hz = max(policy.base_hz or 0 for policy in policies)
    return [f"above {shown(base_hz)} (turbo) the processor itself decides what it runs at, up to what is set"]
