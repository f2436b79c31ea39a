"""A session that has ended: all its inputs are known, so its figures are those of the profile."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tprof.analysis.attribution.idle_power import idle_powers
from tprof.analysis.attribution.natives.pools import BY_CPU_TIME
from tprof.analysis.attribution.quanta import build_quanta
from tprof.analysis.attribution.segments import find_cut_off, thread_end_ns
from tprof.analysis.attribution.sharing import static_watts
from tprof.analysis.attribution.survey import survey
from tprof.trace import load_session
from tprof.trace.metric_names import ACCOUNTS
from tprof.trace.reader import load_samples
from tprof.trace.tasks import TaskTable

from .blocks import FollowedThread
from .energy import Energy, TaskEnergy
from .readings import Readings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tprof.analysis import Profile
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.trace import Trace

    from .quanta import GrowingQuanta


@dataclass(frozen=True)
class EndedFigures:
    """The figures of a session, from its profile by the model `cputime`.

    Attributes
    ----------
    energy : where the joules went
    by_domain : the joules of each account, in the order of `ACCOUNTS`, by domain
    static_w : static power that the manifest gives, by domain
    table, readings : tasks and domains
    start_ns, end_ns : of the recorded block
    thread_count : threads with samples
    """

    energy: Energy
    by_domain: dict[str, tuple[float, ...]]
    static_w: dict[str, float]
    table: TaskTable
    readings: Readings
    start_ns: int
    end_ns: int
    thread_count: int

    @classmethod
    def of(cls, session: Path) -> EndedFigures:
        """Read the session. Raises TraceError."""
        trace = load_session(session)
        profile = trace.profile("cputime", tables=False)
        columns = profile.sums.columns
        tasks = {
            name: TaskEnergy(float(energy_j), int(count))
            for name, energy_j, count in zip(profile.sums.names, columns["energy_j"], columns["instances"], strict=True)
            if count
        }
        accounts = profile.counted_accounts if profile.info["quality"] != "none" else {}
        parts_j = {f"{name}_j": accounts.get(f"{name}_j", math.nan) for name in ("tasks", "runtime", "other", "idle")}
        native_j = (accounts.get(name, math.nan) for name in ("spin_j", "unidentified_j"))
        until_s = (trace.end_ns - trace.start_ns) * 1e-9
        energy = Energy(
            tasks, **parts_j, measured_j=accounts.get("measured_j", math.nan), quality=profile.info["quality"],
            until_s=until_s, **dict(zip(("spin_j", "unidentified_j"), native_j, strict=True)),
        )  # fmt: skip
        table = trace.threads[0].table if trace.threads else TaskTable()
        there = {one.name for one in profile.quanta if one.counted and len(one)}
        parts = profile.accounts[list(_COLUMNS)].to_numpy(float).tolist()
        names = map(str, profile.accounts.index)
        by_domain = {name: tuple(values) for name, values in zip(names, parts, strict=True) if name in there}
        static_w = static_watts(trace.manifest)
        count = sum(one.count > 0 for one in trace.threads)
        return cls(energy, by_domain, static_w, table, _Domains(profile), trace.start_ns, trace.end_ns, count)

    def energy_j(self, tasks: frozenset[str] | None) -> float:
        """Return the joules of tasks with these names; None: of the program, whatever it ran."""
        if tasks is None:
            return self.energy.measured_j - self.energy.other_j - self.energy.idle_j
        return sum(one.energy_j for name, one in self.energy.tasks.items() if name in tasks)


_COLUMNS = ("tasks_j", "runtime_j", "other_j", "idle_j", "spin_j", "unidentified_j")
"""Of a profile's accounts, in the order of `ACCOUNTS`."""
assert len(_COLUMNS) == len(ACCOUNTS)  # noqa: S101 - both are constants


class _EndedReadings(Readings):
    """The readings of a session that has ended."""

    def _add(self, whole: Quanta, quanta: Quanta, static_w: Mapping[str, float]) -> GrowingQuanta:
        """Return a new domain without quanta, of which `quanta` of `whole` lie in the block; there are some."""
        if quanta.counted:
            domain = self._enter(quanta.name, quanta.quality, quanta.package, static_w, scope=quanta.scope)
        else:
            domain = self._show(quanta.name, quanta.quality, quanta.package)
        lead_in = whole.between(int(whole.edges_ns[0]), int(quanta.edges_ns[0]))[0]
        domain.lead_in_j = domain.known_j = float(lead_in.energy_j.sum())
        return domain


class _Domains(_EndedReadings):
    """The domains of a profile, with the sums of their joules."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile.host_instances.stream.found.hidden)
        for quanta, whole in zip(profile.recipe.quanta, profile.recipe.whole, strict=True):
            self._add_package(quanta.package)
            if len(quanta):
                domain = self._add(whole, quanta, {})
                domain.append(quanta.edges_ns[[0, -1]], np.array([quanta.energy_j.sum()]))


class FinalReadings(_EndedReadings):
    """The readings of a session whose samples are followed block after block, though it has ended.

    Attributes
    ----------
    trace : the session
    """

    def __init__(self, session: Path) -> None:
        """Read them. Raises TraceError."""
        self.trace = trace = load_samples(session)
        energies = [one for one in trace.readings.values() if one.quantity == "energy"]
        wholes = [build_quanta(reading) for reading in sorted(energies, key=lambda one: one.name)]
        packages = tuple(sorted({one.package for one in wholes if one.package is not None}))
        super().__init__(survey(trace, BY_CPU_TIME, packages).hidden)
        idle = idle_powers(wholes, trace)
        static_w = static_watts(trace.manifest) | {name: one.watts for name, one in idle.items()}
        for whole in wholes:
            self._add_package(whole.package)
            quanta = whole.between(trace.start_ns, trace.end_ns)[0]
            if len(quanta):
                self._add(whole, quanta, static_w).append(quanta.edges_ns, quanta.energy_j)

    @property
    def last_ns(self) -> int | None:
        """When the last quantum of any domain ended: no more will come."""
        return max((domain.last_ns for domain in self.domains if domain.last_ns is not None), default=None)


def followed(trace: Trace) -> list[FollowedThread]:
    """Return the threads, from their first samples on. Raises TraceError."""
    cut_off = find_cut_off(trace)
    return [
        FollowedThread(
            thread,
            end_ns=thread_end_ns(trace, thread),
            cut_off_s=cut_off[thread.ordinal].cpu_s if thread.ordinal in cut_off else math.inf,
        )
        for thread in trace.threads
    ]
