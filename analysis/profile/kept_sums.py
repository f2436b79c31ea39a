"""A recording that kept sums instead of samples: a profile of them, without single instances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
from tprof.analysis.attribution.instance_sums import joined, joined_domains
from tprof.analysis.display.frames import AccountsTable
from tprof.analysis.names import places, shown

from tprof.errors import UsageError
from tprof.trace.estimate import EXACT, WattsError, watts_error
from tprof.trace.kinds import Quality, least_certain
from tprof.trace.left_out import unread_sentences
from tprof.trace.sums import TASK_SUMS, THREADS
from tprof.trace.sums_trace import refusal

from .grouped import GroupSums
from .information import estimate_of, sensor_text
from .intervals import shared_error
from .profile import Absent, Profile
from .tables import divided
from .task_sums import TaskSums

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tprof.trace import Trace
    from tprof.trace.sums_trace import SumsTrace

    Floats = NDArray[np.float64]
    Table = NDArray[np.void]

JOINED_BLOCKS = 256
"""So many blocks are added up at a time, so that memory does not grow with the recording."""
ACCOUNTS = ["measured_j", "tasks_j", "runtime_j", "other_j", "idle_j"]
MODEL_WHY = 'model "cputime": energy was shared by CPU time while the program ran, and only sums were kept'


@dataclass(frozen=True, repr=False)
class KeptSums:
    """Sums by task, process, span of time and, if they are kept, thread.

    Attributes
    ----------
    trace : that has them
    totals : of each task, process and thread over the recording, without tasks that are left out
    sums : of each task
    domains : as the recording describes them
    quality : of the joules
    """

    trace: SumsTrace
    totals: Table
    sums: TaskSums
    domains: Sequence[Mapping[str, Any]]
    quality: str

    @property
    def by_thread(self) -> bool:
        """Whether the sums are by thread."""
        return self.trace.manifest.get("keep") == THREADS

    def grouped(self, names: Sequence[str]) -> GroupSums:
        """Return the sums by ``"process"`` or ``"thread"``; see `Profile.by`. Raises UsageError for other names."""
        kept = ("process", "thread") if self.by_thread else ("process",)
        if not set(names) <= set(kept):
            raise UsageError(
                f"{self.trace.path} keeps sums by {' and '.join(kept)}, got {', '.join(map(shown, names))}: "
                'record with keep="threads" for those of threads'
            )
        rows = self.totals
        frame = pd.DataFrame(rows[["process", "begun", "energy_j", "own_s", "cpu_s", "half_j2"]])
        frame = frame.rename(columns={"begun": "instances", "half_j2": "half_squares"}).astype(float)
        codes, tasks = _codes(self.trace, rows["task"])
        frame = frame.assign(process=rows["process"], task=tasks[codes], thread=self._thread_of(rows), host="")
        frame = frame.assign(most_low_j=np.inf, most_high_j=np.inf)
        return GroupSums.of_sums(frame, names)

    def _thread_of(self, rows: Table) -> list[str]:
        """Return name and number of the thread of each row; its place in the session without a name."""
        known = {
            (one["process"], one["thread"]): f"{shown(one['name'].decode(errors='replace'))} ({one['tid']})"
            for block in self.trace.blocks()
            for one in block.threads
        }
        keys = zip(rows["process"].tolist(), rows["thread"].tolist(), strict=True)
        return [known.get(key, f"? ({key[1]})") for key in keys]

    @cached_property
    def spans(self) -> pd.DataFrame:
        """One row per task, process, thread if they are kept, and span.

        Columns time_s (when the span begins), span_s (its length), task, process, thread (name and number), instances
        (that began in it), ended, cpu_s, own_s, energy_j, dynamic_j, power_w (energy over own time), quality.
        """
        every = joined([block.tasks for block in self.trace.blocks()])
        rows = joined([_in_indices(self.trace, every)])
        thread = {"thread": pd.Categorical(self._thread_of(rows))} if self.by_thread else {}
        return pd.DataFrame(
            {
                "time_s": rows["span"] * (self.trace.span_ns * 1e-9),
                "span_s": self.trace.span_ns * 1e-9,
                "task": pd.Categorical.from_codes(*_codes(self.trace, rows["task"])),
                "process": rows["process"].astype(np.int64),
                **thread,
                "instances": rows["begun"].astype(np.int64),
                "ended": rows["ended"].astype(np.int64),
                **{name: rows[name] for name in ("cpu_s", "own_s", "energy_j", "dynamic_j")},
                "power_w": divided(rows["energy_j"], rows["own_s"]),
                "quality": self.quality,
            }
        )

    @cached_property
    def power(self) -> pd.DataFrame:
        """The watts of each domain over time, as `Profile.power`.

        A row is of the readings that began in a span, the last of which mostly end in the next one: each row ends
        where the next begins.
        """
        rows = joined_domains([block.domains for block in self.trace.blocks()])
        rows = rows[rows["domain"] < len(self.domains)]
        spans = np.unique(rows["span"])
        begin_s, end_s, watts = np.full(len(spans), np.inf), np.zeros(len(spans)), {}
        for place, domain in enumerate(self.domains):
            mine = rows[rows["domain"] == place]
            at, own_s = np.searchsorted(spans, mine["span"]), _begins_s(mine, self.trace.span_ns * 1e-9)
            begin_s[at] = np.minimum(begin_s[at], own_s)
            end_s[at] = np.maximum(end_s[at], own_s + mine["seconds"])
            watts[f"{domain['name']}_w"] = np.full(len(spans), np.nan)
            watts[f"{domain['name']}_w"][at] = divided(mine["measured_j"], mine["seconds"])
        times = {"time_s": begin_s, "duration_s": np.minimum(end_s, np.append(begin_s[1:], np.inf)) - begin_s}
        return pd.DataFrame(times | watts).assign(quality=self.quality)


def profile_of_sums(trace: SumsTrace) -> Profile:
    """Add up the sums of a recording; see `SumsTrace.profile`."""
    totals, sums_of_domains = _totals(trace)
    described = [one for one in trace.manifest.get("domains", ()) if isinstance(one.get("name"), str)]
    is_left_out = np.isin(totals["task"], trace.table.left_out())
    whole_j, left_j = float(totals["energy_j"].sum()), float(totals["energy_j"][is_left_out].sum())
    accounts = _accounts(described, sums_of_domains, left_j / whole_j if whole_j > 0 else 0.0)
    counted = [one for one in described if one.get("counted")]
    of_counted = accounts.loc[[one["name"] for one in counted]]
    quality = least_certain(set(of_counted["quality"][of_counted["measured_j"].notna()]))
    measured_j = of_counted["measured_j"].to_numpy(float)
    watts = _common_error(trace, counted, measured_j)
    info: dict[str, Any] = {
        "quality": quality,
        "sensor": sensor_text(trace.manifest, quality, {one["name"]: str(one.get("source")) for one in counted}),
        "domains": [{**one, "counted": bool(one.get("counted"))} for one in described],
        "left_out": trace.manifest.get("left_out") or [],
        "unread": unread_sentences(trace.manifest),
        "model": "cputime",
        "model_why": MODEL_WHY,
        "complete": trace.complete,
        "duration_s": max(trace.end_ns - trace.start_ns, 0) * 1e-9,
        "span_s": trace.span_ns * 1e-9,
        "dropped": trace.end.get("dropped") or {},
        "warnings": [*unread_sentences(trace.manifest), *trace.notes],
        "host": trace.manifest.get("host") or {},
        "argv": trace.manifest.get("argv") or [],
        "estimate": _estimate(trace, counted, measured_j, watts) if quality == Quality.ESTIMATED else None,
    }
    totals = totals[~is_left_out]
    kept = KeptSums(trace, totals, _task_sums(trace, totals, quality), info["domains"], quality)
    absent: Any = Absent(refusal(trace.path))
    of = cast("Trace", trace)
    return Profile(of, absent, AccountsTable(accounts), info, absent, None, watts, None, absent, kept=kept)


def _totals(trace: SumsTrace) -> tuple[Table, Table]:
    """Return the sums by process, thread and task, the latter as indices; and those of the domains."""
    tasks, domains = joined([]), joined_domains([])
    every = iter(trace.blocks())
    while blocks := list(islice(every, JOINED_BLOCKS)):
        tasks = joined([tasks, *(block.tasks for block in blocks)], ["process", "thread", "task"])
        domains = joined_domains([domains, *(block.domains for block in blocks)], ["domain"])
    return _in_indices(trace, tasks), domains


def _in_indices(trace: SumsTrace, rows: Table) -> Table:
    """Return rows with indices in the table of tasks in the place of their processes' numbers."""
    found, table = rows.copy(), trace.table
    for process in np.unique(rows["process"]).tolist():
        numbers, mine = table.numbers(process), rows["process"] == process
        ours = rows["task"][mine].tolist()
        found["task"][mine] = [numbers[one] if one in numbers else table.lost(process, one) for one in ours]
    return found


def _codes(trace: SumsTrace, task: NDArray[np.uint32]) -> tuple[NDArray[np.int64], pd.Index]:
    """Return the place of each index among the distinct names, and these."""
    unique, lookup = places([shown(entry.name) for entry in trace.table.entries])
    return lookup[task.astype(np.int64)], pd.Index(unique, dtype=object)


def _begins_s(rows: Table, span_s: float) -> Floats:
    """Return when the readings of a domain's rows begin: where those of the row before end, or with the span."""
    before_s = np.cumsum(rows["seconds"]) - rows["seconds"]
    # The later of both for one row after the other, as one cumulative maximum.
    return np.asarray(np.maximum.accumulate(rows["span"] * span_s - before_s) + before_s)


def _task_sums(trace: SumsTrace, rows: Table, quality: str) -> TaskSums:
    codes, names = _codes(trace, rows["task"])
    by_name = rows.copy()
    by_name["task"] = codes
    sums = joined([by_name], ["task"])
    found = np.zeros(len(names), TASK_SUMS)
    found[sums["task"]] = sums
    of = {name: found[name].astype(float) for name in TASK_SUMS.names or ()}
    begun = of["begun"]
    resolved = begun - (of["ended"] - of["resolved"]) if quality != "none" else np.zeros(len(names))
    # Instances whose end was not seen, as of a program that was killed, count with the mean of the others.
    scale = np.divide(resolved, of["resolved"], out=np.ones(len(names)), where=of["resolved"] > 0)
    columns = {
        "instances": begun,
        "resolved": resolved,
        "duration_s": divided(of["ended_s"] * begun, of["ended"]),
        "resolved_duration_s": of["resolved_s"] * scale,
        "resolved_own_s": of["own_s"],
        "half_squares": of["half_j2"] * scale,
        "cpu_own_s": of["own_s"],
        "cpu_native_s": np.zeros(len(names)),
        "over": np.zeros(len(names)),
        **{name: of[name] for name in ("energy_j", "dynamic_j", "own_s", "cpu_s")},
        **{name: of[name] * scale for name in ("energy_m2", "duration_m2", "both_m2")},
    }
    return TaskSums(tuple(names), columns, int(begun.sum()), float(of["own_s"].sum()), float(of["cpu_s"].sum()))


def _accounts(described: Sequence[dict[str, Any]], domains: Table, left_out: float) -> pd.DataFrame:
    """Return one row per domain; `left_out` of the tasks' joules are of tasks that others replaced.

    They are in `runtime_j`, as in a profile.
    """
    found = pd.DataFrame(domains).set_index("domain")[ACCOUNTS].reindex(range(len(described)))
    found["runtime_j"] += found["tasks_j"] * left_out
    found["tasks_j"] -= found["tasks_j"] * left_out
    found.loc[[not one.get("counted") for one in described], ACCOUNTS[1:]] = math.nan
    found.index = pd.Index([one["name"] for one in described], name="domain", dtype=object)
    return found.assign(spin_j=0.0, unidentified_j=0.0, quality=[str(one.get("quality")) for one in described])


def _common_error(trace: SumsTrace, counted: Sequence[dict[str, Any]], measured_j: Floats) -> WattsError:
    """Return the error that is the same for all joules."""
    if not np.nansum(measured_j) > 0:
        return EXACT
    parts = [_relative(one.get("relative_error")) for one in counted]
    kinds = [str(one.get("quality")) for one in counted]
    return shared_error(list(zip(kinds, parts, measured_j.tolist(), strict=True)), watts_error(trace.manifest))


def _relative(error: object) -> float:
    return float(error) if isinstance(error, int | float) and error > 0 else 0.0


def _estimate(
    trace: SumsTrace, counted: Sequence[dict[str, Any]], measured_j: Floats, watts: WattsError
) -> dict[str, Any]:
    static_w, seconds = trace.manifest.get("static_power_w") or {}, (trace.end_ns - trace.start_ns) * 1e-9
    drawn_j = np.array([static_w.get(one["name"], 0.0) * seconds for one in counted])
    return estimate_of(trace.manifest, watts, measured_j, np.minimum(drawn_j, measured_j), watts)
