"""`tprof doctor` says what is there, what is missing, why, and the command that grants it with what it exposes."""

import json
import shlex
import subprocess

import pytest
from support import fake_trees
from support.command_line import tprof as run_tprof

from tprof.cli.doctor import show
from tprof.doctor import Fact, Group, State, examine, what_is_recorded
from tprof.doctor.sensor_facts import energy_facts
from tprof.sensors import advice

DEADLINE_S = 60
WORKS = (0, 1000, 50, 50)
GROUPS = [
    "Energy sensors",
    "Counters",
    "Power model",
    "Clock and processors",
    "Operating points: what sweeps, policies and budgets that slow down set",
    "Session directory",
    "Installation",
    "Optional packages",
]


def doctor(folder, root, *words):
    return run_tprof("doctor", *words, cwd=folder, env={} if root is None else {"TPROF_SYSROOT": str(root)})


def by_what(facts):
    return {fact.what: fact for fact in facts}


def commands(fact):
    return [remedy.command for remedy in fact.remedies]


def test_on_this_machine_it_prints_all_groups_and_ends_well(tmp_path):
    done = doctor(tmp_path, None)

    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in lines if line and not line.startswith(" ")][1:] == GROUPS
    assert lines[0].startswith(("In a recording on this machine,", "A recording on this machine"))
    assert all(name in done.stdout for name in ("perf_event_paranoid", "rdpmc", "nmi_watchdog", "powercap", "perf"))
    assert list(tmp_path.iterdir()) == []


def test_json_holds_the_same_facts(tmp_path):
    said = json.loads(doctor(tmp_path, None, "--json").stdout)

    assert [group["title"] for group in said["groups"]] == GROUPS
    for group in said["groups"]:
        for fact in group["facts"]:
            assert set(fact) == {"what", "state", "why", "remedies", "covers", "brief"}
            assert fact["state"] in {"ok", "limited", "missing"}
            assert all(set(remedy) == {"command", "exposes"} for remedy in fact["remedies"])
    assert set(said["recording"]) == {"domains", "left_out", "counters", "energy_filtering", "notes", "unread"}


def test_a_sensor_for_which_nothing_is_there_takes_one_line(tmp_path):
    (tmp_path / "root").mkdir()
    lines = doctor(tmp_path, tmp_path / "root").stdout.split("\n\n")[1].splitlines()

    missing = [line.split()[1].rstrip(":") for line in lines if line.startswith("  missing")]
    assert {"nvml", "intel_gpu", "pyrapl", "meter"} <= set(missing)
    assert len(missing) == len(set(missing))
    assert "tprof sensors NAME" in lines[-1]
    assert not any("pip install" in line for line in lines)


def test_what_it_says_is_recorded_is_recorded(tmp_path):
    tree = fake_trees.server(tmp_path).count()

    said = json.loads(doctor(tmp_path, tree.root, "--json").stdout)["recording"]

    assert said == what_is_recorded(tree.root)
    assert {one["name"] for one in said["domains"] if one["counted"]} == {"package-0", "dram-0", "package-1", "dram-1"}
    assert "intel-rapl-mmio:0" in said["left_out"]


def test_commands_stand_on_one_line_and_are_followed_by_what_they_expose(tmp_path):
    tree = fake_trees.container(tmp_path / "root")

    lines = [line.strip() for line in doctor(tmp_path, tree.root).stdout.splitlines()]

    at = lines.index(f"$ {advice.CONTAINER.command}")
    assert lines[at + 1].startswith("exposes: the container sees the host's /sys")
    assert "CVE-2020-8694" in " ".join(lines[at + 1 : at + 5])


def test_a_command_that_helps_twice_is_printed_once(capsys):
    helped = [Fact(what, State.MISSING, "forbidden", (advice.ONE_RUN,)) for what in ("cycles", "instructions")]

    show([Group("Counters", tuple(helped))])

    said = capsys.readouterr().out
    assert said.count(f"$ {advice.ONE_RUN.command}\n") == 1
    assert said.endswith("as for cycles\n")


@pytest.mark.parametrize("hostile", ["\x1b[31mred", "two\nlines", "\u202eturned"])
def test_what_a_machine_says_does_not_steer_the_terminal(capsys, hostile):
    show([Group("Energy sensors", (Fact(hostile, State.OK, hostile, (advice.Remedy(hostile, hostile),)),))])

    said = capsys.readouterr().out
    assert not set(said) & {"\x1b", "\u202e"}
    assert len(said.splitlines()) == 4


def test_a_simulated_tree_is_not_called_measured(tmp_path):
    tree = fake_trees.laptop(tmp_path)
    (tree.root / "simulated").write_text("nobody")

    assert by_what(energy_facts(tree.root))["energy"].why.startswith("simulated, read by powercap: package-0 in")


def test_a_readable_powercap_is_what_a_recording_uses(tmp_path):
    facts = by_what(energy_facts(fake_trees.laptop(tmp_path).count().root))

    assert facts["energy"].state is State.OK
    assert facts["energy"].why == "measured by powercap: package-0 in the total; core-0, uncore-0, psys beside it"
    assert facts["powercap"].why == "read by a recording"
    assert facts["perf"].state is State.MISSING
    assert facts["psys"].why == "not in the total: it stands around the packages and would count them twice"


def test_without_a_sensor_the_estimate_is_called_one(tmp_path):
    facts = by_what(energy_facts(fake_trees.virtual_machine(tmp_path).root))

    assert facts["energy"].state is State.LIMITED
    assert facts["energy"].why.startswith("energy is an ESTIMATE")
    assert commands(facts["energy"]) == ["tprof run --watts IDLE,PER_CORE …"]
    assert facts["powercap"].state is State.MISSING
    assert "energy filtering" not in facts


@pytest.mark.parametrize(
    ("machine", "opening"),
    [
        (fake_trees.laptop, "In a recording on this machine, joules of package-0 are measured."),
        (fake_trees.virtual_machine, "In a recording on this machine, joules of package-0 are estimated."),
    ],
    ids=["sensor", "no sensor"],
)
def test_it_opens_with_whether_the_joules_of_the_total_are_measured(tmp_path, machine, opening):
    assert doctor(tmp_path, machine(tmp_path).count().root).stdout.splitlines()[0] == opening


MISSING_POWERCAP = {fake_trees.container: advice.CONTAINER, fake_trees.virtual_machine: None}


@pytest.mark.parametrize("machine", MISSING_POWERCAP, ids=["container", "virtual machine"])
def test_the_remedy_fits_the_reason(tmp_path, machine):
    facts = by_what(energy_facts(machine(tmp_path).root))

    wanted = MISSING_POWERCAP[machine]
    assert facts["powercap"].remedies == (() if wanted is None else (wanted,))


def test_a_driver_that_is_not_loaded_is_loaded_by_a_command(tmp_path):
    tree = fake_trees.machine(tmp_path, fake_trees.INTEL, {0: range(2)})

    assert commands(by_what(energy_facts(tree.root, "x86_64"))["powercap"]) == ["sudo modprobe intel_rapl_msr"]


def test_a_counter_that_may_not_be_read_is_given_to_a_group(tmp_path):
    """A folder in its place fails for root too."""
    tree = fake_trees.laptop(tmp_path)
    energy = tree.energy_of("intel-rapl:0")
    tree.lose("intel-rapl:0")

    fact = by_what(energy_facts(tree.root))["powercap"]

    assert fact.state is State.MISSING
    assert fact.why == f"cannot read {energy}: is a directory"
    assert fact.remedies == (advice.POWERCAP_GROUP,)
    assert "never to everybody" in fact.remedies[0].exposes


def test_a_range_that_cannot_be_read_is_a_limit(tmp_path):
    tree = fake_trees.laptop(tmp_path).count()
    tree.energy_of("intel-rapl:0").with_name("max_energy_range_uj").unlink()

    facts = by_what(energy_facts(tree.root))

    assert facts["package-0's range"].state is State.LIMITED


FILTERING = {
    "with SGX": (fake_trees.INTEL, "flags : fpu sgx sgx_lc", State.LIMITED, "SGX is on"),
    "without SGX": (fake_trees.INTEL, "flags : fpu", State.OK, "cannot be seen"),
    "AMD": (fake_trees.AMD, "flags : fpu", State.OK, "only Intel processors"),
}


@pytest.mark.parametrize("case", FILTERING)
def test_energy_filtering_is_named(tmp_path, case):
    vendor, flags, state, words = FILTERING[case]
    tree = fake_trees.laptop(tmp_path).count()
    tree.write("proc/cpuinfo", f"vendor_id : {vendor}\n{flags}")

    fact = by_what(energy_facts(tree.root))["energy filtering"]

    assert fact.state is state
    assert words in fact.why


def test_the_group_command_writes_a_rule_that_udev_reads():
    """Run by a shell, the quotes inside quotes must come out as udev wants them; no mode may open it to everybody."""
    said = advice.POWERCAP_GROUP.command.split("&& ")[2].partition(" | sudo tee ")[0]

    rule = subprocess.run(["sh", "-c", said], capture_output=True, text=True, check=True).stdout.strip()

    assert shlex.split(rule.replace(", ", " ").replace("==", "=").replace("+=", "=")) == [
        "SUBSYSTEM=powercap", "ACTION=add", "TEST=energy_uj",
        "RUN=/bin/chgrp power /sys%p/energy_uj", "RUN=/bin/chmod 0440 /sys%p/energy_uj",
    ]  # fmt: skip
    assert rule.count('"') == 10


EVERY_REMEDY = [value for value in vars(advice).values() if isinstance(value, advice.Remedy)]


@pytest.mark.parametrize("remedy", EVERY_REMEDY, ids=lambda remedy: remedy.command[:20])
def test_commands_are_shell_and_open_nothing_to_everybody(remedy):
    parsed = subprocess.run(["sh", "-n", "-c", remedy.command], capture_output=True, text=True, check=False)

    assert parsed.returncode == 0, parsed.stderr
    assert "a+r" not in remedy.command
    assert "0444" not in remedy.command


def test_the_groups_stand_in_the_order_of_a_recording(tmp_path):
    groups = examine(fake_trees.laptop(tmp_path).root, tmp_path)

    assert [group.title for group in groups] == GROUPS
    assert all("\n" not in fact.why for group in groups for fact in group.facts)
