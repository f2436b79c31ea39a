"""Every reader of a file that users write, with a file that is right for it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from support import hostile_files
from tprof.analysis.compare.baseline import KEY, VERSION, read_baseline
from tprof.analysis.compare.check import check
from tprof.analysis.models.calibration.measured_runs import counters_table, equation_1_table, read_csv
from tprof.analysis.models.linear import coefficients_of
from tprof.analysis.operating_points.curves import read_knowledge
from tprof.analysis.operating_points.table import read
from tprof.analysis.theory import energy_scalability as cores
from tprof.analysis.theory import strong_scaling as scaling
from tprof.analysis.theory.roofline_machines import MACHINES, processor_of, read_machine
from tprof.analysis.theory.strong_scaling.distributed_machine import constants
from tprof.benchmarks.sweep import What
from tprof.benchmarks.sweep.output import read_rows
from tprof.benchmarks.sweep.plan import DONE, FAILED, Plan, Point, load_plan
from tprof.benchmarks.sweep.sweep_tables import COLUMNS, SETTING

from benchmarks.published import public_measurements as public_points
from tprof.cli.options import read_coefficients
from tprof.errors import TprofError
from tprof.sensors.topology import describe_host
from tprof.session.membership import Plan as Joined
from tprof.trace.power_model import read_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COEFFICIENTS = {"a": 1.0, "b": 0.1, "c": 0.2, "C1": 5.0, "C2": 4.0}
MODEL = {
    "format": 1,
    "processor": describe_host()["processor"],
    "date": "2026-11-20",
    "source": "tprof calibrate",
    "quality": "measured",
    "coefficients": COEFFICIENTS,
    "intervals": {"a": [0.9, 1.1]},
    "scales": [[1e9, 0.5], [2e9, 1.0]],
    "counters": ["instructions", "cycles"],
    "residual_share": 0.05,
}
ROOFLINE = {**asdict(MACHINES["gtx580"]), "caches": {"L1": 1e-10}, "fit": {"processor": "a chip"}}
FIGURE = {"value": 0.5, "error": 0.01, "df": 9.0, "below": 0.1, "common_above": 0.2}
CHECKED = {"instances": 3, "energy_mean_j": FIGURE, "energy_j": FIGURE, "duration_mean_s": {"value": 0.1}}
BASELINE_RUN = {
    "name": "a.tprof",
    "measured": {"quality": "measured", "processor": "a chip", "hosts": 1},
    "totals": {"duration_s": 1.5},
    "tasks": {"blur": CHECKED, "load": CHECKED},
}
BASELINE = {KEY: VERSION, "max_increase": {"*": "5%", "bl*": "10%"}, "runs": [BASELINE_RUN, BASELINE_RUN]}
LEVEL = {"beta_t": 1e-9, "beta_e": 2e-9, "delta_e": 3e-9, "memory_words": 1e9}
TWO_LEVELS = {"gamma_t": 1e-11, "gamma_e": 1e-10, "epsilon_e": 0.5, "cores_per_node": 8, "node": LEVEL, "core": LEVEL}
MULTICORE = {name: value for name, value in asdict(cores.normalised()).items() if value is not None}
PLAN = Plan.drawn(What("script", "blur.py", ("-x",), tasks=("m:*",)), (10**9, 2 * 10**9), (1,), repeats=1, seed=5)
PLAN.points[0].state, PLAN.points[1].state, PLAN.points[1].facts = DONE, FAILED, {"why": "as asked"}
PLAN.points[0].facts = {"lasted_s": 1.5, "model": "m", "quality": "measured", "sensor": "perf", "warnings": ["busy"]}
POINT = Point(None, 1, 1)
SWEPT_ROW = {name: 1.5 for name in COLUMNS if name not in SETTING} | {"task": "blur", "quality": "measured"}
SWEPT = [
    ["blur", 1e9, "Hz", 1, 1, 5.0, 4.5, 5.5, 2.0, 2.5, 3, "measured", 0.1, 100, 1.5],
    ["blur", 2e9, "Hz", 1, 1, 6.0, 5.5, 6.5, 1.0, 6.0, 3, "measured", 0.1, 100, 1.5],
    ["", 2e9, "Hz", 2, 1, 7.0, 6.5, 7.5, 1.0, 7.0, 1, "measured", "", "", ""],
]
SWEPT_COLUMNS = [name for name in COLUMNS if name not in ("edp_js", "ed2p_js2")]
RUNS = [
    [20 + 3 * count + 2 * kind, count, (1 + kind) * count, 0.1 * kind, 0.2 * count, 2e9, "abc"[kind]]
    for count in (1, 2, 3)
    for kind in range(3)
]
RUNS_COLUMNS = ["watts", "busy", "ipc", "l2", "llc", "hz", "kernel"]
PUBLIC = [["a", "b", limit, 10 + limit / 50, limit * 0.9, 32, "sgd"] for limit in (100, 150, 200)]
PUBLIC_COLUMNS = ["network", "dataset", "power_limit", "time_per_epoch", "average_power", "batch_size", "optimizer"]


@dataclass(frozen=True)
class Reader:
    """Something that reads a user's file: the file's name, what is right in it as JSON or CSV, and how it is read."""

    file: str
    read: Callable[[Path], object]
    plain: object = None
    table: tuple[list[str], list[list[object]]] | None = None

    def right(self):
        """Return what the reader takes."""
        if self.table is None:
            return json.dumps(self.plain).encode()
        names, rows = self.table
        return "\n".join(",".join(map(str, row)) for row in (names, *rows)).encode()

    def wrongs(self):
        """Return what is wrong in one place."""
        if self.table is not None:
            return hostile_files.csv_with_each(*self.table)
        return hostile_files.json_with_each(self.plain)


def roofline(path):
    machine = read_machine(path)
    if machine.has_energy:
        assert np.isfinite(machine.energy_j(1e9, 1e9))
        assert np.isfinite([machine.half_efficiency, machine.most_power_w, machine.balance_gap]).all()
    return machine, processor_of(path)


def checked(path):
    base = read_baseline(path)
    return [
        check(base.runs, base.runs[:1], base.limits, figure=figure, least_share=0.0, any_machine=True)
        for figure in ("energy_mean_j", "duration_mean_s")
    ]


def calibrated(path):
    columns = {"cores": "busy", "ipc": "ipc", "l2": "l2", "llc": "llc", "hz": "hz"}
    return equation_1_table(read_csv(path), power="watts", group="kernel", columns=columns)


def counted(path):
    return counters_table(read_csv(path), power="watts", group="kernel", counters=None)


def modelled(path):
    model, note = read_model(describe_host()["processor"], path)
    assert note is None or str(path) in note
    return model, note


JSON_READERS = {
    "power model": Reader("power-model.json", modelled, MODEL),
    "baseline": Reader("base.json", checked, BASELINE),
    "coefficients": Reader("mine.json", lambda path: coefficients_of(read_coefficients(str(path))), COEFFICIENTS),
    "roofline machine": Reader("gpu.json", roofline, ROOFLINE),
    "scaling machine": Reader("m.json", scaling.read_machine, constants(scaling.machines()["jaketown"])),
    "machine of two levels": Reader("two.json", scaling.read_machine, TWO_LEVELS),
    "multicore": Reader("cores.json", lambda path: cores.find_multicore(str(path)), MULTICORE),
    "plan of a sweep": Reader("sweep-plan.json", lambda path: load_plan(path.parent), PLAN.as_plain()),
    "rows of a run": Reader(f"points/{POINT.name}.json", lambda path: read_rows(path.parents[1], POINT), [SWEPT_ROW]),
    "manifest that a child joins": Reader(
        "manifest.json",
        lambda path: Joined.from_manifest(path.parent),
        {
            "columns": [{"name": "cpu_ns", "unit": "ns"}],
            "recorder": {"groups": [[False, [[0, 0, 1]]]], "papi": [], "packages": [0]},
        },
    ),
}
TABLE_READERS = {
    "advice": Reader("sweep.csv", read, table=(SWEPT_COLUMNS, SWEPT)),
    "policy": Reader("sweep.csv", read_knowledge, table=(SWEPT_COLUMNS, SWEPT)),
    "calibration by equation 1": Reader("runs.csv", calibrated, table=(RUNS_COLUMNS, RUNS)),
    "calibration by counters": Reader("runs.csv", counted, table=(RUNS_COLUMNS, RUNS)),
    "public measurements": Reader(
        public_points.ZEUS, lambda path: public_points.power_limits(path.parents[1]), table=(PUBLIC_COLUMNS, PUBLIC)
    ),
}
OTHER_READERS = {
    "roofline machine of TOML": Reader("gpu.toml", roofline),
    "scaling machine of TOML": Reader("m.toml", scaling.read_machine),
    "multicore of TOML": Reader("cores.toml", lambda path: cores.find_multicore(str(path))),
    "compressed table": Reader("runs.csv.gz", counted),
    "parquet": Reader("points.parquet", read),
}
READERS = JSON_READERS | TABLE_READERS | OTHER_READERS


def outcome(reader, path):
    """Return what the reader makes of the file: what it says, or the sentence that refuses it."""
    try:
        return reader.read(path)
    except TprofError as error:
        said = str(error)
    assert reader.file.rpartition("/")[2] in said
    assert "\n" not in said
    assert len(said) < 2000
    return said
