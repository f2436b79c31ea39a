"""Files that others cut while an analysis reads them, at whatever moment, leave fewer samples and never a traceback."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import nested_runs, traces
from support.properties import examples
from tprof.analysis.profile import build

import tprof
from tprof.trace import NativeThread, layout


@examples(12, quick=4)
@given(st.integers(0, 2**31), st.sampled_from([0.0, 0.3, 0.5, 0.9]), st.integers(0, 2))
def test_samples_that_are_cut_after_the_first_pass_are_missing(seed, part, pools) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        trace = tprof.load(
            nested_runs.write(Path(folder) / "x.tprof", np.random.default_rng(seed), domains=1, pools=pools)
        )
        survey = build.survey

        def cut_after(*given, **named):
            found = survey(*given, **named)
            for one in trace.threads:
                path = one.stream.path
                body = path.stat().st_size - layout.HEADER_BYTES
                os.truncate(path, layout.HEADER_BYTES + int(body * part))
            return found

        patch.setattr(build, "survey", cut_after)

        profile = trace.profile("cputime", tables=False, window_samples=20)

        assert np.isfinite(profile.accounts["measured_j"]).all()


def test_native_threads_that_are_cut_after_the_first_pass_are_left_out(tmp_path) -> None:
    trace = tprof.load(traces.write(tmp_path / "x.tprof", native=[a_native_thread()]))
    (file,) = trace.native

    os.truncate(file.stream.path, layout.HEADER_BYTES)

    assert trace.native_threads == ()


def a_native_thread(tid: int = 12) -> NativeThread:
    return NativeThread(
        pid=7, tid=tid, name="omp", library="/x.so", created_ns=5, creator_tid=7, creator_task=1, creator_instance=2,
        ended_ns=900, t_ns=np.array([5, 100, 800]), cpu_ns=np.array([0, 50, 600]),
    )  # fmt: skip
