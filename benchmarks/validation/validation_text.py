"""The tables of `scripts/bench validate` as rows of plain text, and the page that draws what validation found."""

from __future__ import annotations

import math
from importlib.resources import files
from statistics import median
from typing import TYPE_CHECKING, Any

from tprof.analysis import TABLE_1
from tprof.analysis.report.embed import Parts, clean, embed
from tprof.analysis.report.embed import write_page as write
from tprof.analysis.text_table import Table
from tprof.benchmarks import measured_figures
from tprof.benchmarks.measured_figures import NONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    Row = Mapping[str, Any]

MODELS = ("fitted + linear", "fitted", "linear", "ipc", "fesc", "cputime", "wall time")
MOST_LISTED = 5
"""Tasks whose errors stand in a cell; of more, the median and the largest do."""
ERRORS = (("mean_error", "mean energy of a task"), ("instance_error", "single instances"))


def tables(result: Mapping[str, Any]) -> Iterator[Table]:
    """Return all tables of a result of `measure`, in the order in which they are read."""
    extent = result["effort"]
    runs = f"{extent['seeds']} runs of {extent['duration_s']:g} s, simulated"
    for column, what, note in (
        ("mean_error", "mean energy of a task above static power", "Root mean squares over runs."),
        ("instance_error", "single instances", "Root mean squares over instances and runs, parts of the task's mean."),
        ("coverage", "how often the 95 % interval of a task's mean held the truth", "Wall time gives no interval."),
    ):
        title = f"{'Error: ' if column != 'coverage' else 'Coverage: '}{what} ({runs})"
        yield Table(title, ("case", "task", *MODELS), tuple(_by_model(result["rows"], column)), note, texts=2)
    if result["coverage"]:
        yield _coverage(result)
    yield _table_2(result["tables"])
    for key, other in (
        ("3", "3"),
        ("3 on four cores", None),
        ("3 with turbo", None),
        ("3 with instructions that differ by 30 %", None),
        ("4", "4"),
    ):
        yield _pairs(result["tables"], key, other)
    yield _calibration(result["calibration"])
    yield _figures(result["figures"])


def measured_pairs(result: Mapping[str, Any]) -> Table:
    """Return the table of pairs that were measured on this machine."""
    theirs = {(row["pair"], row["kernel"]): row for row in result["published"]}
    rows = []
    for row in result["pairs"]:
        paper = theirs.get((row["pair"], row["kernel"]), {})
        rows.append(
            (
                str(row["pair"]), row["kernel"], _watts(row["real_w"]), percent(row["share"]),
                _watts(row["slice_w"]), percent(row["slice_error"], signed=True),
                _watts(paper.get("real_w")), _watts(paper.get("slice_w")),
                percent(paper.get("slice_error"), signed=True),
            )
        )  # fmt: skip
    return Table(
        f"Table 3: pairs of kernels, power of a core (measured, {result['processor'] or 'a processor not named'})",
        ("pair", "kernel", "alone", "share", "slice", "error", "paper: real", "slice", "error"),
        tuple(rows),
        "Alone: what the package drew above static power. Slice: what the calibrated model gave it beside the other.",
        texts=2,
    )


def percent(value: float | None, *, signed: bool = False, digits: int | None = None) -> str:
    """Write a part of 1 in percent, with two digits below ten unless `digits` says how many."""
    if value is None:
        return NONE
    if digits is None:
        digits = 2 if abs(value) < 0.1 else 1
    return f"{100 * value:{'+' if signed else ''}.{digits}f} %"


def _by_model(rows: Sequence[Mapping[str, Any]], column: str) -> Iterator[tuple[str, ...]]:
    found: dict[tuple[str, str], dict[str, float | None]] = {}
    for row in rows:
        found.setdefault((row["case"], row["task"]), {})[row["model"]] = row[column]
    before = None
    for (case, task), models in found.items():
        yield ("" if case == before else case, task, *(percent(models.get(model)) for model in MODELS))
        before = case


def _coverage(result: Mapping[str, Any]) -> Table:
    names = {row["key"]: row["case"] for row in result["rows"]}
    rows = tuple(
        (
            names[row["key"]],
            task["task"],
            percent(task["coverage"]),
            f"{task['score_std']:.2f}",
            f"{percent(row['coverage'])} ± {100 * row['coverage_error']:.1f}",
        )
        for row in result["coverage"]
        for task in row["tasks"]
    )
    extent = result["effort"]
    return Table(
        f"Coverage of fitted, {extent['coverage_seeds']} runs of {extent['coverage_s']:g} s, simulated",
        ("case", "task", "held", "error / claimed", "the case"),
        rows,
        "error / claimed: standard deviation of the error in units of the standard error that was claimed.",
        texts=2,
    )


def _table_2(found: Mapping[str, Any]) -> Table:
    theirs = {row["kernel"]: row for row in found["published"]["2"]}
    columns = ("single_core_error", "quad_core_error")
    rows = [(row["kernel"], *_both(row, theirs[row["kernel"]], columns)) for row in found["2"]]
    mean = [
        {name: sum(row[name] for row in table) / len(table) for name in columns}
        for table in (found["2"], found["published"]["2"])
    ]
    return Table(
        "Table 2: error of the calibrated model on kernels that it was not calibrated on (simulated; paper: measured)",
        ("kernel", "one core", "paper", "four cores", "paper"),
        (*rows, ("mean", *_both(mean[0], mean[1], columns))),
        "Kernels of the virtual processor bear the paper's names; their characters are invented.",
        texts=1,
    )


def _both(ours: Mapping[str, Any], theirs: Mapping[str, Any], columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(percent(table[name]) for name in columns for table in (ours, theirs))


def _pairs(found: Mapping[str, Any], key: str, other: str | None) -> Table:
    theirs = {(row["pair"], row["kernel"]): row for row in found["published"].get(other, [])}
    rows = []
    for row in found[key]:
        paper = theirs.get((row["pair"], row["kernel"]), {})
        rows.append(
            (
                str(row["pair"]), row["kernel"], f"{row['real_w']:.2f} W", f"{row['slice_w']:.2f} W",
                percent(row["slice_error"], signed=True), percent(row["share_error"], signed=True),
                percent(row["model_error"], signed=True), _watts(paper.get("real_w")), _watts(paper.get("slice_w")),
                percent(paper.get("slice_error"), signed=True), percent(paper.get("model_error"), signed=True),
            )
        )  # fmt: skip
    what = "1.6 GHz by the model of 3.3 GHz" if key == "4" else "pairs of kernels"
    return Table(
        f"Table {key}: {what}, power of a core (simulated; paper: measured)",
        (
            "pair", "kernel", "real", "slice", "error", "of share", "model alone",
            "paper: real", "slice", "error", "model alone",
        ),
        tuple(rows),
        "Slice: the sensor's joules shared by the model. Model alone: equation 1 without the sensor. C2 is in neither.",
        texts=2,
    )  # fmt: skip


def assumed_watts(result: Mapping[str, Any]) -> Iterator[Table]:
    """Return what a recording without a sensor assumes, and the error of that on processors left out."""
    yield Table(
        "Watts that are assumed without a sensor, of a package of n cores (fitted to public figures)",
        ("kind", "idle", "all busy, above idle", "idle may be off by", "busy by", "cores of a guest's chip"),
        tuple(
            (
                row["kind"], *(f"{row[f'{of}_w']} W · n^{row[f'{of}_exponent']}" for of in ("idle", "busy")),
                f"× {row['idle_factor']}", f"× {row['busy_factor']}", row["guest_cores"],
            )
            for row in result["table"]
        ),
        "Factors are those within which processors left out lie, 95 %. The table that recordings read is this one.",
        texts=1,
    )  # fmt: skip
    yield Table(
        "Each processor predicted from the others: predicted over measured",
        ("processor", "kind", "source", "idle", "busy", "loads"),
        tuple(
            (
                row["processor"], row["kind"], row["source"], _times(row["idle_error"]), _times(row["busy_error"]),
                str(row["loads"]) if row["loads"] else NONE,
            )
            for row in result["left_out"]
        ),
        f"Without boards: idle within a factor of {result['idle_factor']:.2g}, busy {result['busy_factor']:.2g}, which "
        f"held {percent(result['held'])} of the loads; {result['sources_busy_factor']:.2g} with whole sources left "
        f"out. {result['servers']} server processors at the plug (SPECpower) were in every fit.",
        texts=3,
    )  # fmt: skip


def assumptions_table(result: Mapping[str, Any]) -> Table:
    """Return the table of the cases in which the assumptions of `fitted` hold, then of those in which they do not."""
    return Table(
        "fitted where its assumptions hold, and where they do not (simulated; runs that no estimator was built on)",
        (
            "case", "runs", "error by task", "least possible", "held", "power", "warned", "right cause", "of misses",
            "aims", "found",
        ),
        tuple(
            (
                row["case"], str(row["runs"]), *(_by_task(row["tasks"], error) for error in ("rms", "least")),
                *(percent(row[name], digits=0) for name in ("held", "power_held", "warned", "named")),
                _misses(row["tasks"]),
                "met" if row["met"] else "MISSED",
                ", ".join(f"{kind} {percent(part, digits=0)}" for kind, part in row["kinds"].items()),
            )
            for row in result["cases"]
        ),
        "Error: root mean square of a task's dynamic energy; least possible: of generalised least squares that know "
        "the noise. Held: how often the 95 % interval of this energy held the truth; power: the same of its power. "
        "Warned: of the runs; right cause: a finding names what was simulated; – where nothing is wrong. Of misses: of "
        "the runs in which a task's interval missed, in how many the profile warned of that task. Aims: each task's "
        "interval holds in 90 %, or 90 % of its misses are warned of, and at most 5 % of clean runs warn.",
        texts=1,
    )  # fmt: skip


def _by_task(tasks: Sequence[Row], error: str) -> str:
    errors = [task[error] for task in tasks if task[error] is not None]
    if len(errors) <= MOST_LISTED:
        return ", ".join(percent(one) for one in errors) or NONE
    return f"median {percent(median(errors))}, most {percent(max(errors))}"


def _misses(tasks: Sequence[Row]) -> str:
    missed = sum(task["missed"] for task in tasks)
    return f"{sum(task['warned'] for task in tasks)} of {missed}" if missed else NONE


def _times(value: float | None) -> str:
    return NONE if value is None else f"× {value:.2f}"


def _watts(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f} W"


def _calibration(goodness: Mapping[str, Any]) -> Table:
    names, law = ("a", "b", "c", "C1", "C2"), TABLE_1
    return Table(
        f"The calibrated model: equation 1 fitted to {goodness['runs']} simulated runs of stress kernels",
        (*names, "mean error", "worst", "kernel left out"),
        (
            (
                *(f"{goodness[name]:.3g}" for name in names),
                *(percent(goodness[name]) for name in ("mean_error", "worst_error", "left_out_error")),
            ),
        ),
        "a: W per IPC; b, c: W per GB/s of L2 and LLC traffic; C1: W per core; C2: W. The law's before it bends: "
        f"{law.a:g}, {law.b:g}, {law.c:g}, {law.c1:g} and {law.c2:g}.",
        texts=0,
    )


def _figures(figures: Sequence[Mapping[str, Any]]) -> Table:
    rows = measured_figures.rows({"figures": figures})
    met = {True: "met", False: "MISSED", None: ""}
    return Table(
        "Figures",
        ("what", "value", "spread", "", "target", "", "note"),
        tuple((row.name, row.value, row.spread, row.unit, row.target, met[row.met], row.note) for row in rows),
        "part: of 1.",
        texts=1,
    )


def write_page(result: Mapping[str, Any], path: Path) -> None:
    """Write the page, one file that needs no network. Raises TprofError where it cannot be written."""
    package = files(__package__)
    body, script = ((package / f"validate.{kind}").read_text("utf-8") for kind in ("html", "js"))
    write(path, embed(Parts("scripts/bench validate", body, script, page_data(result))))


def page_data(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page shows, as plain values without NaN."""
    rows, ours, paper = result["rows"], result["tables"], result["tables"]["published"]
    extent = result["effort"]
    text = (
        f"Simulated on the virtual processor: {extent['seeds']} runs of {extent['duration_s']:g} s each; no hardware."
    )
    data: dict[str, Any] = clean(
        {
            "setup": text,
            "models": [model for model in MODELS if any(row["model"] == model for row in rows)],
            "errors": [{"title": title, "series": _errors(rows, name)} for name, title in ERRORS],
            "coverage": _coverage_points(rows),
            "kernels": [
                _beside(title, [row["kernel"] for row in ours["2"]], ours["2"], paper["2"], name)
                for name, title in (("single_core_error", "one core"), ("quad_core_error", "four cores"))
            ],
            "pairs": [
                _beside(title, _pair_names(ours[key]), ours[key], paper[key], "slice_error")
                for key, title in (("3", "table 3: pairs at 3.3 GHz"), ("4", "table 4: pairs at 1.6 GHz"))
            ],
            "tables": [vars(table) for table in tables(result)],
        }
    )
    return data


def _errors(rows: Sequence[Row], name: str) -> list[dict[str, Any]]:
    """Return of each model a point a task and case, by the length of tasks, and the medians of each length."""
    found = []
    for model in MODELS:
        points = [row for row in rows if row["model"] == model and row[name]]
        lengths = sorted({row["duration_s"] for row in points})
        found.append(
            {
                "model": model,
                "length_s": [row["duration_s"] for row in points],
                "error": [row[name] for row in points],
                "text": [f"{row['case']}: {row['task']}" for row in points],
                "lengths_s": lengths,
                "median": [median(row[name] for row in points if row["duration_s"] == length) for length in lengths],
            }
        )
    return [one for one in found if one["error"]]


def _coverage_points(rows: Sequence[Row]) -> dict[str, Any]:
    """Return how often intervals held the truth, by case and model; wall time gives no interval."""
    cases = list(dict.fromkeys(row["case"] for row in rows))
    series = []
    for model in (one for one in MODELS if one != "wall time" and any(row["model"] == one for row in rows)):
        own = [row for row in rows if row["model"] == model]
        values = [_mean([row["coverage"] for row in own if row["case"] == case]) for case in cases]
        series.append({"name": model, "values": values})
    return {"title": "", "labels": cases, "series": series}


def _pair_names(rows: Sequence[Row]) -> list[str]:
    return [f"{row['pair']}: {row['kernel']}" for row in rows]


def _beside(title: str, labels: list[str], ours: Sequence[Row], paper: Sequence[Row], name: str) -> dict[str, Any]:
    both = (("virtual processor", ours), ("paper, measured", paper))
    series = [{"name": text, "values": [row[name] for row in rows]} for text, rows in both]
    return {"title": title, "labels": labels, "series": series}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return sum(known) / len(known) if known else None


def native_pools(rows: Sequence[Mapping[str, Any]], skipped: Sequence[Mapping[str, Any]]) -> Table:
    """Return whom native threads were credited to, beside the clocks that the tasks read, and what was skipped."""
    left_out = "".join(f" Skipped: {row['case']}: {row['reason']}." for row in skipped)
    return Table(
        "CPU time of native threads, by the tasks' own readings of their clocks and as credited",
        ("case", "pools", "task", "used", "credited", "error", "spinning", "unidentified"),
        tuple(
            (
                row["case"], "sleep" if row["passive"] else "spin", row["task"],
                NONE if row["used_s"] is None else f"{row['used_s']:.3f} s", f"{row['credited_s']:.3f} s",
                _credit_error(row), percent(row["spinning_share"]), percent(row["unidentified_share"]),
            )
            for row in rows
        ),
        "Error, spinning, unidentified: of the run's native CPU time or joules. Two users of one pool: nobody knows."
        + left_out,
        texts=3,
    )  # fmt: skip


def gpu_series(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the joules of windows on a GPU by tprof, by hand and by Zeus, and those of the tasks above idle power."""
    return Table(
        "Matrix products on a GPU: joules by tprof beside NVML's counter read by hand, in the same windows",
        ("size", "time", "by hand", "tprof", "error", "Zeus", "tasks", "of those above idle"),
        tuple(
            (
                f"{row['size']}", f"{row['seconds']:.2f} s", f"{row['by_hand_j']:.1f} J", f"{row['tprof_j']:.1f} J",
                percent(row["tprof_j"] / row["by_hand_j"] - 1),
                NONE if row["zeus_j"] is None else f"{row['zeus_j']:.1f} J", f"{row['tasks_j']:.1f} J",
                NONE if row["above_idle_j"] is None else percent(row["tasks_j"] / row["above_idle_j"]),
            )
            for row in rows
        ),
        "Zeus: ZeusMonitor in the same window, if it is installed (pip install zeus). Expected: within 2 %.",
    )  # fmt: skip


def _credit_error(row: Mapping[str, Any]) -> str:
    if row["used_s"] is None or not row["native_cpu_s"] > 0:
        return NONE
    return percent((row["credited_s"] - row["used_s"]) / row["native_cpu_s"])
