"""The page of an analytic model: sentences, tables and figures in one self-contained file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tprof.analysis.report.data import clean
from tprof.analysis.report.embed import Parts, embed, write_page

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence


@dataclass(frozen=True)
class Axis:
    """An axis: its title, the unit behind its numbers, and whether it is logarithmic."""

    title: str
    unit: str = ""
    log: bool = True


@dataclass(frozen=True)
class Curve:
    """A line of a figure, or with `points` marks alone."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    dash: str = "solid"
    points: bool = False


@dataclass(frozen=True)
class Surface:
    """Values over two axes, NaN for missing ones: rows of `z` along y."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    z: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Figure:
    """One figure; `band` shades x from … to, with a label."""

    title: str
    x: Axis
    y: Axis
    curves: Sequence[Curve] = ()
    note: str = ""
    band: tuple[float, float, str] | None = None
    surface: Surface | None = None


@dataclass(frozen=True)
class Sheet:
    """A table of text; the first column is left-aligned."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    texts: int = 1


@dataclass(frozen=True)
class Page:
    """The content of a page, in this order."""

    title: str
    sentences: Sequence[str]
    figures: Sequence[Figure]
    tables: Sequence[Sheet]
    notes: Sequence[str] = field(default_factory=tuple)


def render(page: Page) -> str:
    """Return the page's HTML."""
    package = files(__package__)
    body, script = ((package / f"model_page.{kind}").read_text("utf-8") for kind in ("html", "js"))
    data: Any = clean(asdict(page))
    return embed(Parts("tprof scaling", body, script, data))


def write(page: Page, path: str | os.PathLike[str]) -> None:
    """Write the page, replacing a file that is there. Raises TprofError if it cannot be written."""
    write_page(path, render(page))
