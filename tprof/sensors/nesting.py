"""How domains nest, and which of them make a total in which nothing is counted twice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .contract import Domain

AROUND = {
    "core": "package",
    "one-core": "package",
    "uncore": "package",
    "package": "psys",
    "psys": "machine",
    "dram": "machine",
    "gpu": "machine",
    "machine": "wall",
}
"""The scope around each scope; that of a part of the machine that is not listed is `machine`, and `wall` has none."""
_FIRST = ("package", "psys", "machine", "wall")
"""Scopes that count before others: the processors' own, else the narrowest that has them in it."""
_LAST = ("core", "uncore", "one-core")


def scopes_around(domain: Domain) -> tuple[str, ...]:
    """Return the scopes, or names of domains, that include a domain, from the nearest to the widest."""
    around: list[str] = []
    scope = domain.within or _around(domain.scope)
    while scope is not None and scope not in around:
        around.append(scope)
        scope = _around(scope)
    return tuple(around)


def _around(scope: str) -> str | None:
    return None if scope == "wall" else AROUND.get(scope, "machine")


def includes(outer: Domain, inner: Domain) -> bool:
    """Return whether one domain's joules are among those of another, or the same.

    A part of one package counts as a part of any: of two packages' cores, one alone would make no total.
    """
    if outer.name == inner.name:
        return True
    if outer.scope == inner.scope:
        return outer.name == outer.scope
    around = scopes_around(inner)
    return outer.name in around or outer.scope in around


def total(domains: Sequence[Domain]) -> tuple[tuple[Domain, ...], tuple[tuple[str, str], ...]]:
    """Decide which domains are counted; returns all of them, and the reasons for those that are not any more.

    The processors' packages come first, or else the narrowest domain that has them in it; then whatever is beside
    what is counted already. Of two equals the earlier one counts.
    """
    counted: list[Domain] = []
    reasons: dict[int, str] = {}
    for index in sorted(range(len(domains)), key=lambda index: _rank(domains[index])):
        domain = domains[index]
        other = next((one for one in counted if includes(one, domain) or includes(domain, one)), None)
        if domain.counted and other is None:
            counted.append(domain)
        elif domain.counted and other is not None:
            reasons[index] = _why_not(domain, other)
    places = {index for index, domain in enumerate(domains) if domain.counted and index not in reasons}
    kept = tuple(replace(domain, counted=index in places) for index, domain in enumerate(domains))
    return kept, tuple((domains[index].name, why) for index, why in sorted(reasons.items()))


def _rank(domain: Domain) -> int:
    if domain.scope in _FIRST:
        return _FIRST.index(domain.scope)
    return len(_FIRST) + (domain.scope in _LAST)


def _why_not(domain: Domain, counted: Domain) -> str:
    if includes(counted, domain):
        return f"it is a part of {counted.name}"
    return f"it stands around {counted.name} and would count it twice"
