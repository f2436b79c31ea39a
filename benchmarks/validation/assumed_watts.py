"""The watts that a recording without a sensor assumes, and how far they are off on processors left out of the fit.

A package is taken to draw ``idle + busy * (busy processors / its processors)`` watts. Both terms are
``level of the kind * cores ** exponent``: a straight line in logarithms, fitted by least squares to one value of each
processor. For `busy` that is the mean, in logarithms, of its points, each extrapolated to all processors, so that loads
count equally: few busy processors clock higher, and a line through idle and full load would underestimate them. Servers
at the plug (SPECpower) have a factor of their own, for their fans, memory and supplies. They determine the exponents
and the ratio between the makers; the level comes from processors measured by themselves.

Tried and left out: the nominal frequency as a third column (the error falls from a factor of 3.2 to 2.9, and names of
many processors do not contain it). The table that recordings read, `tprof/sensors/watts.csv`, is `table()`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from tprof.analysis.operating_points.scales import student

from benchmarks import published

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

KINDS = ("intel-server", "amd-server", "arm-server", "desktop", "laptop", "thin-laptop", "board")
BOARD, UNKNOWN = "board", "unknown"
IDLE_LIKE = {"arm-server": "intel-server", "laptop": "thin-laptop"}
"""The kind whose idle watts are used for kinds without published figures."""
METERED = ("bsc", "dloghin")
"""Sources whose meter stood before the whole machine: what it draws idle is not the processor's, but on a board."""
LEAST_LOAD = 0.02
"""Of all processors: below it the difference to idle is noise."""
RECENT_YEAR = 2018
"""Guests run on chips as large as servers have had since."""


@dataclass(frozen=True)
class Processor:
    """One processor, or one server at the plug.

    Attributes
    ----------
    kind : one of `KINDS`, or `UNKNOWN` where kinds are not distinguished.
    cores, cpus, packages : cores and logical processors of a package, and packages of the machine.
    idle_w : watts of an idle package; None if not measured.
    loads : (busy processors, watts of all packages) of each point that is not idle.
    busy_w : of servers at the plug, whose points are not known, watts of full load above idle; else None.
    year : of a server's first result.
    """

    name: str
    kind: str
    source: str
    cores: int
    cpus: int
    packages: int
    idle_w: float | None
    loads: tuple[tuple[float, float], ...] = ()
    busy_w: float | None = None
    year: int = 0

    @property
    def at_plug(self) -> bool:
        """Whether it is a server of SPECpower."""
        return self.busy_w is not None

    @property
    def idles(self) -> bool:
        """Whether its idle watts are those of the processor itself, or of a server with its own factor."""
        return self.idle_w is not None and (self.source not in METERED or self.kind in (BOARD, UNKNOWN))


@dataclass(frozen=True)
class Law:
    """Watts of a package: ``levels[kind] * cores ** exponent``; at the plug times `plug`."""

    levels: dict[str, float]
    exponent: float
    plug: float

    def watts(self, kind: str, cores: int) -> float | None:
        """Return the watts of a package; None where the kind is not in the fit."""
        return None if kind not in self.levels else self.levels[kind] * cores**self.exponent


@dataclass(frozen=True)
class LeftOut:
    """Errors for a processor that was left out of the fit: logarithms of predicted over measured."""

    processor: Processor
    idle: float | None
    busy: tuple[float, ...]


def processors() -> list[Processor]:
    """Return the processors that were measured by themselves, or by a meter before the machine."""
    return [_processor(row) for row in published.processors()]


def servers() -> list[Processor]:
    """Return the servers at the plug."""
    return [
        Processor(
            row["processor"], row["class"], "specpower", int(row["cores"]), 0, 1, float(row["idle_w"]),
            busy_w=float(row["full_w"]) - float(row["idle_w"]), year=int(row["year"]),
        )
        for row in published.servers()
    ]  # fmt: skip


def _processor(row: dict[str, str]) -> Processor:
    points = [tuple(map(float, point.split(":"))) for point in row["points"].split()]
    packages = int(row["packages"])
    idle = [watts / packages for busy, watts in points if busy == 0]
    loads = tuple((busy, watts) for busy, watts in points if busy > 0)
    return Processor(
        row["processor"], row["class"], row["source"], int(row["cores"]), int(row["cpus"]), packages,
        sum(idle) / len(idle) if idle else None, loads,
    )  # fmt: skip


def fit(known: Sequence[Processor]) -> tuple[Law, Law]:
    """Return the laws of the idle watts and of the watts that all busy processors add."""
    idle = _law([(_idle_kind(one), one, one.idle_w) for one in known if one.idles and one.idle_w])
    rows = []
    for one in known:
        found = _busy_logs(one, idle)
        rows.append((one.kind, one, one.busy_w if one.at_plug else math.exp(np.mean(found)) if found else None))
    return idle, _law([(kind, one, watts) for kind, one, watts in rows if watts])


def _law(rows: Sequence[tuple[str, Processor, float]]) -> Law:
    kinds = [kind for kind in (*KINDS, UNKNOWN) if any(kind == row[0] for row in rows)]
    columns = [[float(kind == row[0]) for row in rows] for kind in kinds]
    columns += [[math.log(one.cores) for _, one, _ in rows], [float(one.at_plug) for _, one, _ in rows]]
    found = np.linalg.lstsq(np.array(columns).T, np.log([watts for *_, watts in rows]), rcond=None)[0]
    levels = {kind: math.exp(level) for kind, level in zip(kinds, found, strict=False)}
    return Law(levels, float(found[-2]), math.exp(found[-1]))


def _idle_kind(one: Processor) -> str:
    return IDLE_LIKE.get(one.kind, one.kind)


def _busy_logs(one: Processor, idle: Law) -> list[float]:
    """Return for each point the logarithm of what all processors of a package would add, if all drew as much."""
    idle_w = one.idle_w if one.idle_w is not None else idle.watts(_idle_kind(one), one.cores)
    if idle_w is None:
        return []
    return [
        math.log((watts - idle_w * one.packages) / busy * one.cpus)
        for busy, watts in one.loads
        if busy >= LEAST_LOAD * one.cpus * one.packages and watts > idle_w * one.packages
    ]


def left_out(known: Sequence[Processor], group: Callable[[Processor], str]) -> list[LeftOut]:
    """Leave each group of measured processors out, with servers of the same processors, and predict it from the rest.

    Where the rest has no other processor of the kind and predicts nothing, there is no error either.
    """
    found = []
    for name in sorted({group(one) for one in known if not one.at_plug}):
        tried = [one for one in known if not one.at_plug and group(one) == name]
        same = {_model(one.name) for one in tried}
        rest = [one for one in known if one not in tried and not (one.at_plug and _model(one.name) in same)]
        found += [_error(one, *fit(rest)) for one in tried]
    return found


def _model(name: str) -> str:
    words = name.lower().replace("amd ", "").replace("intel ", "")
    return words.replace("platinum ", "").replace("gold ", "").replace("silver ", "")


def _error(one: Processor, idle: Law, busy: Law) -> LeftOut:
    idle_w, busy_w = idle.watts(_idle_kind(one), one.cores), busy.watts(one.kind, one.cores)
    return LeftOut(
        one,
        math.log(idle_w / one.idle_w) if one.idles and one.idle_w and idle_w else None,
        tuple(math.log(busy_w) - log for log in _busy_logs(one, idle)) if busy_w else (),
    )


def factors(errors: Sequence[LeftOut], sound: Callable[[Processor], bool] = lambda _one: True) -> tuple[float, float]:
    """Return by which factors the idle and the busy watts may be off, 95 %: Student's t of the errors' mean squares.

    Each processor counts once, with the mean square over its loads; degrees of freedom are those of all of `errors`.
    """
    idle = [(one.idle**2, sound(one.processor)) for one in errors if one.idle is not None]
    busy = [(float(np.mean(np.square(one.busy))), sound(one.processor)) for one in errors if one.busy]
    return _factor(idle), _factor(busy)


def _factor(squares: Sequence[tuple[float, bool]]) -> float:
    mean = np.mean([square for square, taken in squares if taken])
    return float(np.exp(student(len(squares) - 1) * math.sqrt(mean)))


def result() -> dict[str, Any]:
    """Return the table and how it was tried, as plain values.

    Returns
    -------
    dict
        - `table`: the rows of `table()`;
        - `left_out`: a row each processor: processor, kind, source, `idle_error` and `busy_error`, predicted over
          measured, the latter of the mean over `loads` points; None if not measured;
        - `idle_factor`, `busy_factor`: 95 %, without boards; `sources_busy_factor`: with whole sources left out;
        - `held`: the part of the loads of processors left out that lay within `busy_factor`;
        - `servers`: how many there are.
    """
    known = [*processors(), *servers()]
    errors = left_out(known, lambda one: one.name)
    idle_factor, busy_factor = factors(errors, _is_no_board)
    by_source = factors(left_out(known, lambda one: one.source), _is_no_board)
    loads = [one.busy for one in errors if one.busy and _is_no_board(one.processor)]
    return {
        "table": table(),
        "left_out": [
            {
                "processor": one.processor.name,
                "kind": one.processor.kind,
                "source": one.processor.source,
                "idle_error": None if one.idle is None else math.exp(one.idle),
                "busy_error": math.exp(np.mean(one.busy)) if one.busy else None,
                "loads": len(one.busy),
            }
            for one in errors
        ],
        "idle_factor": idle_factor,
        "busy_factor": busy_factor,
        "held": float(np.mean([np.mean(np.abs(each) <= math.log(busy_factor)) for each in loads])),
        "sources_busy_factor": by_source[1],
        "servers": sum(one.at_plug for one in known),
    }


def _is_no_board(one: Processor) -> bool:
    return one.kind != BOARD


def table() -> list[dict[str, str]]:
    """Return the rows of the table that recordings read: a kind each, and one for processors of no known kind."""
    known = [*processors(), *servers()]
    errors = left_out(known, lambda one: one.name)
    boards = factors(errors, lambda one: one.kind == BOARD)
    others = factors(errors, _is_no_board)
    idle, busy = fit(known)
    rows = [
        _row(kind, _idle_like(idle, kind), busy, boards if kind == BOARD else others, _guest_cores(known, kind))
        for kind in KINDS
    ]
    blind = [replace(one, kind=UNKNOWN) for one in known if one.idles or one.source not in METERED]
    unknown = factors(left_out(blind, lambda one: one.name))
    return [*rows, _row(UNKNOWN, *fit(blind), unknown, _guest_cores(known, None))]


def _idle_like(idle: Law, kind: str) -> Law:
    return replace(idle, levels={kind: idle.levels[IDLE_LIKE.get(kind, kind)]})


def _guest_cores(known: Sequence[Processor], kind: str | None) -> int:
    """Return how many cores a chip has of which a guest sees a part: the median of recent servers, else of all."""
    of_kind = [one for one in known if kind in (None, one.kind)]
    recent = [one.cores for one in of_kind if one.year >= RECENT_YEAR]
    return round(median(recent or [one.cores for one in of_kind]))


def _row(kind: str, idle: Law, busy: Law, factor: tuple[float, float], guest_cores: int) -> dict[str, str]:
    return {
        "kind": kind,
        "idle_w": f"{idle.levels[kind]:.3g}",
        "idle_exponent": f"{idle.exponent:.3f}",
        "busy_w": f"{busy.levels[kind]:.3g}",
        "busy_exponent": f"{busy.exponent:.3f}",
        "idle_factor": f"{factor[0]:.3g}",
        "busy_factor": f"{factor[1]:.3g}",
        "guest_cores": str(guest_cores),
    }
