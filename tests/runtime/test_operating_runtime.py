"""Policies of a real runtime on the simulated machine: what is set, said, recorded, refused, and given back."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from support.browser import opened
from tprof.benchmarks.virtual.machine import Machine
from tprof.benchmarks.virtual.machine.tree import Shape

import tprof
from tprof.frequency.policy import CPUFREQ

DEADLINE_S = 60
FREQUENCIES_HZ = (1_600_000_000, 2_100_000_000, 2_600_000_000, 3_100_000_000, 3_610_000_000)
LOWEST, HIGHEST = FREQUENCIES_HZ[0], FREQUENCIES_HZ[-1]

PROGRAM = """
import sys
import tprof
from tprof.benchmarks.virtual.machine.program import Machine, body
from tprof.benchmarks.virtual.machine.response import RESPONSES
from tprof.runtime import Runtime
from tprof.runtime.operating import edp, fixed, power_cap
machine = Machine()
sort, merge = (body(machine, RESPONSES[name], 0.004) for name in ("sort", "merge"))
def run(policy, instances, session=None, **options):
    with Runtime(workers=2, policy=policy, **options) as runtime:
        for _ in range(instances):
            sort(), merge()
        runtime.wait()
        print("running", flush=True)
"""


@pytest.fixture
def machine(tmp_path):
    """Return a simulated machine of two processors with a frequency each."""
    with Machine(tmp_path / "root", Shape(FREQUENCIES_HZ, policies=2)) as machine:
        yield machine


def start(machine, code, **options):
    script = PROGRAM + code
    return subprocess.Popen(
        [sys.executable, "-c", script], env=machine.environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def run(machine, code):
    process = start(machine, code)
    output, errors = process.communicate(timeout=DEADLINE_S)
    return process.returncode, output, errors


def bounds(machine):
    policies = sorted((machine.root / CPUFREQ).glob("policy*"))
    return [
        tuple(int((one / name).read_text()) for name in ("scaling_min_freq", "scaling_max_freq")) for one in policies
    ]


FORMER = [(LOWEST // 1000, HIGHEST // 1000)] * 2


def test_a_learning_policy_decides_records_and_gives_back(machine, tmp_path):
    session = tmp_path / "learnt.tprof"

    code = f"with tprof.record({str(session)!r}, energy='powercap', counters='none'): run(edp(instances=2), 40)"
    status, _, errors = run(machine, code)

    assert (status, errors) == (0, "")
    assert bounds(machine) == FORMER
    decisions = tprof.load(session).profile().decisions
    changes = decisions[decisions["kind"] == "set"]
    assert {"merge", "sort"} == set(decisions.loc[decisions["kind"] == "chosen", "task"])
    assert set(changes["why"]) <= {"held", "explore", "best", "vote", "unknown"}
    # It begins at the highest, which is a change only if it comes back to it.
    assert {*changes["frequency_hz"], float(HIGHEST)} >= {float(LOWEST), float(FREQUENCIES_HZ[2]), float(HIGHEST)}
    assert set(changes["cpus"]) <= {"0", "1", "0 1"}


def test_fixed_frequencies_are_those_of_the_tasks(machine, tmp_path):
    session = tmp_path / "fixed.tprof"
    policy = f"fixed(tasks={{'sort': {HIGHEST}, 'merge': {LOWEST}}})"

    status, _, errors = run(machine, f"with tprof.record({str(session)!r}): run({policy}, 6)")

    assert (status, errors) == (0, "")
    profile = tprof.load(session).profile()
    changes = profile.decisions[(profile.decisions["kind"] == "set") & (profile.decisions["why"] != "held")]
    assert set(zip(changes["task"], changes["frequency_hz"], strict=True)) <= {("sort", HIGHEST), ("merge", LOWEST)}
    assert "merge" in set(changes["task"])


def test_a_table_decides_without_a_sensor(machine, tmp_path):
    rows = ["task,setting,setting_unit,workers,repeat,energy_j,time_s,instances"]
    rows += [
        f"{task},{hz},Hz,2,1,{hz * sign / 1e9 + 10},0.1,1"
        for task, sign in (("sort", -1), ("merge", 1))
        for hz in FREQUENCIES_HZ
    ]
    (tmp_path / "sweep.csv").write_text("\n".join(rows), encoding="utf-8")
    for file in (machine.root / "sys/class/powercap/intel-rapl:0").iterdir():
        file.unlink()
    session = tmp_path / "table.tprof"

    code = f"with tprof.record({str(session)!r}, energy='none'): run(edp({str(tmp_path / 'sweep.csv')!r}), 6)"
    status, _, errors = run(machine, code)

    assert (status, errors) == (0, "")
    decisions = tprof.load(session).decisions
    assert {one.task: one.frequency_hz for one in decisions if one.kind == "chosen"} == {
        "sort": HIGHEST,
        "merge": LOWEST,
    }


def test_a_cap_is_kept_by_the_sensor_alone(machine, tmp_path):
    session = tmp_path / "capped.tprof"

    status, _, errors = run(machine, f"with tprof.record({str(session)!r}): run(power_cap(1000.0), 60)")

    assert (status, errors) == (0, "")
    assert bounds(machine) == FORMER
    decisions = tprof.load(session).profile().decisions
    assert set(decisions["kind"]) == {"allowed", "released", "set"}
    allowed = decisions[decisions["kind"] == "allowed"]
    assert allowed["former_hz"].iloc[0] == LOWEST
    assert allowed["frequency_hz"].iloc[-1] == HIGHEST
    assert allowed["why"].iloc[0] == "held"
    assert allowed["why"].iloc[1:].str.endswith("W drawn, simulated").all()
    tprof.load(session).profile().to_html(tmp_path / "capped.html")
    assert "allowed by the cap" in opened(tmp_path / "capped.html")


def test_a_driver_without_a_list_is_set_to_frequencies_of_its_range(tmp_path):
    with Machine(tmp_path / "root", Shape(FREQUENCIES_HZ, policies=2, driver="intel_pstate")) as machine:
        session = tmp_path / "range.tprof"

        status, _, errors = run(machine, f"with tprof.record({str(session)!r}): run(edp(instances=2), 40)")

        assert (status, errors) == (0, "")
        assert bounds(machine) == FORMER
    decisions = tprof.load(session).profile().decisions
    frequencies_hz = decisions["frequency_hz"].dropna()
    assert frequencies_hz.between(LOWEST, HIGHEST).all()
    assert len(set(frequencies_hz)) >= 3
    assert set(decisions.loc[decisions["energy_j"].notna(), "quality"]) <= {"simulated"}


def test_what_is_told_is_what_the_processor_was_set_to(machine, tmp_path):
    session = tmp_path / "between.tprof"

    run(machine, f"with tprof.record({str(session)!r}): run(fixed(2.5e9), 2)")

    decisions = tprof.load(session).profile().decisions
    assert set(decisions.loc[decisions["kind"] == "set", "frequency_hz"]) == {HIGHEST, 2_600_000_000}


@pytest.mark.parametrize("hz", ["9e9", "2.4"])
def test_a_frequency_that_is_not_this_machines_is_refused(machine, hz):
    status, _, errors = run(machine, f"run(fixed({hz}), 2)")

    assert status == 1
    assert "this machine runs at 1.6 to 3.61 GHz" in errors
    assert bounds(machine) == FORMER


def table(path, frequencies_hz, tasks=("sort", "merge")):
    rows = ["task,setting,setting_unit,workers,energy_j,time_s,instances"]
    rows += [f"{task},{hz},Hz,2,{hz / 1e9},0.1,1" for task in tasks for hz in frequencies_hz]
    path.write_text("\n".join(rows), encoding="utf-8")
    return str(path)


def test_a_frequency_that_somebody_changes_is_set_again_with_one_warning(machine, tmp_path):
    session = tmp_path / "changed.tprof"
    code = f"""
import time, pathlib
import tprof.runtime.operating.operator as operator
operator.EACH_NS = 1_000_000
root = pathlib.Path({str(machine.root / CPUFREQ)!r})
with tprof.record({str(session)!r}), Runtime(workers=2, policy=fixed({LOWEST})) as r:
    for _ in range(2):
        for policy in root.iterdir():
            (policy / "scaling_max_freq").write_text("{HIGHEST // 1000}\\n")
        time.sleep(0.01)
        sort(), sort()
        r.wait()
    print([(policy / "scaling_max_freq").read_text().strip() for policy in root.iterdir()])
"""
    status, output, errors = run(machine, code)

    assert (status, output) == (0, f"['{LOWEST // 1000}', '{LOWEST // 1000}']\n")
    assert errors.count("RuntimeWarning: another program changes the processor's frequency") == 1
    assert bounds(machine) == FORMER
    assert "somebody else had changed it" in set(tprof.load(session).profile().decisions["why"])


def test_without_the_process_that_would_restore_a_policy_ends_and_restores_by_itself(machine):
    code = f"""
import os, signal, time
import tprof.runtime.operating.operator as operator
operator.EACH_NS = 1_000_000
with Runtime(workers=2, policy=fixed({LOWEST})) as r:
    sort()
    r.wait()
    os.kill(r._operator._guard.pid, signal.SIGKILL)
    while r._operator._guard.is_alive:
        time.sleep(0.001)
    time.sleep(0.01)
    sort()
    r.wait()
"""
    status, _, errors = run(machine, code)

    assert status == 0
    assert "RuntimeWarning: policy fixed sets no frequency any more" in errors
    assert bounds(machine) == FORMER


def test_a_table_of_another_machine_is_refused(machine, tmp_path):
    status, _, errors = run(machine, f"run(edp({table(tmp_path / 'other.csv', (4.2e9, 5e9))!r}), 2)")

    assert status == 1
    assert "has no frequency of this machine, which runs at 1.6 to 3.61 GHz: sweep this machine" in errors
    assert bounds(machine) == FORMER


@pytest.mark.parametrize("policy", ["fixed(tasks={{'sotr': 2.6e9}})", "edp({path!r})"])
def test_a_policy_that_knows_none_of_the_tasks_says_so(machine, tmp_path, policy):
    path = table(tmp_path / "strange.csv", FREQUENCIES_HZ, tasks=("sotr",))

    status, _, errors = run(machine, f"run({policy.format(path=path)}, 2)")

    assert status == 0
    assert "had nothing to choose: it knows of sotr, and the program's tasks are merge, sort" in errors


def test_a_second_policy_beside_the_first_is_refused(machine):
    code = f"""
with Runtime(workers=2, policy=fixed({LOWEST})):
    run(fixed({HIGHEST}), 2)
"""
    status, _, errors = run(machine, code)

    assert status == 1
    assert "the processor's frequencies are held already" in errors
    assert bounds(machine) == FORMER


def test_a_recording_that_begins_inside_is_told_what_holds(machine, tmp_path):
    session = tmp_path / "inside.tprof"
    code = f"""
with Runtime(workers=2, policy=fixed({LOWEST})) as r:
    sort(), merge()
    r.wait()
    with tprof.record({str(session)!r}):
        sort()
        r.active_workers = 1
        r.wait()
"""
    status, _, errors = run(machine, code)

    assert (status, errors) == (0, "")
    decisions = tprof.load(session).profile().decisions
    held = decisions[decisions["why"] == "held"]
    assert set(held["frequency_hz"]) == {LOWEST}
    assert set(held["kind"]) == {"set"}
    assert decisions.loc[decisions["kind"] == "workers", ["workers", "why"]].to_numpy().tolist() == [[1.0, "program"]]


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_frequencies_come_back_however_the_program_ends(machine, end):
    code = f"""
with Runtime(workers=2, policy=fixed({LOWEST})) as r:
    sort()
    r.wait()
    print("there", flush=True)
    sys.stdin.read()
"""
    process = start(machine, code, stdin=subprocess.PIPE)
    assert process.stdout.readline() == "there\n"
    assert (LOWEST // 1000, LOWEST // 1000) in bounds(machine)

    process.send_signal(end)
    process.communicate(timeout=DEADLINE_S)

    give_up_s = time.monotonic() + DEADLINE_S
    while bounds(machine) != FORMER and time.monotonic() < give_up_s:
        os.sched_yield()
    assert bounds(machine) == FORMER


def test_a_forked_child_that_lives_on_does_not_keep_the_frequencies(machine):
    code = f"""
import os
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
    status, output, errors = run(machine, code)

    assert (status, output, errors) == (0, "out\n", "")
    assert bounds(machine) == FORMER


def test_an_exception_in_the_block_gives_back(machine):
    status, _, errors = run(machine, f"with Runtime(workers=2, policy=fixed({LOWEST})):\n  sort()\n  raise KeyError(7)")

    assert status == 1
    assert "KeyError: 7" in errors
    assert bounds(machine) == FORMER


def test_without_a_sensor_learning_is_refused_in_one_sentence(machine):
    (machine.root / "sys/class/powercap/intel-rapl:0/name").unlink()

    status, _, errors = run(machine, "run('edp', 1)")

    assert status == 1
    assert "SensorError: a policy that learns, or caps power, needs the package's energy" in errors
    assert 'profile="sweep.csv"' in errors
    assert bounds(machine) == FORMER


def test_without_frequencies_to_set_a_policy_is_refused_in_one_sentence(tmp_path, monkeypatch):
    from tprof.runtime import Runtime  # noqa: PLC0415 - in this process

    from tprof.errors import SensorError  # noqa: PLC0415

    monkeypatch.setenv("TPROF_SYSROOT", str(tmp_path))

    with (
        pytest.raises(SensorError, match="has no policy: this machine does not let its frequency be set"),
        Runtime(workers=1, policy="energy"),
    ):
        pytest.fail("it has begun")


def test_a_frequency_that_cannot_be_set_any_more_ends_the_policy_with_a_warning(machine):
    code = f"""
import pathlib, shutil, warnings
warnings.simplefilter("always")
root = pathlib.Path({str(machine.root / CPUFREQ)!r})
with Runtime(workers=2, policy=fixed(tasks={{"sort": {HIGHEST}, "merge": {LOWEST}}})) as r:
    for policy in root.iterdir():
        (policy / "scaling_max_freq").rename(policy / "kept")
        (policy / "scaling_max_freq").mkdir()
    for _ in range(4):
        sort(), merge()
    r.wait()
    for policy in root.iterdir():
        (policy / "scaling_max_freq").rmdir()
        (policy / "kept").rename(policy / "scaling_max_freq")
print("done")
"""
    status, output, errors = run(machine, code)

    assert (status, output) == (0, "done\n")
    assert errors.count("RuntimeWarning: policy fixed sets no frequency any more") == 1
    assert bounds(machine) == FORMER


def test_decisions_that_are_damaged_are_left_out_with_a_note(machine, tmp_path):
    session = tmp_path / "damaged.tprof"
    run(machine, f"with tprof.record({str(session)!r}): run(fixed({LOWEST}), 2)")
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
    (session / "decisions").mkdir(exist_ok=True)
    (session / "decisions" / "00000007.jsonl").write_bytes(b"\n".join(lines))

    trace = tprof.load(session)

    ours = [one for one in trace.decisions if one.process == 7]
    assert [(one.kind, one.workers, one.cpus, one.energy_j) for one in ours] == [("workers", 1, (), None)]
    assert "00000007.jsonl: 6 lines of a policy's decisions are damaged, and left out" in trace.notes
    assert trace.profile().decisions["kind"].iloc[0] == "workers"


def test_the_report_shows_operating_points_only_where_a_policy_decided(machine, tmp_path):
    session = tmp_path / "shown.tprof"
    run(machine, f"with tprof.record({str(session)!r}): run(fixed({LOWEST}), 2)")
    run(machine, f"with tprof.record({str(tmp_path / 'plain.tprof')!r}): run(None, 2)")

    for name in ("shown", "plain"):
        tprof.load(tmp_path / f"{name}.tprof").profile().to_html(tmp_path / f"{name}.html")

    shown, plain = (
        json.loads((tmp_path / f"{name}.html").read_text("utf-8").split('id="data">')[1].split("</script>")[0])
        for name in ("shown", "plain")
    )
    page = opened(tmp_path / "shown.html")
    assert 'data-drawn="yes"' in page
    assert "Policy fixed: the frequency was set" in page
    assert plain["operating"] is None
    assert shown["operating"]["policies"] == ["fixed"]
    lines = [one["frequency_hz"] for one in shown["operating"]["lines"]]
    assert {hz for line in lines for hz in line} == {HIGHEST, LOWEST, None}
    assert all(line[-1] is None for line in lines), "nothing is held once the runtime has ended"


def test_a_session_with_decisions_can_be_replaced(machine, tmp_path):
    session = tmp_path / "again.tprof"

    for _ in range(2):
        status, _, errors = run(
            machine, f"with tprof.record({str(session)!r}, overwrite=True): run(fixed({LOWEST}), 2)"
        )
        assert (status, errors) == (0, "")
    assert (session / "decisions" / "00000000.jsonl").exists()
