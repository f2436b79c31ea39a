"""Before the first run: what can be set, the folder, and the plan, drawn anew or gone on with."""

from __future__ import annotations

import os
import random
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof.errors import SensorError
from tprof.frequency import Policy, find_policies, refusal
from tprof.sensors.choose import sysroot

from . import folder
from .earlier import earlier
from .frequencies import clamped, shown, visited
from .identity import identity_of
from .plan import Plan
from .plan_file import save_plan
from .run import Sweep

if TYPE_CHECKING:
    from .order import Order

SEEDS = 1 << 32


@dataclass(frozen=True)
class Reach:
    """What can be held at which frequencies; where none can be set, why."""

    policies: tuple[Policy, ...] = ()
    frequencies_hz: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()
    refused: str | None = None


def prepare(order: Order) -> Sweep:
    """Find out what can be swept, draw the plan or take up the one that the folder holds, and save it.

    The folder is held from here on, until the sweep has run or this process ends.

    Raises
    ------
    UsageError
        If what is asked for cannot be done, or the folder holds another sweep.
    SensorError
        If frequencies were asked for and cannot be set.
    """
    order.check()
    reach = _reach(order)
    plan = Plan.drawn(
        order.what, reach.frequencies_hz, order.workers, repeats=order.repeats,
        seed=random.SystemRandom().randrange(SEEDS) if order.seed is None else order.seed,
    )  # fmt: skip
    plan.identity = identity_of(order.file, benchmark=order.what.kind == "benchmark")
    if not order.resume:
        folder.make(order.folder)
    with ExitStack() as claim:
        unheld = claim.enter_context(folder.claimed(order.folder)) if os.path.isdir(order.folder) else None
        held = None if order.overwrite else earlier(order, plan, refused=reach.refused)
        if order.overwrite:
            folder.clear(order.folder)
        folder.make(order.folder / folder.POINTS)
        sweep = Sweep(
            order, held or plan, reach.policies, [*reach.notes, *filter(None, [unheld])], continues=held is not None
        )
        save_plan(sweep.plan, order.folder)
        sweep.claim = claim.pop_all()
    return sweep


def _reach(order: Order) -> Reach:
    if order.frequencies == "none":
        return Reach()
    try:
        policies = find_policies(sysroot())
        why = refusal(policies)
    except SensorError as error:
        policies, why = (), str(error)
    if why is None:
        visits = visited(order.frequencies or "all", policies)
        notes = (*visits.notes, *clamped(policies, visits.frequencies_hz), *_turbo(policies, visits.frequencies_hz))
        return Reach(policies, visits.frequencies_hz, notes)
    if order.frequencies is not None:
        message = f"no frequency can be set: {why}; or sweep workers only, without --frequencies"
        raise SensorError(message)
    return Reach(notes=(f"only workers are swept, no frequency can be set: {why}",), refused=why)


def _turbo(policies: tuple[Policy, ...], frequencies_hz: tuple[int, ...]) -> list[str]:
    if not any(policy.base_hz and max(frequencies_hz) > policy.base_hz for policy in policies):
        return []
    base_hz = max(policy.base_hz or 0 for policy in policies)
    return [f"above {shown(base_hz)} (turbo) the processor itself decides what it runs at, up to what is set"]
