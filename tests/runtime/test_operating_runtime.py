"""Policies of a real runtime on a tree of cpufreq: what is set, recorded and shown, and given back however it ends."""

import json
import signal
import subprocess
import sys

import pytest
from support.browser import opened
from support.fake_sensor import wait_for
from tprof.runtime import Runtime
from tprof.runtime.policy import fixed, power_cap

import tprof
from benchmarks.simulator.simulated_machine import Machine, Shape, make_tree
from tprof.errors import SensorError
from tprof.frequency import Bounds, find_policies, read_bounds

DEADLINE_S = 60
FREQUENCIES_HZ = (1_600_000_000, 2_100_000_000, 2_600_000_000, 3_100_000_000, 3_610_000_000)
LOWEST, HIGHEST = FREQUENCIES_HZ[0], FREQUENCIES_HZ[-1]
SHAPE = Shape(FREQUENCIES_HZ, policies=2)
FORMER, HELD = [Bounds(LOWEST, HIGHEST)] * 2, Bounds(LOWEST, LOWEST)

PROGRAM = """
import os, sys
import tprof
from tprof.runtime import Runtime
from tprof.runtime.policy import edp, fixed
@tprof.task
def sort(): pass
"""
LEARNS = """
from benchmarks.simulator.program import Machine, body
from benchmarks.simulator.simulated_machine import RESPONSES
machine = Machine()
sort, merge = (body(machine, RESPONSES[name], 0.004) for name in ("sort", "merge"))
with tprof.record(sys.argv[1], energy="powercap", counters="none"), Runtime(workers=2, policy=edp(instances=2)) as r:
    for _ in range(100):
        sort(), merge()
    r.wait()
"""


@tprof.task(name="sort")
def sort():
    """Do nothing: a policy that is fixed sets the frequency before it all the same."""


@tprof.task(name="merge")
def merge():
    """Do nothing."""


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Return the root of two processors with a frequency each, which runtimes of this process see."""
    make_tree(tmp_path / "root", SHAPE, "nobody")
    monkeypatch.setenv("TPROF_SYSROOT", str(tmp_path / "root"))
    return tmp_path / "root"


def recording(session, **options):
    return tprof.record(session, energy="none", counters="none", **options)


def run(policy, tasks=(sort, merge)):
    """Run the tasks one after the other."""
    with Runtime(workers=2, policy=policy) as runtime:
        for task in tasks:
            task()
            runtime.wait()


def bounds(root):
    return [read_bounds(policy) for policy in find_policies(root)]


def start(code, *arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM + code, *map(str, arguments)], text=True, stdout=subprocess.PIPE, **options
    )


@pytest.mark.thorough
def test_a_policy_learns_by_the_joules_that_a_machine_draws(tmp_path):
    with Machine(tmp_path / "root", SHAPE) as machine:
        process = start(LEARNS, tmp_path / "learnt.tprof", env=machine.environment, stderr=subprocess.PIPE)
        _, errors = process.communicate(timeout=DEADLINE_S)

        assert (process.returncode, errors) == (0, "")
        assert bounds(machine.root) == FORMER
    decisions = tprof.load(tmp_path / "learnt.tprof").profile().decisions
    changes = decisions[decisions["kind"] == "set"]
    assert {"merge", "sort"} == set(decisions.loc[decisions["kind"] == "chosen", "task"])
    assert set(decisions.loc[decisions["energy_j"].notna(), "quality"]) <= {"simulated"}
    assert set(changes["why"]) <= {"held", "explore", "best", "vote", "unknown"}
    # It begins at the highest, which is a change only if it comes back to it.
    assert {*changes["frequency_hz"], float(HIGHEST)} >= {float(LOWEST), float(FREQUENCIES_HZ[2]), float(HIGHEST)}


def test_the_frequencies_of_the_tasks_are_set_recorded_and_given_back(root, tmp_path):
    with recording(tmp_path / "fixed.tprof"):
        run(fixed(tasks={"sort": HIGHEST, "merge": LOWEST}))

    assert bounds(root) == FORMER
    decisions = tprof.load(tmp_path / "fixed.tprof").profile().decisions
    changes = decisions[(decisions["kind"] == "set") & (decisions["why"] != "held")]
    assert list(zip(changes["task"], changes["frequency_hz"], strict=True)) == [("merge", LOWEST)]
    assert set(changes["cpus"]) <= {"0", "1", "0 1"}
    assert decisions["kind"].iloc[-1] == "released"


def test_a_recording_that_begins_inside_is_told_what_holds(root, tmp_path):
    with Runtime(workers=2, policy=fixed(LOWEST)) as runtime:
        sort()
        runtime.wait()
        held = bounds(root)
        with recording(tmp_path / "inside.tprof"):
            runtime.active_workers = 1
            sort()
            runtime.wait()

    assert HELD in held
    decisions = tprof.load(tmp_path / "inside.tprof").profile().decisions
    told = decisions[decisions["why"] == "held"]
    assert set(told["frequency_hz"]) == {one.highest_hz for one in held}
    assert set(told["kind"]) == {"set"}
    assert decisions.loc[decisions["kind"] == "workers", ["workers", "why"]].to_numpy().tolist() == [[1.0, "program"]]


def test_an_exception_in_the_block_gives_back(root):
    with pytest.raises(KeyError, match="7"), Runtime(workers=2, policy=fixed(LOWEST)) as runtime:
        sort()
        runtime.wait()
        raise KeyError(7)

    assert bounds(root) == FORMER


def test_a_policy_that_cannot_begin_leaves_no_runtime(tmp_path, monkeypatch):
    monkeypatch.setenv("TPROF_SYSROOT", str(tmp_path))

    with (
        pytest.raises(SensorError, match="has no policy: this machine does not let its frequency be set"),
        Runtime(workers=1, policy="energy"),
    ):
        pytest.fail("it has begun")


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_frequencies_come_back_however_the_program_ends(root, end):
    code = f"""
with Runtime(workers=2, policy=fixed({LOWEST})) as r:
    sort()
    r.wait()
    print("there", flush=True)
    sys.stdin.read()
"""
    process = start(code, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout.readline() == "there\n"
    assert HELD in bounds(root)

    process.send_signal(end)
    process.communicate(timeout=DEADLINE_S)

    wait_for(lambda: settled(root) == FORMER, "the former bounds")


def settled(root):
    """Return the bounds, or None while a file is being written."""
    try:
        return bounds(root)
    except SensorError:
        return None


def test_a_forked_child_that_lives_on_does_not_keep_the_frequencies(root):
    code = f"""
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # that the runtime's workers run beside the fork, which is so
with Runtime(workers=2, policy=fixed({LOWEST})) as r:
    sort()
    r.wait()
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(there)
        os.read(here, 1)
        os._exit(0)
print("out", flush=True)
os.close(there)
os.waitpid(child, 0)
"""
    process = start(code, stderr=subprocess.PIPE)

    output, errors = process.communicate(timeout=DEADLINE_S)

    assert (process.returncode, output, errors) == (0, "out\n", "")
    assert bounds(root) == FORMER


@pytest.mark.usefixtures("root")
def test_decisions_that_are_damaged_are_left_out_with_a_note(tmp_path):
    session = tmp_path / "damaged.tprof"
    with recording(session):
        run(fixed(LOWEST))
    good = json.dumps({"t_ns": 5, "kind": "workers", "policy": "edp", "workers": 1, "cpus": "x", "energy_j": "y"})
    lines = [
        b"",
        b"{",
        b"\xff\xff",
        b"[1]",
        b'{"t_ns": -1, "kind": "set", "policy": "p"}',
        good.encode(),
        b"x" * 200_000,
    ]
    (session / "decisions" / "00000007.jsonl").write_bytes(b"\n".join(lines))

    trace = tprof.load(session)

    ours = [one for one in trace.decisions if one.process == 7]
    assert [(one.kind, one.workers, one.cpus, one.energy_j) for one in ours] == [("workers", 1, (), None)]
    assert "00000007.jsonl: 6 lines of a policy's decisions are damaged, and left out" in trace.notes
    assert trace.profile().decisions["kind"].iloc[0] == "workers"


@pytest.mark.usefixtures("root")
def test_the_report_shows_operating_points_only_where_a_policy_decided(tmp_path):
    for name, policy in (("shown", fixed(LOWEST)), ("plain", None)):
        with recording(tmp_path / f"{name}.tprof"):
            run(policy)
        tprof.load(tmp_path / f"{name}.tprof").profile().to_html(tmp_path / f"{name}.html")

    shown, plain = (
        json.loads((tmp_path / f"{name}.html").read_text("utf-8").split('id="data">')[1].split("</script>")[0])
        for name in ("shown", "plain")
    )
    page = opened(tmp_path / "shown.html")
    assert 'data-drawn="yes"' in page
    assert "Policy fixed: the frequency was set" in page
    assert "operating" not in plain
    assert shown["operating"]["policies"] == ["fixed"]
    lines = [one["frequency_hz"] for one in shown["operating"]["lines"]]
    assert {hz for line in lines for hz in line} == {HIGHEST, LOWEST, None}
    assert all(line[-1] is None for line in lines), "nothing is held once the runtime has ended"


@pytest.mark.usefixtures("root")
def test_the_report_draws_what_a_cap_allows(tmp_path):
    with tprof.record(tmp_path / "capped.tprof", counters="none"):
        run(power_cap(1000.0))

    profile = tprof.load(tmp_path / "capped.tprof").profile()
    allowed = profile.decisions[profile.decisions["kind"] == "allowed"]
    profile.to_html(tmp_path / "capped.html")
    assert (allowed["former_hz"].iloc[0], allowed["why"].iloc[0]) == (LOWEST, "held")
    assert "allowed by the cap" in opened(tmp_path / "capped.html")


@pytest.mark.usefixtures("root")
def test_a_session_with_decisions_can_be_replaced(tmp_path):
    session = tmp_path / "again.tprof"

    for _ in range(2):
        with recording(session, overwrite=True):
            run(fixed(LOWEST))

    assert (session / "decisions" / "00000000.jsonl").exists()
