"""How runs were measured, and what that means for a comparison of theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .one_model import model_of, models_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.profile import Profile

NO_ENERGY = "none"
ESTIMATED = "estimated"
_SAME_MACHINE = ("host", "processor", "cpus")
_REST = {"kernel": "kernel", "python": "Python", "counters": "counters", "domains": "domains"}


@dataclass(frozen=True)
class Likeness:
    """What two sides have in common as measurements.

    Attributes
    ----------
    shares_error : whether an error of watts or of the sensor is the same on both sides, so that it hardly moves ratios
    has_energy : whether both sides know joules, shared by one power model
    warnings : a sentence on each way in which they were measured differently
    unread : sentences on joules that the totals lack, since they could not be read
    """

    shares_error: bool
    has_energy: bool
    warnings: tuple[str, ...]
    unread: tuple[str, ...]


def circumstances_of(profile: Profile) -> dict[str, Any]:
    """Return how a profile was measured, as plain values; of a job what its hosts have in common, else all values."""
    from tprof.analysis.profile.provenance import unread_texts  # noqa: PLC0415 - profiles have a method that compares

    parts = [_of_info(info) for info in profile.host_infos.values()]
    joined = {name: _joined([part[name] for part in parts]) for name in parts[0]} if parts else {}
    own = {
        "quality": str(profile.info["quality"]),
        "hosts": len(parts),
        "unread": "\n".join(unread_texts(profile.info)),
    }
    return joined | own


def _of_info(info: Mapping[str, Any]) -> dict[str, Any]:
    host, estimate = info["host"], info["estimate"] or {}
    counted = [one for one in info["domains"] if one["counted"]]
    watts = [f"{estimate[name]} W {words}" for name, words in _WATTS.items() if name in estimate]
    return {
        "sensor": ", ".join(sorted({str(one["source"]) for one in counted})),
        "domains": ", ".join(sorted(str(one["name"]) for one in counted)),
        "model": model_of(info),
        "watts": " and ".join(watts),
        "host": str(host.get("hostname", "")),
        "processor": str(host.get("processor", "")),
        "cpus": str(host.get("cpus", "")),
        "kernel": str(host.get("kernel", "")),
        "python": str(host.get("python", "")),
        "counters": str(info["counters"].get("source", "")),
    }


_WATTS = {"idle_w": "idle", "per_core_w": "a busy core"}


def _joined(values: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, values)))


def likeness(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> Likeness:
    """Return how like the circumstances of all runs of two sides are."""
    both = [*a, *b]
    qualities = {str(one["quality"]) for one in both}
    warnings = [*_quality(a, b)]
    if ESTIMATED in qualities and _differs(both, "watts"):
        warnings.append(
            f"the estimates assume different watts ({_versus(a, b, 'watts')}): part of the difference is theirs; give "
            "both runs the same by --watts IDLE,PER_CORE"
        )
    if _differs(both, "sensor") and len(qualities) == 1:
        warnings.append(f"the sensors differ: {_versus(a, b, 'sensor')}")
    is_one_model = len(models_of(both)) < 2
    if not is_one_model:
        warnings.append(
            f"only times are compared, since the power models differ ({_versus(a, b, 'model')}) and joules move "
            "between tasks by that alone: give both one model that can share both, such as cputime"
        )
    unlike = [name for name in _SAME_MACHINE if _differs(both, name)]
    warnings += [f"the machines differ ({name}): {_versus(a, b, name)}" for name in unlike]
    if _differs(both, "hosts"):
        warnings.append(f"the numbers of hosts differ: {_versus(a, b, 'hosts')}")
    warnings += [f"the {words} differ: {_versus(a, b, name)}" for name, words in _REST.items() if _differs(both, name)]
    # A sensor's error is that of one machine, and the error of assumed watts that of a kind of machine.
    machine = _SAME_MACHINE[1:] if qualities == {ESTIMATED} else _SAME_MACHINE
    same = not any(_differs(both, name) for name in ("quality", "watts", "sensor", "domains", *machine))
    return Likeness(same, is_one_model and NO_ENERGY not in qualities, tuple(warnings), tuple(_unread(a, b)))


def _unread(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what could not be read on both sides, then on one of them."""
    sides = [[text for one in side for text in str(one.get("unread", "")).splitlines()] for side in (a, b)]
    found: list[str] = []
    for text in dict.fromkeys((*sides[0], *sides[1])):
        of = [name for name, texts in zip("AB", sides, strict=True) if text in texts]
        found.append(text if len(of) == len(sides) else f"{of[0]}: {text}")
    return found


def _quality(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence where the joules of the sides are not of one kind."""
    kinds = [{str(one["quality"]) for one in side} for side in (a, b)]
    bare = [name for name, found in zip("AB", kinds, strict=True) if NO_ENERGY in found]
    if bare:
        return [f"{' and '.join(bare)} {'have' if len(bare) > 1 else 'has'} no energy: only times are compared"]
    if kinds[0] != kinds[1] or len(kinds[0]) > 1:
        words = [" and ".join(sorted(found)) for found in kinds]
        sentence = (
            f"the joules of A are {words[0]} and those of B {words[1]}: their difference is mostly that of the two "
        )
        return [f"{sentence}ways, so compare times only, or record both sides in one way"]
    return []


def _differs(runs: Sequence[Mapping[str, Any]], name: str) -> bool:
    return len({str(one.get(name)) for one in runs}) > 1


def _versus(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]], name: str) -> str:
    sides = [" and ".join(dict.fromkeys(str(one.get(name)) or "unknown" for one in side)) for side in (a, b)]
    return f"A {sides[0]}, B {sides[1]}"
