"""A slow, obvious attribution: every segment against every quantum, in exact fractions."""

from __future__ import annotations

from fractions import Fraction


def overlap(begin: int, end: int, low: int, high: int) -> int:
    return max(0, min(end, high) - max(begin, low))


def attribute_slowly(threads, edges, energies):
    """Return joules of each segment, by thread, and the joules of quanta in which nothing ran."""
    shares = [[Fraction(0)] * len(modelled) for _, modelled in threads]
    idle = Fraction(0)
    for low, high, energy in zip(edges, edges[1:], energies, strict=False):
        parts = {}
        for t, (times, modelled) in enumerate(threads):
            for s, weight in enumerate(modelled):
                length = times[s + 1] - times[s]
                if length > 0:
                    inside = overlap(times[s], times[s + 1], low, high)
                    parts[t, s] = Fraction(weight) * inside / length
        total = sum(parts.values())
        if total == 0:
            idle += Fraction(energy)
            continue
        for (t, s), part in parts.items():
            shares[t][s] += Fraction(energy) * part / total
    return shares, idle
