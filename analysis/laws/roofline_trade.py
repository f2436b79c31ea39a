"""More work for less traffic: when it makes a program faster, and when greener (equation 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .roofline import Floats, Machine


@dataclass(frozen=True)
class Trade:
    """The gain of f times the work for m times less traffic.

    Attributes
    ----------
    speedup : time before over time after.
    greenup : energy before over energy after.
    """

    speedup: Floats
    greenup: Floats


def trade(machine: Machine, intensity: ArrayLike, *, work: ArrayLike, traffic: ArrayLike) -> Trade:
    """Compare an algorithm with one that does `work` times its flops and moves `traffic` times fewer bytes.

    Parameters
    ----------
    machine
        With energies.
    intensity
        Of the algorithm before, flops a byte.
    work, traffic
        The paper's f and m.

    Returns
    -------
    Trade
        Each of the broadcast shape.
    """
    before = np.asarray(intensity, float)
    more, less = np.asarray(work, float), np.asarray(traffic, float)
    flops, after = before, (more * before, 1 / less)
    return Trade(
        machine.time_s(flops, 1.0) / machine.time_s(*after),
        machine.energy_j(flops, 1.0) / machine.energy_j(*after),
    )


def speedup(machine: Machine, intensity: ArrayLike, *, work: ArrayLike, traffic: ArrayLike) -> Floats:
    """Return the speedup alone, which needs no energies."""
    before = np.asarray(intensity, float)
    after_s = machine.time_s(np.asarray(work, float) * before, 1 / np.asarray(traffic, float))
    return np.asarray(machine.time_s(before, 1.0) / after_s)


def most_work(machine: Machine, intensity: ArrayLike, *, traffic: ArrayLike) -> Floats:
    """Return the f below which a trade is a greenup where constant power is 0 (equation 10 as derived).

    f < 1 + (m - 1)/m * B_eps/I. With constant power `trade` compares energies instead.
    """
    less = np.asarray(traffic, float)
    return np.asarray(1 + (less - 1) / less * machine.energy_balance / np.asarray(intensity, float))
