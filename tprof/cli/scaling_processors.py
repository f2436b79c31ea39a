"""`tprof scaling` for algorithms on processors that send messages."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .scaling import Answer, Asked, above, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.theory.model_page import Sheet
    from tprof.analysis.theory.strong_scaling import Algorithm, Machine, Optimum
    from tprof.analysis.theory.strong_scaling.scaling_overview import Overview


def names() -> list[str]:
    """Return the algorithms' names."""
    from tprof.analysis.theory.strong_scaling import ALGORITHMS

    return list(ALGORITHMS)


def answer(name: str, asked: Asked) -> Answer:
    """Answer for one algorithm. Raises UsageError for what does not go together."""
    from tprof.analysis.theory.strong_scaling import Limits, optimise
    from tprof.analysis.theory.strong_scaling.scaling_overview import Overview, describe, figures, overview_notes

    algorithm, machine = _chosen(name, asked)
    limits, minimise = Limits(**asked.limits), asked.minimise or "energy"
    overviews = [Overview(problem, asked.memory, asked.p) for problem in _problems(algorithm, machine, asked)]
    found = [optimise(overview.problem, minimise, limits) for overview in overviews]
    reached = _reached(overviews[0], found[0], asked.target)
    shown = [] if asked.minimise else [overview.as_plain() for overview in overviews]
    several = len(overviews) > 1
    title = f"{name}: {algorithm.title}; machine: {machine.name}"
    sentences = [
        (f"n = {overview.problem.n:g}. " if several else "") + describe(best, minimise, limits)
        for overview, best in zip(overviews, found, strict=True)
    ]
    tables = [_table(name, one, limits.given()) for one in shown] if not several else [_sizes(name, overviews, found)]
    plain = {
        "algorithm": name, "machine": vars(machine), "minimise": minimise, "limits": limits.given(),
        "best": [{"n": overview.problem.n, **best.as_plain()} for overview, best in zip(overviews, found, strict=True)],
        "sizes": shown, **({"target": reached} if reached else {}),
    }  # fmt: skip
    return Answer(
        title, plain, [*sentences, *_reached_sentences(reached)], tables,
        [*overview_notes(algorithm, machine, min(_memories(found, asked))), *_unbounded(overviews[0], found[0])],
        lambda: figures(overviews[-1], found[-1], limits),
    )  # fmt: skip


def _chosen(name: str, asked: Asked) -> tuple[Algorithm, Machine]:
    from tprof.analysis.theory.strong_scaling import ALGORITHMS, Machine, find_machine, nbody
    from tprof.analysis.theory.strong_scaling.machine_tables import DEFAULT
    from tprof.errors import UsageError

    machine = find_machine(asked.machine or DEFAULT)
    if isinstance(machine, Machine) and asked.memory is not None and asked.memory > machine.memory_words:
        message = f"--memory {asked.memory:g} is more than {machine.name} has: {machine.memory_words:.6g} words"
        raise UsageError(message)
    if not isinstance(machine, Machine):
        message = f"{name} needs a machine of one level, and {machine.name} has two: take {name}-two-level, or another"
        raise UsageError(message)
    if name == "nbody":
        return (nbody() if asked.pair is None else nbody(asked.pair)), machine
    asked.refuse(name, flops_per_pair=asked.pair)
    return ALGORITHMS[name], machine


def _problems(algorithm: Algorithm, machine: Machine, asked: Asked) -> list[Any]:
    from tprof.analysis.theory.strong_scaling import Problem
    from tprof.analysis.theory.strong_scaling.scaling_overview import DEFAULT_N, OTHER_N

    ends = (asked.p[0], asked.p[-1]) if asked.p else None
    sizes = asked.n or [DEFAULT_N.get(algorithm.name, OTHER_N)]
    return [Problem(algorithm, machine, n, ends) for n in sizes]


def _unbounded(overview: Overview, best: Optimum) -> list[str]:
    """Say where the answer is only as many processors as there can be at all."""
    problem = overview.problem
    if problem.p_range or not best.feasible or best.p < problem.ends()[1] * (1 - 1e-6) or best.p == 1:
        return []
    return ["These are as many processors as there can be with a word of memory each: bound them with -p."]


def _memories(found: Sequence[Optimum], asked: Asked) -> list[float]:
    words = [best.memory_words for best in found if best.feasible]
    return words or [asked.memory if asked.memory is not None else math.inf]


def _reached(overview: Overview, best: Optimum, target: float | None) -> dict[str, Any] | None:
    """Return by which factor energies must fall so that the best execution reaches a target."""
    if target is None or not best.feasible:
        return None
    from tprof.analysis.theory.strong_scaling import evaluate, factor_for
    from tprof.analysis.theory.strong_scaling.target import ENERGIES, SCALED

    problem = overview.problem

    def gflops_per_w(machine: Machine) -> float:
        return float(evaluate(problem.algorithm, machine, problem.n, best.p, best.memory_words).gflops_per_w)

    groups = {**{name: (name,) for name in SCALED if name != "all"}, "all energies": ENERGIES}
    factors = {label: vars(factor_for(target, problem.machine, gflops_per_w, of)) for label, of in groups.items()}
    return {"gflops_per_w": target, "p": best.p, "memory_words": best.memory_words, "factors": factors}


def _reached_sentences(reached: dict[str, Any] | None) -> list[str]:
    if reached is None:
        return []
    parts = [
        f"{label} times {one['factor']:.4g}" if one["feasible"] else f"not by {label} ({one['gflops_per_w']:.4g} at 0)"
        for label, one in reached["factors"].items()
    ]
    return [f"{reached['gflops_per_w']:g} GFLOPS/W at the same processors and memory: {'; '.join(parts)}."]


def _table(name: str, one: dict[str, Any], bounds: Mapping[str, float]) -> Sheet:
    from tprof.analysis.theory.model_page import Sheet

    limits, columns = one["range"], ("p", "memory_words", "time_s", "energy_j", "power_w", "gflops_per_w")
    least = min((row["energy_j"] for row in one["rows"]), default=math.nan)
    rows = tuple(
        (
            *(number(row[column]) for column in columns),
            above(row["energy_j"], least),
            "perfect" if row["perfect"] else "",
            *(["yes" if _keeps(row, bounds) else "no"] if bounds else []),
        )
        for row in one["rows"]
    )
    note = (
        f"{one['memory_words']:.4g} words each where {limits['p_from']:.4g} to {limits['p_to']:.4g} processors share "
        "the work; below that more, so that the data fits, above it less, since more would not help."
        if limits["p_to"] > limits["p_from"]
        else ""
    )
    if one["left_out"]:
        note = f"{note} Fewer than {one['left_out']:.4g} do not hold the data.".strip()
    headings = ("processors", "words each", "time, s", "energy, J", "power, W", "GFLOPS/W", "energy above", "scaling")
    bounded = ("within bounds",) if bounds else ()
    return Sheet(f"{name}, n = {one['n']:g}", (*headings, *bounded), rows, note, texts=0)


def _keeps(row: Mapping[str, float], bounds: Mapping[str, float]) -> bool:
    figures = {**row, "processor_power_w": row["power_w"] / row["p"]}
    return all(figures[name] <= bound for name, bound in bounds.items())


def _sizes(name: str, overviews: Sequence[Overview], found: Sequence[Optimum]) -> Sheet:
    from tprof.analysis.theory.model_page import Sheet

    rows = tuple(
        tuple(
            number(value)
            for value in (overview.problem.n, best.p_from, best.p_to, best.memory_words, best.time_s, best.energy_j,
                          best.power_w, best.gflops_per_w)
        )
        for overview, best in zip(overviews, found, strict=True)
    )  # fmt: skip
    headings = ("n", "processors from", "to", "words each", "time, s", "energy, J", "power, W", "GFLOPS/W")
    return Sheet(
        f"{name}: the best execution of each size", headings, rows, "Time and power on most processors.", texts=0
    )
