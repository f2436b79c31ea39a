"""What would help, by what a profile shows: each remedy names its figures, and is silent where they are small.

A remedy is no promise: it says how many joules it is about, not how many it saves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.quantities import quantity, three_digits

from tprof.trace import Quality
from tprof.trace.plain_values import counted

from .host_figures import cpus_of
from .native_threads import native_costs
from .outside import outside_advice
from .provenance import uncertainty_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from .profile import Profile

NOTABLE = 0.1
"""Part of all joules from which something is worth a sentence."""
LEAST_OUTSIDE = 0.2
LOW_CPU = 0.5
"""Part of its time with a processor, below which a task mostly waits."""
FEW_BUSY = 0.6
"""Part of the processors, below which too few of them have work."""
STARVED = 0.2
LONG_CHAIN = 0.7
UNEVEN = 1.3
"""Work of the busiest thread or host over the mean, from which it is worth evening out."""
WIDE = 0.25
ALL_IN_ONE = 0.7
FEW_INSTANCES = 3
TASKS = 3
ACCOUNTS = ("measured_j", "runtime_j", "other_j", "idle_j")
MPI = "MPI_"


@dataclass(frozen=True)
class Remedy:
    """A sentence on what would help.

    Attributes
    ----------
    kind : outside, idle, other, static, waiting, chain, starved, uneven, native, mpi, budget, wide, split, sensor,
        lost or missing
    text : what the profile shows, and what would help
    energy_j : that it is about; None where it is about no part of them
    """

    kind: str
    text: str
    energy_j: float | None


@dataclass(frozen=True)
class _Seen:
    """A profile with the tables that several remedies need."""

    profile: Profile
    summary: pd.DataFrame
    accounts: dict[str, float]

    @property
    def dropped(self) -> int:
        """How many samples could not be written."""
        return sum((self.profile.info.get("dropped") or {}).values())

    def share(self, joules: float) -> float:
        """Return the part of all joules that some are, 0 where it is not known."""
        whole_j = self.accounts.get("measured_j", math.nan)
        return joules / whole_j if whole_j > 0 and joules > 0 else 0.0

    def amount(self, joules: float) -> str:
        """Return joules and their part of all."""
        return f"{quantity(joules, 'J')} ({100 * self.share(joules):.0f} %)"


def remedies(profile: Profile, summary: pd.DataFrame) -> tuple[Remedy, ...]:
    """Return what would help, the most joules first, then what is about no joules."""
    accounts, rules = profile.counted_accounts, _RULES
    if profile.job is not None:
        sums = profile.hosts.rename(columns={"energy_j": "measured_j"})
        accounts, rules = {name: float(sums[name].sum()) for name in ACCOUNTS}, [_hosts]
    found = [one for rule in (_accounts, *rules) for one in rule(_Seen(profile, summary, accounts))]
    return tuple(sorted(found, key=lambda one: -math.inf if one.energy_j is None else one.energy_j, reverse=True))


def _accounts(seen: _Seen) -> Iterator[Remedy]:
    """What is in no task."""
    outside_j, idle_j, other_j = (seen.accounts.get(name, math.nan) for name in ("runtime_j", "idle_j", "other_j"))
    if seen.share(outside_j) >= LEAST_OUTSIDE and not seen.dropped:
        what, how = outside_advice(seen.profile)
        text = f"{seen.amount(outside_j)} went to the program outside its tasks{what}: {how}."
        yield Remedy("outside", text, outside_j)
    if seen.share(idle_j) >= NOTABLE:
        yield Remedy(
            "idle",
            f"{seen.amount(idle_j)} were drawn while nothing ran: the less the program waits for input, a network "
            "or sleep, the less of it.",
            idle_j,
        )
    if seen.share(other_j) >= NOTABLE:
        where = "this machine" if seen.profile.job is None else "the hosts"
        yield Remedy(
            "other",
            f"{seen.amount(other_j)} went to other programs of {where} and is in no task's figure: stop them to "
            "save that, or to measure without them.",
            other_j,
        )


def _static(seen: _Seen) -> Iterator[Remedy]:
    """Few busy processors, and power that is drawn even when few tasks run."""
    cpus, cpu_s, duration_s = cpus_of(seen.profile.trace), seen.profile.sums.cpu_s, seen.profile.info["duration_s"]
    energy_j, dynamic_j = (float(seen.summary[name].sum()) for name in ("energy_j", "dynamic_j"))
    static_j = energy_j - dynamic_j
    busy = cpu_s / duration_s if min(duration_s, cpu_s) > 0 else math.inf
    if cpus > 1 and seen.share(static_j) >= NOTABLE and busy < FEW_BUSY * cpus:
        yield Remedy(
            "static",
            f"Tasks kept {three_digits(busy)} of {cpus} processors busy on average, and {quantity(static_j, 'J')} "
            f"({100 * static_j / energy_j:.0f} % of their energy) is static power, drawn even when few tasks run: "
            "more parallelism shortens the run and saves part of it.",
            static_j,
        )


def _waiting(seen: _Seen) -> Iterator[Remedy]:
    """Tasks that mostly wait inside, and not for threads of a native library."""
    sums = seen.profile.sums
    held = ""
    if seen.share(seen.accounts.get("other_j", math.nan)) >= NOTABLE:
        held = ", or a processor that other programs held"
    for name, joules in seen.summary["energy_j"].head(TASKS).items():
        at = sums.names.index(str(name))
        own_s, with_s, native_s = (sums.columns[column][at] for column in ("cpu_own_s", "cpu_s", "cpu_native_s"))
        if with_s < LOW_CPU * own_s and native_s <= NOTABLE * own_s and seen.share(joules) > NOTABLE:
            yield Remedy(
                "waiting",
                f"{name} had a processor for only {100 * with_s / own_s:.0f} % of its own time and waited for the rest "
                f"(input and output, locks, other threads and processes{held}): what it waits for is where it can end "
                "sooner.",
                float(joules),
            )


def _runtime(seen: _Seen) -> Iterator[Remedy]:
    facts = seen.profile.runtime
    if facts is None or not facts["served_s"] > 0:
        return
    starved, chain = facts["starved_s"] / facts["served_s"], float(facts["share"] or 0.0)
    if chain >= LONG_CHAIN:
        yield Remedy(
            "chain",
            f"The longest chain of dependences takes {100 * chain:.0f} % of the run: more workers cannot end it much "
            "sooner, a shorter chain or faster tasks on it can (section Runtime).",
            float(facts["path_j"]) if math.isfinite(facts["path_j"]) else None,
        )
    elif starved >= STARVED:
        yield Remedy(
            "starved",
            f"{counted(int(facts['workers']), 'worker')} had nothing ready for {100 * starved:.0f} % of their time, "
            f"though the longest chain takes only {100 * chain:.0f} % of the run: more and smaller "
            "tasks that are spawned earlier would keep them busy, or fewer workers do.",
            None,
        )


def _uneven(seen: _Seen) -> Iterator[Remedy]:
    """One thread that works much longer than the others, and for most of the run."""
    by, duration_s = seen.profile.sums.by_thread, float(seen.profile.info["duration_s"])
    if seen.profile.runtime is not None or not duration_s > 0 or by is None or by.empty:
        return
    most_s = by.max()
    busy = by[by > 0.01 * most_s]
    if len(busy) > 1 and most_s >= UNEVEN * busy.mean() and most_s > LOW_CPU * duration_s:
        _, _, name = by.index[int(by.argmax())]
        yield Remedy(
            "uneven",
            f"The busiest of {len(busy)} threads ({name}) worked {three_digits(float(most_s / busy.mean()))} times "
            "as long in tasks as their mean: evening out their work would end the run sooner.",
            None,
        )


def _native(seen: _Seen) -> Iterator[Remedy]:
    for joules, text in native_costs(seen.profile.info.get("native"), seen.accounts.get("measured_j", math.nan)):
        yield Remedy("native", f"{text[0].upper()}{text[1:]}.", joules)


def _mpi(seen: _Seen) -> Iterator[Remedy]:
    calls = seen.summary[seen.summary.index.astype(str).str.startswith(MPI)]
    joules = float(calls["energy_j"].sum())
    if seen.share(joules) >= NOTABLE:
        yield Remedy(
            "mpi",
            f"{seen.amount(joules)} went to calls of MPI, in which ranks wait for each other and move data: "
            "tprof summary --by rank shows which rank works longest.",
            joules,
        )


def _budget(seen: _Seen) -> Iterator[Remedy]:
    if "over_budget" not in seen.summary:
        return
    for name, row in seen.summary[seen.summary["over_budget"] > 0].iterrows():
        yield Remedy(
            "budget",
            f"{int(row['over_budget']):,} of {counted(int(row['instances']), 'instance')} of {name} took more "
            f"than their budget of {quantity(float(row['budget_j']), 'J')}.",
            None,
        )


def _split(seen: _Seen) -> Iterator[Remedy]:
    known = seen.summary[seen.summary["share"].notna()]
    if known.empty:
        return
    first = known.iloc[0]
    if first["share"] >= ALL_IN_ONE and first["instances"] <= FEW_INSTANCES:
        count = int(first["instances"])
        yield Remedy(
            "split",
            f"{100 * first['share']:.0f} % of the tasks' energy is in {first.name}, which ran "
            f"{'once' if count == 1 else f'{count:,} times'}: {_where(seen.profile, str(first.name))}",
            float(first["energy_j"]),
        )


def _where(profile: Profile, task: str) -> str:
    """Return how to see where inside a task the joules went: by its sampled stacks, or by further tasks."""
    if not profile.has_stacks:
        return "tasks inside it (with tprof.region, or tprof run --task) show where."
    dearest = _dearest_function(profile, task)
    most = "" if dearest is None else f"; {dearest}"
    return f"the flame graph of tprof report shows where{most}."


def _dearest_function(profile: Profile, task: str) -> str | None:
    """Return the sampled function below a task that takes most joules itself, with these; None if there is none."""
    nodes = profile.flame().nodes
    inside = ((nodes["kind"] == "task") & (nodes["name"] == task)).tolist()
    for row, parent in enumerate(nodes["parent"].tolist()):
        inside[row] |= parent >= 0 and inside[parent]
    functions = nodes[np.array(inside) & nodes["kind"].isin(["function", "task"]) & ~nodes["name"].str.startswith("(")]
    own_j = functions.groupby(["name", "place"])["own_j"].sum()
    if not own_j.max() > 0:
        return None
    name, place = own_j.index[int(own_j.to_numpy().argmax())]
    who = f"of its functions {name} ({place})" if place else f"{name}, without what it calls,"
    return f"{who} takes most itself, {quantity(float(own_j.max()), 'J')}"


def _wide(seen: _Seen) -> Iterator[Remedy]:
    """An interval that is wide by itself, not by the common error of assumed watts."""
    exact = seen.profile.summary(common=False)
    if exact.empty:
        return
    first = exact.iloc[0]
    middle, low, high = (float(first[f"energy_mean{end}_j"]) for end in ("", "_low", "_high"))
    if first["resolved"] and middle > 0 and (high - low) / 2 > WIDE * middle:
        count = int(first["instances"])
        the = "The" if seen.profile.watts.is_none else "Apart from the error of the watts, the"
        yield Remedy(
            "wide",
            f"{the} interval of {first.name} is wide (± {50 * (high - low) / middle:.0f} %) after "
            f"{counted(count, 'instance')}: {narrowing(count)}.",
            None,
        )


def narrowing(instances: int) -> str:
    """Return what narrows the interval of a task: what ran a few times ends before a run that only takes longer."""
    return "more instances or runs narrow it" if instances <= FEW_INSTANCES else "a longer run narrows it"


def _sensor(seen: _Seen) -> Iterator[Remedy]:
    if seen.profile.info["quality"] == Quality.ESTIMATED:
        text = uncertainty_text(seen.profile.info)
        text = text or "these joules are estimated, not measured: shares and the order of tasks are surer than joules"
        yield Remedy(
            "sensor",
            f"{text[0].upper()}{text[1:]}. tprof doctor says whether a sensor can be read on this machine, and gives "
            "the command that grants it; --watts IDLE,PER_CORE gives yours.",
            None,
        )


def _lost(seen: _Seen) -> Iterator[Remedy]:
    if seen.dropped:
        joules = seen.accounts.get("runtime_j", math.nan)
        there = f": it is in the {seen.amount(joules)} of `runtime`" if seen.share(joules) > 0 else ""
        yield Remedy(
            "lost",
            f"{counted(seen.dropped, 'sample')} could not be written, so the figures of tasks lack a part of "
            f"what ran{there}.",
            seen.accounts.get("runtime_j"),
        )


def _hosts(seen: _Seen) -> Iterator[Remedy]:
    """What can be said of the hosts of a job."""
    profile = seen.profile
    hosts = profile.hosts[profile.hosts["energy_j"].notna()]
    uneven = hosts["imbalance"].dropna()
    if len(uneven) > 1 and uneven.max() >= UNEVEN - 1:
        yield Remedy(
            "uneven",
            f"{uneven.idxmax()} worked {100 * uneven.max():.0f} % longer in tasks than the mean of the {len(uneven)} "
            "hosts: evening out the work would end the job sooner.",
            None,
        )
    if profile.info["missing"]:
        count = len(profile.info["missing"])
        yield Remedy(
            "missing",
            f"{count} of {counted(len(profile.hosts), 'host')} gave no figures or not all: the sums lack them.",
            None,
        )
    if estimated := int((hosts["quality"] == Quality.ESTIMATED).sum()):
        yield Remedy(
            "sensor",
            f"The joules of {estimated} of {counted(len(hosts), 'host')} are estimated, so shares and the order of "
            "tasks are surer than joules: tprof doctor, run there, says whether a sensor can be read and gives the "
            "command that grants it.",
            None,
        )


_RULES = [_static, _waiting, _runtime, _uneven, _native, _mpi, _budget, _split, _wide, _sensor, _lost]
