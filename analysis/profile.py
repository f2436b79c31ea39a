"""From a trace to a profile: the tables that reports, exports and users read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .accounts import Account, Totals, settle
from .busy import measure_unseen
from .doubts import tell_doubts, tell_stuck
from .info import describe
from .instances import join_rows
from .models import Chosen, Coefficients, choose_model
from .quanta import Quanta, build_quanta
from .segments import Segments, read_segments
from .sharing import plan_sharing
from .summary import summarize
from .tables import power_table, segments_table, tasks_table

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from tprof.trace import Trace


@dataclass(frozen=True)
class Profile:
    """Where the joules of a recording went.

    Attributes
    ----------
    trace : what was recorded
    tasks : one row an instance; energies and `cpu_s` are exclusive of nested tasks, `duration_s` is from
        first start to end with nested and suspended time in it; NaN energy is "not resolved"
    accounts : one row a domain, index `domain`: measured_j, tasks_j, runtime_j, other_j, idle_j
    info : sensor, model, warnings and what else a reader must know
    own_s : (instances,) seconds in which each was what its thread ran, without nested tasks or suspension
    """

    trace: Trace
    tasks: pd.DataFrame
    accounts: pd.DataFrame
    info: dict[str, Any]
    model: Chosen
    quanta: tuple[Quanta, ...]
    own_s: NDArray[np.float64] = field(repr=False)

    @property
    def measured_j(self) -> float:
        """Joules of the counted domains together; NaN if none was resolved."""
        return self.counted_accounts["measured_j"]

    @property
    def counted_accounts(self) -> dict[str, float]:
        """The accounts of all counted domains added up."""
        counted = self.accounts.loc[[q.name for q in self.quanta if q.counted]]
        return {str(name): float(value) for name, value in counted.sum(min_count=1).items()}

    def summary(self) -> pd.DataFrame:
        """Return one row a task (index `task`), by energy; see `tprof.analysis.summary.summarize`."""
        return summarize(self.tasks, self.own_s)

    @cached_property
    def power(self) -> pd.DataFrame:
        """Watts of each domain over time: `time_s`, `duration_s` and a column `<domain>_w` a domain."""
        return power_table(self.quanta, self.trace.start_ns)

    @cached_property
    def segments(self) -> pd.DataFrame:
        """What each thread ran when, with its joules; read again from the trace when first asked for."""
        threads = _Reading.of(self.trace, self.model, self.quanta)
        plans = [plan for quanta, plan in threads.plans(self.trace) if quanta.counted]
        return segments_table(self.trace, threads.segments, plans)

    def to_csv(self, directory: str | os.PathLike[str]) -> None:
        """Write the tables as CSV files into a directory."""
        from .export import csv  # noqa: PLC0415 - loaded when used

        csv.write(self, directory)

    def to_parquet(self, directory: str | os.PathLike[str]) -> None:
        """Write the tables as Parquet files into a directory."""
        from .export import parquet  # noqa: PLC0415 - loaded when used

        parquet.write(self, directory)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write a report of one self-contained HTML file."""
        from .report import write_report  # noqa: PLC0415 - loaded when used

        write_report(self, path)


@dataclass(frozen=True)
class _Reading:
    """The segments of all threads, ready to be shared by."""

    segments: list[Segments]
    quanta: tuple[Quanta, ...]
    packages: tuple[int, ...]
    static_power_w: dict[str, float]

    @classmethod
    def of(cls, trace: Trace, model: Chosen, quanta: tuple[Quanta, ...]) -> _Reading:
        packages = tuple(sorted({q.package for q in quanta if q.package is not None}))
        read = (read_segments(trace, thread, model, packages=len(packages) > 1) for thread in trace.threads)
        segments = [lane for lane in read if lane is not None]
        _fill_uncounted(segments)
        return cls(segments, quanta, packages, _static_power(trace, model, quanta))

    def plans(self, trace: Trace) -> Any:
        unseen = measure_unseen(trace, self.segments)
        for quanta in self.quanta:
            if len(quanta):
                static_w = self.static_power_w.get(quanta.name, 0.0)
                yield quanta, plan_sharing(quanta, self.segments, unseen, static_w, self.packages)


def build_profile(
    trace: Trace,
    *,
    model: str = "auto",
    coefficients: str | Mapping[str, float] | Coefficients | None = None,
    max_power_w: float | None = None,
) -> Profile:
    """Attribute a trace's joules to its tasks.

    Parameters
    ----------
    trace : from `tprof.load`
    model : "auto", "linear", "fesc", "ipc" or "cputime"
    coefficients : for "linear": "tprof-table1", or a mapping of a, b, c, C1, C2 in watts
    max_power_w : float, watts; an interval of a sensor that implies more is invalid (default 1000)

    Raises
    ------
    UsageError
        If the model or its coefficients are unknown, or the trace lacks a counter that it needs.
    """
    present = frozenset(column for thread in trace.threads for column in thread.columns)
    chosen = choose_model(model, present, coefficients)
    readings = sorted((r for r in trace.readings.values() if r.quantity == "energy"), key=lambda r: r.name)
    quanta = tuple(build_quanta(reading, max_power_w) for reading in readings)
    reading = _Reading.of(trace, chosen, quanta)
    joined = join_rows([lane.rows for lane in reading.segments])
    totals = Totals.zeros(len(joined.rows))
    accounts = {q.name: Account(q.name, *[float("nan")] * 5) for q in quanta}
    unseen = measure_unseen(trace, reading.segments)
    stuck = []
    for domain in quanta:
        if len(domain):
            static_w = reading.static_power_w.get(domain.name, 0.0)
            plan = plan_sharing(domain, reading.segments, unseen, static_w, reading.packages)
            accounts[domain.name] = settle(plan, reading.segments, joined, totals if domain.counted else None)
            stuck += tell_stuck(domain, plan, trace.start_ns)
            del plan
    info = describe(trace, chosen, quanta, [*stuck, *tell_doubts(reading.segments, unseen, joined.rows, chosen)])
    info["static_power_w"] = reading.static_power_w
    threads = [lane.thread for lane in reading.segments]
    del reading
    tasks = tasks_table(trace, threads, joined.rows, totals)
    frame = pd.DataFrame([vars(account) for account in accounts.values()], columns=list(Account.__annotations__))
    return Profile(trace, tasks, frame.set_index("domain"), info, chosen, quanta, joined.rows.own_s)


def _static_power(trace: Trace, model: Chosen, quanta: tuple[Quanta, ...]) -> dict[str, float]:
    """Static watts by domain: what the manifest says, else the model's C2 for packages."""
    said = trace.manifest.get("static_power_w")
    known = {
        str(name): float(watts)
        for name, watts in (said.items() if isinstance(said, dict) else ())
        if isinstance(watts, int | float) and np.isfinite(watts) and watts > 0
    }
    if model.coefficients is not None and model.coefficients.c2 > 0:
        return {q.name: model.coefficients.c2 for q in quanta if q.scope == "package"} | known
    return known


def _fill_uncounted(segments: list[Segments]) -> None:
    """Give threads without the model's counters the others' mean modelled power per CPU second."""
    if all(lane.counted for lane in segments):
        return
    modelled = sum(float(lane.modelled.sum()) for lane in segments if lane.counted)
    cpu_s = sum(float(lane.cpu_s.sum()) for lane in segments if lane.counted)
    mean = modelled / cpu_s if cpu_s > 0 and modelled > 0 else 1.0
    for lane in segments:
        if not lane.counted:
            lane.modelled = lane.modelled * mean
