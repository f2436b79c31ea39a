"""What grows with native threads' readings and calls is found in blocks and files, exactly as in memory."""

from __future__ import annotations

import itertools
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import nested_runs
from support.native_truth import MS, Program
from support.properties import examples
from support.streamed_profiles import assert_same, streamed
from tprof.analysis.attribution.natives import onsets, pools
from tprof.analysis.attribution.natives.calls import Reach, ThreadsCalls
from tprof.analysis.attribution.natives.clocks import power_between_readings
from tprof.analysis.attribution.natives.cuts import Usage
from tprof.analysis.attribution.natives.onsets import Onsets
from tprof.analysis.attribution.natives.segments import Clock, Runs
from tprof.analysis.models import choose_model
from tprof.analysis.profile import build

import tprof
from tprof.trace import PoolCalls, layout, long_arrays, stream
from tprof.trace.kinds import NativeFlag, NativeKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tprof.trace import NativeThread, Trace

COLUMNS = frozenset({"cycles", "instructions"})


@contextmanager
def in_blocks(block: int) -> Iterator[None]:
    """Let blocks, pieces of files, and what is in memory be so short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_arrays, "BLOCK", block)
        patch.setattr(long_arrays, "MOST_HELD", block)
        patch.setattr(stream, "PIECE", 3 * block)
        patch.setattr(onsets, "AT_ONCE", 4 * block)
        yield


def plain(one: NativeThread | PoolCalls) -> dict[str, object]:
    """Return a thread or calls as plain values."""
    known = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(one).items()}
    counts = known.get("counts")
    if counts is not None:
        values = {name: values.tolist() for name, values in counts.values.items()}
        known["counts"] = counts.at.tolist(), values, counts.scaled.tolist()
    return known


def read(path: Path) -> tuple[Trace, list[dict[str, object]]]:
    """Return a trace, and its native threads and calls as plain values."""
    trace = tprof.load(path)
    return trace, [plain(one) for one in (*trace.native_threads, *trace.native_calls)]


@examples(60, quick=15)
@given(st.integers(0, 2**31), st.sampled_from([2, 7, 30]), st.booleans())
def test_threads_calls_and_counters_in_blocks_are_those_in_memory(seed, block, shuffled) -> None:
    """Also where records are not in order, some are there twice, and counters are missing at some readings."""
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(seed)
        path = nested_runs.write(Path(folder) / "x.tprof", rng, events=40, pools=4)
        if shuffled:
            _shuffle(path / "native" / "00000000.native", rng)
        trace, expected = read(path)
        powers = [power_between_readings(one, choose_model("ipc", COLUMNS)) for one in trace.native_threads]

        with in_blocks(block):
            again, found = read(path)
            in_parts = [power_between_readings(one, choose_model("ipc", COLUMNS)) for one in again.native_threads]

        assert found == expected
        for ours, theirs in zip(in_parts, powers, strict=True):
            assert (ours is None) == (theirs is None)
            if ours is not None:
                np.testing.assert_array_equal(ours, theirs)


def _shuffle(file: Path, rng: np.random.Generator) -> None:
    """Put readings, counts and calls in another order; leave counts out, repeat some, and write some as pairs."""
    data = file.read_bytes()
    records = np.frombuffer(data[layout.HEADER_BYTES :], layout.NATIVE).copy()
    moved = np.flatnonzero(np.isin(records["kind"], (NativeKind.CLOCK, NativeKind.COUNTS, NativeKind.CALLS)))
    records[moved] = records[rng.permutation(moved)]
    counted = moved[(records["kind"][moved] == NativeKind.COUNTS) & (rng.random(len(moved)) < 0.1)]
    records["t_ns"][counted[::2]] += 1
    records["flags"][counted[1::3]] |= np.uint8(NativeFlag.PAIR)
    records[counted[1::2]] = records[rng.permutation(counted[1::2])]
    file.write_bytes(data[: layout.HEADER_BYTES] + records.tobytes())


@examples(60)
@given(st.integers(0, 2**31), st.integers(1, 40), st.sampled_from([1, 4, 1000]))
def test_calls_are_found_by_thread_and_time(seed, count, block) -> None:
    """Those of threads without samples, or beyond their samples, are in order of time."""
    rng = np.random.default_rng(seed)
    tid = np.sort(rng.integers(1, 6, count))
    edges = np.concatenate([np.sort(rng.choice(1000, 2 * (tid == one).sum(), replace=False)) for one in np.unique(tid)])
    begin_ns, end_ns = edges[::2], edges[1::2]
    nothing = np.zeros(count, np.int64)
    calls = PoolCalls(
        7,
        "x",
        0,
        complete=True,
        tid=tid,
        task=nothing,
        begin_ns=begin_ns,
        end_ns=end_ns,
        inside=nothing + 1.0,
        several=nothing > 0,
    )
    threads = [Reach(7, int(one), *np.sort(rng.integers(0, 1000, 2)).tolist()) for one in rng.integers(1, 7, 4)]
    first_ns, last_ns = np.sort(rng.integers(0, 1000, 2)).tolist()

    with in_blocks(block):
        found = ThreadsCalls.of(calls, threads)

    is_left = np.ones(count, bool)
    for index, one in enumerate(threads):
        own = (tid == one.tid) & (end_ns > one.first_ns) & (begin_ns < one.end_ns)
        is_left &= ~own
        within = np.flatnonzero(own & (end_ns > first_ns) & (begin_ns < last_ns))
        assert np.arange(count)[found.own(index, first_ns, last_ns)].tolist() == within.tolist()
    left = np.flatnonzero(is_left)
    assert found.left.tolist() == left[np.argsort(begin_ns[left], kind="stable")].tolist()
    assert set(found.left[end_ns[found.left] > first_ns]) & set(found.others(first_ns, last_ns)) == {
        one for one in left.tolist() if end_ns[one] > first_ns and begin_ns[one] < last_ns
    }


class Busy(NamedTuple):
    """Clocks of a pool, runs of tasks, and where the recording is cut into parts."""

    clocks: list[Clock]
    runs: Runs
    cuts_ns: list[int]


def busy(seed: int) -> Busy:
    """Return a pool that one or two of some tasks use, now and then."""
    rng = np.random.default_rng(seed)
    length_ns, tasks = int(rng.integers(200, 900)) * MS, int(rng.integers(2, 7))
    edges = [np.unique(rng.integers(0, length_ns, 2 * int(rng.integers(5, 60)))) for _ in range(3)]
    begin_ns, end_ns = (np.concatenate([one[: len(one) // 2 * 2][at::2] for one in edges]) for at in (0, 1))
    task = rng.integers(0, tasks, len(begin_ns)) * 3
    works = np.isin(task, 3 * rng.integers(0, tasks, 2))
    at_ns = np.unique(np.concatenate((begin_ns[works], end_ns[works], [0, length_ns])))
    is_busy = [((begin_ns[works] <= at) & (end_ns[works] > at)).any() for at in at_ns[:-1]]
    used_s = np.append(0, np.cumsum(np.diff(at_ns) * is_busy)) * 1e-9
    clocks = []
    for _ in range(int(rng.integers(1, 4))):
        t_ns = np.unique(np.append(0, np.cumsum(rng.integers(3 * MS, 7 * MS, length_ns // (3 * MS)))))
        t_ns = t_ns[(t_ns < length_ns) & ((rng.random(len(t_ns)) < 0.9) | (t_ns == 0))]
        clocks.append(Clock(t_ns, np.interp(t_ns, at_ns, used_s)))
    cuts_ns = [-1, *np.sort(rng.integers(0, length_ns, 3)).tolist(), length_ns]
    runs = Runs(begin_ns, end_ns, task, task, np.zeros(len(task), bool))
    return Busy([one for one in clocks if one.cpu_s[-1] > 0], runs, cuts_ns)


def learnt(found: Busy, rest_ns: int, cuts_ns: list[int]) -> tuple[object, ...]:
    """Return the windows of a pool, in which it was idle, what tasks did in them, and its users by onsets."""
    onsets = Onsets(Usage.of(found.clocks), found.clocks, rest_ns)
    for begin_ns, end_ns in itertools.pairwise(cuts_ns):
        in_part = (found.runs.begin_ns < end_ns) & (found.runs.end_ns >= begin_ns)
        onsets.add(found.runs.kept(in_part), end_ns)
    users = onsets.learnt()
    known = None if users is None else (users.users.tolist(), users.doubtful.tolist())
    counts = [one.tolist() for one in (onsets.counts, onsets.ran, onsets.both)]
    return onsets.edges_ns.tolist(), onsets.idle.tolist(), counts, onsets.onsets, onsets.chances, known


@examples(60, quick=12)
@given(st.integers(0, 2**31), st.sampled_from([0, 60 * MS]), st.sampled_from([9, 50]))
def test_onsets_in_blocks_and_parts_are_those_of_the_whole(seed, rest_ns, block) -> None:
    """Windows, idle ones, what tasks did and users are the same."""
    found = busy(seed)
    if found.clocks:
        expected = learnt(found, rest_ns, [-1, 1 << 62])

        with in_blocks(block):
            assert learnt(found, rest_ns, [*found.cuts_ns, 1 << 62]) == expected


@pytest.mark.parametrize("noted", [True, False])
def test_windows_have_few_records_of_native_threads(tmp_path, monkeypatch, noted) -> None:
    """A pool that works in a part of the recording makes windows smaller, which changes no figure."""
    program = Program(["multiply", "parse"], threads=2)
    pool = program.pool(threads=3, noted=noted)
    for _ in range(30):
        program.call("multiply", pool, 30 * MS)
        program.rest(30 * MS)
    while program.now_ns[1] < 20_000 * MS:
        program.run("parse", 8 * MS, thread=1)
        program.rest(12 * MS, thread=1)
    trace = program.write(tmp_path / "x.tprof")
    cut: list[int] = []

    def counted(*given: object) -> object:
        windows, samples = pools.cut_by_natives(*given)
        cut.append(len(windows))
        return windows, samples

    monkeypatch.setattr(build, "WINDOW_SAMPLES", 10_000)
    monkeypatch.setattr(build, "cut_by_natives", counted)
    for most in (10**9, 150):
        monkeypatch.setattr(pools, "MOST_RECORDS", most)
        assert_same(trace.profile("cputime"), streamed(trace, "cputime", samples=None))

    assert cut[3] > 4 * cut[1]
