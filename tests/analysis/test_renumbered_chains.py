"""Chains of instances do not depend on how these are numbered, and their sums are those of their tables."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import random_graphs, task_graphs
from support.properties import examples
from support.random_graphs import assert_same_chains, nested
from support.streamed_profiles import streamed
from support.task_graphs import Lane
from tprof.analysis.profile.task_graph import CriticalPath

if TYPE_CHECKING:
    import tprof


@examples(40)
@given(st.integers(0, 2**31))
def test_instances_may_have_their_numbers_in_any_order(seed) -> None:
    """A thread numbers what it spawns, so that children may have lower numbers than their parents."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        trace = nested(Path(folder) / "x.tprof", np.random.default_rng(seed))
        profile = trace.profile("cputime")
        known = profile.critical_path()
        known_ends_s = (profile.tasks["start_s"] + profile.tasks["duration_s"]).round(9)
        patch.setattr(
            random_graphs.task_graphs, "write", lambda path, lanes, count: renumbered(path, lanes, count, rng)
        )
        other = nested(Path(folder) / "y.tprof", np.random.default_rng(seed))
        whole = other.profile("cputime")

        assert_same_chains(whole, streamed(other, "cputime"))

        path = whole.critical_path()
        # Of two that begin at the same moment their numbers say which may have spawned the other.
        assume(path.contradicting == known.contradicting)
        assert path.span_s == pytest.approx(known.span_s, rel=1e-12)
        assert path.heaviest_j == pytest.approx(known.heaviest_j, rel=1e-12, nan_ok=True)
        assert path.chain["path_s"].sum() == pytest.approx(known.span_s, rel=1e-12)
        # Of two that end last at the same moment their numbers say from which one the run is followed back.
        assume((known_ends_s == known_ends_s.max()).sum() == 1)
        assert path.parts == pytest.approx(known.parts, rel=1e-12)


WRITE = task_graphs.write


def renumbered(path: Path, lanes: list[Lane], count: int, rng: np.random.Generator) -> tprof.Trace:
    """Write lanes whose instances have other numbers."""
    most = max(one[1] for lane in lanes for one in lane.samples)
    number = np.concatenate(([0], 1 + rng.permutation(most))).tolist()
    lanes = [
        Lane(
            [(t_ns, number[instance], kind) for t_ns, instance, kind in lane.samples],
            [(t_ns, kind, number[one], number[other], worker) for t_ns, kind, one, other, worker in lane.events],
        )
        for lane in lanes
    ]
    return WRITE(path, lanes, count)


@examples(100)
@given(
    st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 2), st.integers(1, 4), st.sampled_from([0.5, np.nan]))),
)
def test_sums_of_a_chain_are_those_of_its_table(rows) -> None:
    """By task and host, of which an instance may occur more than once; a task without a name counts nowhere."""
    chain = pd.DataFrame(
        {
            "host": ["xyz"[host] for _, host, _, _ in rows],
            "task": pd.Series([["a", "b", "c", None][task] for task, _, _, _ in rows], dtype=object),
            "instance": [instance for _, _, instance, _ in rows],
            "path_s": np.arange(1.0, len(rows) + 1),
            "energy_j": [energy_j for _, _, _, energy_j in rows],
        }
    ).astype({"energy_j": float})
    path = CriticalPath(0.0, 0.0, 0.0, 0, "measured", {}, chain, chain, chain)

    for names in (["task"], ["host"], ["host", "task"]):
        sums = path.sums(*names)
        assert sums["path_s"].sum() == chain.dropna(subset=names)["path_s"].sum()
        assert sums["path_s"].is_monotonic_decreasing
        assert sums["instances"].sum() == len(chain.dropna(subset=names)[[*names, "instance"]].drop_duplicates())
    assert path.host_changes == sum(one != other for one, other in pairwise(chain["host"]))
    known = chain["energy_j"].dropna()
    assert path.energy_j == known.sum() if len(known) else np.isnan(path.energy_j)
