"""The critical path of a job leads over its hosts, whose clocks agree only within an error."""

import json
import math
import shutil

import pandas as pd
import pytest
from support import traces

import tprof
from tprof.errors import UsageError
from tprof.trace.clock_offset import PINGS, WALL_CLOCK, Offset
from tprof.trace.cluster import HostPart, write_hosts

MS = 10**6
WATTS = 10.0
LENGTH_MS = 2000
SAME = Offset(0, 1000, PINGS)
MAKE, USE = ("make", 100, 200), ("use", 230, 500)


def part(job, name, threads, *, late_ms=0, keys=(), **changes):
    """Write a part: of each thread the instances in order, which are (task, begin, end) in ms of the job's clock.

    `late_ms` is how much later its clock begins. `keys` are (place among all instances, key, needed keys).
    """
    names = sorted({task for thread in threads for task, _, _ in thread})
    numbers = iter(range(1, 1000))
    written = []
    for thread in threads:
        samples = [(0, 0, -1)]
        for task, begin_ms, end_ms in thread:
            samples += [(begin_ms, next(numbers), names.index(task)), (end_ms, 0, -1)]
        samples.append((LENGTH_MS, 0, -1))
        t_ms, instance, task = zip(*samples, strict=True)
        written.append({"t_ns": [(at + late_ms) * MS for at in t_ms], "instance": instance, "task": task})
    t_ns = [late_ms * MS, (late_ms + LENGTH_MS) * MS]
    path = job / "hosts" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    energy = {"package-0": (t_ns, [0.0, WATTS * LENGTH_MS / 1000])}
    given = {"quality": "measured"} | changes
    traces.write(path, tasks=names, threads=written, energy=energy, host={"hostname": name}, **given)
    lines = [{"instance": place + 1, "key": key, "needs": needs} for place, key, needs in keys]
    (path / "keys").mkdir()
    (path / "keys" / "00000000.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def two_hosts(tmp_path, maker, user, *, uncertainty_ns=1000, by=PINGS, late_ms=0, **changes):
    """Return a job in which a task of one host made what a task of the other one needs; their clocks differ."""
    job = tmp_path / "job.tprof"
    one = part(job, "one", [[maker]], keys=[(0, "x", [])])
    two = part(job, "two", [[("other", 0, 50), user]], late_ms=late_ms, keys=[(0, "z", []), (1, "y", ["x"])], **changes)
    return placed(job, {one: Offset(0, uncertainty_ns, by), two: Offset(-late_ms * MS, uncertainty_ns, by)})


def placed(job, offsets):
    """Write the table of hosts."""
    hosts = [HostPart(path.name, path, offset) for path, offset in offsets.items()]
    write_hosts(job, hosts, engine="dask")
    return job


def path_of(job):
    return tprof.load(job).profile(model="cputime").critical_path()


@pytest.mark.parametrize("late_ms", [0, 700, -300])
def test_the_chain_goes_on_to_another_host(tmp_path, late_ms):
    path = path_of(two_hosts(tmp_path, MAKE, USE, late_ms=late_ms + 1000))

    assert path.chain[["host", "task"]].to_numpy().tolist() == [["one", "make"], ["two", "use"]]
    assert path.span_s == pytest.approx(0.370)
    assert path.chain["start_s"].tolist() == pytest.approx([0.1, 0.23])
    assert path.host_changes == 1
    assert path.contradicting == 0
    assert path.quality == "measured"


def test_joules_of_the_chain_are_those_of_each_host(tmp_path):
    profile = tprof.load(two_hosts(tmp_path, MAKE, USE)).profile(model="cputime")

    path = profile.critical_path()

    energy_j = profile.tasks.set_index("task")["energy_j"]
    assert path.chain["energy_j"].tolist() == pytest.approx([energy_j["make"], energy_j["use"]])
    assert path.energy_j == pytest.approx(energy_j["make"] + energy_j["use"])
    assert path.heaviest["host"].tolist() == ["one", "two"]


def test_the_wait_for_data_of_another_host_is_a_transfer(tmp_path):
    path = path_of(two_hosts(tmp_path, MAKE, USE))

    pieces = path.observed[path.observed["start_s"] > 0.09]
    assert pieces[["kind", "host"]].astype(str).to_numpy().tolist() == [
        ["running", "one"], ["transfer", "two"], ["running", "two"],
    ]  # fmt: skip
    assert path.parts["transfer_s"] == pytest.approx(0.030)
    assert sum(path.parts.values()) == pytest.approx(path.makespan_s)


def test_a_worker_that_was_busy_is_no_transfer(tmp_path):
    """The user's worker ended another task 10 ms after the data were made, and began 20 ms later."""
    job = tmp_path / "job.tprof"
    one = part(job, "one", [[MAKE]], keys=[(0, "x", [])])
    two = part(job, "two", [[("other", 0, 210), USE]], keys=[(0, "z", []), (1, "y", ["x"])])

    path = path_of(placed(job, {one: SAME, two: SAME}))

    assert path.chain["task"].tolist() == ["make", "use"]
    assert path.observed["task"].tolist() == ["other", "use", "use"]
    assert path.parts["running_s"] == pytest.approx(0.480)
    assert path.parts["transfer_s"] == pytest.approx(0.020)


def test_clocks_that_are_off_within_their_error_keep_the_dependence(tmp_path):
    """The data seem to be made 5 ms after their use began; each clock may be off by 3 ms."""
    path = path_of(two_hosts(tmp_path, ("make", 100, 235), USE, uncertainty_ns=3 * MS))

    assert path.chain["task"].tolist() == ["make", "use"]
    assert path.span_s == pytest.approx(0.405)
    assert path.contradicting == 0
    assert sum(path.parts.values()) == pytest.approx(path.makespan_s)


def test_a_dependence_that_clocks_rule_out_is_counted(tmp_path):
    path = path_of(two_hosts(tmp_path, ("make", 100, 235), USE, uncertainty_ns=1 * MS))

    assert path.chain["task"].tolist() == ["use"]
    assert path.contradicting == 1


def test_wall_clocks_that_nothing_compared_may_be_off_further(tmp_path):
    path = path_of(two_hosts(tmp_path, ("make", 100, 400), USE, uncertainty_ns=None, by=WALL_CLOCK))

    assert path.chain["task"].tolist() == ["make", "use"]


def test_of_several_attempts_the_last_before_the_use_counts(tmp_path):
    job = tmp_path / "job.tprof"
    one = part(job, "one", [[("make", 0, 100), ("make", 600, 700)]], keys=[(0, "x", []), (1, "x", [])])
    two = part(job, "two", [[("use", 300, 400), ("use", 800, 900)]], keys=[(0, "y", ["x"]), (1, "w", ["x", "y"])])

    path = path_of(placed(job, {one: SAME, two: SAME}))

    assert path.chain["start_s"].tolist() == pytest.approx([0.0, 0.3, 0.8])


def test_joules_of_unlike_hosts_are_called_mixed(tmp_path):
    path = path_of(two_hosts(tmp_path, MAKE, USE, quality="estimated"))

    assert path.quality == "mixed"


def test_without_keys_the_path_is_refused_with_the_reason(tmp_path):
    (tmp_path / "plain.tprof" / "hosts").mkdir(parents=True)
    traces.write(tmp_path / "plain.tprof" / "hosts" / "one")

    with pytest.raises(UsageError, match="no part of this job has keys"):
        path_of(tmp_path / "plain.tprof")


def test_parts_are_read_again_for_the_path_where_instances_are_not_kept(tmp_path):
    job = two_hosts(tmp_path, MAKE, USE)

    path = tprof.load(job).profile(tables=False).critical_path()

    pd.testing.assert_frame_equal(path.chain, path_of(job).chain)


def test_a_part_that_is_missing_leaves_the_chain_of_the_others(tmp_path):
    job = two_hosts(tmp_path, MAKE, USE)
    shutil.rmtree(job / "hosts" / "one")

    path = path_of(job)

    assert path.chain["task"].tolist() == ["use"]
    assert path.contradicting == 0
    assert not math.isnan(path.energy_j)
