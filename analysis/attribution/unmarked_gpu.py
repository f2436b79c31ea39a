"""A GPU that the program used without marking what it launched: all that ran shows whose its joules are.

In a quantum they are the only task's that ran in it and in the one before, so a window of a recording needs, besides
its own quanta, the one before them and what ran there. Whatever else is known of a quantum does not depend on samples.
In memory the only window is the whole recording.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .gpu_streams import Claims, only_task
from .gpu_use import GpuSplit, warnings_of
from .windows import Reach

if TYPE_CHECKING:
    from .accounts import Account, GpuTotals
    from .gpu_use import GpuUse
    from .instances import InstanceRows, Joined
    from .quanta import Quanta
    from .segments import JoinedSegments

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ids = NDArray[np.uint64]


@dataclass(frozen=True)
class UnmarkedGpu:
    """A GPU, what its quanta have for this program, and warnings on that; `launchers` are those of `GpuUse`."""

    quanta: Quanta
    split: GpuSplit
    launchers: frozenset[int] | None
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, quanta: Quanta, use: GpuUse, idle_w: float | None) -> UnmarkedGpu:
        """Split the joules of all quanta."""
        return cls(quanta, GpuSplit.of(quanta, use, idle_w), use.launchers, warnings_of(quanta.name, use, idle_w))

    def part(self, own: slice) -> GpuPart:
        """Return a window's own quanta, with the one before them."""
        near = slice(max(own.start - 1, 0), own.stop)
        return GpuPart(
            self.quanta.part(near), self.split.own[near], slice(own.start - near.start, own.stop - near.start),
            near.start, self.launchers,
        )  # fmt: skip

    def settled(self, worked: Mask, tasks_j: float) -> tuple[Account, list[str]]:
        """Return the account and the warnings; `worked` says of which quanta instances took `tasks_j`."""
        account, warnings = self.split.booked(worked).settled(self.quanta, tasks_j, marked=False)
        return account, [*self.warnings, *warnings]


def reach_of_unmarked(quanta: Quanta, begin_ns: int) -> Reach:
    """Return from when to when what ran says whose the joules of quanta are; of the first one, all since `begin_ns`."""
    edges_ns = quanta.edges_ns
    begins_ns = np.concatenate(([min(begin_ns, int(edges_ns[0]))], edges_ns[:-2])) if len(quanta) else edges_ns[:0]
    return Reach(begins_ns, edges_ns[1:])


class GpuShared(NamedTuple):
    """What a window shows of a GPU.

    Attributes
    ----------
    worked : whether its own quanta's joules go to instances
    claims : of all its instances, by numbers of the recording's quanta
    """

    worked: Mask
    claims: Claims


@dataclass(frozen=True)
class GpuPart:
    """A window's quanta of a GPU.

    Attributes
    ----------
    quanta : its own, and the one before them if there is any
    program_j : joules of the program in each
    own : which are its own
    before : how many come before all of these
    launchers : those of `GpuUse`
    """

    quanta: Quanta
    program_j: Floats
    own: slice
    before: int
    launchers: frozenset[int] | None

    def share(self, ran: JoinedSegments, joined: Joined) -> GpuShared:
        """Share the joules of its own quanta among what ran."""
        rows = len(joined.rows)
        if self.own.start == self.own.stop:
            return GpuShared(np.zeros(0, bool), Claims.none(rows))
        work, is_only = only_task(self.quanta.edges_ns, self.launchers, ran, joined)
        worked = (work.worked_s[1:-1] > 0) & is_only
        shared_j = np.zeros(len(worked))
        shared_j[self.own] = np.where(worked, self.program_j, 0.0)[self.own]
        claims = Claims.of(work, shared_j, rows, self.own)
        return GpuShared(worked[self.own], claims.later(self.before))


class OpenClaims:
    """What instances that run on from one window into the next may take of one GPU."""

    def __init__(self, gpu: UnmarkedGpu) -> None:
        """Begin without any."""
        self._gpu = gpu
        self._own_j = gpu.split.own
        self._valid = valid_up_to(gpu.quanta.valid)
        self._total_j = np.zeros(len(gpu.quanta) + 1)
        self._ids: Ids = np.empty(0, np.uint64)
        self._claims = Claims.none(0)
        self.worked = np.zeros(len(gpu.quanta), bool)

    def add(self, own: slice, worked: Mask, ids: Ids, claims: Claims) -> None:
        """Add those of a window; windows come in their order."""
        self.worked[own] = worked
        shared_j = np.where(worked, self._own_j[own], 0.0)
        self._total_j[own.start + 1 : own.stop + 1] = self._total_j[own.start] + np.cumsum(shared_j)
        self._ids, inverse = np.unique(np.concatenate((self._ids, ids)), return_inverse=True)
        self._claims = self._claims.plus(claims, inverse, len(self._ids))

    def take(self, rows: InstanceRows) -> tuple[GpuTotals, Mask]:
        """Return the joules of instances that have ended, and which of them a valid quantum covers."""
        place = np.searchsorted(self._ids, rows.instance)
        known = np.flatnonzero(np.isin(rows.instance, self._ids))
        found = Claims.none(len(rows)).plus(
            self._claims.taken(place[known]), np.concatenate((np.arange(len(rows)), known)), len(rows)
        )
        stays = ~np.isin(self._ids, rows.instance)
        self._ids, self._claims = self._ids[stays], self._claims.taken(stays)
        return found.within(self._total_j), covers(self._gpu.quanta.edges_ns, self._valid, rows)


def valid_up_to(valid: Mask) -> NDArray[np.int64]:
    """Return how many quanta up to each are valid, padded."""
    return np.cumsum(np.concatenate(([False], valid, [False])))


def covers(edges_ns: NDArray[np.int64], valid: NDArray[np.int64], rows: InstanceRows) -> Mask:
    """Return which instances a valid quantum covers, at least in part; `valid` is from `valid_up_to`."""
    first = np.searchsorted(edges_ns, rows.start_ns, side="right")
    last = np.maximum(np.searchsorted(edges_ns, rows.end_ns, side="left"), first)
    return np.asarray(valid[last] > valid[np.maximum(first - 1, 0)])
