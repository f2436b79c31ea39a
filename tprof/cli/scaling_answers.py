"""What `tprof scaling` answers for algorithms on processors that send messages, on nodes, and on cores."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from tprof.analysis.text_table import Table
from tprof.analysis.theory import energy_scalability as cores
from tprof.analysis.theory import strong_scaling as scaling
from tprof.analysis.theory.energy_scalability import scalability_overview
from tprof.analysis.theory.model_page import Axis, Figure, curve, figure
from tprof.analysis.theory.strong_scaling import scaling_overview
from tprof.analysis.theory.strong_scaling.machine_tables import DEFAULT
from tprof.analysis.theory.strong_scaling.target import ENERGIES, SCALED
from tprof.errors import UsageError

from .scaling import Answer, Asked, above, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NODE_COLUMNS = {"nodes": "nodes", "words a node": "memory_words", "time, s": "time_s", "energy, J": "energy_j",
           "power, W": "power_w", "GFLOPS/W": "gflops_per_w"}  # fmt: skip


def processor_answer(name: str, asked: Asked) -> Answer:
    """Answer for one algorithm. Raises UsageError for what does not go together."""
    algorithm, machine = _chosen(name, asked)
    limits, minimise = scaling.Limits(**asked.limits), asked.minimise or "energy"
    overviews = [
        scaling_overview.Overview(problem, asked.memory, asked.p) for problem in _problems(algorithm, machine, asked)
    ]
    found = [scaling.optimise(overview.problem, minimise, limits) for overview in overviews]
    reached = _reached(overviews[0], found[0], asked.target)
    shown = [] if asked.minimise else [overview.as_plain() for overview in overviews]
    several = len(overviews) > 1
    title = f"{name}: {algorithm.title}; machine: {machine.name}"
    sentences = [
        (f"n = {overview.problem.n:g}. " if several else "") + scaling_overview.describe(best, minimise, limits)
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
        [*scaling_overview.overview_notes(algorithm, machine, min(_memories(found, asked))),
         *_unbounded(overviews[0], found[0])],
        lambda: scaling_overview.figures(overviews[-1], found[-1], limits),
    )  # fmt: skip


def _chosen(name: str, asked: Asked) -> tuple[scaling.Algorithm, scaling.Machine]:
    machine = scaling.find_machine(asked.machine or DEFAULT)
    if isinstance(machine, scaling.Machine) and asked.memory is not None and asked.memory > machine.memory_words:
        raise UsageError(f"--memory {asked.memory:g} is more than {machine.name} has: {machine.memory_words:.6g} words")
    if not isinstance(machine, scaling.Machine):
        raise UsageError(
            f"{name} needs a machine of one level, and {machine.name} has two: take {name}-two-level, or another"
        )
    if name == "nbody":
        return (scaling.nbody() if asked.pair is None else scaling.nbody(asked.pair)), machine
    asked.refuse(name, flops_per_pair=asked.pair)
    return scaling.ALGORITHMS[name], machine


def _problems(algorithm: scaling.Algorithm, machine: scaling.Machine, asked: Asked) -> list[Any]:
    ends = (asked.p[0], asked.p[-1]) if asked.p else None
    sizes = asked.n or [scaling_overview.DEFAULT_N.get(algorithm.name, scaling_overview.OTHER_N)]
    return [scaling.Problem(algorithm, machine, n, ends) for n in sizes]


def _unbounded(overview: scaling_overview.Overview, best: scaling.Optimum) -> list[str]:
    """Return a note if the answer is the largest number of processors that is possible."""
    problem = overview.problem
    if problem.p_range or not best.feasible or best.p < problem.ends()[1] * (1 - 1e-6) or best.p == 1:
        return []
    return ["These are as many processors as there can be with a word of memory each: bound them with -p."]


def _memories(found: Sequence[scaling.Optimum], asked: Asked) -> list[float]:
    words = [best.memory_words for best in found if best.feasible]
    return words or [asked.memory if asked.memory is not None else math.inf]


def _reached(overview: scaling_overview.Overview, best: scaling.Optimum, target: float | None) -> dict[str, Any] | None:
    """Return by which factor energies must fall so that the best execution reaches a target."""
    if target is None or not best.feasible:
        return None

    problem = overview.problem

    def gflops_per_w(machine: scaling.Machine) -> float:
        return float(scaling.evaluate(problem.algorithm, machine, problem.n, best.p, best.memory_words).gflops_per_w)

    groups = {**{name: (name,) for name in SCALED if name != "all"}, "all energies": ENERGIES}
    factors = {
        label: vars(scaling.factor_for(target, problem.machine, gflops_per_w, of)) for label, of in groups.items()
    }
    return {"gflops_per_w": target, "p": best.p, "memory_words": best.memory_words, "factors": factors}


def _reached_sentences(reached: dict[str, Any] | None) -> list[str]:
    if reached is None:
        return []
    parts = [
        f"{label} times {one['factor']:.4g}" if one["feasible"] else f"not by {label} ({one['gflops_per_w']:.4g} at 0)"
        for label, one in reached["factors"].items()
    ]
    return [f"{reached['gflops_per_w']:g} GFLOPS/W at the same processors and memory: {'; '.join(parts)}."]


def _table(name: str, one: dict[str, Any], bounds: Mapping[str, float]) -> Table:
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
    return Table(f"{name}, n = {one['n']:g}", (*headings, *bounded), rows, note, texts=0)


def _keeps(row: Mapping[str, float], bounds: Mapping[str, float]) -> bool:
    figures = {**row, "processor_power_w": row["power_w"] / row["p"]}
    return all(figures[name] <= bound for name, bound in bounds.items())


def _sizes(name: str, overviews: Sequence[scaling_overview.Overview], found: Sequence[scaling.Optimum]) -> Table:
    rows = tuple(
        tuple(
            number(value)
            for value in (overview.problem.n, best.p_from, best.p_to, best.memory_words, best.time_s, best.energy_j,
                          best.power_w, best.gflops_per_w)
        )
        for overview, best in zip(overviews, found, strict=True)
    )  # fmt: skip
    headings = ("n", "processors from", "to", "words each", "time, s", "energy, J", "power, W", "GFLOPS/W")
    return Table(
        f"{name}: the best execution of each size", headings, rows, "Time and power on most processors.", texts=0
    )


def node_answer(name: str, asked: Asked) -> Answer:
    """Answer for one algorithm. Raises UsageError for what does not go together."""
    limits = {f"max_{key.rpartition('_')[0]}": value for key, value in asked.limits.items()}
    asked.refuse(name, minimise=asked.minimise, target=asked.target, **limits)
    algorithm, machine = _chosen_nodes(name, asked)
    runs, notes = {}, {}
    for n in asked.n or [scaling_overview.DEFAULT_N.get(name.removesuffix("-two-level"), scaling_overview.OTHER_N)]:
        fewest = max(n**algorithm.size_power / machine.node.memory_words, 1.0)
        nodes = np.asarray(asked.p, float) if asked.p else scaling_overview.powers(fewest, 2.0**13 * fewest)
        is_enough = nodes >= fewest * (1 - 1e-12)
        notes[n] = "" if is_enough.all() else f"Fewer than {fewest:.4g} do not hold the data."
        nodes = nodes[is_enough]
        if not nodes.size:
            raise UsageError(f"{name} with n = {n:g} needs {fewest:.6g} nodes of {machine.name} or more")
        words = np.minimum(algorithm.memory_range(n, nodes)[1], asked.memory or machine.node.memory_words)
        words = np.maximum(words, algorithm.memory_range(n, nodes)[0])
        runs[n] = scaling.evaluate_two_levels(algorithm, machine, n, nodes, words)
    rows = {n: _node_rows(run, machine) for n, run in runs.items()}
    tables = [
        Table(f"{name}, n = {n:g}", tuple(NODE_COLUMNS),
              tuple(tuple(number(row[column]) for column in NODE_COLUMNS.values()) for row in found), notes[n], texts=0)
        for n, found in rows.items()
    ]  # fmt: skip
    plain = {"algorithm": name, "machine": asdict(machine), "sizes": [{"n": n, "rows": rows[n]} for n in rows]}

    def figures() -> list[Figure]:
        axis = Axis("nodes")
        return [
            figure(title, axis, Axis(f"{title.lower()}, {unit}", unit),
                   [curve(f"n = {n:g}", [row["nodes"] for row in found], [row[key] for row in found])
                    for n, found in rows.items()])
            for title, key, unit in (("Time", "time_s", "s"), ("Energy", "energy_j", "J"))
        ]  # fmt: skip

    note = "Calculated from constants of the machine by a model without constant factors; nothing was measured."
    return Answer(f"{name}: {algorithm.title}; machine: {machine.name}", plain, [], tables, [note], figures)


def _chosen_nodes(name: str, asked: Asked) -> tuple[scaling.TwoLevelAlgorithm, scaling.TwoLevelMachine]:
    machine = scaling.find_machine(asked.machine) if asked.machine else None
    if not isinstance(machine, scaling.TwoLevelMachine):
        raise UsageError(f"{name} needs a machine of two levels: give --machine FILE with tables node and core")
    if name.startswith("nbody"):
        return (scaling.two_level_nbody() if asked.pair is None else scaling.two_level_nbody(asked.pair)), machine
    asked.refuse(name, flops_per_pair=asked.pair)
    return scaling.TWO_LEVEL_ALGORITHMS[name], machine


def _node_rows(run: scaling.Run, machine: scaling.TwoLevelMachine) -> list[dict[str, float]]:
    columns = {key: getattr(run, key) for key in NODE_COLUMNS.values() if key != "nodes"}
    columns["nodes"] = run.p / machine.cores_per_node
    return [{key: float(column[at]) for key, column in columns.items()} for at in range(len(run.p))]


def core_answer(name: str, asked: Asked) -> Answer:
    """Answer for one algorithm. Raises UsageError for what does not go together."""
    _check_cores(name, asked)
    overviews = _core_overviews(name, asked)
    questions = [asked.minimise] if asked.minimise else list(scalability_overview.QUESTIONS)
    several = len(overviews) > 1
    best = {overview.n: {question: overview.best(question) for question in questions} for overview in overviews}
    sentences = [
        (f"n = {overview.n:g}. " if several else "")
        + scalability_overview.describe(best[overview.n][question], question, overview)
        for overview in overviews
        for question in questions
    ]
    first = overviews[0]
    shown = [] if asked.minimise else [overview.as_plain() for overview in overviews]
    tables = [_core_sizes(name, overviews)] if several and shown else [_core_table(name, one, first) for one in shown]
    plain = {
        "algorithm": name,
        "machine": vars(first.machine),
        "best": [
            {"n": n, "question": scalability_overview.QUESTIONS[question], **asdict(found)}
            for n, of_size in best.items()
            for question, found in of_size.items()
        ],
        "sizes": shown,
    }
    return Answer(
        f"{name}: {first.algorithm.title}; machine: {asked.machine or 'normalised'}", plain, sentences, tables,
        scalability_overview.overview_notes(first.machine), lambda: scalability_overview.figures(overviews[-1]),
    )  # fmt: skip


def _core_overviews(name: str, asked: Asked) -> list[scalability_overview.Overview]:
    machine = cores.find_multicore(asked.machine or cores.PAPER)
    limits = asked.limits
    return [
        scalability_overview.Overview(cores.ALGORITHMS[name], machine, n, limits["time_s"], limits["energy_j"], asked.p)
        for n in asked.n or [scalability_overview.DEFAULT_N.get(name, scalability_overview.OTHER_N)]
    ]


def _check_cores(name: str, asked: Asked) -> None:
    limits = asked.limits
    asked.refuse(
        name, memory=asked.memory, flops_per_pair=asked.pair, target=asked.target, max_power=limits["power_w"],
        max_processor_power=limits["processor_power_w"],
    )  # fmt: skip
    for minimise, option, value in (
        ("energy", "--max-energy", limits["energy_j"]),
        ("time", "--max-time", limits["time_s"]),
    ):
        if asked.minimise == minimise and value is not None:
            raise UsageError(
                f"{name} is minimised within a bound on the other: {option} does not go with --minimise {minimise}"
            )
    if asked.minimise == "edp" and (limits["time_s"] or limits["energy_j"]):
        raise UsageError(f"{name} has no bounds with --minimise edp: leave out --max-time and --max-energy")


def _core_table(name: str, one: dict[str, Any], overview: scalability_overview.Overview) -> Table:
    seconds, joules = scalability_overview.units(overview.machine)
    columns = {
        "cores": "cores", "X/F": "frequency", f"energy, {joules}": "energy_j", "above": "above",
        "computing": "compute_j", "memory": "memory_j", "messages": "message_j", "leakage": "leakage_j",
        "X/F for E·T": "edp_frequency",
        f"time, {seconds}": "edp_time_s", f"energy there, {joules}": "edp_energy_j",
    }  # fmt: skip
    least = min((row["energy_j"] for row in one["rows"] if row["energy_j"] > 0), default=math.nan)
    rows = tuple(
        tuple(above(row["energy_j"], least) if key == "above" else number(row[key]) for key in columns.values())
        for row in one["rows"]
    )
    note = (
        f"Left: each number of cores slowed down to {one['max_time_s']:.6g} {seconds}, – where it is too slow. "
        "Right: each at the frequency where energy times time is least."
    )
    return Table(f"{name}, n = {one['n']:g}", tuple(columns), rows, note, texts=0)


def _core_sizes(name: str, overviews: Sequence[scalability_overview.Overview]) -> Table:
    _, joules = scalability_overview.units(overviews[0].machine)
    headings = ["n"]
    for question in scalability_overview.QUESTIONS.values():
        headings += [f"{question}: cores", f"energy, {joules}"]
    rows = []
    for overview in overviews:
        cells = [number(overview.n)]
        for minimise in scalability_overview.QUESTIONS:
            best = overview.best(minimise)
            cells += [number(best.cores), number(best.energy_j)]
        rows.append(tuple(cells))
    note = "Bounds: time and energy of the sequential program at the highest frequency, where none were given."
    return Table(f"{name}: the best number of cores of each size", tuple(headings), tuple(rows), note, texts=0)


FAMILIES = (
    (scaling.ALGORITHMS, processor_answer),
    (scaling.TWO_LEVEL_ALGORITHMS, node_answer),
    (cores.ALGORITHMS, core_answer),
)
"""Algorithms by name, and what answers for them."""
