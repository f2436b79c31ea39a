"""A profile: the tables that say where the joules went."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .summary import summarise

if TYPE_CHECKING:
    import os

    from tprof.trace import Trace

    from .domain import Accounts
    from .quanta import Quanta


class Profile:
    """Joules of a trace by task.

    Attributes
    ----------
    tasks : pandas.DataFrame
        One row an instance: task, instance, parent (0: none), pid, tid, thread, cpu and package (where it began),
        start_s (since the recording began), duration_s (from its start to its end), cpu_s, energy_j, dynamic_j,
        static_j (all without nested tasks), energy_low_j, energy_high_j (bounds from the sensor's resolution),
        power_w (energy over the time it stood on a thread, nested
        tasks and suspensions left out), the counters, ipc where there is one, failed. NaN energy: the
        sensor did not resolve it.
    info : dict
        Sensors, quality of the figures, model, losses, warnings.
    trace : Trace
        Where it comes from.
    """

    def __init__(
        self,
        *,
        trace: Trace,
        tasks: pd.DataFrame,
        accounts_by_domain: dict[str, Accounts],
        quanta: dict[str, Quanta],
        info: dict[str, Any],
    ) -> None:
        """Take what `build_profile` found."""
        self.trace = trace
        self.tasks = tasks
        self.info = info
        self._accounts = accounts_by_domain
        self._quanta = quanta

    @cached_property
    def accounts(self) -> pd.DataFrame:
        """Where each domain's joules went: measured_j = tasks_j + runtime_j + other_j + idle_j; index `domain`."""
        names = ["measured_j", "tasks_j", "runtime_j", "other_j", "idle_j"]
        rows = [[getattr(accounts, name) for name in names] for accounts in self._accounts.values()]
        frame = pd.DataFrame(rows, columns=names, index=pd.Index(list(self._accounts), name="domain"), dtype=float)
        frame["counted"] = [self.trace.readings[name].counted for name in self._accounts]
        return frame

    @cached_property
    def power(self) -> pd.DataFrame:
        """Measured power of each domain over time: domain, start_s, duration_s, power_w (NaN in a gap)."""
        frames = []
        for name, quanta in self._quanta.items():
            length_s = quanta.duration_s()
            frames.append(
                pd.DataFrame(
                    {
                        "domain": name,
                        "start_s": (quanta.edges_ns[:-1] - self.trace.start_ns) * 1e-9,
                        "duration_s": length_s,
                        "power_w": quanta.energy_j / length_s,
                    }
                )
            )
        columns = ["domain", "start_s", "duration_s", "power_w"]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)

    @property
    def measured_j(self) -> float:
        """Joules of the counted domains together."""
        return float(sum(self._quanta[name].measured_j for name in self._quanta if self.trace.readings[name].counted))

    @property
    def counted_accounts(self) -> dict[str, float]:
        """The accounts of all counted domains added up."""
        counted = self.accounts[self.accounts["counted"]].drop(columns="counted")
        return {str(name): float(value) for name, value in counted.sum().items()}

    def summary(self) -> pd.DataFrame:
        """Return one row a task, by energy; see `tprof.analysis.summary.summarise`."""
        return summarise(self.tasks, self.measured_j)

    @cached_property
    def segments(self) -> pd.DataFrame:
        """Who ran when on which processor: start_s, duration_s, cpu, package, thread, tid, task ("" for nobody), instance.

        Made of the trace when first asked for; only segments in which a task runs.
        """
        from .timeline import segments_frame  # noqa: PLC0415 - read again only when a timeline is wanted

        return segments_frame(self.trace)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report. Raises TprofError."""
        from .report import write_report  # noqa: PLC0415 - plotly is large

        write_report(self, path)

    def to_csv(self, directory: str | os.PathLike[str]) -> None:
        """Write the tables as CSV files. Raises TprofError."""
        from .export import csv  # noqa: PLC0415 - only when it is used

        csv.write(self, directory)

    def to_parquet(self, directory: str | os.PathLike[str]) -> None:
        """Write the tables as Parquet files. Raises TprofError; UsageError without pyarrow."""
        from .export import parquet  # noqa: PLC0415 - only when it is used

        parquet.write(self, directory)

    def __repr__(self) -> str:
        """Say what it holds in a line."""
        joules = np.format_float_positional(self.measured_j, precision=4, fractional=False, trim="-")
        return f"<tprof.Profile {len(self.tasks)} instances, {joules} J {self.info['quality']}, {self.info['model']}>"
