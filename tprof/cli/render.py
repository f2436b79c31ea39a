"""How commands print: figures with units, strict JSON, and tables as aligned text.

A table is as wide as the terminal. A row's name is what a table is read by. So columns go before it is cut, those of
least use first, and it is cut in its middle, never so far that two names look the same. Where even that does not fit it
stands on a line of its own. What is not a terminal (a pipe, a file)
gets every column and the names up to `LONGEST`, unless COLUMNS says how wide it is.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import sys
import textwrap
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tprof.analysis.quantities import DASH, NOT_RESOLVED, PREFIXES, interval, percent, quantity, three_digits
from tprof.trace.left_out import GRANT
from tprof.trace.short_names import LONGEST, brief, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TextIO

    from tprof.analysis.text_table import Table

__all__ = [
    "AMPLE_NAME",
    "BETWEEN",
    "DASH",
    "LEAST_NAME",
    "NOT_RESOLVED",
    "PREFIXES",
    "Column",
    "clean",
    "dump",
    "filled",
    "fitting",
    "folded",
    "interval",
    "least_width",
    "lines_of",
    "percent",
    "plain",
    "quantity",
    "shortened",
    "show_tables",
    "three_digits",
    "width_of",
]

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
BETWEEN = "  "
LEAST_NAME, AMPLE_NAME = 20, 40
"""Cells that a name gets before the columns of least use do, and before further ones do."""
_STRICT = json.JSONEncoder(allow_nan=False)
_LISTS = list, tuple
_NESTED = dict, *_LISTS
_STEP = 4
_DEFAULT_WIDTH = 80


def clean(text: object) -> str:
    """Return a text whose characters that would steer a terminal are shown as escapes."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), str(text))


def dump(value: Any, stream: TextIO | None = None) -> None:
    """Print strict JSON, each row of a table on a line; what is not a number becomes null."""
    (stream or sys.stdout).writelines(itertools.chain(_pieces(value, ""), "\n"))


def _pieces(value: Any, margin: str) -> Iterator[str]:
    """Yield JSON whose inmost objects and lists take a line each: json writes indented ones in Python, not in C."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, _LISTS) else ()
    if not any(isinstance(one, _NESTED) and one for one in inner):
        yield _STRICT.encode(plain(value))
        return
    deeper = f"{margin}  "
    begin, end = "{}" if isinstance(value, dict) else "[]"
    names = [f"{_STRICT.encode(str(key))}: " for key in value] if isinstance(value, dict) else [""] * len(value)
    for place, (name, one) in enumerate(zip(names, inner, strict=True)):
        yield f"{',' if place else begin}\n{deeper}{name}"
        yield from _pieces(one, deeper)
    yield f"\n{margin}{end}"


def plain(value: Any) -> Any:
    """Turn numpy's scalars into Python's, and NaN and infinities into None."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, _LISTS):
        return [plain(part) for part in value]
    return plain(value.item()) if hasattr(value, "item") else value


def show_tables(tables: Iterable[Table], stream: TextIO) -> None:
    """Print tables of text, each with its note."""
    from rich import table as rich
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, width=width_of(stream) or 160)
    for shown in tables:
        table = rich.Table(title=shown.title, title_justify="left")
        for place, heading in enumerate(shown.headings):
            table.add_column(heading, justify="left" if place < shown.texts else "right", overflow="fold")
        for row in shown.rows:
            table.add_row(*(Text(clean(cell)) for cell in row))
        console.print(table)
        console.print(Text(shown.note))
        console.print()


@dataclass(frozen=True)
class Column:
    """One column beside the names.

    Attributes
    ----------
    heading : of the column
    cells : one a row
    use : columns with the least go first if the line is narrow
    is_further : whether it is shown only if the whole names leave enough cells
    """

    heading: str
    cells: tuple[str, ...]
    use: int = 0
    is_further: bool = False

    @cached_property
    def width(self) -> int:
        """Cells that it takes, with those between it and the column before."""
        return len(BETWEEN) + _longest((self.heading, *self.cells))


def width_of(stream: TextIO) -> int | None:
    """Return how many cells a line has: COLUMNS, or those of the terminal; None without either."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or _DEFAULT_WIDTH
    except (OSError, ValueError):
        return _DEFAULT_WIDTH


def fitting(names: Sequence[str], columns: Sequence[Column], width: int | None) -> list[Column]:
    """Return the columns that fit beside the names, in the order in which they are given.

    Parameters
    ----------
    names : of the rows
    columns : all of them; those of least `use` go first
    width : of a line; None: unlimited
    """
    if width is None:
        return list(columns)
    kept: list[Column] = []
    least = least_width(names)
    ample = max(least, min(_longest(names), AMPLE_NAME))
    for column in sorted(columns, key=lambda one: -one.use):
        name = ample if column.is_further else least
        if kept and name + sum(one.width for one in (*kept, column)) > width:
            break
        kept.append(column)
    return [column for column in columns if column in kept]


def lines_of(heading: str, names: Sequence[str], columns: Sequence[Column], width: int | None) -> list[str]:
    """Return a line of headings and a line a row, names first; where these do not fit, a line for each name."""
    if not columns:
        return [heading, *map(short, names)]
    figures = [
        "".join(_padded(text, column.width, left=False) for text, column in zip(row, columns, strict=True))
        for row in zip(*((column.heading, *column.cells) for column in columns), strict=True)
    ]
    cells_left = LONGEST if width is None else width - sum(column.width for column in columns)
    shown = shortened(names, cells_left)
    if shown is None:
        own_lines = zip((heading, *map(short, names)), figures, strict=True)
        return [line for pair in own_lines for line in pair]
    own = _longest((heading, *shown))
    return [_padded(name, own) + row for name, row in zip((heading, *shown), figures, strict=True)]


def least_width(names: Sequence[str]) -> int:
    """Return how many cells names need at least so that no two look the same."""
    longest = _longest(names)
    for width in range(min(LEAST_NAME, longest), longest, _STEP):
        if shortened(names, width) is not None:
            return width
    return longest


def shortened(names: Sequence[str], width: int) -> list[str] | None:
    """Return the names cut in their middle to so many cells; None where two that differ would look the same."""
    if width < min(LEAST_NAME, _longest(names)):
        return None
    cut = [_cut(short(name, min(width, LONGEST)) if len(name) > LONGEST else name, width) for name in names]
    return cut if len(set(cut)) == len(set(names)) else None


def filled(text: str, width: int | None, *, rest: str = "") -> str:
    """Return a paragraph in lines that are no longer than a terminal's; all but the first begin with `rest`."""
    if width is None:
        return brief(text)
    return textwrap.fill(
        brief(text), max(width, LEAST_NAME), subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def folded(text: str, width: int | None) -> str:
    """Return a paragraph as `filled` does, names that are longer than a line cut in their middle."""
    return filled(brief(text, LONGEST if width is None else max(width, LEAST_NAME)), width)


def reason_lines(reasons: Sequence[str], width: int | None) -> list[str]:
    """Return the lines of sentences that stand above all figures, each command on a line of its own."""
    lines: list[str] = []
    for one in reasons:
        text, _, command = clean(one).partition(GRANT)
        begin = text[:1].upper() if text.partition(" ")[0].isalpha() else text[:1]  # names of domains stay as they are
        lines.append(folded(f"{begin}{text[1:]}{GRANT.rstrip() if command else ''}", width))
        lines += [f"  $ {command}"] if command else []
    return lines


def _cut(name: str, width: int) -> str:
    """Leave out the middle: the end of a name distinguishes functions, and its beginning shows their module."""
    if _cells(name) <= width:
        return name
    tail = (width - 1) * 2 // 3
    return f"{_begin(name, width - 1 - tail)}…{_begin(name[::-1], tail)[::-1]}"


def _begin(text: str, cells: int) -> str:
    """Return as much of a text as so many cells hold."""
    taken = 0
    for place, character in enumerate(text):
        taken += _cells(character)
        if taken > cells:
            return text[:place]
    return text


def _padded(text: str, cells: int, *, left: bool = True) -> str:
    missing = " " * (cells - _cells(text))
    return text + missing if left else missing + text


def _longest(texts: Sequence[str]) -> int:
    return max(map(_cells, texts), default=0)


def _cells(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    from rich.cells import cell_len

    return cell_len(text)
