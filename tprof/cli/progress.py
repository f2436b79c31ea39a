"""How far a sweep is: a bar on a terminal, plain lines elsewhere; nothing draws while a run is measured."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Self

from .render import clean

if TYPE_CHECKING:
    from types import TracebackType

    from tprof.benchmarks.sweep import Point, Sweep


class Progress:
    """Says on standard error which run begins and how long the rest will take."""

    def __init__(self, sweep: Sweep) -> None:
        """Take note of the plan."""
        self._sweep, self._plan = sweep, sweep.plan
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        """Say what will be done."""
        plan = self._plan
        done = len(plan.done)
        begun = f", {done} of them done before" if self._sweep.continues else ""
        runs = "1 run" if len(plan.points) == 1 else f"{len(plan.points)} runs"
        self.note(f"{plan.what.title}: {runs}{begun}; seed {plan.seed}; {self._sweep.order.folder}")
        if sys.stderr.isatty():
            self._draw(done)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.update(self._task, completed=self._tried, description="")
            self._bar.stop()

    def begin(self, point: Point | None, left_s: float | None) -> None:
        """Say which run begins."""
        what = "warm-up" if point is None else _shown(point)
        left = "" if left_s is None else f", about {_duration(left_s)} left"
        if self._bar is not None:
            self._bar.update(self._task, completed=self._tried, description=what + left)
            self._bar.refresh()
            return
        number = "warm-up" if point is None else f"[{self._tried + 1}/{len(self._plan.points)}] {what}"
        print(number + left, file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """Say what a user must know."""
        if self._bar is not None:
            self._bar.console.print(f"tprof: {clean(text)}", markup=False, highlight=False)
            return
        print(f"tprof: {clean(text)}", file=sys.stderr, flush=True)

    def interrupted(self) -> None:
        """Say how to go on."""
        left = len(self._plan.points) - len(self._plan.done)
        self.note(f"interrupted; the same command goes on, with {left} run{'' if left == 1 else 's'} left")

    @property
    def _tried(self) -> int:
        return len(self._plan.points) - len(self._plan.waiting)

    def _draw(self, done: int) -> None:
        from rich import progress
        from rich.console import Console

        columns = (progress.BarColumn(), progress.MofNCompleteColumn(), progress.TextColumn("{task.description}"))
        self._bar = progress.Progress(*columns, console=Console(stderr=True), auto_refresh=False)
        self._bar.start()
        self._task = self._bar.add_task("", total=len(self._plan.points), completed=done)


def _shown(point: Point) -> str:
    frequency = "" if point.frequency_hz is None else f"{point.frequency_hz / 1e9:.7g} GHz, "
    return f"{frequency}{point.workers} worker{'s' if point.workers > 1 else ''}, run {point.repeat}"


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{max(round(seconds), 1)} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
