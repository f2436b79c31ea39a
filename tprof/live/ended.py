"""A session that has ended: all its inputs are known, so its figures are those of the profile."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tprof.analysis.attribution.hidden import HiddenSoFar
from tprof.analysis.attribution.idle_power import idle_powers
from tprof.analysis.attribution.natives.pools import BY_CPU_TIME
from tprof.analysis.attribution.quanta import GPU, build_quanta
from tprof.analysis.attribution.segments import find_cut_off, thread_end_ns
from tprof.analysis.attribution.sharing import static_watts
from tprof.analysis.attribution.survey import survey
from tprof.analysis.names import shown
from tprof.trace import load_session
from tprof.trace.reader import load_samples

from .domains import Domain, Domains
from .sharing import Accounts
from .threads import FollowedThread, LiveThreads

if TYPE_CHECKING:
    from pathlib import Path

    from tprof.analysis.attribution.quanta import Quanta
    from tprof.trace import Trace


@dataclass(frozen=True)
class Ended:
    """What is known of a session.

    Attributes
    ----------
    threads, domains : its threads, of which those are followed that are to be, and its domains
    start_ns, end_ns : of the recorded block
    accounts, quality : the joules so far, and their quality; None: that of the domains
    """

    threads: LiveThreads
    domains: Domains
    start_ns: int
    end_ns: int
    accounts: Accounts
    quality: str | None = None

    @classmethod
    def of(cls, session: Path, trace: Trace, domains: Domains) -> Ended:
        """Begin without joules."""
        threads = LiveThreads(session, trace.manifest, table=trace.threads[0].table if trace.threads else None)
        return cls(threads, domains, trace.start_ns, trace.end_ns, Accounts())


def profiled(session: Path) -> Ended:
    """Return the figures of the profile by the model `cputime`. Raises TraceError."""
    trace = load_session(session)
    profile = trace.profile("cputime", tables=False)
    domains = Domains(HiddenSoFar())
    found = replace(Ended.of(session, trace, domains), quality=profile.info["quality"])
    for quanta in profile.recipe.quanta:
        if len(quanta):
            _enter(domains, quanta).append(quanta.edges_ns[[0, -1]], np.array([quanta.energy_j.sum()]))
    columns = ["tasks_j", "runtime_j", "other_j", "idle_j", "spin_j", "unidentified_j"]
    parts_j = profile.accounts.loc[[one.name for one in domains.shown if one.counted], columns].astype(float)
    known_j = parts_j.dropna()
    for name, values in (known_j if len(known_j) else parts_j).iterrows():
        found.accounts.add(str(name), values.to_numpy())
    entries = found.threads.tasks.table.entries
    places = {shown(entry.name): index for index, entry in reversed(list(enumerate(entries)))}
    sums = pd.DataFrame(profile.sums.columns, index=profile.sums.names).fillna({"energy_j": 0.0})
    sums = sums[sums["instances"] > 0]
    tasks = np.array([places[name] for name in sums.index], np.int64)
    found.accounts.add_tasks(tasks, sums["energy_j"].to_numpy(), sums["instances"].to_numpy())
    found.threads.count = sum(one.count > 0 for one in trace.threads)
    return found


def followed(session: Path) -> Ended:
    """Return what is needed to follow the samples block after block. Raises TraceError."""
    trace = load_samples(session)
    energies = [one for one in trace.readings.values() if one.quantity == "energy"]
    wholes = [build_quanta(reading) for reading in sorted(energies, key=lambda one: one.name)]
    packages = tuple(sorted({one.package for one in wholes if one.package is not None}))
    domains = Domains(survey(trace, BY_CPU_TIME, packages).hidden)
    static_w = static_watts(trace.manifest) | {name: one.watts for name, one in idle_powers(wholes, trace).items()}
    for whole in wholes:
        domains.add_package(whole.package)
        quanta = whole.between(trace.start_ns, trace.end_ns)[0]
        if len(quanta):
            _enter(domains, quanta, static_w.get(quanta.name, 0.0)).append(quanta.edges_ns, quanta.energy_j)
    found, cut_off = Ended.of(session, trace, domains), find_cut_off(trace)
    for thread in trace.threads:
        guess = cut_off.get(thread.ordinal)
        cut_off_s = math.inf if guess is None else guess.cpu_s
        found.threads.add(FollowedThread(thread, end_ns=thread_end_ns(trace, thread), cut_off_s=cut_off_s))
    return found


def _enter(domains: Domains, quanta: Quanta, static_w: float = 0.0) -> Domain:
    return domains.enter(
        Domain(quanta.name, quanta.quality, quanta.package, quanta.counted, quanta.scope == GPU, static_w)
    )
