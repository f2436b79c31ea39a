"""Pairs of kernels are measured alone and together; their slices are compared, where all that takes is here."""

import math
import os

import pytest
from support import fake_trees
from support.fake_sensor import FakeSensor
from tprof.analysis import Coefficients
from tprof.benchmarks.measured_figures import NONE

import tprof
from benchmarks.published import table_3
from benchmarks.simulator import ICE_LAKE, Law, Package, Run, kernel, length_s, side_by_side, write
from benchmarks.validation.kernel_pairs import TABLE_3
from benchmarks.validation.pairs_here import plan_runs, record_pairs, slice_pairs
from benchmarks.validation.validation_text import measured_pairs
from tprof.errors import SensorError, UsageError
from tprof.sensors.topology import describe_host
from tprof.trace.power_model import write_model

STATIC_W, CORE_W = 10.0, 6.0


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A laptop's sysfs with this machine's processors as cores, no model kept yet."""
    tree = fake_trees.laptop(tmp_path / "root")
    monkeypatch.setenv("TPROF_SYSROOT", str(tree.root))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tree


def keep_a_model():
    """A core draws the same whatever it runs: equation 1 then needs no counters."""
    coefficients = {"a": 0.0, "b": 0.0, "c": 0.0, "C1": CORE_W, "C2": STATIC_W}
    write_model({"format": 1, "processor": describe_host()["processor"], "coefficients": coefficients, "scales": []})


def test_each_kernel_runs_alone_on_the_core_of_its_first_pair_and_each_pair_on_two():
    runs = [[(part.task, part.cpu) for part in run] for run in plan_runs((4, 7, 9))]

    assert [("mm2 alone", 7)] in runs
    assert [("bicg alone", 4)] in runs
    assert [("atax beside adi", 4), ("adi beside atax", 7)] in runs
    assert len(runs) == len({name for pair in TABLE_3 for name in pair}) + len(TABLE_3)


@pytest.mark.thorough  # kernels compute on both cores for six seconds; what slices are made of is simulated below
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor only")
def test_the_runs_of_pairs_are_recorded_so_that_every_slice_is_found(tmp_path, machine):
    keep_a_model()
    path, told = machine.energy_of("intel-rapl:0"), []
    sensor = FakeSensor(watts=STATIC_W, modulus=fake_trees.RANGE_UJ + 1).drives(path)

    def drive(name, done, of):
        told.append((name, done, of))
        sensor.order(path, watts=STATIC_W + CORE_W * (1 if name.endswith("alone") else 2))

    with sensor:
        session = record_pairs(tmp_path / "out", seconds_each=0.2, energy="powercap", counters="none", progress=drive)
    rows = slice_pairs(tprof.load(session))

    assert [done for _, done, _ in told] == list(range(told[0][2]))
    assert [(row["pair"], row["kernel"]) for row in rows] == [
        (number, name) for number, pair in enumerate(TABLE_3, 1) for name in pair
    ]
    # This machine is busy with more than the kernels, and the sensor does not know: the watts are no figures.
    assert all(math.isfinite(row["real_w"]) and math.isfinite(row["slice_w"]) for row in rows)


def test_slices_of_a_simulated_machine_are_near_what_kernels_draw_alone(tmp_path):
    runs = plan_runs((0, 1))
    tasks = [part.task for run in runs for part in run]
    kernels = [kernel(name.partition(" ")[0]) for name in tasks]
    places = [[tasks.index(part.task) for part in run] for run in runs]
    schedule = side_by_side(places, instance_s=0.2, phase_s=0.2, idle_s=0.3)
    run = Run(Package(Law()), kernels, schedule, length_s(len(runs), 0.2, 0.3))
    write(tmp_path / "pairs.tprof", tasks, run, sensor=ICE_LAKE, seed=1)

    rows = slice_pairs(tprof.load(tmp_path / "pairs.tprof"), Coefficients(1.1, 0.08, 0.19, 8.0, 5.2))

    assert len(rows) == 2 * len(TABLE_3)
    assert all(abs(row["slice_error"]) < 0.15 for row in rows)
    assert [sum(row["share"] for row in rows if row["pair"] == number) for number in range(1, 6)] == [
        pytest.approx(1.0)
    ] * 5
    shown = measured_pairs({"processor": None, "pairs": rows, "published": table_3()})
    assert len(shown.rows) == len(rows)
    assert {len(row) for row in shown.rows} == {len(shown.headings)}
    assert NONE not in {cell for row in shown.rows for cell in row}


def test_a_machine_that_is_not_calibrated_is_told_so_before_anything_runs(tmp_path, machine):
    machine.energy_of("intel-rapl:0")

    with pytest.raises(UsageError, match=r'needs a calibrated model.*run "tprof calibrate" first'):
        record_pairs(tmp_path / "out", energy="powercap", counters="none")

    assert not (tmp_path / "out").exists()


def test_an_estimate_measures_no_pairs(tmp_path, monkeypatch):
    monkeypatch.setenv("TPROF_SYSROOT", str(tmp_path))

    with pytest.raises(SensorError, match=r"measuring pairs of kernels needs a sensor that measures.*tprof doctor"):
        record_pairs(tmp_path / "out")


def test_what_was_not_resolved_is_shown_as_absent():
    row = {"pair": 1, "kernel": "atax", "real_w": None, "slice_w": None, "share": None, "slice_error": None}

    (cells,) = measured_pairs({"processor": "X", "pairs": [row], "published": []}).rows

    assert cells == ("1", "atax", *[NONE] * 7)
