"""Profiles of recordings that are read in windows, and how they compare with those of the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

if TYPE_CHECKING:
    from tprof.analysis import Profile

    import tprof


def streamed(trace: tprof.Trace, *arguments: object, samples: int | None = 50, **options: object) -> Profile:
    """Return the profile of a trace in windows of so few samples."""
    return trace.profile(*arguments, tables=False, window_samples=samples, **options)


def instances_of(profile: Profile) -> pd.DataFrame:
    """Return the instances of a streamed profile, in order of their ids."""
    parts: list[pd.DataFrame] = []
    profile.instances.share(lambda piece: parts.append(piece.tasks))
    return in_order(pd.concat(parts))


def in_order(tasks: pd.DataFrame) -> pd.DataFrame:
    """Sort by id; labels, which other tests may have given this process, are of one type, whatever a window has."""
    labels = [name for name in tasks if name.startswith("label_")]
    return tasks.sort_values("instance").reset_index(drop=True).astype(dict.fromkeys(labels, object))


def assert_same(whole: Profile, parts: Profile) -> None:
    """Compare all tables of two profiles."""
    for common in (True, False):
        pd.testing.assert_frame_equal(parts.summary(common=common), whole.summary(common=common), rtol=1e-9, atol=1e-12)
    pd.testing.assert_frame_equal(parts.accounts, whole.accounts, rtol=1e-9, atol=1e-12)
    pd.testing.assert_frame_equal(instances_of(parts), in_order(whole.tasks), rtol=1e-9, atol=1e-12)
    pd.testing.assert_frame_equal(parts.power, whole.power)
    assert {**parts.info, "native": None} == {**whole.info, "native": None}
    assert_same_pools(whole.info["native"], parts.info["native"])


def assert_same_pools(whole: dict[str, Any] | None, parts: dict[str, Any] | None, rel: float = 1e-9) -> None:
    """Compare facts on native threads."""
    assert (whole is None) == (parts is None)
    if whole is not None and parts is not None:
        for ours, theirs in zip([parts, *parts["pools"]], [whole, *whole["pools"]], strict=True):
            for name, value in theirs.items():
                if name != "pools":
                    same = pytest.approx(value, rel=rel, abs=1e-3 * rel) if isinstance(value, float) else value
                    assert ours[name] == same, name
