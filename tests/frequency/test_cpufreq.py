"""Frequencies are read and set as the kernel's files want it; what it took is read back; refusals say what to do."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulator.simulated_machine import Shape, make_tree
from tprof.errors import SensorError
from tprof.frequency import Bounds, find_policies, hold, read_bounds, refusal
from tprof.frequency.cpufreq import in_order

GHZ = 10**9
CPUFREQ = "sys/devices/system/cpu/cpufreq"
LISTED = (1_600_000_000, 2_400_000_000, 3_200_000_000)
FREQUENCIES = st.integers(1, 40)


def tree(root, **shape):
    make_tree(root, Shape(LISTED, **shape), "nobody")
    return root


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="ascii")
    return path


def replaced_by_a_file_of_the_kernel(root, name, real):
    """Let a file be one of the running kernel's own, which judges for itself what may be written."""
    path = root / CPUFREQ / "policy0" / name
    path.unlink()
    path.symlink_to(real)


def test_a_policy_says_who_shares_it_and_what_there_is(tmp_path):
    (policy,) = find_policies(tree(tmp_path, cpus=4))

    assert policy.cpus == (0, 1, 2, 3)
    assert (policy.driver, policy.governor) == ("acpi-cpufreq", "schedutil")
    assert policy.range == Bounds(LISTED[0], LISTED[-1])
    assert policy.listed_hz == LISTED


def test_each_core_may_have_a_policy_and_ten_comes_after_nine(tmp_path):
    policies = find_policies(tree(tmp_path, cpus=11, policies=11, driver="intel_pstate"))

    assert [policy.folder.name for policy in policies] == [f"policy{number}" for number in range(11)]
    assert all(policy.listed_hz == () for policy in policies)


def test_a_policy_without_processors_online_is_left_alone(tmp_path):
    write(tree(tmp_path, policies=2), f"{CPUFREQ}/policy1/affected_cpus", "")

    assert [policy.cpus for policy in find_policies(tmp_path)] == [(0,)]


def test_boost_frequencies_count_while_boost_is_on(tmp_path):
    write(tree(tmp_path), f"{CPUFREQ}/policy0/scaling_boost_frequencies", "3600000")

    assert find_policies(tmp_path)[0].listed_hz == LISTED
    write(tmp_path, f"{CPUFREQ}/boost", "1")
    assert find_policies(tmp_path)[0].listed_hz == (*LISTED, 3_600_000_000)


@pytest.mark.parametrize(("no_turbo", "highest_hz"), [("0", 3_200_000_000), ("1", 2_400_000_000)])
def test_without_turbo_the_base_frequency_is_the_highest(tmp_path, no_turbo, highest_hz):
    root = tree(tmp_path, driver="intel_pstate")
    write(root, f"{CPUFREQ}/policy0/base_frequency", "2400000")
    write(root, "sys/devices/system/cpu/intel_pstate/no_turbo", no_turbo)

    (policy,) = find_policies(root)

    assert policy.range.highest_hz == highest_hz
    assert policy.base_hz == 2_400_000_000


@given(now=st.tuples(FREQUENCIES, FREQUENCIES).map(sorted), wanted=st.tuples(FREQUENCIES, FREQUENCIES).map(sorted))
def test_no_write_ever_puts_the_minimum_above_the_maximum(now, wanted):
    held = dict(zip(("scaling_min_freq", "scaling_max_freq"), now, strict=True))

    for name, hz in in_order(Bounds(*now), Bounds(*wanted)):
        held[name] = hz
        assert held["scaling_min_freq"] <= held["scaling_max_freq"]

    assert list(held.values()) == wanted


@pytest.mark.parametrize("driver", ["acpi-cpufreq", "intel_pstate", "intel_cpufreq", "amd-pstate", "amd-pstate-epp"])
def test_both_bounds_hold_the_frequency_under_every_driver(tmp_path, driver):
    (policy,) = find_policies(tree(tmp_path, driver=driver))

    taken = hold(policy, 2_400_000_000)

    assert taken == read_bounds(policy) == Bounds(2_400_000_000, 2_400_000_000)
    assert (policy.folder / "scaling_max_freq").read_text() == "2400000"


def test_a_policy_takes_the_nearest_frequency_that_it_has(tmp_path):
    listed = find_policies(tree(tmp_path / "listed"))[0]
    continuous = find_policies(tree(tmp_path / "any", driver="intel_pstate"))[0]

    assert [listed.nearest_hz(int(ghz * GHZ)) for ghz in (1, 2.1, 2.0, 9)] == [
        LISTED[0],
        LISTED[1],
        LISTED[0],
        LISTED[2],
    ]
    assert [continuous.nearest_hz(int(ghz * GHZ)) for ghz in (1, 2.1, 9)] == [LISTED[0], 2_100_000_000, LISTED[2]]


def test_under_the_userspace_governor_its_speed_is_set_too(tmp_path):
    write(tree(tmp_path), f"{CPUFREQ}/policy0/scaling_governor", "userspace")
    (policy,) = find_policies(tmp_path)

    hold(policy, LISTED[0])

    assert (policy.folder / "scaling_setspeed").read_text() == "1600000"


def test_what_the_kernel_took_is_read_back(tmp_path):
    # A number of the kernel's that keeps some bits of what is written to it only.
    real = Path("/proc/self/coredump_filter")
    before = real.read_text()
    replaced_by_a_file_of_the_kernel(tree(tmp_path), "scaling_max_freq", real)

    try:
        taken = hold(find_policies(tmp_path)[0], LISTED[1])
    finally:
        real.write_text(f"0x{before}")

    assert taken.lowest_hz == LISTED[1]
    assert taken.highest_hz != LISTED[1]


def test_what_the_kernel_refuses_names_file_value_and_remedy(tmp_path):
    replaced_by_a_file_of_the_kernel(tree(tmp_path), "scaling_max_freq", "/proc/self/oom_score_adj")
    (policy,) = find_policies(tmp_path)

    with pytest.raises(
        SensorError, match=r"cannot write 3200000 to .*/policy0/scaling_max_freq: invalid argument; .*cpuinfo_max_freq"
    ):
        hold(policy, LISTED[2])


def test_without_the_right_to_write_the_exact_command_is_told(tmp_path):
    replaced_by_a_file_of_the_kernel(tree(tmp_path), "scaling_min_freq", "/sys/devices/system/cpu/online")

    said = refusal(find_policies(tmp_path))

    assert said.startswith(
        f"cannot write to {tmp_path}/{CPUFREQ}/policy0/scaling_min_freq: permission denied; run `sudo chown"
    )
    assert f'sudo chown "$USER" {tmp_path}/{CPUFREQ}/policy*/scaling_{{min,max}}_freq' in said


def test_asking_for_the_right_changes_nothing(tmp_path):
    (policy,) = find_policies(tree(tmp_path))

    assert refusal([policy]) is None
    assert read_bounds(policy) == Bounds(LISTED[0], LISTED[-1])


def test_a_machine_without_cpufreq_says_so(tmp_path):
    with pytest.raises(SensorError, match=r"has no policy: .* \(a virtual machine\)"):
        find_policies(tmp_path)


@pytest.mark.parametrize("text", ["<unknown>", "-1", "9" * 15, "9" * 5000])
def test_a_file_that_holds_no_frequency_is_named(tmp_path, text):
    path = write(tree(tmp_path), f"{CPUFREQ}/policy0/scaling_max_freq", text)

    with pytest.raises(SensorError, match=f"{path} holds '{text[:40]}'"):
        read_bounds(find_policies(tmp_path)[0])


def test_a_folder_that_is_called_like_no_policy_is_left_alone(tmp_path):
    root = tree(tmp_path)
    write(root, f"{CPUFREQ}/policy0-old/affected_cpus", "0")
    write(root, f"{CPUFREQ}/policy{'9' * 200}/affected_cpus", "0")

    assert [policy.folder.name for policy in find_policies(tmp_path)] == ["policy0"]
