"""`tprof scaling --list`: which algorithms and machines there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def show_list(*, as_json: bool) -> None:
    """Print them."""
    from .tables import dump

    found = _listed()
    if as_json:
        dump(found)
        return
    for heading, rows in found.items():
        print(f"{heading}:")
        for name, what in rows.items():
            print(f"  {name}: {what}")


def _listed() -> dict[str, dict[str, Any]]:
    from tprof.analysis.laws import cores, scaling

    kinds: dict[str, Mapping[str, Any]] = {
        "algorithms on processors that send messages": scaling.ALGORITHMS,
        "algorithms on nodes and their cores (--machine FILE with tables node and core)": scaling.TWO_LEVEL_ALGORITHMS,
        "algorithms on cores of one frequency": cores.ALGORITHMS,
    }
    listed = {heading: {one.name: one.title for one in kind.values()} for heading, kind in kinds.items()}
    listed["machines of processors that send messages"] = {
        machine.name: machine.source for machine in scaling.machines().values()
    }
    listed["machines of cores of one frequency"] = {
        cores.PAPER: "the paper's ratios: k = 1000, β = 2, Mc = 1000, B = 1"
    }
    return listed
