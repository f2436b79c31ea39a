"""What a program did outside its tasks, by its sampled stacks, and the pattern that makes tasks of most of it.

A path belongs to the library that the program called, or that an event loop called; not to what this called in turn.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from .flame.functions import IMPORT
from .flame.tree import NONE_SAMPLED, OUTSIDE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .flame import Flame

    Path = Sequence[tuple[str, str]]
    """Names and places of functions, the outermost first."""

NOTABLE = 0.1
"""Part of the joules outside tasks from which something is named."""
MOST = 3
_MODULE = "module "
_PACKAGE = re.compile(r".*/(?:site|dist)-packages/([^/:]+?)(\.py)?(?=[/:])")
_PYTHON = re.compile(r"(?:.*/python3\.\d+t?/(?!(?:site|dist)-packages/)|<)")
_LOOP = "/asyncio/"
IMPORTS, LOOP, LIBRARY = "importing modules", "an event loop", "Python's own library"
PROGRAM = "the program's functions"


def outside_work(flame: Flame) -> tuple[str, str | None]:
    """Return in words what ran outside tasks, empty if no stack shows it, and a pattern for most of it."""
    joules: dict[str, float] = defaultdict(float)
    patterns: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for path, own_j in _paths(flame):
        what, pattern = _work_of(path)
        joules[what] += own_j
        if pattern is not None:
            patterns[what][pattern] += own_j
    total_j = sum(joules.values())
    first = sorted((one for one in joules if joules[one] >= NOTABLE * total_j), key=joules.__getitem__, reverse=True)
    if not total_j > 0 or not first:
        return "", None
    words = [f"{100 * joules[one] / total_j:.0f} % {one}" for one in first[:MOST]]
    named = next((one for one in first[:MOST] if patterns[one]), None)
    pattern = None if named is None else max(patterns[named], key=patterns[named].__getitem__)
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))), pattern


def _paths(flame: Flame) -> list[tuple[Path, float]]:
    """Return the functions of each path outside tasks that took joules itself, with these."""
    columns = (flame.nodes[name].tolist() for name in ("parent", "name", "place", "kind", "own_j"))
    found: list[Path | None] = []
    taken: list[tuple[Path, float]] = []
    for parent, name, place, kind, own_j in zip(*columns, strict=True):
        above = found[parent] if parent >= 0 else None
        path: Path | None = [] if name == OUTSIDE and kind == "rest" else None
        if above is not None and name != NONE_SAMPLED:
            path = [*above, (name, place)]
        found.append(path)
        if path and own_j > 0:
            taken.append((path, own_j))
    return taken


def _work_of(path: Path) -> tuple[str, str | None]:
    """Return what a path belongs to, and a pattern for the function that was called there."""
    if path[-1][0] == IMPORT[0] or any(name.startswith(_MODULE) for name, _ in path[1:]):
        return IMPORTS, None
    loops = [at for at, (_, place) in enumerate(path) if _LOOP in place]
    called = path[loops[-1] + 1 :] if loops else path
    for at, (_, place) in enumerate(called):
        if (package := _PACKAGE.match(place)) is not None:
            return package[1], _pattern(package[1], called[at:], is_module=package[2] is not None)
    own = [(name, place) for name, place in called if place and not (_PYTHON.match(place) or name.startswith(_MODULE))]
    if own:
        name, place = own[0]
        return PROGRAM, f"{place.rpartition(':')[0]}:{_last(name)}"
    return (LOOP if loops else LIBRARY), None


def _pattern(package: str, path: Path, *, is_module: bool) -> str | None:
    """Return a pattern for the first public function of a package on a path."""
    for name, place in path:
        found, last = _PACKAGE.match(place), _last(name)
        if found is not None and found[1] == package and not (last.startswith(("_", "*._", "<")) or "<locals>" in name):
            return f"{package}{'' if is_module else '.*'}:{last}"
    return None


def _last(name: str) -> str:
    """Return a function's own name, of a method with a wildcard for its class."""
    inner = name.rpartition("<locals>.")[2]
    return f"*.{inner.rpartition('.')[2]}" if "." in inner else inner
