"""Who uses a native thread: known from outside, never from a regression of its CPU time on the tasks.

In this order:

1. Calls that give work to the pools of OpenBLAS and OpenMP were noted: whoever is inside a call is the user. This
   counts unless the pool works without a call, so that some were not seen.
2. libgomp has a pool for each calling thread, and a thread that lives shortly serves who created it: their users are
   whatever runs on the creating thread.
3. Other threads are pools, by library, name and creator. The moments at which a pool that was idle becomes busy show
   its users: the caller runs at such an onset. Onsets are pooled over the session. Tasks are the users if nearly no
   onset can be another's. Without enough onsets each task can be a user, and whichever runs alone is.
4. A pool that is as busy while no task runs as while one does is nobody's: its time stays with the program.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .calls import MOST_UNEXPLAINED, Explained, Reach, ThreadsCalls
from .clocks import (
    CALLER_COMPUTES,
    INHERITED,
    Member,
    is_of,
    is_python,
    members_of,
    spins_ns,
)
from .cuts import Rules, Usage
from .onsets import Onsets
from .passes import Block, CallRuns, Facts, PoolPass, TaskRuns

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from tprof.analysis.attribution.segments import Model

    from tprof.trace import PoolCalls
    from tprof.trace.native import NativeThread

    Search = Generator[PoolPass, None, "FoundPool | None"]

SELDOM_RESTS = 0.05
"""Part of its life that a pool rests which is busy throughout."""
INDEPENDENT = 0.5
"""Part of the CPU time per second beside tasks that a pool of nobody takes without them."""
LEAST_ALONE_S, LEAST_ALONE, LEAST_BEGINS = 0.05, 0.05, 3
"""Seconds without tasks, as a part of all too, and how often a pool begins to work in them, before that is judged."""


@dataclass(frozen=True)
class FoundPool:
    """A pool that tasks use, whose segments follow from those of threads with samples.

    Attributes
    ----------
    name : the library's file name or, if that is not known, the threads' name
    process : pid
    threads : how many
    users : indices of the tasks that can be users
    basis : how they are known: "calls", "creator", "alone" (the only task that ran at a time), "onsets" or "unknown"
    spins_ns : how long its threads may spin after a call
    python : its threads if Python started them: stacks of theirs can be sampled
    cut : how it is cut, and sums over all its segments
    """

    name: str
    process: int
    threads: int
    users: tuple[int, ...]
    basis: str
    spins_ns: int
    python: tuple[Reach, ...]
    cut: PoolPass


@dataclass(frozen=True)
class Recorded:
    """What pools are found from.

    Attributes
    ----------
    threads, calls : native threads, and the calls with which others gave them work
    settings : variables of the program that say how pools wait
    start_ns : threads that are older were not seen being created
    model : power model, for threads that have the counters that it needs
    sampled : threads with samples
    ran : returns whether one of these, by its index, ran an instance between two times
    facts : further ones
    counted : of a recording that runs, the onsets of each pool before this part, to which those of the time within
        which pools count are added; None: all of the recording is here
    """

    threads: Sequence[NativeThread]
    calls: Sequence[PoolCalls]
    settings: Mapping[str, str]
    start_ns: int
    model: Model
    sampled: Sequence[Reach]
    ran: Callable[[int, int, int], bool]
    facts: Facts
    counted: dict[tuple[object, ...], Onsets] | None = None


def find_pools(recorded: Recorded, blocks: Callable[[], Iterable[Block]]) -> list[FoundPool]:
    """Return the pools that tasks use; `blocks` returns the parts of the recording, as often as is asked.

    Raises TraceError.
    """
    groups: dict[tuple[object, ...], list[Member]] = {}
    who = recorded.sampled, recorded.ran
    for member in members_of(recorded.threads, *who, recorded.start_ns, recorded.model):
        groups.setdefault(member.key, []).append(member)
    calls = {(one.pid, one.library): one for one in recorded.calls if one.complete}
    searches = [_PoolSearch(members, recorded, calls).run() for members in groups.values()]
    found = _advance(searches, blocks)
    return [pool for pool in found if pool is not None]


def _advance(searches: Sequence[Search], blocks: Callable[[], Iterable[Block]]) -> list[FoundPool | None]:
    """Make the passes that searches ask for, those of all at the same time."""
    found: list[FoundPool | None] = [None] * len(searches)
    left = list(range(len(searches)))
    while True:
        asked: dict[int, PoolPass] = {}
        for place in left:
            try:
                asked[place] = next(searches[place])
            except StopIteration as end:
                found[place] = end.value
        if not asked:
            return found
        for block in blocks():
            for one in asked.values():
                one.add(block)
        left = list(asked)


def settings_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a program that say how pools wait."""
    given = manifest.get("pool_settings")
    return {str(name): str(value) for name, value in given.items()} if isinstance(given, dict) else {}


class _PoolSearch:
    """Finds who uses the threads of one pool."""

    def __init__(
        self,
        members: Sequence[Member],
        recorded: Recorded,
        calls: Mapping[tuple[int, str], PoolCalls],
    ) -> None:
        self._members, self._recorded = members, recorded
        self._one, self._creator, self._key = members[0].thread, members[0].creator, members[0].key
        self._how = self._key[0]
        self._library, self._clocks = members[0].library, [member.clock for member in members]
        self._usage = Usage.of(self._clocks)
        self._spins_ns = spins_ns(self._library, recorded.settings)
        self._calls = calls.get((self._one.pid, self._one.library))

    def run(self) -> Search:
        """Ask for passes over the recording, and return the pool; None if no task uses it."""
        known = None if self._calls is None else (yield from self._by_calls(self._calls))
        return known if known is not None else (yield from self._by_tasks())

    def _by_calls(self, calls: PoolCalls) -> Search:
        """Return a pool whose users its library's calls show; None if these do not explain when it worked."""
        recorded, is_pool = self._recorded, self._how == "pool"
        only = self._one.creator_task if self._how == "created" else None
        since_ns, default_spins_ns = calls.since_ns, spins_ns(self._library, {}) if "openblas" in self._library else 0
        births: list[tuple[int, int]] = []
        if is_pool:  # its threads may spin from the first, also if they were created by what runs no task
            born = [(member.creator, member.thread.created_ns) for member in self._members]
            since_ns = max([since_ns, *(at_ns + default_spins_ns for _, at_ns in born if at_ns)])
            births = [(index, at_ns) for index, at_ns in born if index is not None and at_ns]
        caller = None if is_pool or self._creator is None else self._creator
        source = CallRuns(ThreadsCalls.of(calls, recorded.sampled), caller, only, births)
        rules, explained = Rules(self._spins_ns, calls_known=True), Explained(since_ns, default_spins_ns)
        cut = PoolPass(self._usage, source, rules, recorded.facts, explained=explained)
        yield cut
        if not cut.is_called or cut.finish().whole.missing_s > MOST_UNEXPLAINED * cut.whole.cpu_s:
            return None
        return self._found(cut.tasks, "calls", cut)

    def _by_tasks(self) -> Search:
        """Return a pool whose users are among the tasks that run; None if it is nobody's."""
        one, how = self._one, self._how
        if is_python(one) and one.creator_task is None:
            return None
        callers = [self._creator]
        if how == "pool" or self._creator is None:
            callers = [index for index, thread in enumerate(self._recorded.sampled) if thread.pid == one.pid]
        computes = how == "pool" and is_of(self._library, CALLER_COMPUTES)
        source = TaskRuns(
            [at for at in callers if at is not None], computes, one.creator_task if how == "created" else None
        )
        rules = Rules(self._spins_ns)
        onsets = self._onsets(rules.rest_ns)
        first_rules = replace(rules, unsure=self._recorded.counted is not None)
        cut = PoolPass(self._usage, source, first_rules, self._recorded.facts, onsets)
        yield cut
        if not cut.tasks:
            return None
        cut.finish()
        if how == "pool" and _is_independent(cut):
            return None
        basis = "creator" if how != "pool" else "unknown" if cut.whole.is_unidentified else "alone"
        possible = np.array(sorted(cut.tasks), np.int64)
        learnt = onsets.learnt() if len(possible) > 1 else None
        given = {member.thread.creator_task for member in self._members} - {None}
        users = np.array(sorted(task for task in given if task is not None), np.int64)
        if learnt is None and how == "pool" and given and not self._spins_ns and _never_rests(cut):
            # It may be work of its creator's that goes on beside the other tasks.
            basis, cut = "unknown", (yield from self._cut_by(replace(source, users=users), Rules()))
        if learnt is not None:
            users = np.union1d(learnt.users, users).astype(np.int64)
            possible, basis = np.union1d(users, learnt.doubtful), "onsets" if how == "pool" else "creator"
            cut = yield from self._cut_by(replace(source, possible=possible, users=users), rules)
        return self._found(possible.tolist(), basis, cut)

    def _onsets(self, rest_ns: int) -> Onsets:
        """Begin to count the pool's onsets, or go on with it."""
        counted, own_ns = self._recorded.counted, self._recorded.facts.within_ns
        if counted is None or own_ns is None:
            return Onsets(self._usage, self._clocks, rest_ns)
        found = Onsets(self._usage, self._clocks, rest_ns, counted.get(self._key), own_ns)
        counted[self._key] = found
        return found

    def _cut_by(self, source: TaskRuns, rules: Rules) -> Generator[PoolPass, None, PoolPass]:
        cut = PoolPass(self._usage, source, rules, self._recorded.facts)
        yield cut
        return cut.finish()

    def _found(self, users: Iterable[int], basis: str, cut: PoolPass) -> FoundPool:
        one = self._one
        name = one.library.rsplit("/", 1)[-1] or ("" if INHERITED.match(one.name) else one.name)
        python = tuple(member.reach for member in self._members if is_python(one))
        return FoundPool(name, one.pid, len(self._members), tuple(sorted(users)), basis, self._spins_ns, python, cut)


def _never_rests(cut: PoolPass) -> bool:
    """Return whether a pool is busy throughout, so that nothing shows who calls it."""
    return cut.whole.low_s < SELDOM_RESTS * cut.whole.length_s


def _is_independent(cut: PoolPass) -> bool:
    """Return whether a pool is about as busy while no task runs as while one does."""
    (outside_s, outside_cpu_s), (on_s, on_cpu_s) = cut.whole.outside.tolist(), cut.whole.on.tolist()
    if outside_s < max(LEAST_ALONE_S, LEAST_ALONE * (outside_s + on_s)) or cut.whole.begins < LEAST_BEGINS:
        return False
    return bool(outside_cpu_s / outside_s > INDEPENDENT * on_cpu_s / max(on_s, 1e-9))
