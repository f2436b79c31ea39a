"""A RAPL sensor as measured, and the trace that a recorder would have written of the virtual package with it.

The sensor has its unit, irregular updates, 32 bits and a poller that sees each update late. The gaps between updates
are given by the quantiles of public measurements of three processors (10,000 gaps each). The truth is kept beside the
trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tprof.trace import layout, write_trace

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from .virtual_processor import Run

Floats = NDArray[np.float64]
PARTS = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1.0)
BITS = 32
CLOSE_S = 50e-6
DOMAIN = "package-0"


@dataclass(frozen=True)
class Seen:
    """What a poller saw: (n,) index of the last update before each poll that found a new value.

    `at_s` : time of the poll; `window_s` : the value changed within this time before it.
    """

    update: NDArray[np.int64]
    at_s: Floats
    window_s: Floats


@dataclass(frozen=True)
class Sensor:
    """How a sensor updates and is polled.

    Attributes
    ----------
    gaps_ms : quantiles of the gaps between updates, at `PARTS`.
    unit_j : one count.
    poll_s : between two polls.
    closely : part of the updates seen that are followed by polls each 50 µs until the next; 0: none.
    noise_j : standard deviation of what an update is off by; it never falls.
    left_j : joules after which the register wraps for the first time, so that even a short run sees it wrap.
    late_s : an update shows this much later than the joules that it holds: at most, or on average if `late_tail`.
    late_tail : whether delays are exponential, so that a few are long; else any up to `late_s` is as likely.
    """

    gaps_ms: tuple[float, ...]
    unit_j: float
    poll_s: float = 50e-6
    closely: float = 0.0
    noise_j: float = 0.0
    left_j: float = 20.0
    late_s: float = 0.0
    late_tail: bool = False

    def updates(self, end_s: float, random: np.random.Generator) -> Floats:
        """Return when the register changed, seconds."""
        count = int(end_s * 1100) + 50
        gaps_s = np.interp(random.random(count), PARTS, self.gaps_ms) * 1e-3
        t_s = np.cumsum(gaps_s)
        return np.asarray(t_s[t_s < end_s])

    def shown(self, updates_s: Floats, random: np.random.Generator) -> Floats:
        """Return when the register showed each update; a newer one hides those that would show after it."""
        if not self.late_s:
            return updates_s
        draw = random.exponential if self.late_tail else partial(random.uniform, 0.0)
        return np.maximum.accumulate(updates_s + draw(self.late_s, len(updates_s)))

    def seen(self, updates_s: Floats) -> Seen:
        """Return which updates a poller sees, when, and how long before each the value may have changed."""
        gap_s = float(np.diff(updates_s).mean())
        if not self.closely:
            number = np.ceil(updates_s / self.poll_s).astype(np.int64)
            last = np.flatnonzero(np.diff(number, append=number[-1] + 1))
            return Seen(
                last, np.asarray(number[last] * self.poll_s, np.float64), np.full(len(last), min(self.poll_s, gap_s))
            )
        return self._polled_closely(updates_s, gap_s)

    def _polled_closely(self, updates_s: Floats, gap_s: float) -> Seen:
        now_s, closely, credit = 0.0, False, 0.0
        found: list[tuple[int, float, float]] = []
        before_s, seen = 0.0, 0
        # Poll after poll, as the recorder's thread does.
        while seen < len(updates_s):
            number = int(np.searchsorted(updates_s, now_s, side="right"))
            if number > seen:
                found.append((number - 1, now_s, min(now_s - before_s, gap_s)))
                seen, credit = number, credit + self.closely
                closely = credit >= 1
                credit -= closely
            before_s, now_s = now_s, now_s + (CLOSE_S if closely else self.poll_s)
        update, at_s, window_s = zip(*found, strict=True)
        return Seen(np.array(update), np.array(at_s), np.array(window_s))

    def register(self, joules: Floats, random: np.random.Generator) -> NDArray[np.uint64]:
        """Return what the register holds at each update: whole counts, modulo 2 to the 32."""
        if self.noise_j:
            joules = np.maximum.accumulate(np.maximum(joules + random.normal(0.0, self.noise_j, len(joules)), 0.0))
        first = (1 << BITS) - round(self.left_j / self.unit_j)
        counts = np.floor(joules / self.unit_j).astype(np.uint64) + np.uint64(first)
        return np.asarray(counts % np.uint64(1 << BITS))


ICE_LAKE = Sensor((0.6127, 0.6835, 0.7267, 0.8093, 0.8839, 1.264, 1.5229, 1.6496, 1.8283, 2.8333), 2.0**-14)
BROADWELL = Sensor((0.8202, 0.8722, 0.9298, 0.9807, 1.0011, 1.0218, 1.0724, 1.1076, 1.1595, 1.2033), 2.0**-14)
KNIGHTS_LANDING = Sensor((0.9022, 0.915, 0.9294, 1.0025, 1.0082, 1.0155, 1.0275, 1.0402, 1.0741, 1.0963), 2.0**-16)


@dataclass(frozen=True)
class Truth:
    """What each instance really drew.

    Attributes
    ----------
    instance : (n,) ids, as in the trace.
    task : (n,) index into the tasks.
    dynamic_j : (n,) above static power.
    static_j : (n,) of static power, in each quantum split evenly over the cores that run.
    duration_s : (n,).
    """

    instance: NDArray[np.uint64]
    task: NDArray[np.int64]
    dynamic_j: Floats
    static_j: Floats
    duration_s: Floats


def write(
    path: str | os.PathLike[str],
    names: Sequence[str],
    run: Run,
    *,
    sensor: Sensor,
    seed: int,
    counters: bool = True,
) -> Truth:
    """Write the trace of a run; every figure in it is called simulated.

    Parameters
    ----------
    path
        Of the session.
    names, run
        Of the tasks, and what ran.
    sensor
        How it was read.
    seed
        For the sensor's jitter and noise.
    counters
        Whether the recorder had them.
    """
    random = np.random.default_rng(seed)
    updates_s = sensor.updates(run.end_s, random)
    register = sensor.register(run.joules(updates_s), random)
    seen = sensor.seen(sensor.shown(updates_s, random))
    seen_ns, window_ns = (np.round(part * 1e9).astype(np.int64) for part in (seen.at_s, seen.window_s))
    write_trace(
        path,
        tasks=list(names),
        threads=[_thread(run, place, counters=counters) for place in range(len(run.cores))],
        energy={DOMAIN: (seen_ns, np.arange(len(seen_ns), dtype=float), window_ns)},
        quality="simulated",
    )
    _put_register(Path(path) / "readings" / f"{DOMAIN}.readings", register[seen.update], sensor.unit_j)
    return truth_of(run, updates_s[seen.update])


def truth_of(run: Run, edges_s: Floats) -> Truth:
    """Return what the instances of a run really drew; `edges_s` are those of the quanta."""
    places = range(len(run.cores))
    return Truth(
        instance=1 + np.arange(sum(len(core.task) for core in run.cores), dtype=np.uint64),
        task=np.concatenate([core.task for core in run.cores]),
        dynamic_j=np.concatenate([run.instances_j(place) for place in places]),
        static_j=np.concatenate([run.static_shares_j(place, edges_s) for place in places]),
        duration_s=np.concatenate([core.end_s - core.begin_s for core in run.cores]),
    )


def _thread(run: Run, place: int, *, counters: bool) -> dict[str, Any]:
    """One sample where an instance begins, one where it ends unless the next begins at once."""
    core = run.cores[place]
    count, first = len(core.task), sum(len(before.task) for before in run.cores[:place])
    t_s = np.column_stack([core.begin_s, core.end_s]).ravel()
    t_ns = np.round(t_s * 1e9).astype(np.int64)
    instance = np.column_stack([1 + first + np.arange(count), np.zeros(count, np.int64)]).ravel().astype(np.uint64)
    task = np.column_stack([core.task, np.full(count, -1)]).ravel()
    # An end at which the next begins adds no information.
    kept = np.ones(len(t_ns), bool)
    kept[1:-1:2] = t_ns[1:-1:2] < t_ns[2::2]
    lengths_ns = t_ns[1::2] - t_ns[::2]
    cpu_ns = np.cumsum(np.column_stack([np.zeros(count, np.int64), lengths_ns]).ravel())
    return {
        "t_ns": t_ns[kept],
        "instance": instance[kept],
        "task": task[kept],
        "cpu": np.full(int(kept.sum()), place),
        "cpu_ns": cpu_ns[kept],
        "name": f"core {place}",
        **(run.counts(place, t_s[kept]) if counters else {}),
    }


def _put_register(file: Path, counts: NDArray[np.uint64], unit_j: float) -> None:
    """Write a register's raw counts, which wrap, in place of the joules that `write_trace` was given.

    `write_trace` takes joules that never fall, as a runtime has them. A kernel's file shows a register that wraps, and
    its reader's way through `modulus` is part of what is to be validated.

    Parameters
    ----------
    file
        `readings/<domain>.readings` of a trace.
    counts
        (m,) one a reading.
    unit_j
        Joules of one count.
    """
    content = bytearray(file.read_bytes())
    header = np.frombuffer(content, layout.HEADER, 1)
    header["unit"], header["modulus"] = unit_j, 1 << BITS
    records = np.frombuffer(content, layout.READING, len(counts), layout.HEADER_BYTES)
    records["value"] = counts
    file.write_bytes(content)
