"""`tprof scaling` for algorithms on cores of one frequency."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tprof.errors import UsageError

from .scaling import Answer, Asked, above, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tprof.analysis.theory.energy_scalability.scalability_overview import Overview
    from tprof.analysis.theory.model_page import Sheet


def names() -> list[str]:
    """Return the algorithms' names."""
    from tprof.analysis.theory.energy_scalability import ALGORITHMS

    return list(ALGORITHMS)


def answer(name: str, asked: Asked) -> Answer:
    """Answer for one algorithm. Raises UsageError for what does not go together."""
    from dataclasses import asdict

    from tprof.analysis.theory.energy_scalability.scalability_overview import (
        QUESTIONS,
        describe,
        figures,
        overview_notes,
    )

    _check(name, asked)
    overviews = _overviews(name, asked)
    questions = [asked.minimise] if asked.minimise else list(QUESTIONS)
    several = len(overviews) > 1
    best = {overview.n: {question: overview.best(question) for question in questions} for overview in overviews}
    sentences = [
        (f"n = {overview.n:g}. " if several else "") + describe(best[overview.n][question], question, overview)
        for overview in overviews
        for question in questions
    ]
    first = overviews[0]
    shown = [] if asked.minimise else [overview.as_plain() for overview in overviews]
    tables = [_sizes(name, overviews)] if several and shown else [_table(name, one, first) for one in shown]
    plain = {
        "algorithm": name,
        "machine": vars(first.machine),
        "best": [
            {"n": n, "question": QUESTIONS[question], **asdict(found)}
            for n, of_size in best.items()
            for question, found in of_size.items()
        ],
        "sizes": shown,
    }
    return Answer(
        f"{name}: {first.algorithm.title}; machine: {asked.machine or 'normalised'}", plain, sentences, tables,
        overview_notes(first.machine), lambda: figures(overviews[-1]),
    )  # fmt: skip


def _overviews(name: str, asked: Asked) -> list[Overview]:
    from tprof.analysis.theory.energy_scalability import ALGORITHMS, PAPER, find_multicore
    from tprof.analysis.theory.energy_scalability.scalability_overview import DEFAULT_N, OTHER_N, Overview

    machine = find_multicore(asked.machine or PAPER)
    limits = asked.limits
    return [
        Overview(ALGORITHMS[name], machine, n, limits["time_s"], limits["energy_j"], asked.p)
        for n in asked.n or [DEFAULT_N.get(name, OTHER_N)]
    ]


def _check(name: str, asked: Asked) -> None:
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
            message = (
                f"{name} is minimised within a bound on the other: {option} does not go with --minimise {minimise}"
            )
            raise UsageError(message)
    if asked.minimise == "edp" and (limits["time_s"] or limits["energy_j"]):
        message = f"{name} has no bounds with --minimise edp: leave out --max-time and --max-energy"
        raise UsageError(message)


def _table(name: str, one: dict[str, Any], overview: Overview) -> Sheet:
    from tprof.analysis.theory.energy_scalability.scalability_overview import units
    from tprof.analysis.theory.model_page import Sheet

    seconds, joules = units(overview.machine)
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
    return Sheet(f"{name}, n = {one['n']:g}", tuple(columns), rows, note, texts=0)


def _sizes(name: str, overviews: Sequence[Overview]) -> Sheet:
    from tprof.analysis.theory.energy_scalability.scalability_overview import QUESTIONS, units
    from tprof.analysis.theory.model_page import Sheet

    _, joules = units(overviews[0].machine)
    headings = ["n"]
    for question in QUESTIONS.values():
        headings += [f"{question}: cores", f"energy, {joules}"]
    rows = []
    for overview in overviews:
        cells = [number(overview.n)]
        for minimise in QUESTIONS:
            best = overview.best(minimise)
            cells += [number(best.cores), number(best.energy_j)]
        rows.append(tuple(cells))
    note = "Bounds: time and energy of the sequential program at the highest frequency, where none were given."
    return Sheet(f"{name}: the best number of cores of each size", tuple(headings), tuple(rows), note, texts=0)
