"""What `tprof doctor` finds about counters, processors, the session directory and packages, and what would help."""

import errno
import resource
import subprocess
import sysconfig
from pathlib import Path

import pytest
from support import fake_trees

from benchmarks.simulator.simulated_machine import FIRST, Shape, make_tree
from tprof.counters import processor_pmus
from tprof.counters.groups import HARDWARE
from tprof.doctor import State
from tprof.doctor.counter_facts import counter_facts
from tprof.doctor.machine_facts import file_system_of, operating_facts, package_facts, place_facts, processor_facts
from tprof.doctor.sensor_facts import energy_facts, model_facts
from tprof.sensors import advice
from tprof.sensors.topology import describe_host
from tprof.trace.power_model import write_model

DEADLINE_S = 60
WORKS = (0, 1000, 50, 50)


def by_what(facts):
    return {fact.what: fact for fact in facts}


def commands(fact):
    return [remedy.command for remedy in fact.remedies]


def facts_of_counters(tree, probe=lambda _: WORKS, capabilities="0000000000000000"):
    status = tree.write("status", f"Name:\tpython\nCapEff:\t{capabilities}")
    return by_what(counter_facts(tree.root, probe=probe, status=status, machine="x86_64"))


def refusing(number):
    return lambda event: (number, 0, 0, 0) if event.type == HARDWARE else WORKS


@pytest.mark.parametrize(
    ("number", "first"),
    [(errno.EACCES, advice.ONE_RUN), (errno.EPERM, advice.CONTAINER_PERF), (errno.ENOENT, None)],
)
def test_a_counter_that_is_refused_has_the_remedy_of_its_errno(tmp_path, number, first):
    facts = facts_of_counters(fake_trees.Tree(tmp_path), refusing(number))

    assert facts["instructions"].state is State.MISSING
    assert facts["instructions"].why == advice.explain_perf_error(number)
    assert facts["instructions"].remedies[:1] == ((first,) if first else ())
    assert facts["page_faults"].state is State.OK


def test_whether_the_frequency_can_be_set_is_said(tmp_path):
    (nothing,) = operating_facts(tmp_path)
    make_tree(tmp_path, Shape((1_600_000_000, 3_600_000_000), policies=2), "nobody")
    (there,) = operating_facts(tmp_path)
    (tmp_path / FIRST / "scaling_max_freq").unlink()
    (refused,) = operating_facts(tmp_path)

    assert (nothing.state, there.state, refused.state) == (State.MISSING, State.OK, State.MISSING)
    assert "has no policy" in nothing.why
    assert there.why == "can be set from 1.6 to 3.6 GHz, one each core (driver acpi-cpufreq)"
    assert "cannot write to" in refused.why


PARANOID = {"4": State.MISSING, "3": State.MISSING, "2": State.LIMITED, "1": State.OK, "0": State.OK, "-1": State.OK}


@pytest.mark.parametrize("level", PARANOID)
def test_perf_event_paranoid_is_said_with_what_it_forbids(tmp_path, level):
    tree = fake_trees.Tree(tmp_path)
    tree.write("proc/sys/kernel/perf_event_paranoid", level)

    fact = facts_of_counters(tree)["perf_event_paranoid"]

    assert fact.state is PARANOID[level]
    assert fact.why.startswith(f"{level}: ")
    assert bool(fact.remedies) is (fact.state is not State.OK)


@pytest.mark.parametrize(("level", "before"), [("2", ""), ("3", "sudo sysctl kernel.perf_event_paranoid=2 && ")])
def test_above_level_2_the_setting_goes_before_a_capability(tmp_path, level, before):
    """Debian's kernel refuses then all but CAP_SYS_ADMIN: CAP_PERFMON alone gives nothing."""
    tree = fake_trees.Tree(tmp_path)
    tree.write("proc/sys/kernel/perf_event_paranoid", level)

    fact = facts_of_counters(tree, refusing(errno.EACCES))["instructions"]

    assert commands(fact)[0] == before + advice.ONE_RUN.command
    energy = advice.remedies_for_perf_error(errno.EACCES, int(level))
    assert energy[0].command == before + advice.ONE_RUN.command
    assert energy[-1] == advice.PERF_PARANOID


@pytest.mark.parametrize("capability", [21, 38])
def test_a_capability_overrules_perf_event_paranoid(tmp_path, capability):
    tree = fake_trees.Tree(tmp_path)
    tree.write("proc/sys/kernel/perf_event_paranoid", "3")

    fact = facts_of_counters(tree, capabilities=f"{1 << capability:016x}")["perf_event_paranoid"]

    assert fact.state is State.OK
    assert fact.why.startswith("3, which does not hold for this process")


@pytest.mark.parametrize(
    ("text", "state"), [("0", State.LIMITED), ("1", State.OK), ("2", State.OK), (None, State.MISSING)]
)
@pytest.mark.parametrize("pmu", ["cpu", "cpu_core"])
def test_rdpmc_decides_what_reading_counters_costs(tmp_path, pmu, text, state):
    tree = fake_trees.Tree(tmp_path)
    if text is not None:
        tree.pmu(pmu, 4, rdpmc=text, **({"cpus": "0-3"} if pmu == "cpu_core" else {}))

    fact = facts_of_counters(tree)["rdpmc"]

    assert fact.state is state
    wanted = f"echo 1 | sudo tee {tmp_path}/sys/bus/event_source/devices/{pmu}/rdpmc"
    assert commands(fact) == ([wanted] if text == "0" else [])


def arm_facts(tree, probe=lambda _: WORKS):
    status = tree.write("status", "CapEff:\t0000000000000000")
    counters = counter_facts(tree.root, probe=probe, status=status, machine="aarch64")
    return by_what((*energy_facts(tree.root, "aarch64"), *counters, *operating_facts(tree.root, "aarch64")))


@pytest.mark.parametrize(
    ("machine", "pmus"),
    [(fake_trees.arm_server, ["armv8_pmuv3_0"]), (fake_trees.arm_board, ["armv8_cortex_a53", "armv8_cortex_a72"])],
    ids=["server", "board"],
)
def test_the_pmus_of_arm64_cores_are_found_by_what_the_kernel_says_of_them(tmp_path, machine, pmus):
    tree = machine(tmp_path)

    facts = arm_facts(tree)

    assert [pmu.name for pmu in processor_pmus(tree.root)] == pmus
    assert facts["instructions"].why == "counts"
    assert facts["counter reads"].state is State.OK
    assert facts["counter reads"].why == f"{', '.join(pmus)}: each sample's counters cost a system call, about 0.5 µs"
    assert "rdpmc" not in facts


def test_an_arm64_guest_without_a_pmu_cannot_count(tmp_path):
    facts = arm_facts(fake_trees.arm_virtual_machine(tmp_path), refusing(errno.ENOENT))

    assert facts["counter reads"].state is State.MISSING
    assert facts["counter reads"].why == "the kernel shows no processor PMU: hardware counters cannot be read"


@pytest.mark.parametrize(
    "machine",
    [fake_trees.arm_server, fake_trees.arm_board, fake_trees.arm_virtual_machine],
    ids=lambda one: one.__name__,
)
def test_nothing_that_only_x86_has_is_advised_on_arm64(tmp_path, machine):
    facts = arm_facts(machine(tmp_path))

    graphics = {"intel_gpu", "amd_gpu", "hwmon_processor"}  # may be in any machine, or be any processor's
    of_machine = [fact for fact in facts.values() if not graphics & set(fact.what.split())]
    said = " ".join(part for fact in of_machine for part in (fact.what, fact.why, *commands(fact)))
    for word in ("acpi_cpufreq", "intel", "msr", "rdpmc", "SGX", "AMD"):
        assert word not in said
    assert facts["powercap"].why.endswith("has no RAPL: only x86 processors count their energy there")
    assert facts["perf"].why.endswith("power does not exist: the kernel has it for x86 only")
    assert (
        "(sudo modprobe cppc_cpufreq, or the board's own, such as scmi_cpufreq or cpufreq_dt)" in facts["frequency"].why
    )


def test_on_x86_the_driver_of_its_frequencies_is_named(tmp_path):
    (fact,) = operating_facts(tmp_path, "x86_64")

    assert "the driver is not loaded (sudo modprobe acpi_cpufreq)" in fact.why


def test_the_pmus_of_x86_cores_are_found_whether_they_are_alike_or_not(tmp_path):
    tree = fake_trees.Tree(tmp_path)
    tree.pmu("cpu", 4, rdpmc="1", events__instructions="event=0xc0")
    tree.pmu("power", 9, cpumask="0")
    tree.pmu("uncore_imc_0", 10, cpumask="0")
    assert [pmu.name for pmu in processor_pmus(tree.root)] == ["cpu"]

    tree.pmu("cpu_core", 5, cpus="0-3", rdpmc="1")
    tree.pmu("cpu_atom", 6, cpus="4-7", rdpmc="1")
    assert [pmu.name for pmu in processor_pmus(tree.root)] == ["cpu", "cpu_atom", "cpu_core"]


def test_the_table_that_names_the_events_is_said_for_each_kind_of_core(tmp_path):
    facts = facts_of_counters(fake_trees.hybrid(tmp_path))

    assert facts["events of cpu_core"].why == (
        "Golden Cove (Alder and Raptor Lake), table intel-hybrid.txt; 4 fixed and 8 general counters"
    )
    assert facts["events of cpu_atom"].why.startswith("Gracemont (Alder and Raptor Lake), table intel-hybrid.txt; 3")
    assert facts["l2_refs"].state is State.OK
    assert facts["stalls_frontend"].state is State.MISSING
    assert facts["stalls_frontend"].why == (
        "Gracemont (Alder and Raptor Lake) has no event for it (table intel-hybrid.txt)"
    )


def test_a_processor_in_no_table_is_named(tmp_path):
    tree = fake_trees.Tree(tmp_path)
    tree.processor(fake_trees.INTEL, numbers=(6, 15, 11))
    tree.pmu("cpu", 4)

    fact = facts_of_counters(tree)["events of cpu"]

    assert fact.state is State.LIMITED
    assert fact.why == (
        "no table lists GenuineIntel-6-F-B: the kernel's generic events, and what those of caches count depends on it"
    )


def test_the_nmi_watchdog_matters_where_there_are_counters_to_hold(tmp_path):
    tree = fake_trees.Tree(tmp_path)
    tree.write("proc/sys/kernel/nmi_watchdog", "1")

    assert facts_of_counters(tree)["nmi_watchdog"].state is State.LIMITED
    assert commands(facts_of_counters(tree)["nmi_watchdog"]) == ["sudo sysctl kernel.nmi_watchdog=0"]
    assert facts_of_counters(tree, refusing(errno.ENOENT))["nmi_watchdog"].state is State.OK


def test_a_counter_that_never_runs_points_to_the_watchdog(tmp_path):
    fact = facts_of_counters(fake_trees.Tree(tmp_path), lambda _: (0, 0, 50, 0))["cycles"]

    assert fact.state is State.MISSING
    assert commands(fact) == ["sudo sysctl kernel.nmi_watchdog=0"]


def test_few_descriptors_limit_the_threads_that_have_counters():
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); "
        "from tprof.doctor.counter_facts import counter_facts; from pathlib import Path; "
        "print(*(f'{fact.state}: {fact.why}' for fact in counter_facts(Path('/')) if fact.what == 'open files'))"
    )
    python = str(Path(sysconfig.get_path("scripts")) / "python")

    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True, timeout=DEADLINE_S)

    assert done.stdout.startswith("limited: 64: counters for about 8 threads at once")
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 64


def clock(tree, current, available):
    place = "sys/devices/system/clocksource/clocksource0"
    tree.write(f"{place}/current_clocksource", current)
    tree.write(f"{place}/available_clocksource", available)
    return by_what(processor_facts(tree.root))["clock"]


def test_a_clock_that_costs_a_system_call_is_a_limit_with_the_other_clock(tmp_path):
    tree = fake_trees.Tree(tmp_path)

    assert clock(tree, "tsc", "tsc hpet").state is State.OK
    slow = clock(tree, "hpet", "hpet tsc acpi_pm")
    assert slow.state is State.LIMITED
    assert commands(slow)[0].startswith("echo tsc | sudo tee ")
    assert commands(clock(tree, "acpi_pm", "acpi_pm hpet")) == []


def test_processors_are_counted_by_package_and_type(tmp_path):
    facts = by_what(processor_facts(fake_trees.hybrid(tmp_path).root))

    assert facts["processors"].why.startswith("8 (4 core, 4 atom) on 1 package")
    assert "offline processors" not in facts
    assert "machine" not in facts


def test_what_makes_two_runs_differ_is_named(tmp_path):
    tree = fake_trees.laptop(tmp_path)
    tree.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave")
    tree.write("sys/devices/system/cpu/offline", "6-7")
    tree.write("proc/cpuinfo", "flags : fpu hypervisor lahf_lm")

    facts = by_what(processor_facts(tree.root))

    assert facts["frequency"].state is State.LIMITED
    assert commands(facts["frequency"]) == ["sudo cpupower frequency-set -g performance"]
    assert facts["offline processors"].why.startswith("2 offline")
    assert facts["machine"].why.startswith("virtual")


def test_a_directory_that_takes_sessions_is_left_as_it_was(tmp_path):
    facts = by_what(place_facts(tmp_path))

    assert facts["writable"].state is State.OK
    assert "million samples" in facts["room"].why
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_takes_none_says_why_and_where_else(tmp_path):
    file = tmp_path / "file"
    file.touch()

    facts = place_facts(file)

    assert [(fact.what, fact.state) for fact in facts] == [("writable", State.MISSING)]
    assert facts[0].why == f"{file} takes no session: not a directory"
    assert commands(facts[0]) == ["tprof run -o /var/tmp/NAME.tprof …"]


MOUNTS = [
    ("/", "ext4"), ("/home", "nfs4"), ("/home/me/my scratch", "tmpfs"), ("/home/me", "xfs"), ("/home/me", "overlay"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/homestead", "ext4"),
        ("/home/you", "nfs4"),
        ("/home/me/my scratch/deep", "tmpfs"),
        ("/home/me/x", "overlay"),
    ],
)
def test_the_last_of_the_longest_mount_points_decides(path, kind):
    assert file_system_of(Path(path), MOUNTS) == kind


def test_packages_of_extras_are_there_or_come_by_a_command():
    facts = by_what(package_facts())

    assert len(facts) == len(package_facts())  # pyarrow comes with two extras
    assert "pyarrow" in facts
    for fact in facts.values():
        assert fact.state is State.OK or commands(fact)[0].startswith('pip install "tprof-energy[')


def test_the_calibrated_model_is_missing_kept_or_not_believed(tmp_path):
    path = tmp_path / "model.json"

    missing = model_facts(path)[0]
    coefficients = dict.fromkeys(("a", "b", "c", "C1", "C2"), 1.0)
    model = {"format": 1, "processor": describe_host()["processor"], "coefficients": coefficients}
    write_model(model | {"date": "2026-11-20", "quality": "measured", "left_out_error": 0.031}, path)
    kept = model_facts(path)[0]
    path.write_text("{", encoding="utf-8")
    damaged = model_facts(path)[0]

    assert (missing.state, commands(missing)) == (State.MISSING, ["tprof calibrate"])
    assert (kept.state, kept.why) == (State.OK, "of 2026-11-20 (measured), 3.1 % off on kernels left out")
    assert damaged.state is State.LIMITED
    assert "it is no JSON" in damaged.why
