"""Whatever counters a trace claims, energies are finite, conserved and fit for strict JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import traces
from support.properties import examples

import tprof
from tprof.trace import layout

COUNTERS = ("instructions", "cycles", "l2_refs", "llc_refs", "stalls_frontend")
COEFFICIENTS = {"a": 1.0, "b": 0.1, "c": 0.2, "C1": 8.0, "C2": 5.0}
values = st.one_of(st.just(0), st.integers(0, 1000), st.integers(0, 2**64 - 1))


def poke(path, counters):
    """Write counters that fall and overflow, which write_trace refuses, into the trace's file."""
    columns = tprof.load(path).threads[0].columns
    names = (*columns, *[""] * (13 - len(columns)))
    file = traces.samples_of(path)
    content = bytearray(file.read_bytes())
    samples = np.frombuffer(content, layout.sample_dtype(names), offset=4096)
    for name, column in counters.items():
        samples[name][:] = np.resize(np.array(column, np.uint64), len(samples))
    file.write_bytes(bytes(content))


@examples(60)
@given(st.data(), st.sampled_from(["linear", "ipc", "fesc", "cputime", "auto"]))
def test_no_counter_makes_a_figure_that_is_no_number(tmp_path_factory, data, model):
    size = data.draw(st.integers(1, 6))
    t_ns = sorted(data.draw(st.lists(st.integers(0, 10**7), min_size=size, max_size=size)))
    ids = data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    counters = {name: data.draw(st.lists(values, min_size=size, max_size=size)) for name in (*COUNTERS, "cpu_ns")}
    thread = {
        "t_ns": t_ns,
        "instance": ids,
        "task": [0 if one else -1 for one in ids],
        **dict.fromkeys(counters, [0] * size),
    }
    path = tmp_path_factory.mktemp("t") / "t.tprof"
    tprof.write_trace(path, tasks=["a"], threads=[thread], energy={"package-0": ([0, 10**6, 10**7], [0.0, 0.5, 3.0])})

    poke(path, counters)

    profile = tprof.load(path).profile(model=model, coefficients=COEFFICIENTS if model == "linear" else None)

    account = profile.accounts.loc["package-0"]
    assert account[["tasks_j", "runtime_j", "other_j", "idle_j"]].sum() == pytest.approx(3.0, rel=1e-9)
    assert (account.drop("quality") >= 0).all()
    assert not profile.tasks[["energy_j", "energy_low_j", "energy_high_j"]].isin([np.inf, -np.inf]).any(axis=None)
    assert (profile.tasks["energy_j"].dropna() >= 0).all()
    json.dumps(profile.info, allow_nan=False)
