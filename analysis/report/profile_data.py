"""What the page of a profile shows, as plain values of bounded size for any number of instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tprof.analysis.names import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from tprof.analysis.profile import Profile

    from tprof.trace import TaskEntry


TIME_BINS = 400
DRAWN_TASKS = 7  # with a line of their own over time; the others are one
LONGEST = 12  # instances of a task
LISTED = 1_000  # of all tasks together
MOST_POOLS = 50
POOL_SUMS = ("threads", "cpu_s", "tasks_j", "spin_j", "unidentified_j", "outside_j")
TASKS = 40
WORKERS = 256
SUMMARIZED = 500
SOURCE_CHARACTERS = 64_000  # of all tasks together, those of most energy first
LINKS = 200  # entries of the longest chain in the list; the figures by task include all of it
CONTROLS = 64
_FACTS = ("energy_j", "energy_low_j", "energy_high_j", "cpu", "pid", "tid", "thread")
STEPS = 4_000  # more make a browser slow: only the first and the last are drawn


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as plain values."""
    return [dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False, name=None)]


def accounts(profile: Profile) -> list[dict[str, Any]]:
    """Return the accounts of each domain, and whether it is in the total."""
    rows = records(profile.accounts.reset_index())
    if profile.job is not None:
        return rows
    counted = {domain["name"]: domain["counted"] for domain in profile.info["domains"]}
    return [row | {"counted": counted[row["domain"]]} for row in rows]


def native(profile: Profile) -> dict[str, Any] | None:
    """Return the pools of native threads, those of one library and the same users as one; None without any."""
    facts = profile.info.get("native")
    if facts is None:
        return None
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for pool in facts["pools"]:
        key = (pool["title"], tuple(pool["served"]), tuple(pool["users"]), pool["known_by"])
        row = rows.setdefault(key, {**pool, **dict.fromkeys(POOL_SUMS, 0), "libraries": [], "spins_after": []})
        row |= {name: row[name] + pool[name] for name in POOL_SUMS}
        for name, found in (("libraries", [pool["library"]]), ("spins_after", pool["spins_after"])):
            row[name] = sorted({*row[name], *found})
    most = sorted(rows.values(), key=lambda row: -row["cpu_s"])
    return {**facts, "pools": most[:MOST_POOLS]}


def power(power: pd.DataFrame) -> dict[str, Any]:
    """Return each domain's watts over time, means over slices where there are more quanta than a line can show."""
    domains = [str(name) for name in power.columns if str(name).endswith("_w")]
    time_s, length_s = power["time_s"].to_numpy(float), power["duration_s"].to_numpy(float)
    slice_of = np.arange(len(power)) * TIME_BINS // max(len(power), TIME_BINS)
    starts = np.flatnonzero(np.diff(slice_of, prepend=-1))
    if not len(starts):
        return {"x": [], "watts": {}}
    seconds = np.add.reduceat(length_s, starts)
    watts = {
        name.removesuffix("_w"): (np.add.reduceat(power[name].to_numpy(float) * length_s, starts) / seconds).tolist()
        for name in domains
    }
    return {"x": [*time_s[starts].tolist(), float(time_s[-1] + length_s[-1])], "watts": watts}


def over_time(profile: Profile) -> dict[str, Any] | None:
    """Return the mean watts of the tasks of most energy, and of the others, in at most `TIME_BINS` slices.

    Only sums that were kept are by time: None for a recording with samples.
    """
    if profile.kept is None:
        return None
    spans = profile.kept.spans
    if spans.empty:
        return {"x": [], "watts": {}}
    first_s, last_s = float(spans["time_s"].min()), float(spans["time_s"].max())
    span_s = float(spans["span_s"].iloc[0])
    step_s = span_s * max(np.ceil((last_s - first_s) / span_s / TIME_BINS), 1)
    most = list(profile.summary().head(DRAWN_TASKS).index)
    task = spans["task"].astype(object).where(spans["task"].isin(most), "others")
    place = ((spans["time_s"] - first_s) / step_s + 1e-9).astype(int)
    rows = pd.DataFrame({"place": place, "task": task, "energy_j": spans["energy_j"]})
    joules = rows.pivot_table("energy_j", "place", "task", aggfunc="sum", fill_value=0.0)
    joules = joules.reindex(range(int(place.max()) + 1), fill_value=0.0)
    edges_s = first_s + step_s * np.arange(len(joules) + 1)
    if edges_s[-2] < profile.info["duration_s"] < edges_s[-1]:
        edges_s[-1] = profile.info["duration_s"]  # the last span is as long as the recording
    drawn = [name for name in [*most, "others"] if name in joules and (name in most or joules[name].any())]
    watts = {str(name): (joules[name] / np.diff(edges_s)).tolist() for name in drawn}
    return {"x": edges_s.tolist(), "watts": watts}


def expected(profile: Profile) -> dict[str, Any]:
    """Return the error of single instances by their length, and a note on its limits."""
    errors = profile.expected_errors
    left_out = "how far an instance strays from its task's mean"
    if not profile.recipe.fits:
        left_out += f", and how far model {profile.info['model']} is from the truth"
    middle_s = np.sqrt(errors["length_low_s"].to_numpy(float) * errors["length_high_s"].to_numpy(float))
    return {
        "length_s": middle_s.tolist(),
        "error": errors["error"].to_numpy(float).tolist(),
        "instances": errors["instances"].to_numpy(int).tolist(),
        "left_out": left_out,
    }


def places_of(entries: Iterable[TaskEntry]) -> dict[str, list[dict[str, Any]]]:
    """Return where each task is in the source."""
    places: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        place = {"file": entry.file, "line": entry.line, "source": entry.source}
        places.setdefault(shown(entry.name), []).append(place)
    return places


def summary(profile: Profile, places: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the summary's rows, each with the places of the task in the source."""
    rows = records(profile.summary().head(SUMMARIZED).reset_index())
    room = SOURCE_CHARACTERS
    for row in rows:
        row["places"] = [dict(place) for place in places.get(str(row["task"]), [])]
        for place in row["places"]:
            room -= len(place["source"] or "")
            if room < 0:
                place["source"] = None
    return rows


def left_out(profile: Profile) -> dict[str, Any]:
    """Return how many tasks the page does not list, and their joules."""
    rest = profile.summary().iloc[SUMMARIZED:]
    return {"tasks": len(rest), "energy_j": float(rest["energy_j"].sum())}


def longest(profile: Profile, hosts: int = 1) -> pd.DataFrame:
    """Return the longest instances of each task of a host, so few that those of as many `hosts` fit on a page.

    Returns
    -------
    task, start_ns, duration_ns, own_s and the columns of `_FACTS`; longest first by task
    """
    columns = ["task", "start_s", "duration_s", *_FACTS]
    (tasks, own_s), _ = profile.host_instances.kept
    rows = tasks[columns].assign(own_s=own_s).iloc[_longest_rows(tasks, hosts)]
    # Integers stay exact to the nanosecond; other drawn values need only seven digits.
    times = {f"{name}_ns": np.round(rows[f"{name}_s"] * 1e9).astype(np.int64) for name in ("start", "duration")}
    return rows.assign(task=rows["task"].astype(str), **times).drop(columns=["start_s", "duration_s"])


def _longest_rows(tasks: pd.DataFrame, hosts: int) -> NDArray[np.intp]:
    """Return the rows of the longest instances of each task, longest first by task."""
    codes = tasks["task"].cat.codes.to_numpy()
    duration_s = tasks["duration_s"].to_numpy(float)
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(tasks["task"].cat.categories)), side="right")
    each = int(np.clip(LISTED // max(hosts * len(ends), 1), 1, LONGEST))
    found = [np.empty(0, np.intp)]
    for code, rows in enumerate(np.split(order, ends)[:-1]):
        mine = rows[codes[rows] == code]
        if len(mine):
            some = mine[np.argpartition(-duration_s[mine], each - 1)[:each]] if len(mine) > each else mine
            found.append(some[np.argsort(-duration_s[some], kind="stable")])
        if len(found) > LISTED:
            break
    return np.concatenate(found)


def longest_by_task(names: Sequence[str], hosts: Sequence[pd.DataFrame]) -> dict[str, Any]:
    """Return the longest instances of each task over all hosts, by its number among the names."""
    code = {name: str(number) for number, name in enumerate(names)}
    rows = pd.concat(hosts).sort_values("duration_ns", ascending=False, kind="stable") if hosts else pd.DataFrame()
    groups = rows.groupby("task", sort=False) if len(rows) else ()
    return {
        code[str(task)]: {
            str(column): values.tolist() for column, values in mine.head(LONGEST).drop(columns="task").items()
        }
        for task, mine in groups
        if str(task) in code
    }


def runtime_data(profile: Profile) -> dict[str, Any] | None:
    """Return the section's figures; None without a runtime."""
    facts = profile.runtime
    if facts is None:
        return None
    path = profile.critical_path()
    return {
        "facts": facts,
        "waits": records(profile.waits().head(TASKS).reset_index()),
        "workers": records(profile.starvation.head(WORKERS)),
        "chain": records(path.sums("task").head(TASKS).reset_index()),
        "heaviest": records(path.sums("task", heaviest=True).head(TASKS).reset_index()),
        "links": records(path.chain.head(LINKS)),
        "links_left_out": max(len(path.chain) - LINKS, 0),
    }


def operating_data(profile: Profile) -> dict[str, Any] | None:
    """Return the section's figures; None without decisions of a policy."""
    table = profile.decisions
    if table.empty:
        return None
    chosen = table[table["kind"] == "chosen"]
    changes = table[table["kind"] == "set"]
    return {
        "policies": list(dict.fromkeys(table.loc[table["kind"] != "acted", "policy"])),
        "chosen": [_last(task, rows, changes) for task, rows in list(chosen.groupby("task", sort=False))[:TASKS]],
        "lines": _lines(table, float(profile.info["duration_s"])),
        "acted": _columns(table[table["kind"] == "acted"].iloc[:TASKS], ("time_s", "why")),
        "workers": _columns(table[table["kind"] == "workers"], ("time_s", "workers")),
        "changes": int((changes["why"] != "held").sum()),
    }


def _last(task: Any, rows: pd.DataFrame, changes: pd.DataFrame) -> dict[str, Any]:
    last = rows.iloc[-1]
    kept = ("frequency_hz", "energy_j", "instance_s", "quality", "why", "time_s")
    return {"task": task, "times": len(rows), "changes": int((changes["task"] == task).sum())} | {
        name: last[name] for name in kept
    }


def _lines(table: pd.DataFrame, duration_s: float) -> list[dict[str, Any]]:
    """Return each frequency over time as steps: of the processors, and the limit of a power cap."""
    released_s = table.loc[table["kind"] == "released", "time_s"].to_numpy()
    kinds = [(f"processors {cpus}", rows) for cpus, rows in table[table["kind"] == "set"].groupby("cpus", sort=False)]
    allowed = table[table["kind"] == "allowed"]
    lines = [_steps(name, rows, released_s, duration_s) for name, rows in kinds[:CONTROLS]]
    if len(allowed):
        lines.append(_steps("allowed by the cap", allowed, released_s, duration_s) | {"bound": True})
    return lines


def _steps(name: str, rows: pd.DataFrame, released_s: NDArray[np.float64], duration_s: float) -> dict[str, Any]:
    kept = rows if len(rows) <= STEPS else rows.iloc[[*range(STEPS // 2), *range(-STEPS // 2, 0)]]
    changes = [*zip(kept["time_s"], kept["frequency_hz"], strict=True), *((ended_s, None) for ended_s in released_s)]
    steps: list[tuple[float, float | None]] = []
    for when_s, hz in sorted([*changes, (duration_s, None)], key=lambda change: change[0]):
        if hz is None and steps:
            steps.append((when_s, steps[-1][1]))  # to where it ends
        steps.append((when_s, hz))
    times_s, frequencies_hz = zip(*steps, strict=True)
    return {"name": name, "left_out": len(rows) - len(kept), "time_s": times_s, "frequency_hz": frequencies_hz}


def _columns(rows: pd.DataFrame, names: tuple[str, ...]) -> dict[str, list[Any]]:
    return {name: rows[name].tolist() for name in names}
