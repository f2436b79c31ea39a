"""Parses untrusted texts of JSON, TOML, CSV and numbers into safe values.

Safe values have bounded depth, integers of 64 bits and finite floats. Invalid text raises a ValueError with the reason
as a clause. Any text takes bounded time.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypeGuard

MOST_ROWS = 1_000_000
MOST_COLUMNS = 10_000
MOST_CELLS = 10_000_000
EMPTY = {"", "NA", "N/A", "nan", "NaN", "null", "None"}
"""Texts for missing values in a column that holds no names."""
MOST_LEVELS = 64
LONGEST_NUMBER = 100
LARGEST_INTEGER = 2**64
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of cells that a spreadsheet takes for formulas."""
LONGEST_SHOWN = 60
HERTZ = {"hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9}
MOST_BARE_GHZ = 100.0
"""A frequency without a unit is in GHz; from here up the unit was forgotten."""

_SIGNS = "0123456789+-.eE"
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:e[0-9]+)?)\s*(%|[a-z]*)\s*", re.IGNORECASE)
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_OPENING, _CLOSING = b"[{", b"]}"
_STEPS = bytes.maketrans(_OPENING + _CLOSING, b"\1\1\0\0")
_NO_BRACKETS = bytes(set(range(256)) - set(_OPENING + _CLOSING))
# The time of `tomllib` is quadratic in a key's parts: a second for four thousand.
_KEY_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_LONG_KEY = re.compile(rf"""(?<![\w"'-])(?:{_KEY_PART}){{{MOST_LEVELS}}}""", re.ASCII)


class Cells(NamedTuple):
    """A table of texts.

    Attributes
    ----------
    names : of the columns, each once.
    rows : a cell for each name; empty where the row ends early.
    lines : the line of the file in which each row ends, counted from 1.
    """

    names: tuple[str, ...]
    rows: list[list[str]]
    lines: list[int]


def decoded(content: bytes) -> str:
    """Decode UTF-8. Raises ValueError with a clause."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text (byte {error.start + 1})") from error
    if "\0" in text:
        raise ValueError("it is no text: it has a byte of 0")
    return text


def parse_json(text: str) -> Any:
    """Parse a user's JSON; an integer beyond 64 bits becomes a float.

    Raises
    ------
    ValueError
        With a clause: it is no JSON, is nested too deeply, or has a key twice or a number that no float can hold.
    """
    return _parsed(text, _OF_USERS)


def parse_trace_json(content: bytes) -> Any:
    """Parse JSON in a trace; a number that is not a finite float becomes None, and the rest stays valid.

    Programs write it, a line for each task, so it is not checked for duplicate keys.

    Raises
    ------
    ValueError
        With a clause: it is no JSON or is nested too deeply.
    """
    return _parsed(decoded(content), _OF_TRACES)


def parse_numbers(content: bytes) -> Any:
    """Parse JSON in a trace that is mostly numbers, several times as fast; an integer stays one, however large.

    Raises
    ------
    ValueError
        As `parse_trace_json`.
    """
    return _parsed(decoded(content), _OF_NUMBERS)


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a user's TOML. Raises ValueError with a clause, as `parse_json`."""
    import tomllib  # noqa: PLC0415 - kept off `import tprof`

    if _LONG_KEY.search(text):
        raise ValueError(_TOO_DEEP)
    try:
        values = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"it is no TOML ({error})") from error
    except ValueError as error:
        raise ValueError(_NOT_FINITE) from error  # of an integer with more digits than Python converts
    _check_values(values)
    return values


def parse_cells(text: str) -> Cells:
    """Parse CSV with a line of names.

    A comma at the end of each line does not begin a column. Empty lines are left out.

    Raises
    ------
    ValueError
        With a clause: it has no names, a duplicate name, rows with too many cells, or too many cells in total.
    """
    import csv  # noqa: PLC0415 - kept off `import tprof`
    import io  # noqa: PLC0415

    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        names = next(filter(None, reader), [])
        _check_names(names)
        for row in reader:
            if len(row) < 2 < 1 + len(names) and not "".join(row).strip():
                continue
            rows.append(_as_long(row, len(names), reader.line_num))
            lines.append(reader.line_num)
            if len(rows) > MOST_ROWS or len(rows) * len(names) > MOST_CELLS:
                raise ValueError(f"it has more than {MOST_ROWS} rows or {MOST_CELLS} cells")
    except csv.Error as error:
        raise ValueError(f"it is no CSV ({error}, line {reader.line_num})") from error
    return _named(names, rows, lines)


def number(text: str) -> float:
    """Parse a decimal number, with or without an exponent.

    Raises
    ------
    ValueError
        With a clause: it is not a number, or not a finite float.
    """
    # `float` also accepts blanks, underscores, digits of other alphabets, and names of infinity.
    if text.strip(_SIGNS):
        raise ValueError(f"{shown(text)} is no number")
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"the number {shown(text)} is too long")
    try:
        value = float(text)
    except ValueError as error:
        raise ValueError(f"{shown(text)} is no number") from error
    if not is_finite(value):
        raise ValueError(f"the number {shown(text)} is too large")
    return value


def with_unit(text: str, units: Mapping[str, float]) -> float | None:
    """Parse a number with its unit, such as ``80 W``, and multiply it by the unit's factor.

    `units` are in lower case; with "" among them the unit may be left out. None for any other text; a number that no
    float holds is infinite.
    """
    found = _QUANTITY.fullmatch(text)
    factor = None if found is None else units.get(found[2].lower())
    return None if found is None or factor is None else float(found[1]) * factor


def frequency_hz(text: str) -> float | None:
    """Parse a frequency such as ``1.6GHz``; as `with_unit`, and in GHz without a unit.

    Raises ValueError with a clause if it is too large without a unit.
    """
    bare = with_unit(text, {"": 1.0})
    if bare is not None and bare >= MOST_BARE_GHZ:
        raise ValueError(f"{text.strip()} lacks its unit; write GHz, MHz, kHz or Hz after it")
    return with_unit(text, HERTZ if bare is None else {"": HERTZ["ghz"]})


def floats(texts: Sequence[str]) -> list[float]:
    """Parse many numbers at once. Raises ValueError as `number`, for the first."""
    # All letters are checked together, in a tenth of the time.
    if not "".join(texts).strip(_SIGNS) and max(map(len, texts), default=0) <= LONGEST_NUMBER:
        with suppress(ValueError):
            values = list(map(float, texts))
            if all(map(math.isfinite, values)):
                return values
    return [number(text) for text in texts]


def whole(text: str, most: int = LARGEST_INTEGER - 1) -> int | None:
    """Parse a whole number of decimal digits; None for any other text, and above `most`."""
    # `str.isdigit` accepts other alphabets' digits, and the time of `int` is quadratic in their number.
    if not (text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER):
        return None
    value = int(text)
    return value if value <= most else None


def is_finite(value: object) -> TypeGuard[float]:
    """Return whether a parsed value is a number within the range of floats."""
    # Comparing an integer larger than every float does not overflow; NaN compares false.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def shown(value: object) -> str:
    """Quote a value for an error's sentence: short, in one line, without control characters."""
    if isinstance(value, str) and len(value) > LONGEST_SHOWN - 2:
        value = f"{value[: LONGEST_SHOWN - 3]}…"
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        text = f"a value of type {type(value).__name__}"  # Python does not convert very long integers to text
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"


def counted(count: int, one: str, several: str = "") -> str:
    """Return a number with what it counts: `1 worker`, `2,000 workers`; `several` where it takes more than an s."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def listed(names: Iterable[object], most: int = 30) -> str:
    """List names for an error's sentence: at most `most`, odd and long ones as `shown`."""
    every = [str(name) for name in names]
    plain = [name if name.isprintable() and len(name) <= LONGEST_SHOWN else shown(name) for name in every]
    return first_of(plain, most)


def first_of(names: Sequence[str], most: int) -> str:
    """Return at most so many names in one line, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


_TOO_DEEP = f"it is nested more than {MOST_LEVELS} levels deep"
_NOT_FINITE = "it has a number that is too large, or none"


def _parsed(text: str, decoder: json.JSONDecoder) -> Any:
    # Checked before parsing: with a raised recursion limit the parser would overflow the stack.
    if _levels(text) > MOST_LEVELS:
        raise ValueError(_TOO_DEEP)
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON ({error})") from error
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error


def _levels(text: str) -> int:
    if text.count("[") + text.count("{") <= MOST_LEVELS:
        return 0
    bare = _STRING.sub(b"", text.encode("utf-8", "surrogatepass"))
    steps = bare.translate(_STEPS, _NO_BRACKETS)
    return max(itertools.accumulate(map((-1, 1).__getitem__, steps)), default=0)


def _integer(digits: str) -> int | float:
    value = number(digits)  # rejects long numbers
    exact = int(digits)
    return exact if abs(exact) < LARGEST_INTEGER else value


def _integer_if_any(digits: str) -> int | float | None:
    try:
        return _integer(digits)
    except ValueError:
        return None


def _number_if_any(text: str) -> float | None:
    try:
        return number(text)
    except ValueError:
        return None


def _refuse_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError(f"the key {shown(_repeated([key for key, _ in pairs]))} stands twice in one object")
    return mapping


def _repeated(names: Sequence[str]) -> str | None:
    seen = set[str]()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def _check_values(values: Any) -> None:
    """Reject values of TOML that exceed floats or the allowed depth, without recursion."""
    level: list[Any] = [values]
    for _ in range(MOST_LEVELS):
        level = [
            part
            for value in level
            if isinstance(value, dict | list)
            for part in (value.values() if isinstance(value, dict) else value)
        ]
        if not all(is_finite(value) for value in level if isinstance(value, float)):
            raise ValueError(_NOT_FINITE)
        if any(isinstance(value, int) and abs(value) >= LARGEST_INTEGER for value in level):
            raise ValueError(_NOT_FINITE)
    if level:
        raise ValueError(_TOO_DEEP)


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise ValueError("it is empty")
    if len(names) > MOST_COLUMNS:
        raise ValueError(f"it has more than {MOST_COLUMNS} columns")
    twice = _repeated([name for name in names if name])
    if twice is not None:
        raise ValueError(f"two columns are called {shown(twice)}")


def _as_long(row: list[str], count: int, line: int) -> list[str]:
    if len(row) > count + 1 or (len(row) == count + 1 and row[-1]):
        raise ValueError(f"rows have more cells than there are column names (line {line})")
    return row[:count] + [""] * (count - len(row))


def _named(names: list[str], rows: list[list[str]], lines: list[int]) -> Cells:
    """Drop empty columns without a name; name other columns without one."""
    kept = [place for place, name in enumerate(names) if name or any(row[place] for row in rows)]
    if len(kept) < len(names):
        rows = [[row[place] for place in kept] for row in rows]
    return Cells(tuple(names[place] or f"Unnamed: {place}" for place in kept), rows, lines)


def unquoted(cell: str) -> str:
    """Return the name in a cell."""
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(FORMULA) else cell


# Made once: `json.loads` makes one for each text, which takes longer than a line of a trace.
_OF_USERS = json.JSONDecoder(
    parse_int=_integer, parse_float=number, parse_constant=_refuse_number, object_pairs_hook=_without_repeats
)
_OF_TRACES = json.JSONDecoder(parse_int=_integer_if_any, parse_float=_number_if_any, parse_constant=lambda _: None)
_OF_NUMBERS = json.JSONDecoder(parse_constant=lambda _: None)
