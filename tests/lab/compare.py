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


class Report:
    """Prints figures beside the truth, and remembers whether all were within their bounds."""

    def __init__(self) -> None:
        self.good = True

    def line(self, what: str, said: float, true: float, bound: float, unit: str = "J") -> None:
        """Print one figure; `bound` is the most that it may differ."""
        good = abs(said - true) <= bound
        self.good &= good
        print(f"  {what:44} {said:12.4f} {true:12.4f} {said - true:+11.5f}  {bound:9.4f} {unit:3}{'' if good else '  BEYOND'}")

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
    trace = tprof.load(folder / "recording.tprof")
    print(f"  {'':44} {'tprof':>12} {'truth':>12} {'difference':>11}  {'bound':>9}")
    for what in scenario["checks"]:
        CHECKS[what](report, scenario, trace, said, np.fromfile(folder / "reads", READ))
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
        counted *= scale.get(name.partition("-")[0], 1.0)
        report.line(f"{name}, {len(good)} readings: the register", quanta.energy_j.sum(), counted, bounds["register_j"])
        report.line(f"{name}: the joules", quanta.energy_j.sum(), true, bounds["true_j"])
        for warning in quanta.warnings:
            print(f"    {warning}")


def _no_warnings(report: Report, scenario: dict[str, Any], trace: Any, said: Any, reads: np.ndarray) -> None:
    """No warning about the sensor: whatever happened, it was right."""
    warnings = [one for one in trace.profile("cputime").info["warnings"] if any(name in one for name in REGISTERS)]
    for warning in warnings:
        print(f"    {warning}")
    report.true("no warning about a sensor that is right", holds=not warnings)


CHECKS = {"totals": _totals, "no warnings": _no_warnings}
