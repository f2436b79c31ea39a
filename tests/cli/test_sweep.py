"""`tprof sweep` finds the known optima of a simulated machine, goes on when interrupted, leaves no trace in /sys."""

import json
import os
import re
import signal
import sys

import pandas as pd
import pytest
from support.browser import opened
from support.fake_sensor import wait_for
from support.properties import THOROUGH
from support.sweeps import QUICK, begun, environment, state, sweep

import benchmarks.simulator.simulated_machine as virtual
from benchmarks.simulator.simulated_machine import FIRST, Shape, make_tree
from tprof.cli import main
from tprof.errors import SensorError
from tprof.frequency import Bounds, find_policies, read_bounds

ENDS = (virtual.LOWEST_HZ, virtual.HIGHEST_HZ)
COLUMNS = [
    "task", "setting", "setting_unit", "workers", "repeat", "energy_j", "energy_low_j", "energy_high_j", "time_s",
    "power_w", "edp_js", "ed2p_js2", "instances", "quality", "stalls_per_cycle", "llc_misses", "watts_factor",
]  # fmt: skip
TELLS = "import os, sys\nopen(os.environ['SEEN'], 'a').write(f\"{sys.argv[1]} {os.environ['TPROF_WORKERS']}\\n\")\n"
WAITS = TELLS + (
    "import time\nif os.path.exists('wait') and len(open(os.environ['SEEN']).readlines()) > 2: time.sleep(600)\n"
)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Sweep a memory-bound and a compute-bound task of the paper over both ends of its processor's range."""
    folder = tmp_path_factory.mktemp("swept")
    with virtual.Machine(folder / "machine", Shape(ENDS)) as machine:
        seconds = "0.03" if THOROUGH in os.environ else "0.005"  # the joules are held against the law there only
        tasks = ("--tasks", "merge,task_a", "--instances", "4", "--seconds", seconds)
        done = sweep(
            folder, "--workers", "1", "--repeat", "2", "--seed", "7", "-o", "out",
            "-m", "benchmarks.simulator.program", *tasks, env=machine.environment,
        )  # fmt: skip
        (policy,) = find_policies(folder / "machine")
        held = read_bounds(policy)
    assert done.returncode == 0, done.stderr
    return folder / "out", done, held


def test_the_table_is_tidy(swept):
    table = pd.read_csv(swept[0] / "sweep.csv", keep_default_na=False, na_values={"energy_j": [""]})

    assert list(table.columns) == COLUMNS
    assert len(table) == 3 * 2 * 2
    assert set(table["task"]) == {"", "merge", "task_a"}
    assert set(table["setting"]) == set(ENDS)
    assert set(table["setting_unit"]) == {"Hz"}
    assert set(table["quality"]) == {"simulated"}
    assert (table.groupby(["task", "setting"])["repeat"].apply(sorted).apply(tuple) == (1, 2)).all()
    assert (table["power_w"] * table["time_s"]).to_numpy() == pytest.approx(table["energy_j"].to_numpy())
    assert (table["energy_j"] * table["time_s"]).to_numpy() == pytest.approx(table["edp_js"].to_numpy())
    assert (table["energy_j"] * table["time_s"] ** 2).to_numpy() == pytest.approx(table["ed2p_js2"].to_numpy())
    tasks = table[table["task"] != ""]
    assert (tasks["instances"] == 4).all()
    assert (tasks["energy_low_j"].astype(float) < tasks["energy_j"]).all()


@pytest.mark.thorough  # joules come as late as the processes that count and read them run
def test_each_task_takes_the_joules_of_its_law_at_each_frequency(swept):
    table = pd.read_csv(swept[0] / "sweep.csv")
    # The machine counts by CPU time, so other programs change nothing of it; times of the wall they do lengthen.
    least_j = table.groupby(["task", "setting"])["energy_j"].min()

    lowest, highest = (least_j.xs(hz, level="setting") for hz in ENDS)
    for task in ("merge", "task_a"):
        assert lowest[task] / highest[task] == pytest.approx(virtual.response(task).energy_ratio, rel=0.3)
    assert lowest["merge"] / highest["merge"] < lowest["task_a"] / highest["task_a"], "memory-bound: slow saves most"


def test_the_former_frequencies_are_back_and_the_seed_is_said(swept):
    folder, done, held = swept

    assert held == Bounds(*ENDS)
    assert "seed 7" in done.stderr
    said = json.loads((folder / "sweep.json").read_text())
    assert said["seed"] == 7
    assert said["finished"]
    for point in said["plan"]["points"]:
        hz = point["frequency_hz"]
        assert point["facts"]["held"] == {"policy0": {"lowest_hz": hz, "highest_hz": hz}}
    assert set(said["machine"]) >= {"processor", "kernel", "cpus"}


def test_the_page_draws_the_response_of_each_task(swept):
    drawn = opened(swept[0] / "sweep.html")

    assert 'data-drawn="yes"' in drawn
    assert "SIMULATED" in drawn
    for name in ("whole program: energy", "merge: time", "task_a: energy"):
        assert name in drawn


@pytest.fixture
def tree(tmp_path):
    make_tree(tmp_path / "root", Shape(ENDS), "nobody")
    return tmp_path / "root"


def test_workers_reach_the_program_and_the_temperature_is_waited_for(tmp_path, tree):
    (tmp_path / "tells.py").write_text(TELLS)
    zone = tree / "sys/class/thermal/thermal_zone0"
    zone.mkdir(parents=True)
    (zone / "type").write_text("x86_pkg_temp\n")
    (zone / "temp").write_text("45000\n")

    done = sweep(
        tmp_path, "--frequencies", "none", "--workers", "1,3", *QUICK, "--settle", "0.1", "tells.py", "n={workers}",
        env=environment(tree, SEEN=tmp_path / "seen"),
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    seen = (tmp_path / "seen").read_text().splitlines()
    assert sorted(set(seen)) == ["n=1 1", "n=3 3"]
    assert len(seen) == 3, "a warm-up and two runs"
    assert list(pd.read_csv(tmp_path / "tells.sweep" / "sweep.csv")["workers"]) == [1, 3]
    assert re.search(r"[13]w-1: the temperature was not steady after", done.stderr)


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, *(pytest.param(number, marks=pytest.mark.thorough) for number in (signal.SIGINT, signal.SIGTERM))],
)
def test_a_sweep_that_was_ended_goes_on_with_what_is_left(tmp_path, tree, number):
    (tmp_path / "waits.py").write_text(WAITS)
    seen = tmp_path / "seen"
    env = environment(tree, SEEN=seen)
    words = ["--workers", "1,2", "--frequencies", "1.6GHz", "--seed", "1", *QUICK, "waits.py", "{workers}"]
    out = tmp_path / "waits.sweep"
    (tmp_path / "wait").touch()
    with begun(tmp_path, *words, env=env) as process:
        wait_for(lambda: seen.exists() and len(seen.read_text().splitlines()) == 3, "the second run")
        process.send_signal(number)
        said = process.stderr.read()
    (policy,) = find_policies(tree)
    wait_for(lambda: is_at(policy, Bounds(*ENDS)), "the former bounds")
    left = state(out).count("waiting")
    (tmp_path / "wait").unlink()

    done = sweep(tmp_path, *words, env=env)

    assert number == signal.SIGKILL or "the same command goes on" in said
    assert left == 1
    assert done.returncode == 0, done.stderr
    assert "1 of them done before" in done.stderr
    assert len(seen.read_text().splitlines()) == 3 + 2, "a warm-up, and what was left"
    assert state(out) == ["done"] * 2
    assert len(pd.read_csv(out / "sweep.csv")) == 2


def is_at(policy, bounds):
    try:
        return read_bounds(policy) == bounds
    except SensorError:
        return False  # a file is empty while it is written


def test_a_program_with_a_recording_of_its_own_is_told_to_take_it_out(tmp_path):
    (tmp_path / "records.py").write_text("import tprof\nwith tprof.record('own.tprof'): pass\n")

    done = sweep(tmp_path, "--frequencies", "none", *QUICK, "records.py", env=environment("/"))

    assert done.returncode == 1
    assert "take tprof.record out of it" in done.stderr


def test_without_the_right_to_set_frequencies_workers_are_swept_and_the_way_is_told(tmp_path, tree):
    (tmp_path / "tells.py").write_text(TELLS)
    path = tree / FIRST / "scaling_max_freq"
    path.unlink()
    path.symlink_to("/sys/devices/system/cpu/online")  # which the kernel lets nobody write
    env = environment(tree, SEEN=tmp_path / "seen")

    unasked = sweep(tmp_path, "--workers", "1", *QUICK, "tells.py", "x", env=env)
    asked = sweep(tmp_path, "--frequencies", "all", *QUICK, "-o", "asked", "tells.py", "x", env=env)

    assert unasked.returncode == 0, unasked.stderr
    assert "only workers are swept" in unasked.stderr
    assert "sudo chown" in unasked.stderr
    assert pd.read_csv(tmp_path / "tells.sweep" / "sweep.csv")[["setting", "setting_unit"]].isna().all(axis=None)
    assert "once each, in the order of seed" in (tmp_path / "tells.sweep" / "sweep.html").read_text()
    assert asked.returncode == 1
    assert "no frequency can be set: cannot write to" in asked.stderr
    assert not (tmp_path / "asked").exists()


def test_a_benchmark_of_the_catalogue_is_swept_over_workers(tmp_path):
    done = sweep(
        tmp_path, "--frequencies", "none", "--workers", "1,2", "--energy", "estimate", "--settle", "0", "--json",
        "jacobi", env=environment("/"),
    )  # fmt: skip

    rows = json.loads(done.stdout)["rows"]
    assert {(row["task"], row["workers"]) for row in rows} == {
        (task, count) for task in ("", "jacobi") for count in (1, 2)
    }
    assert {row["quality"] for row in rows} == {"estimated"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.py"], "cannot run nowhere.py"),
        (["--workers", "0", "jacobi"], "must be numbers from 1"),
        (["--repeat", "0", "jacobi"], "at least once"),
        (["--settle", "nan", "jacobi"], "--settle takes seconds"),
        (["--settle", "inf", "jacobi"], "--settle takes seconds"),
        (["--timeout", "0", "jacobi"], "--timeout takes seconds above 0"),
        (["--size", "huge", "jacobi"], "must be small or paper"),
        (["--resume", "--overwrite", "jacobi"], "give one of them"),
        (["--energy", "solar", "jacobi"], "energy must be one of"),
        (["jacobi", "-o", "sw"], "-o stands after the benchmark jacobi: options go before the program's name"),
        (["jacobi", "more"], "the benchmark jacobi takes no arguments, got more"),
        (["--model", "best", "jacobi"], "--model must be one of"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_runs(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TPROF_SYSROOT", "/")
    monkeypatch.setattr(sys, "argv", ["tprof", "sweep", *words])

    with pytest.raises(SystemExit) as ended:
        main()  # in this process: a dozen would each spend a second on their start

    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
