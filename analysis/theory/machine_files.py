"""A machine's constants read from a file of TOML or JSON into the dataclass that needs them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import UsageError
from tprof.trace.plain_values import is_finite, listed, parse_json, parse_toml, shown
from tprof.trace.user_files import UnreadableError, read_text

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

ENDINGS = (".toml", ".json")
LEAST, MOST = 1e-60, 1e60
"""Of a constant that is not 0; beyond them there is no machine, and products overflow."""


def read_values(path: Path) -> dict[str, Any]:
    """Parse a file as JSON by its ending, as TOML otherwise. Raises UnreadableError."""
    try:
        text = read_text(path)
        values = parse_json(text) if path.suffix == ".json" else parse_toml(text)
    except ValueError as error:
        raise UnreadableError(path, str(error)) from error
    if not isinstance(values, dict):
        raise UnreadableError(path, "it must hold an object of names and numbers")
    return values


def read_table(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return a file's table of constants. Raises UsageError if there is none to read."""
    try:
        return read_values(Path(path))
    except UnreadableError as error:
        message = f"cannot read a machine from {path}: {error.reason}; name a file of TOML or JSON"
        raise UsageError(message) from error


def check_range(what: str, value: float) -> None:
    """Refuse a constant whose products with a few others no float can hold. Raises UsageError."""
    if value != 0 and not LEAST <= abs(value) <= MOST:
        message = f"{what} must be from {LEAST:g} to {MOST:g}, got {value:g}"
        raise UsageError(message)


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
        message = f"{table} must be a table of constants, got {shown(values)}"
        raise UsageError(message)
    known = [field.name for field in fields]
    missing = [field.name for field in fields if field.default is dataclasses.MISSING and field.name not in values]
    for problem, names in (("missing", missing), ("unknown", [key for key in values if key not in known])):
        if names:
            message = f"{problem}{where}: {listed(names)}; the constants are {', '.join(known)}"
            raise UsageError(message)
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            message = f"{key}{where} must be a number, got {shown(value)}"
            raise UsageError(message)
    return {key: float(value) if is_finite(value) else math.nan for key, value in values.items()}
