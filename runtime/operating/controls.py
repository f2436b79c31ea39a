"""Which control of the frequency each worker's core hangs on, and setting it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tprof.errors import SensorError
from tprof.frequency.policy import KHZ, Bounds, read_bounds
from tprof.frequency.setting import SETSPEED, USERSPACE, hold, set_bounds, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tprof.frequency import Policy

SMOOTHING = 0.1
BESIDE = 0.02
"""Frequencies that differ by less are one: a driver rounds, and a table may do so too."""


class Controls(Protocol):
    """What a policy needs of a machine.

    Attributes
    ----------
    frequencies_hz : there are, or some of those in a range, ascending.
    count : how many controls there are.
    transition_s : what setting one takes.
    """

    frequencies_hz: tuple[int, ...]
    count: int
    transition_s: float

    def of(self, slot: int) -> int:
        """Return the control of a worker."""

    def cpus(self, control: int) -> tuple[int, ...]:
        """Return the processors of a control."""

    def nearest_hz(self, control: int, hz: int) -> int:
        """Return what it can be set to that is nearest."""

    def hold(self, control: int, hz: int) -> None:
        """Set it."""

    def changed_elsewhere(self) -> tuple[int, ...]:
        """Return the controls that somebody else has set."""


class Cpufreq:
    """The kernel's cpufreq policies.

    Where every policy has one processor and workers stay on theirs, each worker has a control of its own. A policy of
    several processors is one control of their workers. Where workers wander all policies are one.

    Parameters
    ----------
    policies
        As `tprof.frequency.find_policies` has them.
    cpus
        The processor of each slot; None: wherever the kernel puts them.
    workers, points, transition_s
        Seats; how many frequencies stand for a range; what a change takes at the least.
    clock_ns
        Tells how long a change takes.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        cpus: Sequence[int] | None,
        workers: int,
        *,
        points: int,
        transition_s: float,
        clock_ns: Callable[[], int],
    ) -> None:
        """Find each slot's control."""
        seats = [] if cpus is None else [cpus[slot % len(cpus)] for slot in range(workers)]
        owner = {cpu: place for place, policy in enumerate(policies) for cpu in policy.cpus}
        if seats and all(cpu in owner for cpu in seats):
            used = sorted({owner[cpu] for cpu in seats})
            self._groups: list[tuple[Policy, ...]] = [(policies[place],) for place in used]
            self._of = [used.index(owner[cpu]) for cpu in seats]
        else:
            self._groups = [tuple(policies)]
            self._of = [0] * workers
        self.count = len(self._groups)
        self.frequencies_hz = _frequencies(policies, points)
        self.transition_s = transition_s
        self._least_s, self._clock_ns = transition_s, clock_ns
        self._held: dict[str, Bounds] = {}

    def of(self, slot: int) -> int:
        """Return the control of a worker."""
        return self._of[slot % len(self._of)]

    def cpus(self, control: int) -> tuple[int, ...]:
        """Return the processors of a control."""
        return tuple(sorted(cpu for policy in self._groups[control] for cpu in policy.cpus))

    def nearest_hz(self, control: int, hz: int) -> int:
        """Return what it can be set to that is nearest; of unlike processors that of the fastest."""
        return max(policy.nearest_hz(hz) for policy in self._groups[control])

    def hold(self, control: int, hz: int) -> None:
        """Set it. Raises SensorError."""
        begin_ns = self._clock_ns()
        for policy in self._groups[control]:
            self._hold(policy, policy.nearest_hz(hz))
        lasted_s = max((self._clock_ns() - begin_ns) * 1e-9, self._least_s)
        self.transition_s += SMOOTHING * (lasted_s - self.transition_s)

    def _hold(self, policy: Policy, hz: int) -> None:
        """Write, and read back the first time: nobody else sets the policy while the runtime holds it."""
        known = self._held.get(policy.folder.name)
        if known is None:
            hold(policy, hz)
        else:
            set_bounds(policy.folder, known, Bounds(hz, hz))
            if policy.governor == USERSPACE:
                write(policy.folder / SETSPEED, str(hz // KHZ))
        self._held[policy.folder.name] = Bounds(hz, hz)

    @property
    def range(self) -> str:
        """Log from where to where it goes."""
        return f"{self.frequencies_hz[0] / 1e9:g} to {self.frequencies_hz[-1] / 1e9:g} GHz"

    def covers(self, hz: float) -> bool:
        """Return whether a frequency lies in its range, or nearly."""
        return self.frequencies_hz[0] * (1 - BESIDE) <= hz <= self.frequencies_hz[-1] * (1 + BESIDE)

    def takes(self, hz: int) -> bool:
        """Return whether some control can be set to a frequency, or nearly."""
        nearest_hz = (self.nearest_hz(control, hz) for control in range(self.count))
        return any(abs(one - hz) <= BESIDE * hz for one in nearest_hz)

    def changed_elsewhere(self) -> tuple[int, ...]:
        """Return the controls whose bounds somebody else has changed. Raises SensorError where they cannot be read."""
        changed = []
        for control, group in enumerate(self._groups):
            for policy in group:
                held = self._held.get(policy.folder.name)
                if held is not None and read_bounds(policy) != held:
                    del self._held[policy.folder.name]  # so that the next write goes by what there is
                    changed.append(control)
        return tuple(dict.fromkeys(changed))

    def check(self) -> None:
        """Hold every policy at its highest, and see that it took it. Raises SensorError."""
        for policy in (policy for group in self._groups for policy in group):
            hz = policy.nearest_hz(self.frequencies_hz[-1])
            self._hold(policy, hz)
            taken = read_bounds(policy)
            if taken.highest_hz < taken.lowest_hz or taken.lowest_hz != taken.highest_hz:
                message = (
                    f"{policy.folder} was asked for {hz // KHZ} kHz and is at {taken.lowest_hz // KHZ} to "
                    f"{taken.highest_hz // KHZ} kHz: its driver {policy.driver} does not hold a frequency, so no "
                    "policy can choose one"
                )
                raise SensorError(message)


def _frequencies(policies: Sequence[Policy], points: int) -> tuple[int, ...]:
    """Return what the widest policy can take: all that it lists, or some evenly spread."""
    widest = max(policies, key=lambda policy: policy.range.highest_hz)
    if widest.listed_hz:
        return widest.listed_hz
    low, high = widest.range.lowest_hz, widest.range.highest_hz
    return tuple(round((low + (high - low) * place / (points - 1)) / KHZ) * KHZ for place in range(points))


def spread(frequencies_hz: Sequence[int], points: int) -> tuple[int, ...]:
    """Return so many of them, both ends among these, evenly spread."""
    if len(frequencies_hz) <= points:
        return tuple(frequencies_hz)
    last = len(frequencies_hz) - 1
    return tuple(frequencies_hz[round(last * place / (points - 1))] for place in range(points))
