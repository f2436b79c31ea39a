"""Chains of tasks are found in files, block by block, as they are in memory."""

from __future__ import annotations

import dataclasses
import tempfile
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import random_graphs, task_graphs, trace_processor
from support.properties import examples
from support.random_graphs import flat, keyed, nested
from support.streamed_profiles import streamed
from support.task_graphs import Lane
from tprof.analysis.export import format_named
from tprof.analysis.profile.task_graph import Chain
from tprof.analysis.profile.task_graph.instances import Named

from tprof.trace import long_arrays, long_sorts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tprof.analysis import Profile

    import tprof


def assert_same_in_blocks(trace: tprof.Trace, block: int, **options: object) -> None:
    """Compare what a recording waited for in memory and in blocks of so few values."""
    whole = streamed(trace, "cputime", **options)
    expected = tables_of(whole)
    with short_blocks(block):
        found = tables_of(streamed(trace, "cputime", **options))

    assert found.keys() == expected.keys()
    for name, table in found.items():
        pd.testing.assert_frame_equal(table, expected[name], rtol=1e-12, obj=name)


@contextmanager
def short_blocks(block: int) -> Iterator[None]:
    """Keep arrays of more than so many values in files."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("BLOCK", "MOST_HELD"):
            patch.setattr(long_arrays, name, block)
        patch.setattr(long_sorts, "SAMPLES", 3)
        yield


def tables_of(profile: Profile) -> dict[str, pd.DataFrame]:
    """Return the tables of a profile that come from what its instances waited for."""
    path = profile.critical_path()
    found = {name: getattr(path, name) for name in ("chain", "heaviest", "observed")}
    facts = pd.DataFrame([path.facts()])
    found |= {"dependences": profile.dependences, "workers": profile.starvation, "waits": profile.waits()}
    return found | {"facts": facts}


@examples(40)
@given(st.integers(0, 2**31), st.integers(1, 12), st.sampled_from([flat, nested, keyed]))
def test_chains_and_workers_in_blocks_are_those_in_memory(seed, block, write) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace = write(Path(folder) / "x.tprof", np.random.default_rng(seed))

        assert_same_in_blocks(trace, block)


@examples(20)
@given(st.integers(0, 2**31), st.integers(1, 12), st.sampled_from([flat, keyed]))
def test_what_ran_and_was_ready_before_a_window_of_time_is_known_in_blocks_too(seed, block, write) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace = write(Path(folder) / "x.tprof", np.random.default_rng(seed))

        assert_same_in_blocks(trace, block, start_s=0.05, end_s=0.2)


@examples(40)
@given(st.integers(0, 2**31), st.integers(1, 12))
def test_instances_may_have_their_numbers_in_any_order(seed, block) -> None:
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

        assert_same_in_blocks(other, block)

        path = other.profile("cputime").critical_path()
        # Of two that begin at the same moment their numbers say which may have spawned the other.
        assume(path.contradicting == known.contradicting)
        assert path.span_s == pytest.approx(known.span_s, rel=1e-12)
        assert path.heaviest_j == pytest.approx(known.heaviest_j, rel=1e-12, nan_ok=True)
        assert path.chain["path_s"].sum() == pytest.approx(known.span_s, rel=1e-12)
        # Of two that end last at the same moment their numbers say from which one the run is followed back.
        assume((known_ends_s == known_ends_s.max()).sum() == 1)
        assert path.parts == pytest.approx(known.parts, rel=1e-12)


@pytest.mark.parametrize("write", [flat, keyed])
def test_exports_in_blocks_are_those_in_memory(tmp_path, write) -> None:
    """Tables of dependences and chains, arrows between slices and links between spans."""
    pytest.importorskip("perfetto")
    profile = streamed(write(tmp_path / "x.tprof", np.random.default_rng(4)), "cputime", samples=30)
    formats = ("csv", "perfetto", "otlp")
    for name in formats:
        format_named(name).write(profile, tmp_path / f"whole.{name}")
    with short_blocks(5):
        parts = streamed(write(tmp_path / "y.tprof", np.random.default_rng(4)), "cputime", samples=30)
        for name in formats:
            format_named(name).write(parts, tmp_path / f"parts.{name}")

    for name in ("dependences.csv", "critical_path.csv"):
        whole, found = (pd.read_csv(tmp_path / f"{which}.csv" / name) for which in ("whole", "parts"))
        assert len(whole) > 5
        pd.testing.assert_frame_equal(found, whole, rtol=1e-12)
    whole, found = (trace_processor.arrows(tmp_path / f"{which}.perfetto") for which in ("whole", "parts"))
    assert len(whole) > 5
    assert found == whole
    whole, found = ((tmp_path / f"{which}.otlp").read_text().count('"links"') for which in ("whole", "parts"))
    assert whole > 5
    assert found == whole


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
    st.integers(1, 5),
)
def test_sums_of_a_chain_are_those_of_its_table(rows, block) -> None:
    """By task and host, of which an instance may occur more than once; a task without a name counts nowhere."""
    task, host, instance, energy_j = (np.array(one) for one in zip(*rows, strict=True)) if rows else ([],) * 4
    named = Named(
        pd.Index(["a", "b", "c"]), np.array(task, np.int32), np.array(instance, np.uint64), ("x", "y", "z"),
        np.array(host, np.int32),
    )  # fmt: skip
    path_s = np.arange(1.0, len(rows) + 1)
    chain = Chain(named, path_s, path_s, np.array(energy_j, float))
    table = chain.table()
    with short_blocks(block):
        for names in (["task"], ["host"], ["host", "task"]):
            grouped = table.groupby(names)
            expected = grouped.agg(instances=("instance", "nunique"), path_s=("path_s", "sum"))
            expected["energy_j"] = grouped["energy_j"].sum(min_count=1)

            pd.testing.assert_frame_equal(chain.by(*names).sort_index(), expected, check_index_type=False)
            assert chain.by(*names)["path_s"].is_monotonic_decreasing
        assert chain.hosts() == set(table["host"])
        assert chain.host_changes() == sum(one != other for one, other in pairwise(table["host"]))


def test_joules_of_a_chain_are_those_of_its_resolved_instances() -> None:
    """None is no zero."""
    known = np.array([1.0, np.nan, 2.5])
    chain = Chain(None, np.zeros(3), np.zeros(3), known)

    assert chain.joules() == 3.5
    assert np.isnan(dataclasses.replace(chain, energy_j=known[1:2], start_s=np.zeros(1)).joules())
