"""Roofline, arch line and power line as a page, as in the paper's figures 2, 4 and 5, with runs and tasks on them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.report.embed import Parts, clean, embed, write_page

from .roofline_tradeoffs import capped_flops_per_s, capped_power_w

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from .roofline import Machine
    from .roofline_fit import Runs
    from .roofline_tasks import TaskPoint

STEPS = 16
"""Points of a curve in each doubling of the intensity."""
LEAST, MOST = -3, 9
"""Intensities drawn, as powers of two, unless a run or task lies beyond."""


@dataclass(frozen=True)
class Shown:
    """The content of the page.

    Attributes
    ----------
    machine : whose lines are drawn.
    where : what it is and how it was found, a sentence.
    runs : of micro-benchmarks; None without.
    tasks : of a session.
    precision : of the tasks' flops, and so under which roof they stand.
    notes : what a reader must know.
    """

    machine: Machine
    where: str
    runs: Runs | None = None
    tasks: Sequence[TaskPoint] = ()
    precision: str = "double"
    notes: Sequence[str] = ()


def write_roofline(shown: Shown, path: str | os.PathLike[str]) -> None:
    """Write the page, replacing a file that is there. Raises TprofError if it cannot be written."""
    write_page(path, render(shown))


def render(shown: Shown) -> str:
    """Return the page's HTML."""
    package = files(__package__)
    body, script = ((package / f"roofline.{kind}").read_text("utf-8") for kind in ("html", "js"))
    return embed(Parts("tprof roofline", body, script, page_data(shown)))


def page_data(shown: Shown) -> dict[str, Any]:
    """Return the content of the page, as plain values without NaN."""
    data: dict[str, Any] = clean(
        {
            "name": shown.machine.name,
            "where": shown.where,
            "notes": list(shown.notes),
            "qualities": sorted({point.quality for point in shown.tasks if point.energy_j is not None}),
            "views": [_view(shown, precision) for precision in shown.machine.precisions],
        }
    )
    return data


def describe(machine: Machine) -> dict[str, Any]:
    """Return the machine's balances and limits in its precision, as plain values with units as suffixes."""
    values: dict[str, Any] = {
        "time_balance_flops_per_byte": machine.time_balance,
        "peak_flops_per_s": 1 / machine.tau_flop_s,
        "peak_bytes_per_s": 1 / machine.tau_mem_s,
    }
    if not machine.has_energy:
        return values
    names = {
        "energy_balance_flops_per_byte": "energy_balance", "balance_gap": "balance_gap",
        "half_efficiency_flops_per_byte": "half_efficiency", "race_to_halt": "race_to_halt", "eta_flop": "eta_flop",
        "eps_flop_hat_j": "eps_flop_hat_j", "peak_flops_per_j": "most_flops_per_j", "pi_flop_w": "pi_flop_w",
        "most_power_w": "most_power_w", "compute_power_w": "compute_power_w", "memory_power_w": "memory_power_w",
    }  # fmt: skip
    return values | {key: getattr(machine, name) for key, name in names.items()}


def _view(shown: Shown, precision: str) -> dict[str, Any]:
    machine = shown.machine.at(precision)
    runs = _runs(shown.runs, precision)
    tasks = [_task(point) for point in shown.tasks] if precision == shown.precision else []
    at = [run["intensity"] for run in runs] + [task["intensity"] for task in tasks]
    low = min([2.0**LEAST, *at])
    high = max([2.0**MOST, *at])
    grid = np.geomspace(low, high, int(np.log2(high / low) * STEPS) + 1)
    # The corner of the roof is drawn sharp.
    grid = np.sort(np.append(grid, machine.time_balance))
    return {
        "precision": precision, "machine": describe(machine), "runs": runs, "tasks": tasks,
        "curves": _curves(machine, grid), "has_energy": machine.has_energy, "cap_w": machine.cap_w,
        "pi0_w": machine.pi0_w,
    }  # fmt: skip


def _curves(machine: Machine, grid: np.ndarray[Any, Any]) -> dict[str, list[float]]:
    curves = {"intensity": grid, "roof": machine.flops_per_s(grid)}
    if machine.has_energy:
        curves |= {"arch": machine.flops_per_j(grid), "power": machine.power_at_w(grid)}
        if machine.cap_w is not None and machine.cap_w > machine.pi0_w:
            curves |= {"capped": capped_flops_per_s(machine, grid), "capped_power": capped_power_w(machine, grid)}
    return {name: [float(f"{value:.6g}") for value in values] for name, values in curves.items()}


def _runs(runs: Runs | None, precision: str) -> list[dict[str, float]]:
    if runs is None:
        return []
    mine = runs.where(runs.double == (precision == "double"))
    columns = {
        "intensity": mine.flops / mine.traffic_bytes,
        "flops_per_s": mine.flops / mine.time_s,
        "flops_per_j": mine.flops / mine.energy_j,
        "power_w": mine.energy_j / mine.time_s,
    }
    return [dict(zip(columns, map(float, row), strict=True)) for row in zip(*columns.values(), strict=True)]


def _task(point: TaskPoint) -> dict[str, Any]:
    values = {field.name: getattr(point, field.name) for field in fields(point)}
    return values | {name: getattr(point, name) for name in ("intensity", "flops_per_s", "flops_per_j", "power_w")}
