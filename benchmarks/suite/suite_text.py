"""The suite's tables as rows of text, for the terminal and for the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tprof.analysis.text_table import Table
from tprof.benchmarks.measured_figures import NONE, number

from .paper_programs import BYTES_A_MB, MACHINE, PAPER
from .suite_tables import Suite, is_absent, table_5, table_6

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tprof.benchmarks.measured_figures import Figure
    from tprof.benchmarks.repeats import Runs

    Row = Mapping[str, Any]

LEAST_CORRELATED = 10  # fewer points correlate by chance
NOT_RESOLVED = "not resolved"
_PAPER = f"The paper's columns are from another machine ({MACHINE}): there to compare the pattern, no target."


def tables(suite: Suite) -> Iterator[Table]:
    """Return what each program took, table 5 and table 6."""
    yield runs_table(suite.runs)
    yield _programs(suite)
    yield _energies(suite)


def runs_table(suite: tuple[Runs, ...]) -> Table:
    """Return a row a program: time and energy, median and spread over its runs."""
    rows = tuple(
        (
            runs.program,
            runs.quality,
            str(runs.profile.info["model"]),
            number(len(runs.outcomes)),
            *_spread(runs.times()),
            *_spread(runs.energies()),
        )
        for runs in suite
    )
    return Table(
        "Time and energy of each program",
        ("benchmark", "joules are", "model", "runs", "time (s)", "from … to", "energy (J)", "from … to"),
        rows,
        "Medians over the runs, and the least and most of them. Time: of the parallel part. Energy: of the whole "
        "recording, idle cores and other programs included.",
        texts=3,
    )


def _programs(suite: Suite) -> Table:
    rows = tuple(
        (
            row["benchmark"],
            _footprint(row["footprint_bytes"]),
            _count(row["tasks"]),
            _count(row["instances"]),
            NONE if row["paper_footprint_mb"] is None else f"{row['paper_footprint_mb']:.1f}",
            _count(row["paper_tasks"]),
            _count(row["paper_instances"]),
        )
        for row in table_5(suite.runs)
    )
    sizes = {runs.outcome.size for runs in suite.runs}
    smaller = "" if sizes == {"paper"} else " These are the small inputs; --size paper runs the paper's."
    return Table(
        "Table 5: the programs",
        (
            "benchmark", "task footprint (MB)", "tasks", "instances",
            "paper: footprint (MB)", "paper: tasks", "paper: instances",
        ),
        rows,
        "Footprint: of the largest task, by its arguments, as its program says; "
        f"1 MB is {BYTES_A_MB:,} bytes, as in the paper.{smaller}",
        texts=1,
    )  # fmt: skip


def _energies(suite: Suite) -> Table:
    several = any(len(runs.outcomes) > 1 for runs in suite.runs)
    headings = ["benchmark", "task", "joules are", "mean energy (mJ)", "95 % interval"]
    headings += ["means of the runs"] if several else []
    headings += ["correlation", "paper: energy (mJ)", "paper: correlation"]
    notes = [f"{text} (corrected here)" if "swapped" in text else text for text in _notes(suite)]
    return Table(
        "Table 6: mean energy of each task, and Pearson's correlation of energy with time",
        tuple(headings),
        tuple(_energy(row, several=several) for row in table_6(suite.runs)),
        f"Not resolved: the interval of the energy above static power reaches zero. NaN: time or energy is the same "
        f"for all instances. {NONE} for fewer than {LEAST_CORRELATED} instances. Where joules are estimated or shared "
        f"by a model, the correlation is partly that model's. {_PAPER}"
        + "".join(f" In the paper, {text}." for text in notes),
        texts=3,
    )


def _notes(suite: Suite) -> list[str]:
    return [text for runs in suite.runs if runs.program in PAPER for text in PAPER[runs.program].notes]


def _energy(row: Row, *, several: bool) -> tuple[str, ...]:
    mean = _millijoules(row["energy_mean_j"]) if row["resolved"] else NOT_RESOLVED
    theirs = row["paper_energy_time_corr"]
    cells = [row["benchmark"], row["task"], row["quality"] or NONE, mean if row["instances"] else NONE]
    cells.append(_range(row["energy_mean_low_j"], row["energy_mean_high_j"]))
    cells += [_range(row["run_mean_low_j"], row["run_mean_high_j"])] if several else []
    cells += [NONE if row["instances"] < LEAST_CORRELATED else _correlation(row["energy_time_corr"])]
    printed_j = row["paper_energy_mean_j"]
    cells += [NONE if printed_j is None else f"{printed_j * 1e3:.1f}"]
    return (*cells, NONE if theirs is None else _correlation(theirs))


def _correlation(value: float) -> str:
    return "NaN" if is_absent(value) else f"{value:.3f}"


def _range(low_j: float | None, high_j: float | None) -> str:
    return NONE if is_absent(low_j) or is_absent(high_j) else f"{_millijoules(low_j)} … {_millijoules(high_j)}"


def _millijoules(joules: float | None) -> str:
    return NONE if joules is None or is_absent(joules) else number(joules * 1e3)


def _footprint(size_bytes: int | None) -> str:
    return NONE if size_bytes is None else f"{size_bytes / BYTES_A_MB:.1f}"


def _count(value: int | None) -> str:
    return NONE if value is None else number(value)


def _spread(figure: Figure) -> tuple[str, str]:
    plain = figure.as_plain()
    if plain["value"] is None:
        return NOT_RESOLVED, NONE
    several = len(figure.values) > 1
    return number(plain["value"]), f"{number(plain['low'])} … {number(plain['high'])}" if several else NONE
