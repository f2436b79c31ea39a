"""`tprof bench NAME…`: record programs, once or several times, and say what they took."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.benchmarks.repeats import Order, Runs


class Progress:
    """Says on standard error which run begins, where there are several; no thread draws while a program is measured."""

    def __init__(self, names: Sequence[str], repeats: int) -> None:
        """Take note of what will run."""
        self._repeats, self._all, self._done = repeats, len(names) * repeats, 0

    def __call__(self, name: str, number: int) -> None:
        """Tell that a run begins."""
        self._done += 1
        if self._all > 1:
            run = f", run {number} of {self._repeats}" if self._repeats > 1 else ""
            print(f"[{self._done}/{self._all}] {name}{run}", file=sys.stderr, flush=True)


def prepare(names: Sequence[str], order: Order) -> None:
    """Refuse what cannot be done before anything runs."""
    if names:
        order.check(path for name in names for path in (*order.sessions(name), order.report(name)))


def profile(name: str, order: Order, progress: Progress, *, quiet: bool) -> dict[str, Any]:
    """Run a program as often as ordered, write the report of the median run, and return what `--json` prints."""
    from tprof.benchmarks.repeats import run

    from .tables import as_plain

    runs = run(name, order, progress)
    report = order.report(name)
    runs.profile.to_html(report)
    if not quiet:
        _print(runs, order)
    session = order.sessions(name)[runs.middle]
    return {
        "outcome": runs.outcome.sentence(),
        "session": str(session),
        "report": str(report),
        "time": runs.times().as_plain(),
        "energy": runs.energies().as_plain(),
        "runs": runs.as_plain(),
        **as_plain(runs.profile),
    }


def _print(runs: Runs, order: Order) -> None:
    from .tables import show

    print(runs.outcome.sentence())
    show(runs.profile, sys.stdout)
    if len(runs.outcomes) > 1:
        print("Above: the run with the median time. All runs:")
        _print_runs(runs)
    for session in order.sessions(runs.program):
        print(f"session: {session}")
    print(f"report: {order.report(runs.program)}", flush=True)


def _print_runs(runs: Runs) -> None:
    from tprof.benchmarks import measured_figures

    for row in measured_figures.rows({"figures": [figure.as_plain() for figure in (runs.times(), runs.energies())]}):
        print(f"{row.name}: {row.value} {row.unit} ({row.spread}), {len(runs.outcomes)} runs")
