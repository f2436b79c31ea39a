"""What a recording leaves out is by design, unreadable or absent, and whoever reads its joules hears of the second."""

import json
from pathlib import Path

import pytest
from support import fake_trees
from support.command_line import tprof as command
from support.fake_sensor import FakeSensor
from support.fake_trees import reasons
from support.runs import Work, write_run
from support.traces import set_json

import tprof
from tprof import sensors
from tprof.doctor import what_is_recorded
from tprof.errors import SensorError
from tprof.sensors import Omission, advice
from tprof.trace.left_out import GRANT as BEFORE_COMMAND

LOST = ("intel-rapl:0:0", "intel-rapl:2", "intel-rapl:2:0")
GRANT = advice.POWERCAP_GROUP.command
LACKS = "the total lacks the joules of dram-0, package-1, dram-1: cannot read "


def kinds(choice):
    return {one.name: one.kind for one in choice.left_out}


def choose(tree, energy="powercap"):
    return sensors.choose(energy, root=tree.root, machine="x86_64")


@pytest.fixture
def partly(tmp_path):
    """Two packages, of which the second and the DRAM of both cannot be read."""
    tree = fake_trees.server(tmp_path / "root")
    tree.lose(*LOST)
    return tree


def test_what_is_left_out_is_of_three_kinds(partly):
    found = kinds(choose(partly.count(), "auto"))

    assert found == {
        "perf": Omission.ABSENT,
        "dram-0": Omission.UNREADABLE,
        "package-1": Omission.UNREADABLE,
        "dram-1": Omission.UNREADABLE,
        "psys": Omission.BY_DESIGN,
        "intel-rapl-mmio:0": Omission.BY_DESIGN,
    }


def test_a_part_of_a_package_that_cannot_be_read_is_missed_by_no_total(tmp_path):
    tree = fake_trees.laptop(tmp_path)
    tree.lose("intel-rapl:0:0", "intel-rapl:1")

    choice = choose(tree)

    assert set(kinds(choice).values()) == {Omission.BY_DESIGN}
    assert reasons(choice)["core-0"].startswith("it is a part of its package; cannot read ")


def test_a_recording_keeps_the_kinds_and_its_profile_says_what_the_total_lacks(tmp_path, partly, monkeypatch):
    monkeypatch.setenv("TPROF_SYSROOT", str(partly.root))
    sensor = FakeSensor(watts=20.0, modulus=fake_trees.RANGE_UJ + 1).drives(partly.energy_of("intel-rapl:0"))

    with sensor, tprof.record(tmp_path / "t.tprof", energy="powercap", counters="none") as recording:
        pass

    stored = {one["name"]: one for one in recording.profile().info["left_out"]}
    assert stored["package-1"]["kind"] == "unreadable"
    assert stored["package-1"]["command"] == GRANT
    assert stored["intel-rapl-mmio:0"]["kind"] == "by design"
    assert any(text.startswith(LACKS) for text in recording.profile().info["warnings"])
    assert any(text.startswith(LACKS) for text in recording.notes)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs on such a machine."""
    place = tmp_path_factory.mktemp("runs")
    left_out = [
        {"name": name, "why": f"cannot read /sys/{name}", "kind": "unreadable", "command": GRANT, "estimated": False}
        for name in ("dram-0", "package-1", "dram-1")
    ]
    for name in ("a", "b"):
        write_run(place / name, [Work("blur")], seed=len(name))
        set_json(place / name / "manifest.json", left_out=left_out)
    return place


@pytest.mark.parametrize("words", [("summary", "a"), ("compare", "a", "b"), ("check", "b", "--baseline", "base.json")])
def test_the_sentence_and_its_command_stand_above_the_figures(runs, words):
    if words[0] == "check" and not (runs / "base.json").exists():
        command("check", "a", "--save", "base.json", cwd=runs)

    lines = command(*words, cwd=runs).stdout.splitlines()

    at = lines.index(f"  $ {GRANT}")
    assert lines[at - 1] == f"T{LACKS[1:]}/sys/dram-0{BEFORE_COMMAND.rstrip()}"
    figures = next(place for place, line in enumerate(lines) if line.startswith("blur"))
    assert at < figures
    assert "\n".join(lines).count(LACKS[1:]) == 1


def test_reports_and_json_have_the_sentence(runs):
    command("report", "a", "-o", "a.html", cwd=runs)

    said = json.loads(command("summary", "a", "--json", cwd=runs).stdout)

    assert [text.partition("cannot")[0] + "cannot read " for text in said["answer"]["reasons"]] == [LACKS]
    assert said["info"]["unread"] == said["answer"]["reasons"]
    assert LACKS in (runs / "a.html").read_text(encoding="utf-8")


def test_top_says_it_without_the_long_command(runs):
    lines = command("top", "a", "--once", cwd=runs).stdout.splitlines()

    assert lines[2] == f"{LACKS}/sys/dram-0; tprof doctor prints the command that grants it"
    assert json.loads(command("top", "a", "--once", "--json", cwd=runs).stdout)["hosts"][0]["unread"]


def test_doctors_headline_says_what_is_missing(tmp_path, partly):
    done = command("doctor", cwd=tmp_path, env={"TPROF_SYSROOT": str(partly.count().root)})

    lines = done.stdout.splitlines()
    assert lines[0] == "In a recording on this machine, joules of package-0 are measured."
    assert " ".join(lines[1:3]).startswith(f"T{LACKS[1:]}")
    assert f"{' ' * 11}$ {GRANT}" in lines
    assert what_is_recorded(partly.root)["unread"]


def test_a_domain_that_the_mirror_alone_shows_counts(tmp_path):
    tree = fake_trees.mmio_alone(tmp_path)
    tree.zone("intel-rapl-mmio:0:0", "dram")
    tree.zone("intel-rapl:0", "package-0")

    choice = choose(tree)

    paths = {one.name: Path(one.reader.path).parent.name for one in choice.domains if one.counted}
    assert paths == {"package-0": "intel-rapl:0", "dram-0": "intel-rapl-mmio:0:0"}
    assert reasons(choice) == {"intel-rapl-mmio:0": "it mirrors intel-rapl's package-0"}


def test_a_mirror_is_read_where_what_it_mirrors_cannot_be(tmp_path):
    tree = fake_trees.mmio_alone(tmp_path)
    tree.zone("intel-rapl:0", "package-0")
    tree.lose("intel-rapl:0")

    (domain,) = choose(tree).domains

    assert Path(domain.reader.path).parent.name == "intel-rapl-mmio:0"


@pytest.mark.parametrize(("folder", "name"), [("intel-rapl:3", "package-0"), ("intel-rapl:0:7", "dram")])
def test_two_zones_of_one_name_are_refused_in_a_sentence(tmp_path, folder, name):
    """Whether the second adds to the first or repeats it, either way one of two totals would be wrong."""
    tree = fake_trees.server(tmp_path)
    tree.zone(folder, name)

    with pytest.raises(SensorError, match=rf"two zones of {name}.* \(intel-rapl:0.* and {folder}\)"):
        choose(tree)


def test_counters_that_stand_still_are_estimated_and_it_is_said_why(tmp_path):
    choice = choose(fake_trees.laptop(tmp_path), "auto")

    (left_out,) = [one for one in choice.left_out if one.name == "powercap"]
    assert choice.estimate is not None
    assert left_out.why == "the counts of package-0 did not move in 0.2 s, as on virtual machines that do not count"
    assert left_out.estimated
    assert choose(tree := fake_trees.laptop(tmp_path / "named")).domains[0].name == "package-0", tree


def test_a_counter_that_stands_still_beside_others_is_missed_by_the_total(tmp_path):
    tree = fake_trees.server(tmp_path).count("intel-rapl:0", "intel-rapl:0:0", "intel-rapl:2")

    choice = choose(tree, "auto")

    assert [one.name for one in choice.domains if one.counted] == ["package-0", "dram-0", "package-1"]
    assert kinds(choice)["dram-1"] is Omission.UNREADABLE
    assert reasons(choice)["dram-1"] == "its count did not move in 0.2 s"


CLOCK, EMULATION_FAULTS = "event=0x00", "event=0x08"
SOFTWARE = 1


@pytest.mark.parametrize(("event", "source"), [(CLOCK, "perf"), (EMULATION_FAULTS, "estimate")])
def test_an_event_that_counts_nothing_is_not_taken_either(tmp_path, event, source):
    tree = fake_trees.machine(tmp_path, fake_trees.INTEL, {0: range(2)})
    tree.power_pmu(SOFTWARE, {"energy-pkg": event})
    if (refused := sensors.registry.search(sensors.registry.create("perf"), sensors.Machine(tmp_path, "x86_64"))) and (
        isinstance(refused, sensors.Unavailable)
    ):
        pytest.skip(refused.why)

    choice = choose(tree, "auto")

    assert {one.source for one in choice.domains} == {source}
