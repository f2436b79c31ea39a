"""A cap on the power of several hosts: which host gets how many watts.

A host's speed goes with its frequency f, and its power with f^k, where its own limiter learns k. So w watts give it
the speed c·w^(1/k), and one more watt gives (c/k)·w^(1/k - 1). The watts are shared so that one more would give every
host the same (a Lagrange multiplier), within what each draws at its lowest and highest frequency. O(hosts) for each of
some dozen steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

LEAST_EXPONENT = 1.05
"""With an exponent of 1 each watt would give the same, and one host would get all."""
STEPS = 60


class HostPower(NamedTuple):
    """What a host's limiter knows.

    Attributes
    ----------
    drawn_w : mean power at the present limit
    highest_hz : the highest frequency that the limit allows
    range_hz : lowest and highest frequency of the processor
    exponent : k
    workers : those that take tasks
    busy_s : seconds in which tasks ran, since the beginning
    """

    drawn_w: float
    highest_hz: int
    range_hz: tuple[int, int]
    exponent: float
    workers: int
    busy_s: float


def share_cap(watts: float, hosts: Sequence[HostPower | None], busy: Sequence[bool]) -> list[float]:
    """Return each host's part of the cap.

    Parameters
    ----------
    watts
        The cap, which the parts add up to.
    hosts
        What is known of each host; None: nothing yet, and it gets an equal part.
    busy
        Whether tasks have run there lately. A host without tasks gets what it draws at its lowest frequency.
    """
    equal_w = watts / len(hosts)
    parts_w = np.full(len(hosts), equal_w)
    known = [place for place, host in enumerate(hosts) if host is not None and host.drawn_w > 0]
    if known:
        found = [host for host in hosts if host is not None and host.drawn_w > 0]
        shared_w = equal_w * len(known)
        parts_w[known] = _share(shared_w, found, np.array([busy[place] for place in known]))
    return [float(part_w) for part_w in parts_w]


def _share(watts: float, hosts: Sequence[HostPower], busy: NDArray[np.bool_]) -> NDArray[np.float64]:
    drawn_w = np.array([host.drawn_w for host in hosts])
    hz = np.array([host.highest_hz for host in hosts], float)
    range_hz = np.array([host.range_hz for host in hosts], float)
    exponent = np.maximum([host.exponent for host in hosts], LEAST_EXPONENT)
    least_w = drawn_w * (range_hz[:, 0] / hz) ** exponent
    most_w = np.where(busy, drawn_w * (range_hz[:, 1] / hz) ** exponent, least_w)
    if least_w.sum() >= watts:
        return np.asarray(watts * least_w / least_w.sum())
    if most_w.sum() <= watts:
        return np.asarray(most_w + (watts - most_w.sum()) / len(hosts))
    scale = np.array([host.workers for host in hosts]) * hz / drawn_w ** (1 / exponent)
    parts_w = _equal_gains(watts, (scale, exponent), (least_w, most_w))
    return np.asarray(parts_w * (watts / parts_w.sum()))


def _equal_gains(
    watts: float,
    curves: tuple[NDArray[np.float64], NDArray[np.float64]],
    bounds_w: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Return the parts at which one more watt gives each host the same, by bisection of that gain."""
    scale, exponent = curves
    power = exponent / (exponent - 1)

    def parts_at(log_gain: float) -> NDArray[np.float64]:
        log_w = np.clip(power * (np.log(scale / exponent) - log_gain), -700, 700)
        return np.asarray(np.clip(np.exp(log_w), *bounds_w))

    gains = np.log(scale / exponent) - np.log(np.stack(bounds_w)) / power
    low, high = float(gains.min()), float(gains.max())
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if parts_at(middle).sum() > watts else (low, middle)
    return parts_at(high)
