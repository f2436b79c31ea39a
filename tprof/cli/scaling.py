"""`tprof scaling`: what an algorithm must cost on a machine, and how many processors or cores it should take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .scaling_asked import Answer, Asked

_HELP = """Calculate time and energy of a parallel algorithm from a machine's constants.

Nothing is measured. Sizes and processors are one number, several with commas, or a range such as 1:4096 (doublings).

Examples:

  tprof scaling --list

  tprof scaling matmul

  tprof scaling matmul -n 35000 --minimise energy --max-time 0.1 --machine my-machine.toml

  tprof scaling addition -n 1e7:1e9 --plot addition.html
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("scaling", help=_HELP, rich_help_panel="Predict and check")(scaling)


def scaling(  # noqa: PLR0913 - one parameter an option
    algorithm: Annotated[str | None, typer.Argument(help="As --list names it.", show_default=False)] = None,
    listing: Annotated[bool, typer.Option("--list", help="Say which algorithms and machines there are.")] = False,  # noqa: FBT002
    machine: Annotated[str | None, typer.Option(metavar="NAME|FILE", help="A name, or a file of TOML or JSON.")] = None,
    size: Annotated[str | None, typer.Option("-n", help="Size of the problem.", metavar="N|LO:HI")] = None,
    count: Annotated[str | None, typer.Option("-p", help="Processors, nodes or cores.", metavar="P|LO:HI")] = None,
    memory: Annotated[
        float | None, typer.Option(metavar="WORDS", help="Words in use a processor; default: those of least energy.")
    ] = None,
    pair: Annotated[
        float | None, typer.Option("--flops-per-pair", metavar="FLOPS", help="n-body: flops a pair; default 20.")
    ] = None,
    minimise: Annotated[str | None, typer.Option(help="energy, time or edp: print the best execution only.")] = None,
    max_time: Annotated[float | None, typer.Option(metavar="SECONDS", help="The longest time.")] = None,
    max_energy: Annotated[float | None, typer.Option(metavar="JOULES", help="The most energy.")] = None,
    max_power: Annotated[float | None, typer.Option(metavar="WATTS", help="The most power of all processors.")] = None,
    max_processor_power: Annotated[
        float | None, typer.Option(metavar="WATTS", help="The most power of one processor.")
    ] = None,
    target: Annotated[float | None, typer.Option(metavar="GFLOPS/W", help="How good must the machine become?")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it as a page of HTML.", metavar="FILE.html")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,  # noqa: FBT002 - typer's default
) -> None:
    """Print what is asked for."""
    from . import scaling_cores, scaling_processors, scaling_two_levels
    from .scaling_asked import Asked, values

    if listing:
        _show_list(as_json=as_json)
        return
    asked = Asked(
        machine=machine, n=values("-n", size), p=values("-p", count), memory=memory, pair=pair, minimise=minimise,
        limits={"time_s": max_time, "energy_j": max_energy, "power_w": max_power,
                "processor_power_w": max_processor_power},
        target=target,
    )  # fmt: skip
    families: tuple[Any, ...] = (scaling_processors, scaling_two_levels, scaling_cores)
    for family in families:
        if algorithm is not None and algorithm in family.names():
            _show(family.answer, algorithm, asked, plot, as_json=as_json)
            return
    known = ", ".join(name for family in families for name in family.names())
    wrong = "name an algorithm" if algorithm is None else f"there is no algorithm {algorithm!r}"
    message = f"{wrong}: take {known}, or see --list"
    raise UsageError(message)


def _show(answer: Callable[..., Answer], algorithm: str, asked: Asked, plot: Path | None, *, as_json: bool) -> None:
    import numpy as np

    try:
        with np.errstate(over="raise", divide="ignore", under="ignore"):
            found = answer(algorithm, asked)
            if plot is not None:
                found.write(plot)
    except ArithmeticError as error:
        message = "these sizes and constants give numbers that are too large: take smaller ones"
        raise UsageError(message) from error
    if as_json:
        from .tables import dump

        dump(found.plain)
    else:
        found.show()


def _show_list(*, as_json: bool) -> None:
    """Print which algorithms and machines there are."""
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
    from tprof.analysis.theory import energy_scalability as cores
    from tprof.analysis.theory import strong_scaling as scaling

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
