"""Sampled stacks come by thread and time, with what a window needs to know of the samples around its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support import stacks, traces
from tprof.analysis.attribution.stack_samples import SampledStacks, ThreadReach

import tprof

if TYPE_CHECKING:
    from pathlib import Path

    from tprof.analysis.attribution.stack_samples import ThreadStacks

S = 10**9
CALLS = [stacks.function(0, "f"), stacks.call(0, 0), stacks.call(1, 0, 0)]


def sampled(path: Path, *records: np.ndarray, threads: list[tuple[int, int, int]]) -> SampledStacks:
    """Read stacks of threads, given as their number and from when to when they have segments."""
    given = [{"t_ns": [a, b], "instance": [1, 0], "task": [0, -1], "cpu_ns": [0, 1], "tid": t} for t, a, b in threads]
    traces.write(path, threads=given)
    stacks.write(path, np.concatenate([*CALLS, *records]))
    trace = tprof.load(path)
    reaches = [ThreadReach(at, 0, *one, has_clock=True) for at, one in enumerate(threads)]
    return SampledStacks(trace.stack_files, reaches)


def test_a_window_has_its_own_samples_and_one_on_each_side(tmp_path: Path) -> None:
    """With the time since the sample before, that of the first one since the thread's first segment."""
    found = sampled(
        tmp_path / "t.tprof", stacks.samples(np.arange(1, 9) * S, [0, 1] * 4, tid=5, cpu_ns=S), threads=[(5, 0, 10 * S)]
    )

    one, first = found.between(3 * S, 5 * S)[0], found.between(0, 2 * S)[0]

    assert one.t_ns.tolist() == [2 * S, 3 * S, 4 * S, 5 * S]
    assert one.gap_ns.tolist() == [S] * 4
    assert one.stack.tolist() == [1, 0, 1, 0]
    assert first.t_ns.tolist() == [S, 2 * S]
    assert first.gap_ns.tolist() == [S, S]


def test_threads_that_have_a_number_one_after_the_other_have_their_own_samples_and_clocks(tmp_path: Path) -> None:
    """A kernel gives the number of a thread that ended to a later one, whose clock begins anew."""
    when, clock = np.array([1, 2, 6, 7]) * S, np.array([4, 5, 1, 2]) * S
    found = sampled(
        tmp_path / "t.tprof",
        stacks.samples(when, [0] * 4, tid=5, cpu_ns=clock),
        threads=[(5, 0, 4 * S), (5, 5 * S, 9 * S)],
    )

    first, second = found.between(0, 9 * S).values()

    assert _clocks(first) == [4 * S, 5 * S]
    assert _clocks(second) == [S, 2 * S]
    assert list(found.between(5 * S, 9 * S)) == [1]


def test_a_clock_that_was_not_read_is_that_before_it_and_none_at_all_is_not_known(tmp_path: Path) -> None:
    """Clocks never go back, whatever a file says."""
    when = np.arange(1, 5) * S
    read = stacks.samples(when, [0] * 4, tid=5, cpu_ns=[S, 0, 3 * S, 2 * S])
    unread = stacks.samples(when, [0] * 4, tid=6, cpu_ns=0)
    found = sampled(tmp_path / "t.tprof", read, unread, threads=[(5, 0, 9 * S), (6, 0, 9 * S)]).between(0, 9 * S)

    assert _clocks(found[0]) == [S, S, 3 * S, 3 * S]
    assert found[1].clock_ns is None


def _clocks(one: ThreadStacks) -> list[int]:
    assert one.clock_ns is not None
    return one.clock_ns.tolist()


@pytest.mark.parametrize(("start_s", "earlier_s"), [(0.5, 0.25), (1.5, 0.75), (None, 0.0)])
def test_the_clock_of_a_window_of_time_is_that_at_its_begin(tmp_path: Path, start_s: float, earlier_s: float) -> None:
    """A segment is cut there, and its CPU time before is not lost: sampled clocks count from the thread's begin."""
    thread = {"t_ns": [0, 2 * S], "instance": [1, 0], "task": [0, -1], "cpu_ns": [0, S], "tid": 5}
    energy = {"package-0": (np.arange(21) * S // 10, np.arange(21.0))}
    profile = tprof.load(traces.write(tmp_path / "t.tprof", threads=[thread], energy=energy)).profile(start_s=start_s)

    ((_, (segments,)),) = profile.instances.segments()

    assert segments.earlier_s == pytest.approx(earlier_s)
    assert segments.earlier_s + segments.cpu_s.sum() == pytest.approx(1.0)
