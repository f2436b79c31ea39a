"""Policies of a runtime on a cluster: each host has its frequency, and hosts share a cap on the power."""

import contextlib
import os
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import cluster_tasks as tasks
from support.properties import examples
from tprof.runtime import Runtime
from tprof.runtime.policy.shared_cap import HostPower, share_cap

from benchmarks.simulator.policy_trials import Trial, capped_together, multisort
from benchmarks.simulator.simulated_machine import Machine, Shape
from tprof.errors import SensorError
from tprof.frequency import Bounds, find_policies, read_bounds

FREQUENCIES_HZ = (1_600_000_000, 2_600_000_000, 3_600_000_000)
FORMER, HIGHEST = Bounds(FREQUENCIES_HZ[0], FREQUENCIES_HZ[-1]), Bounds(FREQUENCIES_HZ[-1], FREQUENCIES_HZ[-1])
HELD = Bounds(FREQUENCIES_HZ[1], FREQUENCIES_HZ[1])

powers = st.builds(
    HostPower,
    drawn_w=st.floats(1, 500),
    highest_hz=st.sampled_from(FREQUENCIES_HZ),
    range_hz=st.just((FREQUENCIES_HZ[0], FREQUENCIES_HZ[-1])),
    exponent=st.floats(1, 3),
    workers=st.integers(1, 64),
    busy_s=st.just(1.0),
)


def speed(host, watts):
    """Return a host's speed at these watts, within its range of frequencies."""
    hz = host.highest_hz * (watts / host.drawn_w) ** (1 / max(host.exponent, 1.05))
    return host.workers * min(max(hz, host.range_hz[0]), host.range_hz[1])


@examples()
@given(hosts=st.lists(powers | st.none(), min_size=1, max_size=5), watts=st.floats(1, 2000), data=st.data())
def test_the_parts_of_a_cap_are_positive_and_add_up_to_it(hosts, watts, data):
    busy = data.draw(st.lists(st.booleans(), min_size=len(hosts), max_size=len(hosts)))

    parts = share_cap(watts, hosts, busy)

    assert sum(parts) == pytest.approx(watts)
    assert min(parts) > 0


@examples()
@given(first=powers, second=powers, watts=st.floats(1, 2000), share=st.floats(0.01, 0.99))
def test_no_other_division_makes_two_busy_hosts_faster_together(first, second, watts, share):
    parts = share_cap(watts, [first, second], [True, True])
    least_w = [one.drawn_w * (one.range_hz[0] / one.highest_hz) ** max(one.exponent, 1.05) for one in (first, second)]
    other = [watts * share, watts * (1 - share)]

    if sum(least_w) < watts and other[0] >= least_w[0] and other[1] >= least_w[1]:
        ours, theirs = (speed(first, one) + speed(second, two) for one, two in (parts, other))
        assert ours >= theirs * (1 - 1e-6)


def test_a_host_without_tasks_leaves_its_watts_to_the_others():
    host = HostPower(50.0, FREQUENCIES_HZ[1], (FREQUENCIES_HZ[0], FREQUENCIES_HZ[-1]), 2.0, 4, 1.0)

    idle, busy = share_cap(100.0, [host, host], [False, True])

    assert idle == pytest.approx(50 * (1.6 / 2.6) ** 2)
    assert busy == pytest.approx(100 - idle)


def test_simulated_hosts_end_sooner_if_they_share_a_cap_by_what_each_gains():
    """The long program gets what the short one does not need any more, and never less than half."""
    trials = [Trial(multisort(64), static_w=10.0), Trial(multisort(16), static_w=10.0)]

    equal = capped_together(trials, 60.0, period_s=None)
    shared = capped_together(trials, 60.0, period_s=1.0)

    assert max(one.time_s for one in shared) < 0.95 * max(one.time_s for one in equal)
    assert sum(one.energy_j for one in shared) / max(one.time_s for one in shared) < 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Return the client of a cluster on two simulated hosts, one with two workers, and their roots."""
    distributed = pytest.importorskip("distributed")
    with contextlib.ExitStack() as stack:
        roots = [tmp_path_factory.mktemp(name) / "root" for name in ("a", "b")]
        for number, root in enumerate(roots):
            stack.enter_context(Machine(root, Shape(FREQUENCIES_HZ, cpus=os.cpu_count() or 1)))
            for name, text in (("hostname", f"host-{number}"), ("random/boot_id", f"boot-{number}")):
                path = root / "proc/sys/kernel" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"{text}\n", encoding="ascii")
        local = {"host": "127.0.0.1", "dashboard_address": None}
        workers = {
            place: {
                "cls": distributed.Nanny,
                "options": {**local, "nthreads": 1, "env": {"TPROF_SYSROOT": str(root)}},
            }
            for place, root in enumerate([roots[0], roots[0], roots[1]])
        }
        scheduler = {
            "cls": distributed.Scheduler,
            "options": {**local, "port": 0},
        }
        spec = stack.enter_context(distributed.SpecCluster(workers=workers, scheduler=scheduler))
        yield stack.enter_context(distributed.Client(spec)), roots


def bounds(roots):
    return [read_bounds(policy) for root in roots for policy in find_policies(root)]


@pytest.mark.thorough  # a cluster of three workers on two simulated machines
def test_each_host_that_runs_tasks_runs_them_at_the_frequency_and_gets_its_own_back(cluster):
    client, roots = cluster

    with Runtime(cluster=client, policy="fixed(2.6GHz)") as runtime:
        assert [tasks.double(number).result() for number in range(60)] == list(range(0, 120, 2))
        assert set(bounds(roots)) <= {HELD, HIGHEST}  # a host without a task stays at the highest
        assert HELD in bounds(roots)
        assert runtime.caps_w == {}

    assert set(bounds(roots)) == {FORMER}


@pytest.mark.thorough  # see above
def test_hosts_share_a_cap(cluster):
    client, roots = cluster

    with Runtime(cluster=client, policy="power_cap(90W)") as runtime:
        begun = runtime.caps_w
        array, deadline_s = np.zeros(1), time.monotonic() + 60
        while runtime.caps_w == begun and time.monotonic() < deadline_s:
            tasks.busy(array, 0.05)
            runtime.wait()

        assert begun == {"host-0": 45.0, "host-1": 45.0}
        assert sum(runtime.caps_w.values()) == pytest.approx(90)

    assert set(bounds(roots)) == {FORMER}


@pytest.mark.thorough  # see above
def test_a_host_whose_frequency_cannot_be_set_is_named(cluster):
    client, roots = cluster
    (folder,) = {policy.folder.parent for policy in find_policies(roots[1])}
    folder.rename(folder.with_name("gone"))

    try:
        with pytest.raises(SensorError, match=r"host host-1: .* no frequency to choose"):
            Runtime(cluster=client, policy="fixed(2.6GHz)").__enter__()
    finally:
        folder.with_name("gone").rename(folder)
    assert set(bounds(roots)) == {FORMER}
