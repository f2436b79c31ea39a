"""A sweep's folder holds one sweep: the same one goes on there, another replaces it only when asked."""

import json
import shutil

import pytest
from support.fake_sensor import wait_for
from support.sweeps import QUICK, begun, environment, points, state, sweep

from benchmarks.simulator.simulated_machine import FIRST, Shape, make_tree

ENDS = (1_600_000_000, 3_600_000_000)
COUNTS = "import os\nopen(os.environ['SEEN'], 'a').write('x')\n"
ONCE = ("--frequencies", "none", "--workers", "1", "--seed", "1", *QUICK, "-o", "out")
TWICE = (*ONCE, "--repeat", "2")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Finish two sweeps, of one run and of two, and return their folders: tests go on from a copy."""
    folders = [(tmp_path_factory.mktemp("finished"), words) for words in (ONCE, TWICE)]
    for folder, words in folders:
        done = sweep(folder, *words, "counts.py", env=prepared(folder))
        assert done.returncode == 0, done.stderr
    return [folder for folder, _ in folders]


def prepared(folder):
    make_tree(folder / "root", Shape(ENDS), "nobody")
    (folder / "counts.py").write_text(COUNTS)
    return environment(folder / "root", SEEN=folder / "seen")


@pytest.fixture
def env(tmp_path):
    return prepared(tmp_path)


@pytest.fixture
def once(tmp_path, finished):
    return copied(finished[0], tmp_path)


@pytest.fixture
def twice(tmp_path, finished):
    return copied(finished[1], tmp_path)


def copied(before, folder):
    shutil.copytree(before / "out", folder / "out")
    shutil.copy(before / "seen", folder / "seen")
    return folder / "out"


def undo_last(folder):
    """Make a finished sweep one that lacks its last run."""
    plan = json.loads((folder / "sweep-plan.json").read_text())
    plan["points"][-1].update(state="waiting", facts={})
    (folder / "sweep-plan.json").write_text(json.dumps(plan))


@pytest.mark.usefixtures("once")
def test_a_folder_with_another_sweep_is_left_alone(tmp_path, env):
    before = (tmp_path / "out/sweep-plan.json").read_bytes()

    again = sweep(tmp_path, *ONCE, "counts.py", env=env)
    other = sweep(tmp_path, *ONCE, "--workers", "1,2", "counts.py", "more", env=env)

    assert (again.returncode, other.returncode) == (2, 2)
    assert "holds this sweep, finished: write its tables again with --resume" in again.stderr
    assert "another sweep (1 run of counts; other arguments; workers 1, now 1,2)" in other.stderr
    assert (tmp_path / "out/sweep-plan.json").read_bytes() == before
    assert sweep(tmp_path, *ONCE, "--resume", "counts.py", env=env).returncode == 0


def test_nothing_is_made_where_there_is_nothing_to_go_on_with(tmp_path, env):
    done = sweep(tmp_path, *ONCE, "--resume", "counts.py", env=env)

    assert done.returncode == 2
    assert "holds no sweep to go on with" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_file_is_no_folder(tmp_path, env):
    (tmp_path / "out").write_text("mine")

    done = sweep(tmp_path, *ONCE, "counts.py", env=env)

    assert done.returncode == 2
    assert "out is a file: name a folder" in done.stderr
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.usefixtures("once")
def test_what_was_not_written_is_written_by_the_same_command_without_a_run(tmp_path, env):
    """As after a full disk at the last file."""
    (tmp_path / "out/sweep.html").unlink()
    (tmp_path / "out/sweep.html").mkdir()
    seen = (tmp_path / "seen").read_text()

    full = sweep(tmp_path, *ONCE, "--resume", "counts.py", env=env)
    (tmp_path / "out/sweep.html").rmdir()
    (tmp_path / "out/sweep.html").touch()
    done = sweep(tmp_path, *ONCE, "counts.py", env=env)

    assert full.returncode == 1
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/sweep.html").stat().st_size > 0
    assert (tmp_path / "seen").read_text() == seen


@pytest.mark.usefixtures("once")
def test_replacing_takes_the_old_tables_away_at_once_and_nothing_else(tmp_path, env):
    (tmp_path / "out/notes.txt").write_text("mine")
    (tmp_path / "out/points/notes.txt").write_text("mine")
    (tmp_path / "ends.py").write_text("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n")

    with begun(tmp_path, *ONCE, "--overwrite", "ends.py", env=env) as process:
        process.wait()

    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert process.returncode == -9
    assert left == ["notes.txt", "points", "sweep-plan.json"]
    assert not [path for path in (tmp_path / "out/points").iterdir() if path.suffix == ".json"]
    assert (tmp_path / "out/points/notes.txt").read_text() == "mine"


def test_two_sweeps_do_not_share_a_folder(tmp_path, env):
    (tmp_path / "counts.py").write_text(COUNTS + "import time\nwhile not os.path.exists('gate'): time.sleep(0.01)\n")

    with begun(tmp_path, *ONCE, "counts.py", env=env) as first:
        wait_for((tmp_path / "seen").exists, "the first sweep's run")
        second = sweep(tmp_path, *ONCE, "--overwrite", "counts.py", env=env)
        (tmp_path / "gate").touch()
        said = first.stderr.read()

    assert second.returncode == 2
    assert "another sweep is running in out: wait for it" in second.stderr
    assert first.returncode == 0, said


@pytest.mark.usefixtures("twice")
def test_a_program_that_was_edited_is_not_mixed_in_unless_that_is_wanted(tmp_path, env):
    undo_last(tmp_path / "out")
    (tmp_path / "counts.py").write_text(COUNTS + "# faster\n")

    refused = sweep(tmp_path, *TWICE, "counts.py", env=env)
    wanted = sweep(tmp_path, *TWICE, "--accept-changes", "counts.py", env=env)

    assert refused.returncode == 2
    assert "holds this sweep, but counts was edited since it began: mix both with --accept-changes" in refused.stderr
    assert wanted.returncode == 0, wanted.stderr
    assert "after 1 of 2 runs: counts was edited" in json.loads((tmp_path / "out/sweep.json").read_text())["warnings"]


@pytest.mark.usefixtures("twice")
def test_another_machine_is_named(tmp_path, env):
    undo_last(tmp_path / "out")
    plan = json.loads((tmp_path / "out/sweep-plan.json").read_text())
    plan["identity"]["processor"] = "Another Processor"
    (tmp_path / "out/sweep-plan.json").write_text(json.dumps(plan))

    done = sweep(tmp_path, *TWICE, "counts.py", env=env)

    assert done.returncode == 2
    assert "processor was Another Processor and is " in done.stderr


def test_a_sweep_whose_frequencies_cannot_be_set_any_more_is_not_called_another_one(tmp_path, env):
    words = ("--workers", "1", "--seed", "1", *QUICK, "-o", "out", "counts.py")
    assert sweep(tmp_path, *words, env=env).returncode == 0
    path = tmp_path / "root" / FIRST / "scaling_max_freq"
    path.unlink()
    path.symlink_to("/sys/devices/system/cpu/online")  # which the kernel lets nobody write

    done = sweep(tmp_path, *words, env=env)

    assert done.returncode == 1
    assert "holds this sweep, and its frequencies cannot be set any more: cannot write to" in done.stderr
    assert "the same command goes on" in done.stderr
    assert "--overwrite" not in done.stderr


@pytest.mark.usefixtures("twice")
def test_a_sweep_that_began_without_the_right_to_set_frequencies_goes_on_without(tmp_path, env):
    words = ("--workers", "1", "--repeat", "2", "--seed", "1", *QUICK, "-o", "out")
    undo_last(tmp_path / "out")

    unasked = sweep(tmp_path, *words, "counts.py", env=env)
    asked = sweep(tmp_path, *words, "--frequencies", "none", "counts.py", env=env)

    assert unasked.returncode == 2
    assert "over workers only" in unasked.stderr
    assert "--frequencies none" in unasked.stderr
    assert asked.returncode == 0, asked.stderr


@pytest.mark.usefixtures("once")
def test_rows_that_were_edited_are_refused_in_one_sentence(tmp_path, env):
    for text in ("[3]", '[{"task": ""}]', "{}", "no"):
        (tmp_path / "out/points/1w-1.json").write_text(text)

        done = sweep(tmp_path, *ONCE, "--resume", "counts.py", env=env)

        assert done.returncode == 1
        assert "1w-1.json of a run that was done" in done.stderr
        assert "Traceback" not in done.stderr


def test_cores_of_two_kinds_keep_their_points_apart(tmp_path, env):
    make_tree(
        tmp_path / "unlike", Shape((800_000_000, 5_000_000_000), cpus=2, policies=2, driver="intel_pstate"), "nobody"
    )
    for name, khz in (("min", 1_200_000), ("max", 3_800_000)):
        for kind in ("cpuinfo", "scaling"):
            (tmp_path / "unlike/sys/devices/system/cpu/cpufreq/policy1" / f"{kind}_{name}_freq").write_text(f"{khz}\n")

    env = environment(tmp_path / "unlike", SEEN=tmp_path / "seen")
    words = ("--frequencies", "0.8,1.2,5", "--workers", "1", *QUICK, "-o", "out", "counts.py")
    done = sweep(tmp_path, *words, env=env)

    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "out/sweep.csv").read_text().splitlines()[1:]
    assert [row.split(",")[1:5] for row in rows] == [
        [str(hz), "Hz", "1", "1"] for hz in (5_000_000_000, 1_200_000_000, 800_000_000)
    ]
    assert done.stderr.count("policy1 (1.2 GHz to 3.8 GHz) cannot take 0.8 GHz, 5 GHz") == 1
    slowest = next(point for point in points(tmp_path / "out") if point["frequency_hz"] == 800_000_000)
    assert slowest["facts"]["held"]["policy1"]["lowest_hz"] == 1_200_000_000
    assert state(tmp_path / "out") == ["done"] * 3
