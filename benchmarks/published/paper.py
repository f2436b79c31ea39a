"""The TProf paper's tables 2 to 4 and responses, and the power of processors that others measured.

Tables 2 to 4 and the responses are corrected by recomputing them.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

LOWEST_HZ, HIGHEST_HZ, FREQUENCIES = 1_600_000_000, 3_610_000_000, 19
"""The range of the frequencies of figure 11, and how many there are (section 4.4)."""
TABLES_HZ = 3_300_000_000
"""Of tables 1 to 3; table 4 is of `LOWEST_HZ`, by the model of this frequency (section 3.3)."""
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
