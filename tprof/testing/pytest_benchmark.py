"""The joules of what pytest-benchmark runs, in its extra_info."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tprof import _core

from .joules import LEAST_S, joules, of_block, repeated

if TYPE_CHECKING:
    from collections.abc import Callable

    from tprof.analysis import Profile

    from .joules import Joules

BLOCKS = pytest.StashKey[list[tuple[str, int, dict[str, Any]]]]()
"""Blocks of calls in the recording of `--energy`: the name, the number of calls, and the extra_info to fill."""


def benchmarked(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return what runs a function by `benchmark`, then measures the joules of a call into `extra_info`.

    With `--energy` the calls are a block of that recording, and `fill` adds the joules at its end. In another
    recording, such as that of `tprof run`, nothing is measured apart.
    """
    try:
        benchmark = request.getfixturevalue("benchmark")
    except pytest.FixtureLookupError as error:
        raise pytest.UsageError("benchmark_energy needs pytest-benchmark: pip install pytest-benchmark") from error

    def run(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        result = benchmark(function, *arguments, **options)
        blocks = request.config.stash.get(BLOCKS, None)
        if blocks is not None:
            name = f"{request.node.nodeid} (block {len(blocks) + 1})"
            calls = repeated(function, arguments, options, seconds=LEAST_S, block=name)
            blocks.append((name, calls, benchmark.extra_info))
        elif not _core.generation():
            _add(benchmark.extra_info, joules(function, *arguments, **options))
        return result

    return run


def fill(config: pytest.Config, profile: Profile) -> None:
    """Put the joules of all blocks into the extra_info of their benchmarks."""
    for name, calls, extra_info in config.stash.get(BLOCKS, []):
        _add(extra_info, of_block(profile, calls, block=name))


def _add(extra_info: dict[str, Any], taken: Joules) -> None:
    extra_info |= {
        "energy_j": taken.energy_j,
        "energy_low_j": taken.low_j,
        "energy_high_j": taken.high_j,
        "energy_quality": taken.quality,
    }
