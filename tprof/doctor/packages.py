"""Findings about optional packages: which extras of tprof are installed."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires, version

from tprof.sensors.advice import Remedy

from .fact import Fact, State

_EXTRA = re.compile(r"""^([A-Za-z0-9._-]+).*;.*extra\s*==\s*['"]([^'"]+)['"]""")


def package_facts() -> tuple[Fact, ...]:
    """Return a fact for each package that an extra of tprof names."""
    named = (_EXTRA.match(requirement) for requirement in requires("tprof") or ())
    return tuple(_package(match.group(1), match.group(2)) for match in named if match)


def _package(name: str, extra: str) -> Fact:
    try:
        return Fact(name, State.OK, version(name))
    except PackageNotFoundError:
        why = f"not installed: tprof[{extra}] brings it"
        return Fact(name, State.MISSING, why, (Remedy(f'pip install "tprof[{extra}]"'),))
