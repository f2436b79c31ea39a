"""A machine's constants read from a file of TOML or JSON into the dataclass that needs them."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import UsageError

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

ENDINGS = (".toml", ".json")


def read_table(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return a file's table, JSON by its ending and TOML otherwise. Raises UsageError if there is none to read."""
    place = Path(path)
    try:
        text = place.read_text("utf-8")
        value = json.loads(text) if place.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        message = f"cannot read a machine from {place}: {error.strerror}; name a file of TOML or JSON"
        raise UsageError(message) from error
    except (ValueError, RecursionError) as error:
        message = f"cannot read a machine from {place}: {str(error).splitlines()[0]}; write TOML or JSON"
        raise UsageError(message) from error
    if not isinstance(value, dict):
        message = f"cannot read a machine from {place}: it holds no table of constants"
        raise UsageError(message)
    return value


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
        message = f"{table} must be a table of constants, got {values!r}"
        raise UsageError(message)
    known = [field.name for field in fields]
    missing = [field.name for field in fields if field.default is dataclasses.MISSING and field.name not in values]
    for problem, names in (("missing", missing), ("unknown", [key for key in values if key not in known])):
        if names:
            message = f"{problem}{where}: {', '.join(names)}; the constants are {', '.join(known)}"
            raise UsageError(message)
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            message = f"{key}{where} must be a number, got {value!r}"
            raise UsageError(message)
    try:
        return {key: float(value) for key, value in values.items()}
    except OverflowError as error:
        message = f"a constant{where} is too large for a number"
        raise UsageError(message) from error
