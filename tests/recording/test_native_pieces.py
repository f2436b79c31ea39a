"""What is read in pieces of a file of native threads is what the whole file has."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support import nested_runs, traces
from support.properties import examples

import tprof
from tprof.trace.native import read_native
from tprof.trace.native_pieces import read_totals

if TYPE_CHECKING:
    from tprof.trace import NativeThread


def told(one: NativeThread) -> dict[str, object]:
    """Return a thread as plain values; counts at none of its readings are none."""
    known = {name: value for name, value in vars(one).items() if name not in ("t_ns", "cpu_ns", "counts")}
    counts = None if one.counts is None or not len(one.counts.at) else one.counts
    values = None if counts is None else {name: counted.tolist() for name, counted in counts.values.items()}
    at = None if counts is None else (counts.at.tolist(), counts.scaled.tolist())
    return known | {"t_ns": one.t_ns.tolist(), "cpu_ns": one.cpu_ns.tolist(), "at": at, "values": values}


@examples(60, quick=15)
@given(st.integers(0, 2**31), st.tuples(st.floats(0, 1), st.floats(0, 1)), st.booleans(), st.booleans())
def test_readings_near_a_time_are_those_of_the_whole_file(seed, times, at_readings, outlived) -> None:
    """At times of readings and between them, of threads that end, go on, and stand still."""
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(seed)
        path = nested_runs.write(Path(folder) / "x.tprof", rng, events=20, pools=3)
        if outlived:
            running = [{"process": 0, "pid": 7, "cpu_ns": 1, "ended_ns": None}]
            traces.set_json(path / "end.json", end_ns=150 * nested_runs.MS, processes=running)
        trace = tprof.load(path)
        whole = trace.native_threads
        reads_ns = np.concatenate([one.t_ns for one in whole]) if at_readings else np.arange(300) * nested_runs.MS
        begin_ns, end_ns = np.sort(np.quantile(reads_ns, times, method="nearest")).tolist()

        near = read_native(trace.native, (begin_ns, end_ns))

        parts = [[one.between(begin_ns, end_ns) for one in threads] for threads in (near, whole)]
        found, expected = ([told(one) for one in part if one is not None] for part in parts)
        assert found == expected


def test_totals_are_the_last_clocks(tmp_path: Path) -> None:
    """Also of threads whose end others found."""
    path = nested_runs.write(tmp_path / "x.tprof", np.random.default_rng(3), events=20, pools=4)
    trace = tprof.load(path)

    (file,) = trace.native
    found = {one.tid: (one.begin_ns, one.cpu_ns) for one in read_totals(file)}

    assert found == {one.tid: (int(one.t_ns[0]), int(one.cpu_ns[-1])) for one in trace.native_threads}
