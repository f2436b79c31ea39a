"""How tasks respond to frequency where the truth is known: the paper's responses, and kernels on the virtual processor.

The paper gives energy and time at 1.6 GHz against 3.61 GHz. Between them a stand-in follows what processors are known
to do, and what advice does not assume: time ``a + b f0/f``, power ``v² (q + (1 - q) f/f0)`` with static
power that falls with the voltage, too. q follows from each response. The voltage is the same for all tasks: at 1.6 GHz
it is the highest at which every response can be had (the sort task's needs q = 0), above it is linear in f, or, as a
harsher truth, at its floor up to 2.2 GHz.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.published import FREQUENCIES, HIGHEST_HZ, LOWEST_HZ, ratios
from benchmarks.published.public_measurements import Response
from benchmarks.simulator import POLYBENCH, STRESS, Law
from benchmarks.simulator.power_law import rates

Floats = NDArray[np.float64]
LOW_HZ, HIGH_HZ = float(LOWEST_HZ), float(HIGHEST_HZ)
FLOOR_HZ = 2.2e9


def frequencies_hz() -> Floats:
    """Return as many frequencies as the paper's processor has, evenly spread."""
    return np.linspace(LOW_HZ, HIGH_HZ, FREQUENCIES)


def papers(*, floor: bool = False) -> list[Response]:
    """Return the paper's responses with a voltage that is linear, or that has a floor."""
    hz, tasks = frequencies_hz(), ratios()
    part = hz / HIGH_HZ
    lowest = np.sqrt(min(task.energy_ratio / task.time_ratio for task in tasks) / part[0])
    since = FLOOR_HZ if floor else LOW_HZ
    volts = lowest + (1 - lowest) * np.clip((hz - since) / (HIGH_HZ - since), 0.0, 1.0)
    found = []
    for task in tasks:
        work = (task.time_ratio - 1) / (1 / part[0] - 1)
        static = (task.energy_ratio / task.time_ratio / lowest**2 - part[0]) / (1 - part[0])
        time_s = 1 - work + work / part
        power_w = volts**2 * (static + (1 - static) * part)
        found.append(
            Response(f"{task.benchmark}: {task.task}", hz, np.ones(len(hz), np.int64), time_s, time_s * power_w)
        )
    return found


def virtual() -> list[Response]:
    """Return each kernel alone on the virtual processor, which has static power and leaks as it warms."""
    hz, law = frequencies_hz(), Law()
    kernels = (*POLYBENCH, *STRESS)
    found = []
    for number, kernel in enumerate(kernels):
        done = rates(law, kernels, np.full(len(hz), number), hz, np.zeros(len(hz)))
        static_w = np.array([law.static_at_w(float(one)) for one in hz])
        time_s = 1e9 / done.instructions
        power_w = static_w + (1 + law.leak) * done.power_w
        found.append(Response(kernel.name, hz, np.ones(len(hz), np.int64), time_s, time_s * power_w))
    return found
