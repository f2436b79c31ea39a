"""The TProf paper's tables and responses, and the power of processors that others measured.

Tables 2 to 4 and the responses are corrected by recomputing them. Table 6 as printed contradicts the paper's own text
(section 4.3) in three places; it is corrected here, and `PaperProgram.notes` states what was changed: its unit is mJ
and not J (Jacobi's 67.3 is "67.3 mJoules" in the text), the rows of Multisort are swapped (the text gives sort 173.4
and merge 51.3), and so are potrf and trsm of Cholesky (the text gives trsm 85 to 120 mJ and three tasks that take
energy; the fourth, near zero, is the one without a correlation). Table 5's MB is 1,024,000 bytes: only so do all its
footprints follow from the inputs. Tables 5 and 6 are for the paper's machine and no target for another.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from importlib.resources import files

LOWEST_HZ, HIGHEST_HZ, FREQUENCIES = 1_600_000_000, 3_610_000_000, 19
"""The range of the frequencies of figure 11, and how many there are (section 4.4)."""
TABLES_HZ = 3_300_000_000
"""Of tables 1 to 3; table 4 is of `LOWEST_HZ`, by the model of this frequency (section 3.3)."""
SOURCE = "the TProf paper, tables 5 and 6, corrected after its section 4.3"
MACHINE = "Intel Core i5-2500, 4 cores, 6 MB last-level cache; energy of the processor without the memory"
BYTES_A_MB = 1_024_000
MEAN = "mean"


@dataclass(frozen=True)
class Ratios:
    """A task of figure 11: its energy and time at `LOWEST_HZ` over those at `HIGHEST_HZ`."""

    benchmark: str
    task: str
    energy_ratio: float
    time_ratio: float


def table_2() -> list[dict[str, float | str]]:
    """Return `kernel`, `single_core_error` and `quad_core_error` of the model, parts of 1."""
    return [_model_errors(row) for row in _rows("table2") if row["kernel"] != MEAN]


def table_2_means() -> dict[str, float | str]:
    """Return the row of means that the paper prints below table 2."""
    return next(_model_errors(row) for row in _rows("table2") if row["kernel"] == MEAN)


def table_3() -> list[dict[str, float | str]]:
    """Return `pair`, `kernel`, `real_w`, `slice_w`, `model_w` and both errors recomputed from them, parts of 1.

    As the paper prints them: `printed_share`, `printed_slice_error` and `printed_model_error`.
    """
    return [
        _sliced(row)
        | {
            "model_w": float(row["model_W"]),
            "model_error": _error(row, "model_W"),
            "printed_model_error": _part(row["model_err_pct"]),
        }
        for row in _rows("table3")
    ]


def table_4() -> list[dict[str, float | str]]:
    """Return the same as of table 3 without the model's watts, which table 4 does not have."""
    return [_sliced(row) for row in _rows("table4")]


def ratios() -> tuple[Ratios, ...]:
    """Return how nine tasks respond to the frequency (section 4.4, figure 11)."""
    return tuple(
        Ratios(
            row["benchmark"],
            row["task"],
            1 + float(row["energy_change_pct"]) / 100,
            1 + float(row["time_change_pct"]) / 100,
        )
        for row in _rows("dvfs")
    )


def processors() -> list[dict[str, str]]:
    """Return the rows of processors.csv as they stand there; its first lines name the sources."""
    return _rows("processors")


def servers() -> list[dict[str, str]]:
    """Return the rows of servers.csv as they stand there."""
    return _rows("servers")


def _sliced(row: dict[str, str]) -> dict[str, float | str]:
    return {
        "pair": int(row["pair"]),
        "kernel": row["kernel"],
        "real_w": float(row["real_W"]),
        "slice_w": float(row["slice_W"]),
        "slice_error": _error(row, "slice_W"),
        "printed_share": _part(row["slice_pct"]),
        "printed_slice_error": _part(row["slice_err_pct"]),
    }


def _model_errors(row: dict[str, str]) -> dict[str, float | str]:
    return {
        "kernel": row["kernel"],
        "single_core_error": _part(row["single_core_err_pct"]),
        "quad_core_error": _part(row["quad_core_err_pct"]),
    }


def _part(percent: str) -> float:
    return float(percent) / 100


def _error(row: dict[str, str], column: str) -> float:
    return float(row[column]) / float(row["real_W"]) - 1


def _rows(name: str) -> list[dict[str, str]]:
    text = (files(__package__) / "csv" / f"{name}.csv").read_text("utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


@dataclass(frozen=True)
class PaperTask:
    """A row of table 6; the correlation is NaN where time or energy do not vary."""

    name: str
    energy_mean_j: float
    energy_time_corr: float


@dataclass(frozen=True)
class PaperProgram:
    """A program in tables 5 and 6; footprint_mb is None where the paper does not give it."""

    name: str
    figure: int
    footprint_mb: float | None
    instances: int
    tasks: tuple[PaperTask, ...]
    notes: tuple[str, ...] = ()

    def task(self, name: str) -> PaperTask | None:
        """Return the task of that name, in whatever way its words are joined."""
        return next((task for task in self.tasks if _joined(task.name) == _joined(name)), None)


def _joined(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


PAPER = {
    program.name: program
    for program in (
        PaperProgram("jacobi", 5, 32.8, 800, (PaperTask("jacobi", 67.3e-3, 0.483),)),
        PaperProgram(
            "fft",
            6,
            0.6,
            1363,
            (
                PaperTask("fft1", 849.8e-3, 0.904),
                PaperTask("fft2", 837.9e-3, 0.409),
                PaperTask("transp_blk", 3.6e-3, -0.084),
                PaperTask("transp_swp", 6.0e-3, -0.014),
                PaperTask("tw_transp_blk", 15.1e-3, 0.291),
                PaperTask("tw_transp_swp", 29.0e-3, -0.022),
            ),
        ),
        PaperProgram(
            "multisort",
            7,
            12.3,
            256,
            (PaperTask("sort", 173.4e-3, 0.579), PaperTask("merge", 51.3e-3, 0.794)),
            ("sort and merge are printed swapped in table 6",),
        ),
        PaperProgram(
            "ferret",
            8,
            None,
            1000,
            (PaperTask("ferret", 262.8e-3, 0.983),),
            ("the text gives ferret 300 mJ, table 6 262.8 mJ",),
        ),
        PaperProgram(
            "cholesky",
            9,
            2.4,
            5984,
            (
                PaperTask("gemm", 59.8e-3, 0.091),
                PaperTask("syrk", 69.4e-3, -0.081),
                PaperTask("trsm", 102.7e-3, 0.053),
                PaperTask("potrf", 1.3e-3, math.nan),
            ),
            ("potrf and trsm are printed swapped in table 6",),
        ),
        PaperProgram("blackscholes", 10, 1.2, 363, (PaperTask("blackscholes", 58.5e-3, 0.062),)),
    )
}
