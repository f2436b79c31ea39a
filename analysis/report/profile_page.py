"""The page of one profile: its data as plain values, of bounded size for any number of instances."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tprof.analysis.names import shown
from tprof.analysis.profile.provenance import finding_texts, lead_in_text, uncertainty_text, warning_texts

from .embed import Parts, clean, embed, write_page
from .timeline import timeline_data

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray
    from tprof.analysis.profile import Profile


POINTS = 4_000  # more points become a density: a browser draws each point as an element, in seconds
SAMPLED = 3_000
TIME_BINS = 400
LONGEST = 12  # instances of a task
LISTED = 6_000  # of all tasks together
MOST_POOLS = 50
POOL_SUMS = ("threads", "cpu_s", "tasks_j", "spin_j", "unidentified_j", "outside_j")
GRID_COLUMNS, GRID_ROWS = 90, 60
SCRIPTS = ("lanes", "timeline", "explore", "task_table", "runtime_sections", "report")
TASKS = 40
WORKERS = 256
LINKS = 200  # entries of the longest chain in the list; the figures by task include all of it
CONTROLS = 64
STEPS = 4_000  # more make a browser slow: only the first and the last are drawn


def write_report(profile: Profile, path: str | os.PathLike[str]) -> None:
    """Write the report of `profile` to `path`, replacing a file that is there.

    Raises
    ------
    TprofError
        `path` is a directory or cannot be written.
    """
    write_page(path, render(profile))


def render(profile: Profile) -> str:
    """Return the page's HTML."""
    package = files(__package__)
    body = (package / "report.html").read_text("utf-8")
    body = body.replace("@TIMELINE@", (package / "timeline.html").read_text("utf-8"))
    script = "\n".join((package / f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    return embed(Parts("tprof report", body, script, page_data(profile)))


def page_data(profile: Profile) -> dict[str, Any]:
    """Return everything the page shows; NaN is None."""
    info = profile.info
    keys = ("sensor", "quality", "model", "model_why", "complete", "duration_s", "dropped", "lost_threads")
    data = {
        "info": {key: info.get(key) for key in keys} | {"warnings": warning_texts(info)},
        "findings": finding_texts(info),
        "lead_in": lead_in_text(info),
        "uncertainty": uncertainty_text(info),
        "left_out": list(info.get("left_out", [])),
        "argv": _command([str(word) for word in info.get("argv", [])]),
        "accounts": _accounts(profile),
        "summary": _summary(profile),
        "instances": _instances(profile.tasks),
        "longest": _longest(profile),
        "timeline": timeline_data(profile),
        "power": _power(profile.power),
        "expected": _expected(profile),
        "runtime": runtime_data(profile),
        "operating": operating_data(profile),
        "native": _native(profile),
    }
    plain: dict[str, Any] = clean(data)
    return plain


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [dict(zip(frame.columns, row, strict=True)) for row in frame.itertuples(index=False, name=None)]


def _command(argv: list[str]) -> list[str]:
    """Return the command without its folder."""
    return [argv[0].rpartition("/")[2], *argv[1:]] if argv else []


def _accounts(profile: Profile) -> list[dict[str, Any]]:
    counted = {domain["name"]: domain["counted"] for domain in profile.info["domains"]}
    return [row | {"counted": counted[row["domain"]]} for row in _records(profile.accounts.reset_index())]


def _native(profile: Profile) -> dict[str, Any] | None:
    """Return the pools of native threads, those of one library and the same users as one; None without any."""
    facts = profile.info["native"]
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


def _power(power: pd.DataFrame) -> dict[str, Any]:
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


def _expected(profile: Profile) -> dict[str, Any]:
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


def _summary(profile: Profile) -> list[dict[str, Any]]:
    places: dict[str, list[dict[str, Any]]] = {}
    for entry in profile.trace.tasks:
        place = {"file": entry.file, "line": entry.line, "source": entry.source}
        places.setdefault(shown(entry.name), []).append(place)
    rows = _records(profile.summary().reset_index())
    return [row | {"places": places.get(str(row["task"]), [])} for row in rows]


def _instances(tasks: pd.DataFrame) -> dict[str, Any]:
    duration_s = tasks["duration_s"].to_numpy(float)
    energy_j = tasks["energy_j"].to_numpy(float)
    start_s = tasks["start_s"].to_numpy(float)
    dense = len(tasks) > POINTS
    shown = sample(len(tasks), SAMPLED if dense else POINTS)
    names = tasks["task"].astype("category").cat
    views = {}
    if dense:
        groups = [("all", np.ones(len(tasks), bool))]
        groups += [(f"cpu {cpu}", tasks["cpu"].to_numpy() == cpu) for cpu in np.unique(tasks["cpu"])[:64]]
        code = names.codes.to_numpy()
        groups += [(f"task {names.categories[one]}", code == one) for one in pd.Series(code).value_counts().index[:40]]
        for name, rows in groups:
            views[name] = {
                "energy": grid(duration_s[rows], energy_j[rows]),
                "time_energy": grid(start_s[rows], energy_j[rows], log_x=False),
                "time_duration": grid(start_s[rows], duration_s[rows], log_x=False),
            }
    return {
        "count": len(tasks),
        "unresolved": int(np.isnan(energy_j).sum()),
        "dense": dense,
        "views": views,
        "names": [str(name) for name in names.categories],
        "task": names.codes.to_numpy()[shown].tolist(),
        "cpu": tasks["cpu"].to_numpy()[shown].tolist(),
        "cpus": sorted(int(cpu) for cpu in tasks["cpu"].unique()),
        "start_s": start_s[shown].tolist(),
        "duration_s": duration_s[shown].tolist(),
        "energy_j": energy_j[shown].tolist(),
    }


def _longest(profile: Profile) -> dict[str, Any]:
    """Return the longest instances of each task, by its number, longest first."""
    tasks = profile.tasks
    codes = tasks["task"].cat.codes.to_numpy()
    duration_s = tasks["duration_s"].to_numpy(float)
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(tasks["task"].cat.categories)), side="right")
    each = int(np.clip(LISTED // max(len(ends), 1), 1, LONGEST))
    found = {}
    for code, rows in enumerate(np.split(order, ends)[:-1]):
        mine = rows[codes[rows] == code]
        if len(mine):
            some = mine[np.argpartition(-duration_s[mine], each - 1)[:each]] if len(mine) > each else mine
            found[str(code)] = some[np.argsort(-duration_s[some], kind="stable")]
        if len(found) >= LISTED:
            break
    kept = ("energy_j", "energy_low_j", "energy_high_j", "cpu", "pid", "tid", "thread")
    # Integers stay exact to the nanosecond; other drawn values need only seven digits.
    start_ns, duration_ns = (
        np.round(tasks[name].to_numpy() * 1e9).astype(np.int64) for name in ("start_s", "duration_s")
    )
    return {
        code: {"start_ns": start_ns[rows].tolist(), "duration_ns": duration_ns[rows].tolist()}
        | {"own_s": profile.own_s[rows].tolist()}
        | {name: tasks[name].to_numpy()[rows].tolist() for name in kept}
        for code, rows in found.items()
    }


def grid(x: np.ndarray, y: np.ndarray, *, log_x: bool = True) -> dict[str, Any]:
    """Count points in a grid, row by row, lowest y first.

    Durations and energies spread over decades, so the cells are even in their logarithms; points without a positive
    value are left out. `x` and `y` are the cells' edges.

    Parameters
    ----------
    x, y : (n,)
    log_x : False for a time of the run
    """
    good = np.isfinite(x) & np.isfinite(y) & (y > 0) & ((x > 0) | (not log_x))
    if not good.any():
        return {"x": [], "y": [], "z": []}
    columns = np.log10(x[good]) if log_x else x[good]
    counts, x_edges, y_edges = np.histogram2d(columns, np.log10(y[good]), bins=(GRID_COLUMNS, GRID_ROWS))
    return {
        "x": _rounded(10**x_edges if log_x else x_edges),
        "y": _rounded(10**y_edges),
        "z": counts.T.astype(int).tolist(),
    }


def sample(count: int, size: int) -> np.ndarray:
    """Return at most `size` row numbers of `count`, increasing; the same ones each time."""
    if count <= size:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, size, replace=False))


def _rounded(edges: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in edges]


def runtime_data(profile: Profile) -> dict[str, Any] | None:
    """Return the section's figures; None without a runtime."""
    facts = profile.runtime
    if facts is None:
        return None
    path = profile.critical_path()
    return {
        "facts": facts,
        "waits": _records(profile.waits().head(TASKS).reset_index()),
        "workers": _records(profile.starvation.head(WORKERS)),
        "chain": _by_task(path.chain),
        "heaviest": _by_task(path.heaviest),
        "links": _records(path.chain.head(LINKS)),
        "links_left_out": max(len(path.chain) - LINKS, 0),
    }


def _by_task(chain: pd.DataFrame) -> list[dict[str, Any]]:
    grouped = chain.groupby("task", sort=False)
    table = grouped.agg(instances=("instance", "nunique"), path_s=("path_s", "sum"))
    table["energy_j"] = grouped["energy_j"].sum(min_count=1)
    return _records(table.sort_values("path_s", ascending=False).head(TASKS).reset_index())


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
