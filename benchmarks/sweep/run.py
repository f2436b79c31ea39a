"""Running a plan's points one after the other: setting, settling, recording, keeping what came of it."""

from __future__ import annotations

import random
import shutil
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tprof.errors import SensorError, UsageError
from tprof.frequency import Bounds, Guard, Policy, find_policies, hold, read_bounds, refusal
from tprof.sensors.choose import sysroot
from tprof.trace import load

from . import child
from .busy_host import host_doubts
from .frequencies import shown, visited
from .output import FILES, POINTS, is_simulated, read_rows, write_output, write_rows
from .plan import DONE, FILE, Plan, Point, load_plan
from .table import Row, at, rows_of
from .temperature import Settled, find_sensor, read_c, settle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .order import Order

WARM_UP = "warm-up"
SEEDS = 1 << 32


class Tell(Protocol):
    """What a sweep says while it runs."""

    def begin(self, point: Point | None, left_s: float | None) -> None:
        """Say that a run begins (None: the warm-up), and how long all that is left will take, where that is known."""

    def note(self, text: str) -> None:
        """Say what a user must know."""


@dataclass
class Sweep:
    """A sweep that can run.

    Attributes
    ----------
    policies : what is held at each point's frequency; none where only workers are swept.
    notes : what a user must know beforehand.
    continues : whether some points were run before.
    """

    order: Order
    plan: Plan
    policies: tuple[Policy, ...]
    notes: list[str] = field(default_factory=list)
    continues: bool = False

    def run(self, tell: Tell) -> tuple[Path, ...]:
        """Run what waits, write the tables after each point, and return the files.

        The former frequencies are back when this returns or raises, and shortly after this process was killed.

        Raises
        ------
        TprofError
            If a run fails or a frequency cannot be set or restored; what is done is kept.
        """
        for text in self.notes:
            tell.note(text)
        if self.plan.waiting:
            with ExitStack() as stack:
                guard = stack.enter_context(Guard(self.policies))
                _Runner(self, guard, tell).run()
        return self.write(final=True)

    def write(self, *, final: bool = False) -> tuple[Path, ...]:
        """Write the table of what is done; at the end the facts and the page too. Raises TprofError."""
        return write_output(self.order.folder, self.plan, self.policies, self.rows(), final=final)

    def rows(self) -> list[Row]:
        """Return the rows of what is done; repeats of one setting are numbered as they ran."""
        rows: list[Row] = []
        seen: dict[tuple[int | None, int], int] = {}
        for point in self.plan.points:
            if point.state == DONE:
                setting = (point.facts["frequency_hz"], point.workers)
                seen[setting] = seen.get(setting, 0) + 1
                rows += at(read_rows(self.order.folder, point), *setting, seen[setting])
        return sorted(rows, key=lambda row: (row["task"] != "", row["task"], -(row["setting"] or 0), row["workers"]))


class _Runner:
    """The loop's state: what the points took so far, and the temperature's sensor."""

    def __init__(self, sweep: Sweep, guard: Guard, tell: Tell) -> None:
        self._sweep, self._guard, self._tell = sweep, guard, tell
        self._folder = sweep.order.folder
        self._sensor = find_sensor(sysroot()) if sweep.order.settle_s else None
        self._lasted_s = [float(point.facts["lasted_s"]) for point in sweep.plan.points if point.state == DONE]

    def run(self) -> None:
        """Run a warm-up, then every point that waits."""
        waiting = self._sweep.plan.waiting
        self._tell.begin(None, self._left_s(len(waiting)))
        self._hold(waiting[0])
        self._record(waiting[0], WARM_UP)
        shutil.rmtree(self._session(WARM_UP), ignore_errors=True)
        for place, point in enumerate(waiting):
            self._tell.begin(point, self._left_s(len(waiting) - place))
            begin_s = time.monotonic()
            point.facts = self._point(point)
            point.facts["lasted_s"] = time.monotonic() - begin_s
            point.state = DONE
            self._lasted_s.append(point.facts["lasted_s"])
            self._sweep.plan.save(self._folder)
            self._sweep.write()

    def _point(self, point: Point) -> dict[str, Any]:
        bounds = self._hold(point)
        settled = None if self._sensor is None else settle(self._sensor, self._sweep.order.settle_s)
        self._record(point, point.name)
        ended_c = None if self._sensor is None else read_c(self._sensor)
        warnings = self._judged(point, bounds, settled)
        profile = load(self._session(point.name)).profile(self._sweep.plan.what.model)
        warnings += host_doubts(profile) if is_simulated() else []
        write_rows(self._folder, point, rows_of(profile))
        for text in warnings:
            self._tell.note(f"{point.name}: {text}")
        return {
            "frequency_hz": max((one.highest_hz for one in bounds), default=None),
            "settled": None if settled is None else asdict(settled),
            "ended_c": ended_c,
            "model": str(profile.info["model"]),
            "quality": str(profile.info["quality"]),
            "sensor": str(profile.info["sensor"]),
            "warnings": [*warnings, *map(str, profile.info["warnings"])],
        }

    def _hold(self, point: Point) -> list[Bounds]:
        if point.frequency_hz is None:
            return []
        return [hold(policy, point.frequency_hz) for policy in self._sweep.policies]

    def _record(self, point: Point, name: str) -> None:
        words = child.command(self._sweep.plan.what, point.workers, self._session(name))
        child.run(words, point.workers, self._folder / POINTS / f"{name}.log", guard=self._guard)

    def _session(self, name: str) -> Path:
        return self._folder / POINTS / f"{name}.tprof"

    def _judged(self, point: Point, bounds: Sequence[Bounds], settled: Settled | None) -> list[str]:
        """Return what was not as it should be, now that the run has ended."""
        warnings = []
        for policy, held in zip(self._sweep.policies, bounds, strict=False):
            asked_hz = policy.nearest_hz(point.frequency_hz or 0)
            if (held.lowest_hz, held.highest_hz) != (asked_hz, asked_hz):
                taken = f"{shown(held.lowest_hz)} to {shown(held.highest_hz)}"
                warnings.append(f"{policy.folder.name} was asked for {shown(asked_hz)} and took {taken}")
            if read_bounds(policy) != held:
                warnings.append(f"another program changed the frequency of {policy.folder.name} during the run")
        if settled is not None and not settled.steady:
            warnings.append(f"the temperature was not steady after {settled.waited_s:.0f} s")
        return warnings

    def _left_s(self, points: int) -> float | None:
        return points * sum(self._lasted_s) / len(self._lasted_s) if self._lasted_s else None


def prepare(order: Order) -> Sweep:
    """Find out what can be swept, draw the plan or take up the one that the folder holds, and save it.

    Raises
    ------
    UsageError
        If what is asked for cannot be done, or the folder holds another sweep.
    SensorError
        If frequencies were asked for and cannot be set.
    """
    order.check()
    policies, frequencies_hz, notes = _settable(order)
    plan = Plan.drawn(
        order.what, frequencies_hz, order.workers, repeats=order.repeats,
        seed=random.SystemRandom().randrange(SEEDS) if order.seed is None else order.seed,
    )  # fmt: skip
    earlier = None if order.overwrite else _earlier(order, plan)
    try:
        (order.folder / POINTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot write to {order.folder}: {error.strerror}; choose another folder with -o DIR"
        raise UsageError(message) from error
    sweep = Sweep(order, earlier or plan, policies, notes, continues=earlier is not None)
    sweep.plan.save(order.folder)
    if any(policy.base_hz and max(frequencies_hz or [0]) > policy.base_hz for policy in policies):
        base_hz = max(policy.base_hz or 0 for policy in policies)
        notes.append(f"above {shown(base_hz)} (turbo) the processor itself decides what it runs at, up to what is set")
    return sweep


def _settable(order: Order) -> tuple[tuple[Policy, ...], tuple[int, ...] | None, list[str]]:
    """Return what can be held at which frequencies, or neither and why."""
    if order.frequencies == "none":
        return (), None, []
    try:
        policies = find_policies(sysroot())
        why = refusal(policies)
    except SensorError as error:
        policies, why = (), str(error)
    if why is None:
        return policies, visited(order.frequencies or "all", policies), []
    if order.frequencies is not None:
        message = f"no frequency can be set: {why}; or sweep workers only, without --frequencies"
        raise SensorError(message)
    return (), None, [f"only workers are swept, no frequency can be set: {why}"]


def _earlier(order: Order, plan: Plan) -> Plan | None:
    """Return the plan that is gone on with. Raises UsageError where the folder holds what must not be replaced."""
    held = load_plan(order.folder)
    if held is None:
        if order.resume:
            message = (
                f"{order.folder} holds no sweep to go on with ({FILE}): leave --resume out, or name its folder with -o"
            )
            raise UsageError(message)
        taken = next((name for name in (*FILES, POINTS) if (order.folder / name).exists()), None)
        if taken is not None:
            message = (
                f"{order.folder / taken} exists: choose another folder with -o DIR, or replace it with --overwrite"
            )
            raise UsageError(message)
        return None
    if not held.same_as(plan) or (order.seed is not None and order.seed != held.seed):
        message = (
            f"{order.folder} holds another sweep ({held.what.title}, {len(held.points)} points, seed {held.seed}): "
            "choose another folder with -o DIR, or replace it with --overwrite"
        )
        raise UsageError(message)
    if not held.waiting and not order.resume:
        message = (
            f"{order.folder} holds this sweep, finished: choose another folder with -o DIR, "
            "or replace it with --overwrite"
        )
        raise UsageError(message)
    return held
