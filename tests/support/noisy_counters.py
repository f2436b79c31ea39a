"""Simulated samples with noisy counters, and how many bytes of them are noise: no compression gets below these.

Tasks of 100 us or 0.3 us and the time between them are spread by a half (a gamma distribution). In each segment a
counter grows with its length, with an error of 10 % of its own, and the CPU time is less by what a normal error of 1 %
of the length takes.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import digamma
from scipy.stats import norm

RATES = (3.0, 2.2, 0.004, 0.02, 0.01, 0.5, 1.1, 0.3, 0.07, 0.0015, 0.25)
"""Of counters, for each nanosecond."""
BETWEEN_NS = 1000.0
SHAPE, ERROR, CPU_ERROR = 4, 0.1, 0.01
TASKS = 3


def samples(count, counters, *, task_ns=100_000.0, seed=5):
    """Return (count, 8 * (4 + counters)) uint8: begins and ends of tasks in turn, with CPU time and counters."""
    draw = np.random.default_rng(seed)
    number = np.arange(count)
    begins = number % 2 == 0
    length = draw.gamma(SHAPE, np.where(begins, task_ns, min(BETWEEN_NS, task_ns)) / SHAPE)

    def summed(grown):
        return np.concatenate(([0], np.floor(np.cumsum(grown[:-1])))).astype(np.uint64)

    words = np.zeros((count, 4 + counters), np.uint64)
    words[:, 0] = 10**15 + summed(length)
    words[:, 1] = np.where(begins, (1 << 40) + number // 2 + 1, 0)
    task = np.where(begins, draw.integers(0, TASKS, count), 0xFFFFFFFF).astype(np.uint64)
    words[:, 2] = task | np.where(begins, 1, 2).astype(np.uint64) << np.uint64(48)
    words[:, 3] = 5 * 10**9 + summed(length * (1 - np.abs(draw.normal(0, CPU_ERROR, count))))
    for place, rate in enumerate(RATES[:counters]):
        words[:, 4 + place] = 10**9 + summed(length * rate * draw.normal(1, ERROR, count))
    return words.view(np.uint8).reshape(count, -1)


def noise_bytes(counters, *, task_ns=100_000.0):
    """Return the entropy of such a sample: of which task ran, of times, and of the errors where times are known."""
    bits = math.log2(TASKS) / 2
    for mean_ns in (task_ns, min(BETWEEN_NS, task_ns)):
        scale = mean_ns / SHAPE
        spread = SHAPE + math.log(scale) + math.lgamma(SHAPE) + (1 - SHAPE) * float(digamma(SHAPE))
        lengths = np.random.default_rng(0).gamma(SHAPE, scale, 500)
        errors = [max(_normal_bits(CPU_ERROR * one) - 1, 0) for one in lengths]  # only one side of it
        errors += [_normal_bits(ERROR * rate * one) for rate in RATES[:counters] for one in lengths]
        bits += (spread / math.log(2) + sum(errors) / len(lengths)) / 2
    return bits / 8


def _normal_bits(deviation):
    """Return the entropy of a normal error that is rounded to whole counts."""
    if deviation > 4:
        return math.log2(deviation * math.sqrt(2 * math.pi * math.e))
    edges = np.arange(-40, 41) - (np.arange(20)[:, None] + 0.5) / 20
    parts = np.diff(norm.cdf(edges, scale=max(deviation, 1e-9)))
    return float(-(parts * np.log2(np.where(parts > 0, parts, 1.0))).sum(axis=1).mean())
