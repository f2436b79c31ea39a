"""Puts what tprof says of a scenario beside the truth, and says whether it is within the scenario's bounds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.attribution.quanta import build_quanta

import tprof

if TYPE_CHECKING:
    from pathlib import Path

READ = np.dtype([("t_ns", "u8"), ("register", "u4"), ("value", "u4"), ("published_pj", "u8"), ("true_pj", "u8")])
"""As `struct logged` in module/lab.c."""
REGISTERS = {"package-0": 0x611, "core": 0x639, "dram": 0x619}
TASKS = {"light": 1, "middle": 2, "heavy": 3}
BASE_MW, IDLE_MW = 1500, 500


class Report:
    """Prints figures beside the truth, and remembers whether all were within their bounds."""

    def __init__(self) -> None:
        self.good = True

    def line(self, what: str, said: float, true: float, bound: float, unit: str = "J") -> None:
        """Print one figure; `bound` is the most that it may differ."""
        good = abs(said - true) <= bound
        self.good &= good
        print(
            f"  {what:44} {said:12.4f} {true:12.4f} {said - true:+11.5f}  {bound:9.4f} {unit:3}{'' if good else '  BEYOND'}"
        )

    def true(self, what: str, *, holds: bool) -> None:
        """Print one statement that must hold."""
        self.good &= holds
        print(f"  {what}: {'yes' if holds else 'NO'}")


def compare(name: str, scenario: dict[str, Any], folder: Path) -> bool:
    """Print a table of one scenario's figures; return whether all are within their bounds."""
    print(f"{name}: {scenario['about']}")
    if not (folder / "truth.json").exists():
        print("  it did not come to its end")
        return False
    report = Report()
    said = json.loads((folder / "truth.json").read_text())
    recorded = (folder / "reads").exists()
    trace = tprof.load(folder / "recording.tprof") if recorded else None
    reads = np.fromfile(folder / "reads", READ) if recorded else np.empty(0, READ)
    print(f"  {'':44} {'tprof':>12} {'truth':>12} {'difference':>11}  {'bound':>9}")
    for what in scenario["checks"]:
        CHECKS[what](report, scenario, trace, said, reads)
    return report.good


def _true_j(reads: np.ndarray, column: str, t_ns: int) -> float:
    """Return joules of the last read until a time, which is the one whose value a reading of that time has."""
    index = int(np.searchsorted(reads["t_ns"], t_ns, side="right")) - 1
    return float(reads[column][max(index, 0)]) * 1e-12


def _totals(report: Report, scenario: dict[str, Any], trace: Any, said: Any, reads: np.ndarray) -> None:
    """Compare each domain's total with what its register counted, and with the truth, from first to last reading."""
    bounds, scale = scenario["bounds"], scenario.get("scale", {})
    for name, readings in trace.readings.items():
        register = next((one for domain, one in REGISTERS.items() if name.startswith(domain)), None)
        if readings.quantity != "energy" or register is None:
            continue
        own = np.sort(reads[reads["register"] == register], order="t_ns")
        quanta = build_quanta(readings)
        good = readings.t_ns[~readings.missing]
        counted, true = (
            _true_j(own, column, good[-1]) - _true_j(own, column, good[0]) for column in ("published_pj", "true_pj")
        )
        counted, true = (joules * scale.get(name.partition("-")[0], 1.0) for joules in (counted, true))
        gap_s = float(np.diff(good).max()) * 1e-9
        report.line(
            f"{name}, {len(good)} readings, gap {gap_s:.2f} s: register",
            quanta.energy_j.sum(),
            counted,
            bounds["register_j"],
        )
        report.line(f"{name}: the joules", quanta.energy_j.sum(), true, bounds["true_j"])
        for warning in quanta.warnings:
            print(f"    {warning}")


def _no_warnings(report: Report, scenario: dict[str, Any], trace: Any, said: Any, reads: np.ndarray) -> None:
    """No warning about the sensor: whatever happened, it was right."""
    warnings = [one for one in trace.profile("cputime").info["warnings"] if any(name in one for name in REGISTERS)]
    for warning in warnings:
        print(f"    {warning}")
    report.true("no warning about a sensor that is right", holds=not warnings)


def _kinds(said: Any) -> dict[str, dict[str, float]]:
    """Return by task what its kind truly did between the two truths."""
    kinds = {}
    for name, number in TASKS.items():
        before, after = said["before"][f"kind{number}"], said["after"][f"kind{number}"]
        kinds[name] = {key: after[key] - before[key] for key in after}
    return kinds


def _tasks(report: Report, scenario: dict[str, Any], trace: Any, said: Any, reads: np.ndarray) -> None:
    """Compare each task's joules above idle, package and DRAM, and their sum, with the truth of its kind.

    A busy processor draws its base power rather than its idle power, whatever it runs: that belongs to the tasks too.
    """
    kinds, load = _kinds(said), scenario.get("load", {})
    base_w = (load.get("base_mw", BASE_MW) - load.get("idle_mw", IDLE_MW)) * 1e-3
    true = {
        name: (kind["dynamic_uj"] + kind["dram_uj"]) * 1e-6 + base_w * kind["busy_ns"] * 1e-9
        for name, kind in kinds.items()
    }
    other = {key: said["after"]["kind0"][key] - said["before"]["kind0"][key] for key in said["after"]["kind0"]}
    print(
        f"  what ran undeclared: {other['busy_ns'] * 1e-9:.3f} s, {(other['dynamic_uj'] + other['dram_uj']) * 1e-6:.3f} J"
    )
    for model, bound in scenario["bounds"]["models"].items():
        profile = trace.profile(model)
        sums = profile.tasks.groupby("task", observed=True)[["dynamic_j", "cpu_s", "duration_s"]].sum()
        for name, joules in true.items():
            report.line(f"{model}: {name}", float(sums["dynamic_j"][name]), joules, bound["task"] * joules)
        total = sum(true.values())
        report.line(f"{model}: all three", float(sums["dynamic_j"].sum()), total, bound["sum"] * total)
        print("    " + profile.accounts.to_string().replace("\n", "\n    "))
        print(f"    static power found {profile.info.get('static_power_w')}; {profile.info['warnings']}")
    for name, kind in kinds.items():
        said_s, true_s = float(sums["cpu_s"][name]), kind["busy_ns"] * 1e-9
        print(f"    {name}: CPU time {said_s:.4f} s, truly {true_s:.4f} s, and {true[name] / true_s:.3f} W above idle")


def _counters(report: Report, scenario: dict[str, Any], trace: Any, said: Any, reads: np.ndarray) -> None:
    """Compare each task's counts with those of its kind."""
    sums = trace.profile("cputime").tasks.groupby("task", observed=True)[["cycles", "instructions"]].sum()
    for name, kind in _kinds(said).items():
        for what in ("cycles", "instructions"):
            bound = scenario["bounds"]["counters"] * kind[what]
            report.line(f"{name}: {what}", float(sums[what][name]) * 1e-6, kind[what] * 1e-6, bound * 1e-6, "10^6")


def _restored(report: Report, scenario: dict[str, Any], trace: Any, said: Any, reads: np.ndarray) -> None:
    """Whoever is killed, the policies are as before unless program and guard were killed at once."""
    for one in said["seen"]:
        order = ", ".join(one["order"])
        held = all(policy[0] == policy[1] == "1000000" for policy in one["held"])
        report.true(f"1 GHz is held on {len(one['held'])} policies ({order})", holds=held)
        if scenario["bounds"]["restored"]:
            report.true(f"then {order}: the policies are as before", holds=one["after"] == said["before"])


def _rights(report: Report, scenario: dict[str, Any], trace: Any, said: Any, reads: np.ndarray) -> None:
    """What a user without rights gets under each level of perf_event_paranoid."""
    for one in said["seen"]:
        expected = scenario["bounds"][f"level{one['level']}".replace("-", "minus")]
        energy = [name for name in ("powercap", "perf") if isinstance(one[name], list)]
        print(f"    {one}")
        report.true(
            f"perf_event_paranoid {one['level']}: energy {energy}, counters {one['counters']}",
            holds=[energy, one["counters"]] == [expected["energy"], expected["counters"]],
        )


CHECKS = {
    "totals": _totals, "no warnings": _no_warnings, "tasks": _tasks, "counters": _counters, "restored": _restored,
    "rights": _rights,
}  # fmt: skip
