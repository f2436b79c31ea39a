"""Black-Scholes: prices of European options, the paper's first benchmark, as NumPy kernels on the task runtime.

The paper prices 16 million options in tasks of 44,000 and counts 363 instances: 16,000,000 / 44,000 rounded down.
The 28,000 options that remain belong to the last instance, which prices 72,000; every option is priced.
An option is six 4-byte inputs and a 4-byte price, as in PARSEC: 1.2 MB a task, the paper's task footprint.
Each ufunc works with the interpreter's lock released, so that threads run in parallel.

References
----------
F. Black, M. Scholes: The Pricing of Options and Corporate Liabilities (1973), equations 13 and 26.
TProf, sections 4.1 and 4.2, table 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

import tprof

from .outcome import Checked, WrongResultError, on_runtime

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

OPTIONS = {"small": 1_000_000, "paper": 16_000_000}
OPTIONS_PER_TASK = 44_000
OPTION_BYTES = 28
SEED = 1973
SAMPLE = 2_000
# Prices are single precision and differences of numbers up to the spot or strike: a few dozen rounding errors of those.
TOLERANCE = 2e-5


@dataclass(frozen=True)
class Options:
    """Columns of equal length: money, rate and volatility a year, time in years, sign +1 for a call, -1 for a put."""

    spot: Floats
    strike: Floats
    rate: Floats
    volatility: Floats
    time: Floats
    sign: NDArray[np.int32]

    def part(self, begin: int, end: int) -> Options:
        """Return views of some rows."""
        here = slice(begin, end)
        columns = (self.spot, self.strike, self.rate, self.volatility, self.time, self.sign)
        return Options(*(column[here] for column in columns))  # type: ignore[arg-type]


def run(size: str, workers: int, during: AbstractContextManager[object]) -> Checked:
    """Price all options of that size on threads, inside `during`, and check a sample of the prices."""
    options = make_options(OPTIONS[size])
    prices = np.full(OPTIONS[size], np.nan, np.float32)
    with on_runtime(workers, during) as watch:
        price_all(options, prices)
    return Checked(
        duration_s=watch.duration_s,
        checks=check(options, prices),
        # The last instance takes the remainder as well, and is no larger kind of task.
        facts={"options": OPTIONS[size], "footprint_bytes": OPTIONS_PER_TASK * OPTION_BYTES},
    )


def count_instances(size: str) -> dict[str, int]:
    """Return the instances of the one task."""
    return {"blackscholes": len(task_bounds(OPTIONS[size])) - 1}


def task_bounds(options: int) -> list[int]:
    """Return where each task begins, and the end; the last task takes the remainder as well."""
    whole = max(options // OPTIONS_PER_TASK, 1)
    return [index * OPTIONS_PER_TASK for index in range(whole)] + [options]


def make_options(count: int) -> Options:
    """Return that many options, always the same ones."""
    source = np.random.default_rng(SEED)

    def between(low: float, high: float) -> Floats:
        column = source.random(count, dtype=np.float32)
        column *= np.float32(high - low)
        column += np.float32(low)
        return column

    return Options(
        spot=between(50, 150),
        strike=between(50, 150),
        rate=between(0.01, 0.1),
        volatility=between(0.1, 0.6),
        time=between(0.1, 2),
        sign=source.integers(0, 2, count, dtype=np.int32) * np.int32(2) - np.int32(1),
    )


def price_all(options: Options, prices: Floats) -> None:
    """Fill `prices`, one task instance for each part."""
    for begin, end in pairwise(task_bounds(len(prices))):
        blackscholes(options.part(begin, end), prices[begin:end])


@tprof.task(writes="prices")
def blackscholes(options: Options, prices: Floats) -> None:
    """Fill `prices`. A put is a call with both signs turned, which spares a branch."""
    spread = options.volatility * np.sqrt(options.time)
    d1 = np.log(options.spot / options.strike)
    d1 += (options.rate + np.float32(0.5) * options.volatility**2) * options.time
    d1 /= spread
    sign = options.sign.astype(np.float32)
    discounted = options.strike * np.exp(-options.rate * options.time)
    d2 = d1 - spread
    np.multiply(options.spot, ndtr(sign * d1), out=prices)
    prices -= discounted * ndtr(sign * d2)
    prices *= sign


def check(options: Options, prices: Floats) -> tuple[str, ...]:
    """Compare prices with other ways to them.

    Raises
    ------
    WrongResultError
        If a price is missing or differs.
    """
    missing = int(np.isnan(prices).sum())
    if missing:
        raise WrongResultError(f"blackscholes left {missing} of {len(prices)} options without a price: a task was lost")
    chosen = np.unique(np.linspace(0, len(prices) - 1, SAMPLE).astype(np.int64))
    _check_scalars(options, prices, chosen)
    _check_parity(options, prices, chosen)
    return (f"{len(chosen):,} prices against scalar arithmetic", f"put-call parity of {len(chosen):,} pairs")


def _check_scalars(options: Options, prices: Floats, chosen: NDArray[np.int64]) -> None:
    for index in chosen:
        one = [float(column[index]) for column in (options.spot, options.strike, options.rate)]
        two = [float(column[index]) for column in (options.volatility, options.time, options.sign)]
        right = scalar_price(one[0], one[1], rate=one[2], volatility=two[0], time_a=two[1], sign=two[2])
        if not abs(float(prices[index]) - right) <= TOLERANCE * (one[0] + one[1]):
            raise WrongResultError(
                f"blackscholes priced option {index} at {prices[index]}, scalar arithmetic says {right}"
            )


def scalar_price(spot: float, strike: float, *, rate: float, volatility: float, time_a: float, sign: float) -> float:
    """Price one option with Python's floats and `math.erfc`; time in years, sign +1 call, -1 put."""
    drift = (rate + volatility * volatility / 2) * time_a
    d1 = (math.log(spot) - math.log(strike) + drift) / (volatility * math.sqrt(time_a))
    d2 = d1 - volatility * math.sqrt(time_a)
    upper = math.erfc(-sign * d1 / math.sqrt(2)) / 2
    lower = math.erfc(-sign * d2 / math.sqrt(2)) / 2
    return sign * (spot * upper - strike * math.exp(-rate * time_a) * lower)


def _check_parity(options: Options, prices: Floats, chosen: NDArray[np.int64]) -> None:
    """Check put-call parity: a call less its put is the spot less the discounted strike at any volatility."""
    spot, strike = options.spot[chosen].astype(float), options.strike[chosen].astype(float)
    turned = Options(
        options.spot[chosen],
        options.strike[chosen],
        options.rate[chosen],
        options.volatility[chosen],
        options.time[chosen],
        -options.sign[chosen],
    )
    others = np.empty(len(chosen), np.float32)
    # The bare function: the check is no part of the program, and so no instance of its task.
    blackscholes.__wrapped__(turned, others)  # type: ignore[attr-defined]
    difference = options.sign[chosen] * (prices[chosen].astype(float) - others)
    right = spot - strike * np.exp(-options.rate[chosen].astype(float) * options.time[chosen])
    wrong = np.flatnonzero(~(np.abs(difference - right) <= 2 * TOLERANCE * (spot + strike)))
    if wrong.size:
        raise WrongResultError(
            f"blackscholes breaks put-call parity at option {chosen[wrong[0]]} by {(difference - right)[wrong[0]]}"
        )


if __name__ == "__main__":
    from .outcome import main

    main()
