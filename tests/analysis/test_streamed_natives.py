"""Native threads are read window by window with the figures of the whole recording."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support import nested_runs
from support.properties import examples
from support.streamed_profiles import assert_same, streamed

import tprof


@examples(150)
@given(
    st.integers(0, 2**31), st.integers(1, 300), st.sampled_from(["cputime", "ipc"]), st.integers(1, 4),
    st.integers(1, 4),
)  # fmt: skip
def test_windows_of_any_size_give_the_figures_of_the_whole(seed, samples, model, domains, pools) -> None:
    """Pools that are known by calls, by creators, by onsets and not at all, spinning from window to window."""
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(seed)
        path = nested_runs.write(Path(folder) / "x.tprof", rng, domains=domains, pools=pools)
        trace = tprof.load(path)

        assert_same(trace.profile(model), streamed(trace, model, samples=samples))
