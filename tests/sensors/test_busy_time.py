"""The busy time of processors is what is left of the time that passed after the idle time that the kernel counts."""

import contextlib

import pytest
from support import fake_trees
from support.pthreads import wait_until

from tprof import _core, sensors
from tprof.session.preparation import energy_source

CPUS = 2
BUSY_W = 1.0
"""Watts of a busy processor, and no others: joules are seconds."""


@pytest.fixture
def stat(tmp_path):
    """Give what writes proc/stat: ticks of busy and of idle time of each processor that is on line."""
    path = tmp_path / "stat"

    def write(*lines, whole=None):
        text = "" if whole is None else f"cpu  {whole[0]} 0 0 {whole[1]} 0 0 0 0 0 0\n"
        text += "".join(f"cpu{cpu} {busy} 0 0 {idle} 0 0 0 0 0 0\n" for cpu, busy, idle in lines)
        fresh = tmp_path / "fresh"
        fresh.write_text(text)
        fresh.replace(path)

    return write


@contextlib.contextmanager
def observed(tmp_path):
    """Give what returns the busy seconds of both processors so far, and the most that there can have been."""
    tree = fake_trees.machine(tmp_path / "root", fake_trees.INTEL, {0: range(CPUS)})
    (domain,) = sensors.choose("estimate", root=tree.root, watts=(0.0, BUSY_W)).domains
    source = {**energy_source(domain, str(tmp_path / "stat")), "file": "", "period_ns": 1_000_000}
    begin_ns = _core.now_ns()
    observer = _core.EnergyObserver((source,))
    try:
        yield lambda: (observer.read()[1] * 1e-6, (_core.now_ns() - begin_ns) * 1e-9 * CPUS)
    finally:
        observer.close()


def test_processors_that_are_never_idle_are_busy_all_the_time(tmp_path, stat):
    stat((0, 100, 50), (1, 100, 70))

    with observed(tmp_path) as busy_s:
        # Their busy ticks stand still: a virtual machine loses them.
        wait_until(lambda: busy_s()[0] > 0.2)
        busy, most = busy_s()

    assert busy <= most


def test_idle_time_is_not_busy(tmp_path, stat):
    stat((0, 100, 50), (1, 100, 70))

    with observed(tmp_path) as busy_s:
        wait_until(lambda: busy_s()[0] > 0.1)
        # A quarter of a second more of idle time: a jump, as if a processor had gone, and none that counts.
        for idle in range(5, 26, 5):
            before = busy_s()[0]
            stat((0, 100, 50 + idle), (1, 100, 70))
            wait_until(lambda before=before: busy_s()[0] > before + 0.02)
        busy, most = busy_s()

    assert busy <= most - 0.25


def test_ticks_of_busy_time_count_where_idle_time_was_never_counted(tmp_path, stat):
    stat((0, 100, 0), (1, 7, 0))

    with observed(tmp_path) as busy_s:
        for more in (1, 3, 5):
            stat((0, 100 + more, 0), (1, 7, 0))
            wait_until(lambda more=more: busy_s()[0] == pytest.approx(more * 0.01))


def test_a_processor_that_goes_and_comes_brings_no_time(tmp_path, stat):
    stat((0, 100, 50), (1, 100, 1))

    with observed(tmp_path) as busy_s:
        for online in ([(0, 100, 50)], [(0, 100, 50), (1, 100, 1)], [(0, 100, 50)]):
            before = busy_s()[0]
            stat(*online)
            wait_until(lambda before=before: busy_s()[0] > before + 0.1)
        busy, most = busy_s()

    assert busy <= most


def test_a_count_that_falls_for_a_moment_is_not_counted_twice(tmp_path, stat):
    stat((0, 100, 5000), (1, 100, 5000))

    with observed(tmp_path) as busy_s:
        for idle in (9000, 5000, 9000, 5000):
            before = busy_s()[0]
            stat((0, 100, idle), (1, 100, 5000))
            wait_until(lambda before=before: busy_s()[0] > before + 0.05)
        busy, most = busy_s()

    assert busy <= most


def test_counts_that_were_cut_are_told_by_the_line_of_all_processors(tmp_path, stat):
    stat((0, 0, 1000), (1, 0, 1000), whole=(0, 2000))

    with observed(tmp_path) as busy_s:
        wait_until(lambda: busy_s()[0] > 0.1)
        # All were idle for two ticks, of which no line shows one yet: what passed is not wholly busy.
        before = busy_s()[0]
        stat((0, 0, 1000), (1, 0, 1000), whole=(0, 2002))
        wait_until(lambda: busy_s()[0] > before + 0.1)
        busy, most = busy_s()

    assert busy <= most - 0.02


def test_sources_that_share_a_read_have_each_their_own_processors(tmp_path, stat):
    """Two packages of a processor each, by ticks of busy time, which only the first one has."""
    stat((0, 100, 0), (1, 7, 0))
    tree = fake_trees.machine(tmp_path / "root", fake_trees.INTEL, {0: range(1), 1: range(1, CPUS)})
    domains = sensors.choose("estimate", root=tree.root, watts=(0.0, BUSY_W)).domains
    made = [energy_source(domain, str(tmp_path / "stat")) | {"file": "", "period_ns": 1_000_000} for domain in domains]
    both, idle = _core.EnergyObserver(tuple(made)), _core.EnergyObserver((made[1],))

    try:
        for more in (1, 3, 5):
            stat((0, 100 + more, 0), (1, 7, 0))
            wait_until(lambda more=more: both.read()[1] * 1e-6 == pytest.approx(more * 0.01))
        assert idle.read()[1] == 0
    finally:
        both.close()
        idle.close()
