"""The one reader of files that hold a machine: TOML or JSON, and the constants that a dataclass needs."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tprof.errors import UsageError
from tprof.trace.plain_values import is_finite, listed, parse_json, parse_toml, shown
from tprof.trace.user_files import UnreadableError, read_text

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Mapping

M = TypeVar("M")
ENDINGS = (".toml", ".json")
LEAST, MOST = 1e-60, 1e60
"""Of a constant that is not 0; beyond them there is no machine, and products overflow."""


def find_machine(kind: str, text: str, named: Mapping[str, M], make: Callable[[str, dict[str, Any]], M]) -> M:
    """Return the machine of that name, or the one in the file of that name. Raises UsageError if there is neither."""
    if text in named:
        return named[text]
    path = Path(text)
    if path.suffix in ENDINGS:
        return read_machine(path, make)
    raise UsageError(f"there is no {kind} {text!r}: take {', '.join(named)}, or a file that ends in .toml or .json")


def read_machine(path: str | os.PathLike[str], make: Callable[[str, dict[str, Any]], M]) -> M:
    """Return the machine that a file holds.

    Parameters
    ----------
    path
        Of JSON or TOML by its ending.
    make
        Makes the machine of the file's name without its ending, and its table.

    Raises
    ------
    UsageError
        If the file cannot be read, or does not hold what `make` needs.
    """
    values = read_table(path)
    try:
        return make(Path(path).stem, values)
    except UsageError as error:
        raise UsageError(f"cannot use machine {path}: {error}") from error


def read_table(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return a file's table. Raises UsageError if there is none to read."""
    file = Path(path)
    if file.suffix not in ENDINGS:
        raise UsageError(f"machine {path} must be a file that ends in .json or .toml")
    try:
        text = read_text(file)
        values = parse_json(text) if file.suffix == ".json" else parse_toml(text)
    except (UnreadableError, ValueError) as error:
        raise UsageError(f"cannot read machine {path}: {getattr(error, 'reason', error)}") from error
    if not isinstance(values, dict):
        raise UsageError(f"cannot read machine {path}: it must hold an object of names and numbers")
    return values


def check_range(what: str, value: float) -> None:
    """Refuse a constant whose products with a few others no float can hold. Raises UsageError."""
    if value != 0 and not LEAST <= abs(value) <= MOST:
        raise UsageError(f"{what} must be from {LEAST:g} to {MOST:g}, got {value:g}")


def numbers_for(kind: type, values: Any, *, table: str = "", apart: Collection[str] = ()) -> dict[str, float]:
    """Return the numbers that a dataclass needs.

    Parameters
    ----------
    kind
        The dataclass; a field with a default may be left out.
    values
        What a file says.
    table
        Where in the file, for errors.
    apart
        Fields that are no numbers.

    Raises
    ------
    UsageError
        If a constant is missing, unknown, or no number.
    """
    fields = [field for field in dataclasses.fields(kind) if field.name not in apart]
    where = f" in [{table}]" if table else ""
    if not isinstance(values, dict):
        raise UsageError(f"{table} must be a table of constants, got {shown(values)}")
    known = [field.name for field in fields]
    missing = [field.name for field in fields if field.default is dataclasses.MISSING and field.name not in values]
    for problem, names in (("missing", missing), ("unknown", [key for key in values if key not in known])):
        if names:
            raise UsageError(f"{problem}{where}: {listed(names)}; the constants are {', '.join(known)}")
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UsageError(f"{key}{where} must be a number, got {shown(value)}")
    return {key: float(value) if is_finite(value) else math.nan for key, value in values.items()}
