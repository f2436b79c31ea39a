"""The controls of the frequency: which one sets each worker's core, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tprof.errors import SensorError
from tprof.frequency.cpufreq import KHZ, SETSPEED, USERSPACE, Bounds, hold, read_bounds, set_bounds, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tprof.frequency import Policy

SMOOTHING = 0.1
TOLERANCE = 0.02
"""Frequencies with a smaller relative difference are the same: drivers and tables round."""


class Controls(Protocol):
    """The controls that a policy needs.

    Attributes
    ----------
    frequencies_hz : those available, or some of those in a range, ascending.
    count : number of controls.
    transition_s : duration of a change.
    """

    frequencies_hz: tuple[int, ...]
    count: int
    transition_s: float

    def of(self, slot: int) -> int:
        """Return the control of a worker."""

    def cpus(self, control: int) -> tuple[int, ...]:
        """Return the processors of a control."""

    def nearest_hz(self, control: int, hz: int) -> int:
        """Return the nearest frequency that the control accepts."""

    def hold(self, control: int, hz: int) -> None:
        """Set the frequency."""

    def changed_elsewhere(self) -> tuple[int, ...]:
        """Return the controls that another program has set."""


class Cpufreq:
    """The kernel's cpufreq policies.

    Each policy is one control of the workers on its processors, so a policy of one processor is one worker's own. If
    workers are not pinned, all policies are one control.

    Parameters
    ----------
    policies
        From `tprof.frequency.find_policies`.
    cpus
        The processor of each slot; None: workers are not pinned.
    workers, points, transition_s
        Number of slots; number of frequencies that represent a range; least duration of a change.
    clock_ns
        Measures how long a change takes.
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
        slot_cpus = [] if cpus is None else [cpus[slot % len(cpus)] for slot in range(workers)]
        owner = {cpu: place for place, policy in enumerate(policies) for cpu in policy.cpus}
        if slot_cpus and all(cpu in owner for cpu in slot_cpus):
            used = sorted({owner[cpu] for cpu in slot_cpus})
            self._groups: list[tuple[Policy, ...]] = [(policies[place],) for place in used]
            self._of = [used.index(owner[cpu]) for cpu in slot_cpus]
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
        """Return the nearest frequency that the control accepts; of different processors that of the fastest."""
        return max(policy.nearest_hz(hz) for policy in self._groups[control])

    def hold(self, control: int, hz: int) -> None:
        """Set the frequency. Raises SensorError."""
        begin_ns = self._clock_ns()
        for policy in self._groups[control]:
            self._hold(policy, policy.nearest_hz(hz))
        lasted_s = max((self._clock_ns() - begin_ns) * 1e-9, self._least_s)
        self.transition_s += SMOOTHING * (lasted_s - self.transition_s)

    def _hold(self, policy: Policy, hz: int) -> None:
        """Write, and read back the first time only, since no other program should set the policy meanwhile."""
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
        """The range of frequencies, as text."""
        return f"{self.frequencies_hz[0] / 1e9:g} to {self.frequencies_hz[-1] / 1e9:g} GHz"

    def covers(self, hz: float) -> bool:
        """Return whether a frequency lies in the range, within the tolerance."""
        return self.frequencies_hz[0] * (1 - TOLERANCE) <= hz <= self.frequencies_hz[-1] * (1 + TOLERANCE)

    def takes(self, hz: int) -> bool:
        """Return whether some control accepts a frequency, within the tolerance."""
        nearest_hz = (self.nearest_hz(control, hz) for control in range(self.count))
        return any(abs(one - hz) <= TOLERANCE * hz for one in nearest_hz)

    def changed_elsewhere(self) -> tuple[int, ...]:
        """Return the controls whose bounds another program has changed. Raises SensorError if they cannot be read."""
        changed = []
        for control, group in enumerate(self._groups):
            for policy in group:
                held = self._held.get(policy.folder.name)
                if held is not None and read_bounds(policy) != held:
                    del self._held[policy.folder.name]  # the next write has to begin with the present bounds
                    changed.append(control)
        return tuple(dict.fromkeys(changed))

    def check(self) -> None:
        """Set every policy to its highest frequency and check that it took effect. Raises SensorError if not."""
        for policy in (policy for group in self._groups for policy in group):
            hz = policy.nearest_hz(self.frequencies_hz[-1])
            self._hold(policy, hz)
            taken = read_bounds(policy)
            if taken.highest_hz < taken.lowest_hz or taken.lowest_hz != taken.highest_hz:
                raise SensorError(
                    f"{policy.folder} was asked for {hz // KHZ} kHz and is at {taken.lowest_hz // KHZ} to "
                    f"{taken.highest_hz // KHZ} kHz: its driver {policy.driver} does not hold a frequency, so no "
                    "policy can choose one"
                )


def _frequencies(policies: Sequence[Policy], points: int) -> tuple[int, ...]:
    """Return the frequencies of the fastest policy: all that it lists, or some evenly spread."""
    widest = max(policies, key=lambda policy: policy.range.highest_hz)
    if widest.listed_hz:
        return widest.listed_hz
    low, high = widest.range.lowest_hz, widest.range.highest_hz
    return tuple(round((low + (high - low) * place / (points - 1)) / KHZ) * KHZ for place in range(points))


def spread(frequencies_hz: Sequence[int], points: int) -> tuple[int, ...]:
    """Return at most `points` of the frequencies, evenly spread, both ends included."""
    if len(frequencies_hz) <= points:
        return tuple(frequencies_hz)
    last = len(frequencies_hz) - 1
    return tuple(frequencies_hz[round(last * place / (points - 1))] for place in range(points))
