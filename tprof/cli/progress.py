"""How far a command is, on standard error: a bar or a line that changes on a terminal, plain lines elsewhere.

While a program is measured no thread draws: bars of sweeps and benchmarks change between runs only.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from tprof.trace.plain_values import counted

from .render import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from tprof.benchmarks.sweep import Point, Sweep


@contextmanager
def bar(doing: str) -> Iterator[Callable[[str, int, int], None]]:
    """Draw how much is done; what is yielded takes what is done now, how many are done, and how many there are."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(doing, total=None)
        yield lambda name, done, of: progress.update(task, description=name, completed=done, total=of)


@contextmanager
def status(doing: str) -> Iterator[Callable[[str], None]]:
    """Show what is done; what is yielded replaces the text."""
    from rich.console import Console

    with Console(file=sys.stderr).status(doing) as shown:
        yield shown.update


class RunProgress:
    """Reports which run of a benchmark begins, where there are several."""

    def __init__(self, names: Sequence[str], repeats: int) -> None:
        """Count what will run."""
        self._repeats, self._all, self._done = repeats, len(names) * repeats, 0

    def __call__(self, name: str, number: int) -> None:
        """Report that a run begins."""
        self._done += 1
        if self._all > 1:
            run = f", run {number} of {self._repeats}" if self._repeats > 1 else ""
            print(f"[{self._done}/{self._all}] {name}{run}", file=sys.stderr, flush=True)


class SweepProgress:
    """Reports which run of a sweep begins and how long the rest will take."""

    def __init__(self, sweep: Sweep) -> None:
        """Keep the plan."""
        self._sweep, self._plan = sweep, sweep.plan
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        """Print what will be done."""
        plan = self._plan
        done = len(plan.done)
        begun = f", {done} of them done before" if self._sweep.continues else ""
        runs = counted(len(plan.points), "run")
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
        """Show which run begins."""
        what = "warm-up" if point is None else _shown(point)
        left = "" if left_s is None else f", about {_duration(left_s)} left"
        if self._bar is not None:
            self._bar.update(self._task, completed=self._tried, description=what + left)
            self._bar.refresh()
            return
        number = "warm-up" if point is None else f"[{self._tried + 1}/{len(self._plan.points)}] {what}"
        print(number + left, file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """Print what a user must know."""
        if self._bar is not None:
            self._bar.console.print(f"tprof: {clean(text)}", markup=False, highlight=False)
            return
        print(f"tprof: {clean(text)}", file=sys.stderr, flush=True)

    def interrupted(self) -> None:
        """Print how to go on."""
        left = len(self._plan.points) - len(self._plan.done)
        self.note(f"interrupted; the same command goes on, with {counted(left, 'run')} left")

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
    return f"{frequency}{counted(point.workers, 'worker')}, run {point.repeat}"


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{max(round(seconds), 1)} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
