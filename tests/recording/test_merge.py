"""Sessions of several hosts become one job."""

import json
import shutil
import time

import pytest
from support import command_line, traces

import tprof
from tprof.trace.clock_offset import Offset, offset_by_pings
from tprof.trace.cluster import HostPart, write_hosts
from tprof.trace.merge import merge


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Two sessions of hosts that differ in name and wall clock."""
    place = tmp_path_factory.mktemp("merged")
    for number, host in enumerate(("node10", "node9")):
        traces.write(place / f"{host}.tprof")
        manifest = place / f"{host}.tprof" / "manifest.json"
        clock = json.loads(manifest.read_text())["clock"] | {"start_ns": 0, "wall_start_ns": (5 + number) * 10**9}
        traces.set_json(manifest, host={"hostname": host}, clock=clock)
    return place


@pytest.fixture
def sessions(written, tmp_path):
    return [traces.copy(path, tmp_path / path.name) for path in sorted(written.iterdir())]


def test_a_merged_job_holds_each_session_as_the_part_of_its_host(sessions, tmp_path):
    done = command_line.tprof("merge", *sessions, "-o", "all.tprof", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    job = tprof.load(tmp_path / "all.tprof")
    assert [host.name for host in job.hosts] == ["node9", "node10"]
    assert job.engine == "merge"
    for source in sessions:
        assert traces.contents(job.path / "hosts" / source.stem) == traces.contents(source)


def test_joules_of_a_merged_job_are_those_of_its_parts_and_its_times_are_those_of_the_wall_clocks(sessions, tmp_path):
    merge(sessions, tmp_path / "all.tprof")
    profile = tprof.load(tmp_path / "all.tprof").profile()
    own = tprof.load(sessions[0]).profile()

    assert profile.hosts["energy_j"].tolist() == pytest.approx([25.0, 25.0])
    assert profile.summary()["energy_j"].to_dict() == pytest.approx((2 * own.summary()["energy_j"]).to_dict())
    starts = profile.tasks.groupby("host", observed=True)["start_s"].min()
    assert starts["node9"] - starts["node10"] == pytest.approx(1.0)


def test_intervals_of_hosts_are_combined(sessions, tmp_path):
    merge(sessions, tmp_path / "all.tprof")
    whole = tprof.load(tmp_path / "all.tprof").profile().summary()
    own = tprof.load(sessions[0]).profile().summary().reindex(whole.index)

    half = {name: table["energy_high_j"] - table["energy_j"] for name, table in (("all", whole), ("own", own))}
    assert half["all"].to_numpy() == pytest.approx((half["own"] * 2**0.5).to_numpy())


def test_a_wall_clock_that_is_wrong_changes_no_joules(sessions, tmp_path):
    clock = json.loads((sessions[0] / "manifest.json").read_text())["clock"]
    traces.set_json(sessions[0] / "manifest.json", clock=clock | {"wall_start_ns": 10**15})
    merge(sessions, tmp_path / "all.tprof")

    profile = tprof.load(tmp_path / "all.tprof").profile()
    assert profile.hosts["energy_j"].tolist() == pytest.approx([25.0, 25.0])
    assert profile.hosts["duration_s"].max() < 10


def test_a_machine_that_two_sessions_recorded_at_the_same_time_is_warned_of(sessions, tmp_path):
    for session in sessions:
        traces.set_json(session / "manifest.json", boot_id="one")
    merge(sessions, tmp_path / "all.tprof")
    for session in sessions:
        traces.set_json(session / "manifest.json", boot_id=session.name)
    merge(sessions, tmp_path / "apart.tprof")

    twice = "node9 and node10 were recorded on one machine at the same time: its joules are counted twice"
    assert twice in tprof.load(tmp_path / "all.tprof").profile().info["warnings"]
    assert twice not in tprof.load(tmp_path / "apart.tprof").profile().info["warnings"]


def test_sessions_of_one_host_get_numbers(sessions, tmp_path):
    again = traces.copy(sessions[0], tmp_path / "again.tprof")
    clock = json.loads((again / "manifest.json").read_text())["clock"]
    traces.set_json(again / "manifest.json", clock=clock | {"wall_start_ns": 10**15})
    parts = merge([sessions[0], again], tmp_path / "all.tprof")

    assert [part.name for part in parts] == ["node10", "node10-2"]


def test_a_job_in_a_job_keeps_its_offsets_and_its_missing_parts(sessions, tmp_path):
    first = tmp_path / "first.tprof"
    merge(sessions[:1], first)
    parts = [HostPart("node10", first / "hosts/node10", Offset(7, 5, "pings")), HostPart("lost", None, None, "it fell")]
    write_hosts(first, parts, engine="dask", expected=["node10", "lost"])
    merge([first, sessions[1]], tmp_path / "all.tprof")

    found = {host.name: host for host in tprof.load(tmp_path / "all.tprof").hosts}
    assert found["node10"].offset == Offset(7, 5, "pings")
    assert found["node9"].offset.by == "wall clock"
    assert found["lost"].missing == "it fell"


def test_moved_sessions_are_gone_and_copied_ones_stay(sessions, tmp_path):
    merge(sessions[:1], tmp_path / "copied.tprof")
    assert sessions[0].exists()
    merge(sessions, tmp_path / "moved.tprof", move=True)

    assert not any(path.exists() for path in sessions)
    assert len(tprof.load(tmp_path / "moved.tprof").hosts) == 2


def test_a_moved_job_is_gone_too(sessions, tmp_path):
    merge(sessions, tmp_path / "first.tprof")
    merge([tmp_path / "first.tprof"], tmp_path / "second.tprof", move=True)

    assert not (tmp_path / "first.tprof").exists()
    assert len(tprof.load(tmp_path / "second.tprof").hosts) == 2


def test_a_job_is_replaced_only_if_asked_and_nothing_else_ever(sessions, tmp_path):
    merge(sessions[:1], tmp_path / "all.tprof")
    with pytest.raises(tprof.UsageError, match="--overwrite"):
        merge(sessions, tmp_path / "all.tprof")
    merge(sessions, tmp_path / "all.tprof", overwrite=True)
    assert len(tprof.load(tmp_path / "all.tprof").hosts) == 2

    (tmp_path / "all.tprof" / "mine.txt").write_text("mine")
    with pytest.raises(tprof.UsageError, match=r"also holds 'mine\.txt'"):
        merge(sessions, tmp_path / "all.tprof", overwrite=True)
    assert (tmp_path / "all.tprof" / "mine.txt").exists()


def test_a_source_that_is_no_session_is_named_and_nothing_is_made(sessions, tmp_path):
    (tmp_path / "empty").mkdir()
    done = command_line.tprof("merge", sessions[0], tmp_path / "empty", "-o", "all.tprof", cwd=tmp_path)

    assert done.returncode == 1
    assert str(tmp_path / "empty") in done.stderr
    assert not (tmp_path / "all.tprof").exists()


@pytest.mark.parametrize(("source", "why"), [("mine.py", "it is a link or a file"), ("absent", "No such file")])
def test_a_source_that_is_no_directory_is_named_with_the_reason(sessions, tmp_path, source, why):
    (tmp_path / "mine.py").write_text("")

    with pytest.raises(tprof.TraceError, match=f"{source} is not a tprof session .{why}"):
        merge([sessions[0], tmp_path / source], tmp_path / "all.tprof")


def test_a_recording_that_is_given_twice_is_refused(sessions, tmp_path):
    merge(sessions, tmp_path / "all.tprof")

    for again in (sessions[0], tmp_path / "all.tprof"):
        with pytest.raises(tprof.UsageError, match="same recording: leave one out"):
            merge([sessions[0], again], tmp_path / "twice.tprof")


def test_a_job_among_the_parts_of_a_job_is_named(sessions, tmp_path):
    merge(sessions[:1], tmp_path / "all.tprof")
    merge(sessions[1:], tmp_path / "all.tprof" / "hosts" / "inner")

    parts = {part.name: part.missing for part in merge([tmp_path / "all.tprof"], tmp_path / "again.tprof")}
    assert parts["node10"] is None
    assert "is a job of several hosts" in parts["inner"]


def test_a_job_is_not_made_inside_a_source(sessions):
    before = traces.contents(sessions[0])

    with pytest.raises(tprof.UsageError, match="choose another path"):
        merge(sessions, sessions[0] / "all.tprof")
    assert traces.contents(sessions[0]) == before


def test_the_clock_of_a_host_is_within_the_bounds_of_its_pings():
    ahead_ns = 123_456_789
    way_there, way_back = (5_000, 40_000, 9_000), (30_000, 2_000, 9_000)
    pings = []
    for number, (there, back) in enumerate(zip(way_there, way_back, strict=True)):
        sent_ns = 10**9 * (number + 1)
        pings.append((sent_ns, sent_ns + there - ahead_ns, sent_ns + there + back))
    offset = offset_by_pings(pings)
    unix_ns = offset_by_pings([(0, 0, 0)]).offset_ns

    assert offset.by == "pings"
    assert abs(offset.offset_ns - unix_ns - ahead_ns) <= offset.uncertainty_ns + 10**6
    assert offset.uncertainty_ns == 3_500


def test_an_offset_leads_from_a_host_s_clock_to_the_wall_clock():
    before_ns = time.time_ns() - time.monotonic_ns()

    found_ns = offset_by_pings([(10, 5, 14)]).offset_ns - 7

    assert min(before_ns, after_ns := time.time_ns() - time.monotonic_ns()) - 10**9 <= found_ns
    assert found_ns <= max(before_ns, after_ns) + 10**9


def test_pings_that_cannot_be_are_refused():
    with pytest.raises(tprof.UsageError, match="pings"):
        offset_by_pings([])
    with pytest.raises(tprof.UsageError, match="pings"):
        offset_by_pings([(5, 1, 3)])


HOSTILE = (
    {"name": "../../etc", "directory": "../../etc"},
    {"name": "/etc", "directory": "/etc"},
    {"name": "..", "directory": ".."},
    {"name": "link", "directory": "link"},
    {"name": "a/b"},
    {"name": 7},
    {"name": "x" * 1000},
    "no row",
    None,
)


def test_a_hostile_table_of_hosts_leads_nowhere(sessions, tmp_path):
    job = tmp_path / "all.tprof"
    merge(sessions, job)
    (job / "hosts" / "link").symlink_to(sessions[0])
    rows = [*HOSTILE, {"name": "node9", "directory": "node9", "offset_ns": "later", "missing": 3}]
    (job / "hosts.json").write_text(json.dumps({"format": [1, 5], "hosts": rows, "expected": ["..", 4, "node11"]}))

    found = tprof.load(job)
    places = {host.name: host.path for host in found.hosts}
    assert places == {
        "node9": job / "hosts/node9", "node10": job / "hosts/node10", "link": None, "node11": None,
    }  # fmt: skip
    assert any("name no directory" in note for note in found.notes)
    profile = found.profile()
    assert set(profile.info["missing"]) == {"link", "node11"}
    assert profile.hosts.loc["node11", "quality"] == "missing"
    assert profile.hosts.loc["node9", "energy_j"] == pytest.approx(25.0)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"hosts": []}', '{"format": [2, 0], "hosts": []}', "[" * 100000])
def test_a_damaged_table_of_hosts_is_refused_with_a_sentence(sessions, tmp_path, text):
    job = tmp_path / "all.tprof"
    merge(sessions, job)
    (job / "hosts.json").write_text(text)

    with pytest.raises(tprof.TraceError) as refused:
        tprof.load(job)
    assert "\n" not in str(refused.value)


def test_a_job_without_a_table_is_read_from_its_parts(sessions, tmp_path):
    job = tmp_path / "all.tprof"
    merge(sessions, job)
    (job / "hosts.json").unlink()

    assert [host.name for host in tprof.load(job).hosts] == ["node9", "node10"]


def test_a_damaged_part_is_named_and_the_rest_is_whole(sessions, tmp_path):
    job = tmp_path / "all.tprof"
    merge(sessions, job)
    (job / "hosts/node9/manifest.json").write_text("{")
    profile = tprof.load(job).profile()

    assert "manifest.json is damaged" in profile.hosts.loc["node9", "missing"]
    assert profile.hosts.loc["node10", "energy_j"] == pytest.approx(25.0)
    assert any(text.startswith("node9: ") for text in profile.info["warnings"])


def test_a_job_of_which_nothing_came_home_says_so(sessions, tmp_path):
    job = tmp_path / "all.tprof"
    merge(sessions, job)
    shutil.rmtree(job / "hosts/node9")
    shutil.rmtree(job / "hosts/node10")

    with pytest.raises(tprof.TraceError, match="no part that can be read"):
        tprof.load(job).profile()
