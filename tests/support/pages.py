"""A page of every kind, small, of data that is made up or simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tprof.analysis.operating_points.advice import of_task
from tprof.analysis.operating_points.choice import Objective
from tprof.analysis.report.advice_page import render as render_advice
from tprof.analysis.report.compare_page import write_page as write_comparison
from tprof.analysis.theory.roofline_machines import MACHINES
from tprof.analysis.theory.roofline_page import Shown, write_roofline
from tprof.benchmarks.programs.outcome import Outcome
from tprof.benchmarks.repeats import Runs
from tprof.benchmarks.suite import Suite, write_suite
from tprof.benchmarks.sweep import What
from tprof.benchmarks.sweep.plan import Plan
from tprof.benchmarks.sweep.sweep_page import write_sweep_page

import tprof
from benchmarks.validation import chosen, processes, validate
from benchmarks.validation.validation_text import write_page as write_validation
from tprof.trace.merge import merge

from . import command_line, traces
from .operating_points import measured

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tprof.analysis import Profile

MS = 1_000_000
NAMES = ("load tiles", "blur", "sharpen", "write_png", "rare", "tests.module.Class.method")
MACHINE = {
    "processor": "a processor", "cores": 2, "cpus": 2, "usable_cpus": 2, "virtual": None, "kernel": "6",
    "python": "3", "free_threaded": False, "load_1_min": 0.0,
}  # fmt: skip
POINTS_HZ = (1.6e9, 2.4e9, 3.3e9)


def profile(path: Path, *, count: int = 150, quality: str = "estimated") -> Profile:
    """Profile so many instances of six tasks on each of two threads, of which one task mostly waits."""
    random = np.random.default_rng(1)
    threads = []
    for cpu in range(2):
        task = random.choice(len(NAMES), count, p=[0.1, 0.4, 0.3, 0.1, 0.05, 0.05])
        length_ns = (random.gamma(4, 0.6, count) * MS).astype(np.int64)
        busy_ns = (length_ns * np.where(task == 0, 0.2, 1.0)).astype(np.int64)
        threads.append(
            {
                "t_ns": np.concatenate([[0], np.cumsum(length_ns)]),
                "instance": np.append(cpu * count + 1 + np.arange(count), 0),
                "task": np.append(task, -1),
                "cpu": np.full(count + 1, cpu),
                "cpu_ns": np.concatenate([[0], np.cumsum(busy_ns)]),
                "name": f"worker-{cpu}",
            }
        )
    edges_ns = np.arange(0, max(int(one["t_ns"][-1]) for one in threads), MS)
    energy = {
        name: (edges_ns, np.arange(len(edges_ns)) * joules) for name, joules in (("package-0", 0.02), ("dram-0", 0.002))
    }
    tprof.write_trace(path, tasks=NAMES, threads=threads, energy=energy, quality=quality)
    return tprof.load(path).profile(model="cputime")


def report(folder: Path) -> Path:
    """Write the page of a recording."""
    profile(folder / "report.tprof").to_html(folder / "report.html")
    return folder / "report.html"


def dense(folder: Path) -> Path:
    """Write the page of a recording with so many instances that they are drawn as a density."""
    profile(folder / "dense.tprof", count=2_500, quality="measured").to_html(folder / "dense.html", plotly="folder")
    return folder / "dense.html"


def job(folder: Path) -> Path:
    """Write the page of a job of two hosts, of which one has an estimate."""
    parts = [
        traces.write(folder / f"{name}.tprof", host={"hostname": name}, quality=quality)
        for name, quality in (("node1", "measured"), ("node2", "estimated"))
    ]
    merge(parts, folder / "job.tprof")
    tprof.load(folder / "job.tprof").profile().to_html(folder / "job.html")
    return folder / "job.html"


def advice(folder: Path) -> Path:
    """Write the page of advice on one task."""
    page = folder / "advice.html"
    page.write_text(render_advice([of_task(measured(POINTS_HZ, [2.06, 1.37, 1.0], [10, 27, 60]), Objective("edp"))]))
    return page


def sweep(folder: Path) -> Path:
    """Write the page of a sweep over two frequencies, each run twice."""
    plan = Plan.drawn(What("script", "blur.py", ()), (1_600_000_000, 3_200_000_000), (1,), repeats=2, seed=1)
    rows: list[dict[str, Any]] = [
        {
            "task": task, "setting": hz, "setting_unit": "Hz", "workers": 1, "repeat": repeat, "time_s": 2e9 / hz,
            "energy_j": (1 + 0.1 * repeat) * hz / 1e9, "energy_low_j": None, "energy_high_j": None, "power_w": 5.0,
            "edp_js": 1.0, "ed2p_js2": 1.0, "instances": 4, "quality": "simulated", "stalls_per_cycle": None,
            "llc_misses": None, "watts_factor": None,
        }
        for task in ("", "blur")
        for hz in (1_600_000_000, 3_200_000_000)
        for repeat in (1, 2)
    ]  # fmt: skip
    facts = {"machine": MACHINE, "qualities": ["simulated"], "sensors": ["arrays"], "warnings": ["a warning"]}
    write_sweep_page(folder / "sweep.html", plan, rows, facts)
    return folder / "sweep.html"


def suite(folder: Path) -> Path:
    """Write the report of a suite of one program."""
    ran = profile(folder / "suite.tprof", quality="simulated")
    runs = Runs("ferret", (Outcome("ferret", "small", 2, {}, 1.0, ("by hand",)),), (ran,))
    return write_suite(Suite((runs,), MACHINE), folder)[0]


def roofline(folder: Path) -> Path:
    """Write the page of a published machine."""
    write_roofline(Shown(MACHINES["gtx580"], "a test"), folder / "roofline.html")
    return folder / "roofline.html"


def scaling(folder: Path) -> Path:
    """Write the page of an analytic model."""
    done = command_line.tprof("scaling", "addition", "-n", "1e8", "--plot", "scaling.html", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "scaling.html"


def validation(folder: Path) -> Path:
    """Write the page of a validation of two cases, each simulated for a fraction of a second."""
    extent = validate.Extent(seeds=1, duration_s=0.6, coverage_seeds=2, coverage_s=0.4, machine=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "LEAST", 100)  # so few simulations take less time than to start processes for them
        write_validation(validate.measure(extent, cases=chosen(("steady", "kernels"))), folder / "validation.html")
    return folder / "validation.html"


def compare(folder: Path) -> Path:
    """Write the page of a comparison of two recordings."""
    both = [profile(folder / f"{name}.tprof", count=count) for name, count in (("a", 150), ("b", 100))]
    write_comparison(both[0].compare(both[1]), folder / "compare.html")
    return folder / "compare.html"


KINDS: dict[str, Callable[[Path], Path]] = {
    one.__name__: one for one in (report, dense, job, advice, sweep, suite, roofline, scaling, validation, compare)
}
