"""Readings of a long recording are read in pieces, into temporary files, with the figures of those in memory."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import many_readings, traces
from support.properties import examples
from tprof.analysis.attribution import long_arrays
from tprof.analysis.attribution.quanta import Quanta, build_quanta
from tprof.analysis.models.fitted.edges import UNINFORMATIVE, posterior

import tprof
from tprof.errors import TprofError
from tprof.trace import layout
from tprof.trace import readings as readings_module

if TYPE_CHECKING:
    from collections.abc import Iterator

MS = 1_000_000


@pytest.fixture(scope="module", autouse=True)
def short_blocks() -> Iterator[None]:
    """Let blocks be so short that small recordings have many, and all arrays of more values be in files."""
    with pytest.MonkeyPatch.context() as patch:
        _shorten(patch, 7)
        yield


def _shorten(patch: pytest.MonkeyPatch, block: int) -> None:
    patch.setattr(long_arrays, "MOST_HELD", block)
    patch.setattr(readings_module, "PIECE", block)
    patch.setattr(readings_module, "MOST_HELD", block)


def faulty_readings(random: np.random.Generator, count: int) -> np.ndarray:
    """Return readings of a sensor that stands, is missing, unread for seconds, wraps, falls, sleeps and opens again."""
    records = np.zeros(count, layout.READING)
    gap_ns = random.integers(1, 3 * MS, count) + (random.random(count) < 0.05) * random.integers(0, 2000 * MS, count)
    records["t_ns"] = np.cumsum(gap_ns)
    moves = random.integers(0, 2000, count) * (random.random(count) < random.choice([0.3, 0.95, 1.0]))
    value = (4_294_960_000 + np.cumsum(moves)) % (1 << 32)
    value[random.random(count) < 0.03] = random.integers(0, 1 << 32)
    records["value"] = value
    records["window_ns"] = random.integers(0, 2 * MS, count) * (random.random(count) < 0.7)
    records["flags"] = random.choice([0, 0, 0, 0, 0, 0, 0, 0, 1, 2], count) * (random.random() < 0.7)
    if random.random() < 0.3:
        records["flags"][-int(random.integers(1, 15)) :] = 1
    records["suspended_ns"] = np.cumsum((random.random(count) < 0.02) * 5 * MS)
    late = random.random(count) < 0.02
    records["t_ns"][late] -= np.minimum(records["t_ns"][late], 4 * MS)
    return records


def in_memory(readings: tprof.trace.Readings) -> Quanta:
    """Return the quanta of readings that are all computed at once."""
    with pytest.MonkeyPatch.context() as patch:
        _shorten(patch, 1 << 20)
        return build_quanta(readings)


def assert_same(found: Quanta, expected: Quanta) -> None:
    """Compare all values, to the last bit."""
    for field in dataclasses.fields(Quanta):
        ours, theirs = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(theirs, np.ndarray):
            np.testing.assert_array_equal(ours, theirs, err_msg=field.name)
        elif isinstance(theirs, float):
            assert ours == pytest.approx(theirs, rel=1e-12)
        else:
            assert ours == theirs


@examples(150)
@given(st.integers(0, 2**31), st.integers(1, 120))
def test_readings_in_blocks_give_the_quanta_of_all_at_once(seed, count) -> None:
    """Also where a fault, a standstill or failed reads reach over the end of a block, with the same warnings."""
    with tempfile.TemporaryDirectory() as folder:
        path = traces.write(Path(folder) / "x.tprof")
        records = faulty_readings(np.random.default_rng(seed), count)
        traces.set_readings(path / "readings" / "package-0.readings", records, unit=2.0**-14, modulus=1 << 32)
        readings = tprof.load(path).readings["package-0"]

        found, expected = build_quanta(readings), in_memory(readings)

        assert_same(found, expected)
        if len(expected):
            begin_ns, end_ns = (int(expected.edges_ns[0]) + (k * int(np.ptp(expected.edges_ns))) // 9 for k in (1, 7))
            assert_same(found.between(begin_ns, end_ns)[0], expected.between(begin_ns, end_ns)[0])
            assert_same(found.earlier(0.4e-3), expected.earlier(0.4e-3))
            assert found.measured_j == pytest.approx(expected.measured_j, rel=1e-12, nan_ok=True)


@examples(100)
@given(st.integers(0, 2**31), st.integers(2, 60))
def test_the_edges_of_all_quanta_follow_from_the_inverse_of_their_equations(seed, count) -> None:
    random = np.random.default_rng(seed)
    edges_ns = np.cumsum(random.integers(MS // 2, 2 * MS, count + 1))
    quanta = Quanta(
        "package-0", "package", 0, counted=True, quality="measured", edges_ns=edges_ns, energy_j=random.random(count),
        valid=np.ones(count, bool), stuck=np.zeros(count, bool), window_s=random.random(count + 1) * 1e-3,
        unit_j=2.0**-14, warnings=(),
    )  # fmt: skip
    residual_j, variance = random.normal(0, 1e-3, count), random.random(count + 1) * 1e-6
    residual_j[[0, -1]] = 0.0

    moved, left = posterior(quanta, residual_j, variance, 1e-4)

    both = variance[:-1] + variance[1:]
    own = 1e-4 * np.diff(edges_ns) * 1e-9 + quanta.unit_j**2 / 6 + 1e-18
    own[[0, -1]] = UNINFORMATIVE * (both + own)[[0, -1]]
    inner = variance[1:-1]
    inverse = np.linalg.inv(np.diag(both + own) - np.diag(inner, 1) - np.diag(inner, -1))
    value = inverse @ residual_j
    spread = np.diag(inverse)[:-1] + np.diag(inverse)[1:] - 2 * np.diag(inverse, 1)
    np.testing.assert_allclose(moved[1:-1], inner * (value[:-1] - value[1:]), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(left[1:-1] ** 2, np.clip(1 - inner * spread, 0, 1), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("model", ["cputime", "fitted"])
def test_a_profile_of_readings_in_files_is_that_of_those_in_memory(tmp_path, model) -> None:
    """With few samples and many readings, whose number alone makes the windows."""
    path = many_readings.write(tmp_path / "x.tprof", 3000, turn_ns=37 * MS, window_ns=MS // 3)
    found = tprof.load(path).profile(model, tables=False, window_samples=400)
    with pytest.MonkeyPatch.context() as patch:
        _shorten(patch, 1 << 20)
        expected = tprof.load(path).profile(model)

    pd.testing.assert_frame_equal(found.summary(), expected.summary(), rtol=1e-9, atol=1e-12)
    pd.testing.assert_frame_equal(found.accounts, expected.accounts, rtol=1e-9, atol=1e-12)
    assert found.info["warnings"] == expected.info["warnings"]


def test_a_disk_without_space_for_readings_is_one_sentence(monkeypatch) -> None:
    monkeypatch.setattr(long_arrays.os, "posix_fallocate", _full)

    with pytest.raises(TprofError, match=r"cannot make a temporary file of .* readings .* \(set TMPDIR .*\): No space"):
        long_arrays.empty(1000, np.int64)


def _full(*_: int) -> None:
    raise OSError(28, "No space left on device")


MANY_FILES = """
import resource, sys
import numpy as np
from tprof.analysis.attribution import long_arrays
long_arrays.MOST_HELD = 1
resource.setrlimit(resource.RLIMIT_NOFILE, (32, int(sys.argv[1])))
kept = [long_arrays.stored(np.full(10, number)) for number in range(100)]
print(sum(one.sum() for one in kept))
"""


@pytest.mark.parametrize(("most", "expected"), [("512", "49500\n"), ("32", "")])
def test_more_files_are_opened_than_the_soft_limit_allows(most, expected) -> None:
    """One sentence says so where the hard limit does not allow them either."""
    ran = subprocess.run([sys.executable, "-c", MANY_FILES, most], capture_output=True, text=True, check=False)

    assert ran.stdout == expected
    assert ("needs more temporary files than this process may have open" in ran.stderr) == (not expected)
