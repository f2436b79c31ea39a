"""A change of the power model is not called a change of the program."""

import json

import pytest
from support.command_line import tprof as command

import tprof
from benchmarks.simulator import ICE_LAKE, Mix, Package, Run, random_mix, stated, write

MIX = Mix(cores=2, duration_s=0.5)
STEADY, RISEN = {"a": 8.0, "b": 8.0}, {"a": 8.0, "b": 8.8}
"""Watts above static power: equal ones `auto` shares by CPU time, unequal ones it fits."""
LONG_S = {"a": 50e-6, "b": 200e-6}


def simulated(path, watts, *, seed, counters=False):
    tasks = tuple(stated(name, LONG_S[name], drawn_w) for name, drawn_w in watts.items())
    cores = random_mix(tasks, MIX, seed=seed)
    run = Run(Package(), [task.kernel for task in tasks], cores, MIX.duration_s + MIX.idle_s)
    write(path, list(watts), run, sensor=ICE_LAKE, seed=seed, counters=counters)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A session before and after b rises from 8 to 8.8 W, and one with counters."""
    place = tmp_path_factory.mktemp("models")
    simulated(place / "steady", STEADY, seed=1)
    simulated(place / "risen", RISEN, seed=2)
    simulated(place / "counted", RISEN, seed=3, counters=True)
    return place


@pytest.mark.parametrize(("a", "b", "change"), [("steady", "risen", "more"), ("risen", "steady", "less")])
def test_both_sides_are_shared_by_one_model_although_auto_takes_two(folder, a, b, change):
    alone = [tprof.load(folder / name).profile().info["model"] for name in (a, b)]

    found = tprof.compare(folder / a, folder / b)

    assert found.tasks["change"].to_dict() == {"a": "unclear", "b": change}
    assert found.tasks.loc["a", "energy_mean_ratio"] == pytest.approx(1.0, abs=0.01)
    assert found.info["model"] == "fitted"
    assert ("shared by the power model fitted" in found.info["model_why"]) == (len(set(alone)) > 1)


@pytest.mark.parametrize(
    ("base", "now", "status", "states"),
    [("steady", "risen", 1, {"a": "within", "b": "over"}), ("risen", "steady", 0, {"a": "within", "b": "within"})],
)
def test_check_shares_a_run_by_the_model_of_its_baseline(folder, base, now, status, states):
    file = folder / f"{base}.json"
    command("check", base, "--save", file, "--model", "fitted", cwd=folder)

    said = command("check", now, "--baseline", file, "--max-increase", "2%", "--json", cwd=folder)

    found = json.loads(said.stdout)
    assert {one["task"]: one["state"] for one in found["tasks"]} == states
    assert (said.returncode, found["model"]) == (status, "fitted")


def test_a_baseline_by_cpu_time_is_checked_by_cpu_time(folder):
    """`auto` would fit the powers of the run."""
    command("check", "steady", "--save", "cputime.json", "--model", "cputime", cwd=folder)

    said = command("check", "risen", "--baseline", "cputime.json", "--max-increase", "a=5%", cwd=folder)

    assert "joules are shared by the power model cputime, that of the baseline" in said.stdout
    line = next(line for line in said.stdout.splitlines() if line.startswith("a "))
    assert line.split()[1] == "within"


def test_sessions_of_which_one_has_no_counters_are_shared_by_what_both_have(folder):
    """Powers that are fitted on top of other counters are another model too."""
    words = [folder / "counted"], [folder / "risen"]
    taken = [tprof.load(one).profile().info for (one,) in words]

    there, back = tprof.compare(*words), tprof.compare(*reversed(words))

    assert [one["model_base"] for one in taken] == ["fesc", "cputime"]
    assert there.info["model"] == back.info["model"] == "cputime"
    assert there.info["model_why"] == back.info["model_why"] != ""
    said = command("compare", *(one for (one,) in words), "-o", "page.html", cwd=folder).stdout
    assert "all joules are shared by the power model cputime" in " ".join(said.split())
    assert "All joules are shared by the power model cputime" in (folder / "page.html").read_text("utf-8")


def test_a_model_that_cannot_share_the_run_gives_no_verdict(folder):
    command("check", "counted", "--save", "counted.json", "--model", "ipc", cwd=folder)

    said = command("check", "risen", "--baseline", "counted.json", cwd=folder)

    assert said.returncode == 2
    assert "no verdict: the joules of the baseline are shared by the power model ipc" in said.stderr
    assert "make a new baseline by: tprof check SESSION --save FILE" in said.stderr
    assert "Traceback" not in said.stderr


def test_another_model_than_that_of_the_baseline_gives_no_verdict_but_on_times(folder):
    command("check", "steady", "--save", "other.json", "--model", "fitted", cwd=folder)

    said = command("check", "risen", "--baseline", "other.json", "--model", "cputime", cwd=folder)
    times = command("check", "steady", "--baseline", "other.json", "--model", "cputime", "--figure", "time", cwd=folder)

    assert said.returncode == 2
    assert "shared by the power model fitted and those here by cputime" in said.stderr
    assert times.returncode == 0, times.stderr


def test_profiles_by_unlike_models_are_compared_by_their_times_only(folder):
    by_time, fitted = (tprof.load(folder / "risen").profile(model) for model in ("cputime", "fitted"))

    found = tprof.load(folder / "steady").profile("cputime").compare(fitted)

    assert found.info["by"] == "duration_mean_s"
    assert found.tasks["energy_mean_ratio"].isna().all()
    assert any("since the power models differ (A cputime, B fitted)" in text for text in found.info["warnings"])
    assert tprof.load(folder / "steady").profile("cputime").compare(by_time).info["by"] == "energy_mean_j"
