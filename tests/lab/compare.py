"""Puts what tprof says of a scenario beside the truth, and says whether it is within the scenario's bounds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import compare_operating_points
import numpy as np
from arm64 import ROUNDS
from programs import TASKS
from report import Report, Run
from tprof.analysis.attribution.quanta import build_quanta

from tprof.trace.kinds import Flag

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from tprof.trace import Readings, Trace

LEAST_WINDOW_NS = 5_000_000
"""A first reading has no window, and the guest is slow."""
REGISTERS = {"package": 0, "core": 1, "dram": 2, "psys": 3}
BASE_MW, IDLE_MW = 1500, 500
LEAST_COUNTED = 0.9
NOTICED_J = 0.01
"""What a sentence may say is lost, though it is within the bound."""
THREE_ERRORS = 3 / 1.96
"""So much wider than its 95 % is an interval of three standard errors, which truths leave once in 370 times."""
POLLER_SHARE = 0.01
"""Of a core, unless a recording is given another."""


def compare(name: str, scenario: dict[str, Any], folder: Path) -> Report:
    """Print a table of one scenario's figures, and return it."""
    print(f"{name}: {scenario['about']}")
    report = Report()
    if not (folder / "truth.json").exists():
        report.true("it came to its end", holds=False)
        return report
    run = Run(scenario, folder, json.loads((folder / "truth.json").read_text()))
    for what in scenario["checks"]:
        CHECKS[what](report, run)
    return report


def _rise(reads: np.ndarray, readings: Readings, said_j: float, scale: float) -> tuple[float, float]:
    """Return by how much register and truth rose from a domain's first reading to its last, in joules.

    A reading's value is that of the last read of the register before its time, or, where the reader lost the processor
    in between, of one in its window: perf reads the registers by a timer too. Of these the nearest is meant.
    """
    good = np.flatnonzero(~readings.missing)[[0, -1]]
    t_ns, window_ns = readings.t_ns[good], np.maximum(readings.window_ns[good], LEAST_WINDOW_NS)
    first, last = (
        reads[max(np.searchsorted(reads["t_ns"], [t - window, t], side="right").min() - 1, 0) : end]
        for t, window, end in zip(t_ns, window_ns, np.searchsorted(reads["t_ns"], t_ns, side="right"), strict=True)
    )
    rises = (last["published_pj"][:, None].astype(np.int64) - first["published_pj"].astype(np.int64)) * 1e-12 * scale
    at_last, at_first = np.unravel_index(np.argmin(abs(rises - said_j)), rises.shape)
    true_pj = int(last["true_pj"][at_last]) - int(first["true_pj"][at_first])
    return float(rises[at_last, at_first]), true_pj * 1e-12 * scale


def _domains(run: Run) -> list[str]:
    return [name for name, readings in run.trace.readings.items() if readings.quantity == "energy"]


def _counted_and_drawn(run: Run, name: str) -> tuple[float, float, float]:
    """Return what tprof read of a domain, what its register counted meanwhile, and what was drawn, in joules."""
    readings, scale = run.trace.readings[name], run.scenario.get("scale", {}).get(name.partition("-")[0], 1.0)
    said_j = build_quanta(readings).energy_j.sum()
    return said_j, *_rise(_reads_of(run, name), readings, said_j, scale)


def _reads_of(run: Run, name: str) -> np.ndarray:
    """Return the reads of a domain's register, ascending by time."""
    kind, _, package = name.partition("-")
    of_it = (run.reads["register"] == REGISTERS[kind]) & (run.reads["package"] == int(package or 0))
    return np.sort(run.reads[of_it], order="t_ns")


def _totals(report: Report, run: Run) -> None:
    """Compare each domain's total with what its register counted, and with the truth, from first to last reading."""
    bounds = run.scenario["bounds"]
    for name in _domains(run):
        readings = run.trace.readings[name]
        said_j, counted_j, true_j = _counted_and_drawn(run, name)
        good = readings.t_ns[~readings.missing]
        gap_s = float(np.diff(good).max()) * 1e-9
        print(f"  {name}: {len(good)} readings, the longest gap {gap_s:.3f} s")
        report.line("    what its register counted", said_j, counted_j, bounds["register_j"])
        report.line("    what was drawn", said_j, true_j, bounds["true_j"])
        for warning in build_quanta(readings).warnings:
            print(f"    {warning}")
        if any(kind in name for kind in run.scenario.get("wrap_after_j", {})):
            report.true("  the register wrapped", holds=_wrapped(run, name))
        if "least_gap_s" in run.scenario:
            report.true("  nobody looked for long", holds=gap_s > run.scenario["least_gap_s"])


def _wrapped(run: Run, name: str) -> bool:
    values = _reads_of(run, name)["value"]
    return bool((np.diff(values.astype(np.int64)) < 0).any())


def _counted_once(report: Report, run: Run) -> None:
    """The domains are those that the machine has, and a profile's total is that of packages and DRAM alone."""
    names, expected = _domains(run), run.scenario["bounds"]["domains"]
    report.true(f"the domains are {', '.join(names)}", holds=sorted(names) == sorted(expected))
    profile = run.trace.profile("cputime")
    said_j = profile.measured_j + profile.info["lead_in_j"] + profile.info["after_end_j"]
    drawn_j = [_counted_and_drawn(run, name)[2] for name in names if name.startswith(("package", "dram"))]
    report.line("the total", said_j, sum(drawn_j), run.scenario["bounds"]["true_j"] * len(drawn_j))


def _doubts(run: Run, name: str) -> list[str]:
    """Return the warnings about a domain, except that it was not read for a while, which is true of a slow guest."""
    warnings = run.trace.profile("cputime").info["warnings"]
    return [warning for warning in warnings if name in warning and "was not read for" not in warning]


def _no_warnings(report: Report, run: Run) -> None:
    """No warning about the sensor: whatever happened, it was right."""
    warnings = [one for name in _domains(run) for one in _doubts(run, name)]
    for warning in warnings:
        print(f"    {warning}")
    report.true("no warning about a sensor that is right", holds=not warnings)


def _warned(report: Report, run: Run) -> None:
    """Each total is right, or it is too low and one sentence says why."""
    bounds = run.scenario["bounds"]
    for name in _domains(run):
        said_j, counted_j, _ = _counted_and_drawn(run, name)  # to its last reading that is not missing
        own = _doubts(run, name)
        lost_j, ends_missing = counted_j - said_j, bool(run.trace.readings[name].missing[-1])
        least = int(lost_j > bounds["register_j"] or ends_missing)
        most = int(lost_j > NOTICED_J or ends_missing)
        print(f"  {name}: {said_j:.4f} J of {counted_j:.4f} J; {'; '.join(own) or 'no warning'}")
        what = "is too low, and one sentence says so" if least else "is right"
        report.true(f"  it {what}", holds=least <= len(own) <= most and lost_j >= -bounds["register_j"])


def _since(said: dict[str, Any], line: str) -> dict[str, int]:
    """Return by how much a line of the truth grew while the program ran."""
    before, after = said["before"][line], said["after"][line]
    return {key: after[key] - before[key] for key in after}


def _kinds(run: Run) -> dict[str, dict[str, int]]:
    """Return by task what its kind truly did."""
    return {name: _since(run.said, f"kind{TASKS[name]}") for name in run.scenario["arguments"]["seconds"]}


def _tasks(report: Report, run: Run) -> None:
    """Compare each task's joules above idle, package and DRAM, and their sum, with the truth of its kind.

    A busy processor draws its base power rather than its idle power, whatever it runs: that belongs to the tasks too.
    So does, in counted time, what a task draws while it declares its kind; elsewhere the kernel's work is in that time.
    """
    kinds, load = _kinds(run), run.scenario.get("load", {})
    base_w = (load.get("base_mw", BASE_MW) - load.get("idle_mw", IDLE_MW)) * 1e-3
    true_j = {
        name: (kind["dynamic_uj"] + kind["dram_uj"]) * 1e-6 + base_w * kind["busy_ns"] * 1e-9
        for name, kind in kinds.items()
    }
    undeclared = _since(run.said, "kind0")
    undeclared_s, drawn_j = undeclared["busy_ns"] * 1e-9, (undeclared["dynamic_uj"] + undeclared["dram_uj"]) * 1e-6
    print(f"  what ran undeclared: {undeclared_s:.3f} s, {drawn_j:.3f} J besides the base power")
    cpu_s = run.trace.profile("cputime").tasks.groupby("task", observed=True)["cpu_s"].sum()
    for name, kind in kinds.items():
        declared_s = kind["busy_ns"] * 1e-9
        watts = true_j[name] / declared_s
        print(
            f"  {name}: CPU time {cpu_s[name]:.4f} s, of which declared {declared_s:.4f} s at {watts:.3f} W above idle"
        )
        if run.scenario["machine"].get("counted_time"):
            true_j[name] += (float(cpu_s[name]) - declared_s) * (drawn_j / undeclared_s + base_w)
    for model, bound in run.scenario["bounds"]["models"].items():
        _tasks_by(model, report, run.trace, true_j, bound)


def _tasks_by(model: str, report: Report, trace: Trace, true_j: dict[str, float], bound: Any) -> None:
    """Compare the joules of one model. One that finds no static power is given the true one."""
    if "static_w" in bound:
        trace = replace(trace, manifest=trace.manifest | {"static_power_w": bound["static_w"]})
    profile = trace.profile(model)
    summary, fits = profile.summary(), model != "cputime"
    said_j = summary["dynamic_j"]
    for name, joules in true_j.items():
        report.line(f"{model}: {name}", float(said_j[name]), joules, bound["task"] * joules, in_table=fits)
    total_j = sum(true_j.values())
    report.line(f"{model}: all", float(said_j.sum()), total_j, bound["sum"] * total_j, in_table=fits)
    if bound.get("intervals"):
        _intervals(report, summary, true_j)
    print("    " + profile.accounts.to_string().replace("\n", "\n    "))
    print(f"    static power {profile.info.get('static_power_w')}; {profile.info['warnings']}")


def _intervals(report: Report, summary: pd.DataFrame, true_j: dict[str, float]) -> None:
    """Each task's interval, widened to three standard errors, has the truth in it."""
    for name, joules in true_j.items():
        said_j, low_j, high_j = (float(summary.loc[name, f"dynamic_{what}"]) for what in ("j", "low_j", "high_j"))
        widest_j = THREE_ERRORS * (high_j - said_j if joules > said_j else said_j - low_j)
        what = f"{name}: the truth is in its interval ({low_j:.3f} to {high_j:.3f} J) or near it"
        report.true(what, holds=abs(joules - said_j) <= widest_j)


def _poller(report: Report, run: Run) -> None:
    """The thread that reads the sensors, and follows native threads, takes no more of a core than it may."""
    passed_ns = run.said["after"]["now_ns"] - run.said["before"]["now_ns"]
    took_ns = run.said["poller_ns"][1] - run.said["poller_ns"][0]
    budget = run.scenario.get("poller_share", POLLER_SHARE)
    bound = budget * run.scenario["bounds"]["poller"]
    report.line("share of a core for sensors and native threads", took_ns / passed_ns, budget, bound, "")
    readings = [one for one in run.trace.readings.values() if one.quantity == "energy"]
    gaps_ms = [f"{one.name} {np.median(np.diff(one.t_ns)) * 1e-6:.1f} ms" for one in readings]
    print(f"    median gap between readings: {', '.join(gaps_ms)}")


def _calibrated(report: Report, run: Run) -> None:
    """`tprof calibrate` found the watts of a core and of a package, and predicts kinds that it left out."""
    model, bounds = run.said["model"], run.scenario["bounds"]["calibration"]
    for name, (true, share) in bounds["true"].items():
        report.line(f"calibration: {name}", model["coefficients"][name], true, share * true, "W")
    report.line("calibration: error of kinds left out", model["left_out_error"], 0.0, bounds["left_out"], "")


def _counters(report: Report, run: Run) -> None:
    """Compare each task's counts with those of its kind."""
    sums = run.trace.profile("cputime").tasks.groupby("task", observed=True)[["cycles", "instructions"]].sum()
    for name, kind in _kinds(run).items():
        for what in ("cycles", "instructions"):
            bound = run.scenario["bounds"]["counters"] * kind[what]
            report.line(f"{name}: {what}", float(sums[what][name]) * 1e-6, kind[what] * 1e-6, bound * 1e-6, "10^6")


def _pool(report: Report, run: Run) -> None:
    """Compare the joules of each task's native threads with those of the kind that they ran for it."""
    trace = replace(run.trace, manifest=run.trace.manifest | {"static_power_w": run.scenario["bounds"]["static_w"]})
    for model, bound in run.scenario["bounds"]["pool"].items():
        profile = trace.profile(model)
        summary = profile.summary()
        for name, (own, native) in run.scenario["arguments"]["kinds"].items():
            said_j = float(summary.loc[name, "native_j"])
            true_j = _above_idle_j(run, native)
            report.line(f"{model}: {name}, native threads", said_j, true_j, bound * true_j)
            own_j = _above_idle_j(run, own)
            print(f"    in all {float(summary.loc[name, 'dynamic_j']):.3f} J above idle, truly {true_j + own_j:.3f} J")
        (row,) = [one for one in profile.info["native"]["pools"] if "pool" in one["library"]]
        print(f"    weighed by counters: {row['counted']:.0%}; known by {row['known_by']}")
        if model != "cputime":
            report.true("nine tenths of the pool's time were counted", holds=row["counted"] > LEAST_COUNTED)
    print("    " + profile.accounts.to_string().replace("\n", "\n    "))


def _above_idle_j(run: Run, kind: int) -> float:
    """Return what a kind drew above what an idle processor draws."""
    said, load = _since(run.said, f"kind{kind}"), run.scenario.get("load", {})
    base_w = (load.get("base_mw", BASE_MW) - load.get("idle_mw", IDLE_MW)) * 1e-3
    return (said["dynamic_uj"] + said["dram_uj"]) * 1e-6 + base_w * said["busy_ns"] * 1e-9


def _multiplexed(report: Report, run: Run) -> None:
    """The kernel took turns: otherwise the scenario showed nothing."""
    flags = np.concatenate([thread.read()["flags"] for thread in run.trace.threads])
    turns = float((flags & Flag.SCALED != 0).mean())
    report.true(f"samples whose counters took turns: {turns:.0%}", holds=turns > 0)


def _read_in_user_space(report: Report, run: Run) -> None:
    """Each sample read its counters by `rdpmc`; the kernel was asked only where a thread had just got its processor."""
    samples = sum(len(thread.read()) for thread in run.trace.threads)
    events = len(run.trace.manifest["columns"]) - 2  # energy and CPU time are read otherwise
    done = run.said["after"]["rdpmcs"] - run.said["before"]["rdpmcs"]
    print(f"  {done} counters were read in user space, of {samples} samples with {events} events")
    report.true("most of them were", holds=done > 0.5 * samples * events)


def _rights(report: Report, run: Run) -> None:
    """What a user without rights gets, as it is and after what `tprof doctor` advises."""
    expected = {one.pop("how"): one for one in [dict(each) for each in run.scenario["bounds"]["rights"]]}
    for one in run.said["seen"]:
        energy = [name for name in ("powercap", "perf") if isinstance(one.get(name), list)]
        seen = {"energy": energy, "counters": one.get("counters", one.get("failed"))}
        refused = {name: one[name] for name in ("powercap", "perf") if isinstance(one.get(name), str)}
        for why in refused.values():
            print(f"    {why}")
        report.true(
            f"{one['how']}: energy {energy}, counters {seen['counters']}", holds=expected.get(one["how"]) == seen
        )
    report.true("all was tried", holds=len(run.said["seen"]) == len(expected))


def _counted_on_arm64(report: Report, run: Run) -> None:
    """Each instance of a task has the same instructions, so many more as it has rounds; `doctor` knows the PMU."""
    tasks = run.trace.profile("cputime").tasks.groupby("task", observed=True)["instructions"]
    mean, bound = tasks.mean(), run.scenario["bounds"]["instructions"]
    for name, counts in tasks:
        report.line(f"{name}: least and most", float(counts.min()), float(counts.max()), bound * counts.max(), "")
    ratio = ROUNDS["large"] / ROUNDS["small"]
    report.line("large by small", float(mean["large"] / mean["small"]), ratio, bound * ratio, "")
    facts = run.said["facts"]
    for what in ("counter reads", "instructions", "cycles"):
        report.true(f"{what}: {facts[what][1]}", holds=facts[what][0] == "ok")
    report.true(facts["frequency"][1], holds="acpi" not in facts["frequency"][1])


def _beside(report: Report, run: Run) -> None:
    """What each tool says must lie between the truths before and after it began and ended, and tprof must agree."""
    bound = run.scenario["bounds"]["beside_j"]
    for tool, found in run.said["found"].items():
        if "failed" in found:
            report.true(f"{tool} measures ({found['failed']})", holds=False)
            continue
        for what, said_j in found["joules"].items():
            least_j, most_j = found["least"][what], found["most"][what]
            middle_j, half_j = (least_j + most_j) / 2, (most_j - least_j) / 2
            report.line(f"{tool}: {what}", said_j, middle_j, half_j + bound)
            quanta = build_quanta(run.trace.readings[f"{what}-0"])
            total_j = np.concatenate(([0.0], np.cumsum(quanta.energy_j)))
            own_j = np.diff(np.interp(found["window_ns"], quanta.edges_ns, total_j))[0]
            report.line(f"  tprof in the same time, beside {tool}", own_j, said_j, bound)


CHECKS = compare_operating_points.CHECKS | {
    "totals": _totals, "no warnings": _no_warnings, "counted once": _counted_once, "warned": _warned,
    "tasks": _tasks, "poller": _poller, "calibrated": _calibrated, "counters": _counters, "pool": _pool,
    "multiplexed": _multiplexed, "read in user space": _read_in_user_space, "counted on arm64": _counted_on_arm64,
    "rights": _rights, "beside": _beside,
}  # fmt: skip
