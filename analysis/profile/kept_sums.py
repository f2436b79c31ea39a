"""A recording that kept sums instead of samples: a profile of them, without single instances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
from tprof.analysis.attribution.instance_sums import joined
from tprof.analysis.display.frames import AccountsTable
from tprof.analysis.names import places, shown

from tprof.errors import UsageError
from tprof.trace.estimate import EXACT, WattsError, watts_error
from tprof.trace.kinds import Quality, least_certain
from tprof.trace.left_out import unread_sentences
from tprof.trace.sums import DOMAIN_SUMS, TASK_SUMS, THREADS
from tprof.trace.sums_trace import refusal

from .grouped import GroupSums
from .intervals import shared_error, widened
from .profile import Absent, Profile
from .provenance import assumed_text
from .tables import divided
from .task_sums import TaskSums

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tprof.trace import Trace
    from tprof.trace.sums_trace import SumsTrace

    Table = NDArray[np.void]

JOINED_BLOCKS = 256
"""So many blocks are added up at a time, so that memory does not grow with the recording."""
ACCOUNTS = ("measured_j", "tasks_j", "runtime_j", "other_j", "idle_j")
MODEL_WHY = 'model "cputime": energy was shared by CPU time while the program ran, and only sums were kept'


@dataclass(frozen=True, repr=False)
class KeptSums:
    """Sums by task, process, span of time and, if they are kept, thread.

    Attributes
    ----------
    trace : that has them
    sums : of each task over the recording
    domains : as the recording describes them
    quality : of the joules
    """

    trace: SumsTrace
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
        rows, _ = _totals(self.trace, ["process", "thread", "task"])
        rows = rows[~np.isin(rows["task"], self.trace.table.left_out())]
        codes, tasks = _codes(self.trace, rows["task"])
        columns = {name: rows[name].astype(float) for name in ("energy_j", "own_s", "cpu_s")}
        frame = pd.DataFrame({"process": rows["process"], "instances": rows["begun"].astype(float), **columns})
        frame["task"], frame["half_squares"] = tasks[codes], rows["half_j2"].astype(float)
        frame["thread"] = self._thread_of(rows)
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
        rows = joined([_in_indices(self.trace, block.tasks) for block in self.trace.blocks()])
        own_s = rows["own_s"]
        power_w = divided(rows["energy_j"], own_s)
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
                "power_w": power_w,
                "quality": self.quality,
            }
        )

    @cached_property
    def power(self) -> pd.DataFrame:
        """The watts of each domain over time, as `Profile.power`.

        A row is of the readings that began in a span, the last of which mostly end in the next one: each row ends
        where the next begins.
        """
        rows = _added_domains([block.domains for block in self.trace.blocks()], ["span", "domain"])
        rows = rows[rows["domain"] < len(self.domains)]
        spans = np.unique(rows["span"])
        begin_s, end_s, watts = np.full(len(spans), np.inf), np.zeros(len(spans)), {}
        for place, domain in enumerate(self.domains):
            mine = rows[rows["domain"] == place]
            at, own_s = np.searchsorted(spans, mine["span"]), _begins_s(mine, self.trace.span_ns * 1e-9)
            begin_s[at] = np.minimum(begin_s[at], own_s)
            end_s[at] = np.maximum(end_s[at], own_s + mine["seconds"])
            watts[f"{domain['name']}_w"] = np.full(len(spans), np.nan)
            covered = mine["seconds"] > 0
            watts[f"{domain['name']}_w"][at[covered]] = mine["measured_j"][covered] / mine["seconds"][covered]
        times = {"time_s": begin_s, "duration_s": np.minimum(end_s, np.append(begin_s[1:], np.inf)) - begin_s}
        return pd.DataFrame(times | watts).assign(quality=self.quality)


def profile_of_sums(trace: SumsTrace) -> Profile:
    """Add up the sums of a recording; see `SumsTrace.profile`."""
    totals, domains = _totals(trace, ["process", "task"])
    described = [one for one in trace.manifest.get("domains", ()) if isinstance(one.get("name"), str)]
    accounts = _accounts(described, domains, _left_out_share(trace, totals))
    watts = _common_error(trace, described, accounts)
    info = _info(trace, described, accounts)
    info["estimate"] = _estimate(trace, described, accounts, watts) if info["quality"] == Quality.ESTIMATED else None
    sums = _task_sums(trace, totals, has_energy=info["quality"] != "none")
    kept = KeptSums(trace, sums, info["domains"], info["quality"])
    absent: Any = Absent(refusal(trace.path))
    of = cast("Trace", trace)
    return Profile(of, absent, AccountsTable(accounts), info, absent, None, watts, None, absent, kept=kept)


def _totals(trace: SumsTrace, key: Sequence[str]) -> tuple[Table, pd.DataFrame]:
    """Return the sums by some columns, with indices in the table of tasks, and those of the domains."""
    tasks, domains = joined([]), _added_domains((), ["domain"])
    every = iter(trace.blocks())
    while blocks := list(islice(every, JOINED_BLOCKS)):
        tasks = joined([tasks, *(_in_indices(trace, block.tasks) for block in blocks)], key)
        domains = _added_domains([domains, *(block.domains for block in blocks)], ["domain"])
    return tasks, domains


def _in_indices(trace: SumsTrace, rows: Table) -> Table:
    """Return rows with indices in the table of tasks in the place of their processes' numbers."""
    found = rows.copy()
    for process in np.unique(rows["process"]).tolist():
        numbers, mine = trace.table.numbers(process), rows["process"] == process
        found["task"][mine] = [
            numbers[number] if number in numbers else trace.table.lost(process, number)
            for number in rows["task"][mine].tolist()
        ]
    return found


def _codes(trace: SumsTrace, task: NDArray[np.uint32]) -> tuple[NDArray[np.int64], pd.Index]:
    """Return the place of each index among the distinct names, and these."""
    unique, lookup = places([shown(entry.name) for entry in trace.table.entries])
    return lookup[task.astype(np.int64)], pd.Index(unique, dtype=object)


def _added_domains(tables: Sequence[pd.DataFrame | Table], key: Sequence[str]) -> pd.DataFrame:
    rows = pd.concat([pd.DataFrame(one) for one in (np.empty(0, DOMAIN_SUMS), *tables)])
    return rows.groupby(list(key), as_index=False)[["seconds", *ACCOUNTS]].sum()


def _begins_s(rows: pd.DataFrame, span_s: float) -> NDArray[np.float64]:
    """Return when the readings of a domain's rows begin: where those of the row before end, or with the span."""
    before_s = np.cumsum(rows["seconds"]) - rows["seconds"]
    # The later of both for one row after the other, as one cumulative maximum.
    return np.asarray(np.maximum.accumulate(rows["span"] * span_s - before_s) + before_s)


def _task_sums(trace: SumsTrace, totals: Table, *, has_energy: bool) -> TaskSums:
    rows = totals[~np.isin(totals["task"], trace.table.left_out())]
    codes, names = _codes(trace, rows["task"])
    by_name = rows.copy()
    by_name["task"] = codes
    found = np.zeros(len(names), TASK_SUMS)
    sums = joined([by_name], ["task"])
    found[sums["task"]] = sums
    ended, begun = found["ended"].astype(float), found["begun"].astype(np.int64)
    resolved = begun - (found["ended"] - found["resolved"]).astype(np.int64) if has_energy else np.zeros_like(begun)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Instances whose end was not seen, as of a program that was killed, count with the mean of the others.
        scale = np.where(found["resolved"] > 0, resolved / found["resolved"], 1.0)
        duration_s = np.where(ended > 0, found["ended_s"] * begun / ended, np.nan)
    plain = {name: found[name].astype(float) for name in ("energy_j", "dynamic_j", "own_s", "cpu_s")}
    squares = {name: found[name].astype(float) * scale for name in ("energy_m2", "duration_m2", "both_m2")}
    columns = {
        "instances": begun.astype(float),
        "resolved": resolved.astype(float),
        "duration_s": duration_s,
        "resolved_duration_s": found["resolved_s"] * scale,
        "resolved_own_s": plain["own_s"],
        "half_squares": found["half_j2"].astype(float) * scale,
        "cpu_own_s": plain["own_s"],
        "cpu_native_s": np.zeros(len(names)),
        "over": np.zeros(len(names)),
        **plain,
        **squares,
    }
    own_s, cpu_s = float(plain["own_s"].sum()), float(plain["cpu_s"].sum())
    return TaskSums(tuple(names), columns, int(begun.sum()), own_s, cpu_s, {})


def _left_out_share(trace: SumsTrace, totals: Table) -> float:
    """Return the part of the tasks' joules that is of default tasks, which others of the program replaced."""
    whole_j = float(totals["energy_j"].sum())
    left_j = float(totals["energy_j"][np.isin(totals["task"], trace.table.left_out())].sum())
    return left_j / whole_j if whole_j > 0 else 0.0


def _accounts(described: Sequence[dict[str, Any]], domains: pd.DataFrame, left_out: float) -> pd.DataFrame:
    """Return one row per domain; joules of tasks that are left out are in `runtime_j`, as in a profile."""
    rows = []
    for place, one in enumerate(described):
        mine = domains[domains["domain"] == place]
        figures = {name: float(mine[name].sum(min_count=1)) for name in ACCOUNTS}
        moved_j = figures["tasks_j"] * left_out
        figures["tasks_j"] -= moved_j
        figures["runtime_j"] += moved_j
        if not one.get("counted"):
            figures |= dict.fromkeys(ACCOUNTS[1:], math.nan)
        further = {"spin_j": 0.0, "unidentified_j": 0.0}
        rows.append({"domain": one["name"], **figures, **further, "quality": str(one.get("quality"))})
    columns = ["domain", *ACCOUNTS, "spin_j", "unidentified_j", "quality"]
    return pd.DataFrame(rows, columns=columns).set_index("domain")


def _common_error(trace: SumsTrace, described: Sequence[dict[str, Any]], accounts: pd.DataFrame) -> WattsError:
    """Return the error that is the same for all joules."""
    counted = [one for one in described if one.get("counted")]
    joules = [float(accounts.loc[one["name"], "measured_j"]) for one in counted]
    if not np.nansum(joules) > 0:
        return EXACT
    parts = [_relative(one.get("relative_error")) for one in counted]
    kinds = [str(one.get("quality")) for one in counted]
    return shared_error(list(zip(kinds, parts, joules, strict=True)), watts_error(trace.manifest))


def _relative(error: object) -> float:
    return float(error) if isinstance(error, int | float) and error > 0 else 0.0


def _estimate(
    trace: SumsTrace, described: Sequence[dict[str, Any]], accounts: pd.DataFrame, watts: WattsError
) -> dict[str, Any]:
    """Return the inputs of an estimate, and the interval of all joules due to the error of its watts."""
    static_w, seconds = trace.manifest.get("static_power_w") or {}, (trace.end_ns - trace.start_ns) * 1e-9
    energy_j = np.array([accounts.loc[one["name"], "measured_j"] for one in described if one.get("counted")])
    drawn_j = np.array([static_w.get(one["name"], 0.0) * seconds for one in described if one.get("counted")])
    low_j, high_j = widened(energy_j, energy_j, np.minimum(drawn_j, energy_j), watts)
    known = {"idle_factor": watts.idle, "per_core_factor": watts.busy}
    inputs = trace.manifest.get("estimate") or {}
    return {**inputs, **known, "energy_low_j": float(np.nansum(low_j)), "energy_high_j": float(np.nansum(high_j))}


def _info(trace: SumsTrace, described: Sequence[dict[str, Any]], accounts: pd.DataFrame) -> dict[str, Any]:
    counted = [one for one in described if one.get("counted")]
    known = [one for one in counted if not math.isnan(float(accounts.loc[one["name"], "measured_j"]))]
    quality = least_certain({str(one.get("quality")) for one in known})
    sources = sorted({str(one.get("source")) for one in counted})
    names = ", ".join(str(one["name"]) for one in counted)
    sensor = f"{', '.join(sources)} ({quality}{assumed_text(trace.manifest)}): {names}"
    return {
        "quality": quality,
        "sensor": sensor if counted else "no energy sensor: energies are not known",
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
    }
