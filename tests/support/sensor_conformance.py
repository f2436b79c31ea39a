"""A bench for each kind of sensor: a fake of what it reads, which a test drives and whose joules the test knows.

tests/sensors/test_conformance.py runs the same cases on each sensor of `sensor_benches.BENCHES`. The bench of a sensor
that is added derives from `CountBench` or `PowerBench`, makes the fake tree, library or stream in `__init__`, and says
how a value is shown, how the hardware goes away and comes back, and how its reading is forbidden.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


BENCH = "TPROF_TEST_BENCH"
"""Environment variable with MODULE:CLASS of one more bench: pytest --bench sets it."""


class Bench:
    """A fake of what one sensor reads, below a folder of its own.

    Attributes
    ----------
    energy : what `tprof.record` is asked for: the sensor's name, with its argument if it takes one.
    domain : the domain that is driven.
    modulus : its count wraps there; None: it does not, or it is power.
    unit_j : joules of one count; for power, of one of the recorder's.
    step_j : joules that are drawn in a step of the test: some counts, at a plausible power.
    """

    energy: ClassVar[str]
    domain: ClassVar[str]
    modulus: ClassVar[int | None] = None
    unit_j: ClassVar[float] = 1e-6
    step_j: ClassVar[float] = 0.05

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make it; a root for sensors goes into the environment as TPROF_SYSROOT."""
        self.place, self.monkeypatch = place, monkeypatch
        self.kept: list[tuple[int, int, float]] = []

    def show(self, value: float) -> None:
        """Show a count, or watts, from now on."""
        raise NotImplementedError

    def remove(self) -> None:
        """Take the hardware away: reads fail from now on, and nothing is found."""
        raise NotImplementedError

    def put_back(self) -> None:
        """Bring it back as the system would, perhaps under another number; it shows the last value of `show`."""
        raise NotImplementedError

    def forbid(self) -> None:
        """Let nobody read it, not even root. NotImplementedError: no right decides about it."""
        raise NotImplementedError

    def begin(self) -> None:
        """Show a first value."""
        raise NotImplementedError

    def step(self) -> None:
        """Draw the joules of a step."""
        raise NotImplementedError

    def reset(self) -> None:
        """Let the counter begin anew, as hardware does that was away."""

    def truth_j(self, t_ns: list[int]) -> tuple[float, float]:
        """Return the least and the most joules from the first to the last of the times of readings."""
        raise NotImplementedError

    def close(self) -> None:
        """End it."""


class CountBench(Bench):
    """A counter of energy."""

    first_j: ClassVar[float] = 3.0

    def begin(self) -> None:
        """Show a first count."""
        self.count = round(self.first_j / self.unit_j)
        self._show(0.0)

    def begin_before_wrap(self) -> None:
        """Show a count that wraps in the second step from here."""
        assert self.modulus is not None
        self.count = self.modulus - round(1.5 * self.step_j / self.unit_j)
        self._show(0.0)

    def step(self) -> None:
        """Draw the joules of a step."""
        counts = round(self.step_j / self.unit_j)
        self.count += counts
        self._show(counts * self.unit_j)

    def reset(self) -> None:
        """Let the count begin at 0."""
        self.count = 0

    def _show(self, joules: float) -> None:
        begin_ns = time.monotonic_ns()
        self.show(self.count if self.modulus is None else self.count % self.modulus)
        self.kept.append((begin_ns, time.monotonic_ns(), joules))

    def truth_j(self, t_ns: list[int]) -> tuple[float, float]:
        """Return the joules that surely, and that perhaps, were counted between the first reading and the last.

        A value may be older than the time of its reading, but not than the reading before.
        """
        first, last_but_one, last = t_ns[0], t_ns[-2], t_ns[-1]
        surely = sum(joules for begin_ns, end_ns, joules in self.kept if begin_ns > first and end_ns < last_but_one)
        perhaps = sum(joules for begin_ns, end_ns, joules in self.kept if end_ns >= first and begin_ns <= last)
        return surely, perhaps


class PowerBench(Bench):
    """A meter of power, whose watts change at each step."""

    watts: ClassVar[tuple[float, float]] = (20.0, 30.0)

    def begin(self) -> None:
        """Show the first watts."""
        self.step()

    def step(self) -> None:
        """Change the watts."""
        watts = self.watts[len(self.kept) % 2]
        begin_ns = time.monotonic_ns()
        self.show(watts)
        self.kept.append((begin_ns, time.monotonic_ns(), watts))

    def truth_j(self, t_ns: list[int]) -> tuple[float, float]:
        """Return the integral of the watts; between the readings around a change they may be either.

        A value may be older than the time of its reading, but not than the reading before.
        """
        low_j, high_j = 0.0, 0.0
        for before_ns, since_ns, until_ns in zip([0, *t_ns], t_ns, t_ns[1:], strict=False):
            earlier = [watts for _, end_ns, watts in self.kept if end_ns < before_ns][-1:]
            inside = [watts for begin_ns, end_ns, watts in self.kept if end_ns >= before_ns and begin_ns <= until_ns]
            low_j += min(earlier + inside) * (until_ns - since_ns) * 1e-9
            high_j += max(earlier + inside) * (until_ns - since_ns) * 1e-9
        return low_j, high_j
