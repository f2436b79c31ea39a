"""`tprof scaling` for algorithms on nodes and their cores."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from tprof.errors import UsageError

from .scaling import Answer, Asked, number

if TYPE_CHECKING:
    from tprof.analysis.theory.strong_scaling import Run, TwoLevelAlgorithm, TwoLevelMachine

COLUMNS = {"nodes": "nodes", "words a node": "memory_words", "time, s": "time_s", "energy, J": "energy_j",
           "power, W": "power_w", "GFLOPS/W": "gflops_per_w"}  # fmt: skip


def names() -> list[str]:
    """Return the algorithms' names."""
    from tprof.analysis.theory.strong_scaling import TWO_LEVEL_ALGORITHMS

    return list(TWO_LEVEL_ALGORITHMS)


def answer(name: str, asked: Asked) -> Answer:
    """Answer for one algorithm. Raises UsageError for what does not go together."""
    import numpy as np

    from tprof.analysis.theory.model_page import Axis, Curve, Figure, Sheet
    from tprof.analysis.theory.strong_scaling import evaluate_two_levels
    from tprof.analysis.theory.strong_scaling.scaling_overview import DEFAULT_N, OTHER_N, powers

    limits = {f"max_{key.rpartition('_')[0]}": value for key, value in asked.limits.items()}
    asked.refuse(name, minimise=asked.minimise, target=asked.target, **limits)
    algorithm, machine = _chosen(name, asked)
    runs, notes = {}, {}
    for n in asked.n or [DEFAULT_N.get(name.removesuffix("-two-level"), OTHER_N)]:
        fewest = max(n**algorithm.size_power / machine.node.memory_words, 1.0)
        nodes = np.asarray(asked.p, float) if asked.p else powers(fewest, 2.0**13 * fewest)
        held = nodes >= fewest * (1 - 1e-12)
        notes[n] = "" if held.all() else f"Fewer than {fewest:.4g} do not hold the data."
        nodes = nodes[held]
        if not nodes.size:
            message = f"{name} with n = {n:g} needs {fewest:.6g} nodes of {machine.name} or more"
            raise UsageError(message)
        words = np.minimum(algorithm.memory_range(n, nodes)[1], asked.memory or machine.node.memory_words)
        words = np.maximum(words, algorithm.memory_range(n, nodes)[0])
        runs[n] = evaluate_two_levels(algorithm, machine, n, nodes, words)
    rows = {n: _rows(run, machine) for n, run in runs.items()}
    tables = [
        Sheet(f"{name}, n = {n:g}", tuple(COLUMNS),
              tuple(tuple(number(row[column]) for column in COLUMNS.values()) for row in found), notes[n], texts=0)
        for n, found in rows.items()
    ]  # fmt: skip
    plain = {"algorithm": name, "machine": asdict(machine), "sizes": [{"n": n, "rows": rows[n]} for n in rows]}

    def figures() -> list[Figure]:
        axis = Axis("nodes")
        return [
            Figure(title, axis, Axis(f"{title.lower()}, {unit}", unit),
                   [Curve(f"n = {n:g}", [row["nodes"] for row in found], [row[key] for row in found])
                    for n, found in rows.items()])
            for title, key, unit in (("Time", "time_s", "s"), ("Energy", "energy_j", "J"))
        ]  # fmt: skip

    note = "Calculated from constants of the machine by a model without constant factors; nothing was measured."
    return Answer(f"{name}: {algorithm.title}; machine: {machine.name}", plain, [], tables, [note], figures)


def _chosen(name: str, asked: Asked) -> tuple[TwoLevelAlgorithm, TwoLevelMachine]:
    from tprof.analysis.theory.strong_scaling import (
        TWO_LEVEL_ALGORITHMS,
        TwoLevelMachine,
        find_machine,
        two_level_nbody,
    )

    machine = find_machine(asked.machine) if asked.machine else None
    if not isinstance(machine, TwoLevelMachine):
        message = f"{name} needs a machine of two levels: give --machine FILE with tables node and core"
        raise UsageError(message)
    if name.startswith("nbody"):
        return (two_level_nbody() if asked.pair is None else two_level_nbody(asked.pair)), machine
    asked.refuse(name, flops_per_pair=asked.pair)
    return TWO_LEVEL_ALGORITHMS[name], machine


def _rows(run: Run, machine: TwoLevelMachine) -> list[dict[str, float]]:
    columns = {key: getattr(run, key) for key in COLUMNS.values() if key != "nodes"}
    columns["nodes"] = run.p / machine.cores_per_node
    return [{key: float(column[at]) for key, column in columns.items()} for at in range(len(run.p))]
