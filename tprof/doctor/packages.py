"""Findings about installed packages: this distribution, others with its import name, and optional ones."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING

import tprof
from tprof.conflicts import find_conflicts, mending_command
from tprof.distribution import NAME
from tprof.sensors.advice import Remedy

from .fact import Fact, State

if TYPE_CHECKING:
    from tprof.conflicts import Conflict

_EXTRA = re.compile(r"""^([A-Za-z0-9._-]+).*;.*extra\s*==\s*['"]([^'"]+)['"]""")


def installation_facts() -> tuple[Fact, ...]:
    """Return the place of this distribution, and a fact for each other one with files in a package `tprof`."""
    folder = Path(tprof.__file__).parent
    conflicts = find_conflicts()
    alone = "" if conflicts else "; no other distribution has the import name tprof"
    own = Fact(NAME, State.OK, f"{tprof.__version__} in {folder}{alone}")
    return own, *(_conflict(conflict) for conflict in conflicts)


def _conflict(conflict: Conflict) -> Fact:
    why = f"{conflict.describe()}. Its files in {conflict.folder}: {', '.join(conflict.files)}"
    remedy = Remedy(mending_command((conflict,)), f"{conflict.name} is gone: install it in an environment of its own")
    return Fact("import name", State.LIMITED, why, (remedy,))


def package_facts() -> tuple[Fact, ...]:
    """Return a fact for each package that an extra of tprof names."""
    named = (_EXTRA.match(requirement) for requirement in requires(NAME) or ())
    return tuple(_package(match.group(1), match.group(2)) for match in named if match)


def _package(name: str, extra: str) -> Fact:
    try:
        return Fact(name, State.OK, version(name))
    except PackageNotFoundError:
        why = f"not installed: {NAME}[{extra}] brings it"
        return Fact(name, State.MISSING, why, (Remedy(f'pip install "{NAME}[{extra}]"'),))
