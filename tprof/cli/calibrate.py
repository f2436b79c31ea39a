"""`tprof calibrate`: find what a core, its instructions and its traffic draw on this machine."""

from __future__ import annotations

import os
import sys
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.errors import UsageError

from .options import AsJson
from .progress import bar, status
from .render import clean, dump, percent, plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console


_HELP = """Fit a power model to this machine, or to a table of counters and power.

Without --from it runs kernels that load pipeline, caches and memory on several numbers of cores (some minutes, on an
otherwise idle machine), fits watts per unit of IPC, per GB/s of L2 and LLC traffic, per core and for the package, and
keeps them: recordings of this machine then use them. It needs an energy sensor and hardware counters (tprof doctor).

Examples:

  tprof calibrate

  tprof calibrate --kernels all

  tprof calibrate --from node.csv --power watts --group program

  tprof calibrate --from runs.csv --power P --cores busy --ipc ipc --l2 l2_gbs --llc llc_gbs --group kernel
"""

NO_IDLE = (
    "what the idle package draws was not seen, and is not needed for the coefficients: other processes ran before the "
    "first kernel, that time was too short, or the session is of several packages"
)
MEANINGS = {
    "a": ("IPC of a core", "W"),
    "b": ("L2 traffic", "W per GB/s"),
    "c": ("LLC traffic", "W per GB/s"),
    "C1": ("an active core", "W"),
    "C2": ("the package", "W"),
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("calibrate", help=_HELP, rich_help_panel="Measure")(calibrate)


def calibrate(  # noqa: PLR0913 - one parameter an option
    table: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="A CSV table, or a session of an earlier calibration.")
    ] = None,
    power: Annotated[str | None, typer.Option(metavar="COLUMN", help="Table: the column of watts.")] = None,
    group: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Table: the column that names programs or kernels.")
    ] = None,
    counters: Annotated[str | None, typer.Option(metavar="A,B,…", help="Table: columns to fit; default: all.")] = None,
    cores: Annotated[str | None, typer.Option(metavar="COLUMN", help="Table, equation 1: active cores.")] = None,
    ipc: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Table, equation 1: IPC, summed over active cores.")
    ] = None,
    l2: Annotated[str | None, typer.Option(metavar="COLUMN", help="Table, equation 1: L2 traffic, GB/s.")] = None,
    llc: Annotated[str | None, typer.Option(metavar="COLUMN", help="Table, equation 1: LLC traffic, GB/s.")] = None,
    hz: Annotated[str | None, typer.Option(metavar="COLUMN", help="Table, equation 1: frequency, Hz.")] = None,
    processor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Table, equation 1: the processor that it was measured on.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0.05, metavar="SECONDS", help="Of each kernel at each number of cores.")
    ] = 0.5,
    kernels: Annotated[
        str | None, typer.Option(help="stress, polybench or all: what runs; default: stress.", show_default=False)
    ] = None,
    session: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the recording of the kernels in this directory.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the model there.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Table: keep its equation 1 for this machine.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Keep nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Calibrate; see the command's help."""
    chosen = {
        name: value
        for name, value in {"cores": cores, "ipc": ipc, "l2": l2, "llc": llc, "hz": hz}.items()
        if value is not None
    }
    if table is None and (chosen or power or group or counters or processor):
        raise UsageError(
            "columns are those of a table: name it with --from, or leave them out to calibrate this machine"
        )
    if table is not None and kernels is not None:
        raise UsageError(
            "kernels run on this machine, and --from reads what ran already: leave one of --kernels and --from out"
        )
    if table is not None and not os.path.isdir(table):
        if power is None:
            raise UsageError(f"which column of {table} holds the watts? name it with --power")
        if not chosen:
            if keep:
                raise UsageError(
                    "only a model of equation 1 can be kept for this machine: name its columns with --cores, --ipc, …"
                )
            if processor is not None:
                raise UsageError(
                    "--processor labels a model of equation 1: name its columns with --cores, --ipc, …, or leave it out"
                )
            _fit_counters(table, power, group, counters, output, as_json=as_json)
            return
        model = _fit_table(table, power, group, chosen, _processor_of_table(processor, keep=keep))
        kept = keep and not dry_run
    else:
        if processor is not None:
            raise UsageError("a session says which processor it was recorded on: leave --processor out")
        model = _fit_session(table) if table is not None else _run_kernels(kernels or "stress", session, seconds)
        kept = not dry_run and _is_of_this_machine(model)
    _finish(model, output, kept=kept, as_json=as_json)


def _fit_counters(
    table: Path, power: str, group: str | None, counters: str | None, output: Path | None, *, as_json: bool
) -> None:
    from dataclasses import asdict

    from tprof.analysis.models.calibration.counter_models import fit_counters
    from tprof.analysis.models.calibration.measured_runs import counters_table, read_csv

    named = counters.split(",") if counters else None
    rows = counters_table(read_csv(table), power=power, group=group, counters=named)
    with status("leaving out") as report:
        found = fit_counters(rows, progress=lambda name: report(f"leaving out {name}"))
    result = {"source": table.name, "power": power, "group": group, **asdict(found)}
    if output is not None:
        _write(result, output)
    if as_json:
        dump(result)
    else:
        show_counters(plain(result))


def _processor_of_table(named: str | None, *, keep: bool) -> str | None:
    """Return the processor of a table, which is this machine's only with --keep."""
    from tprof.sensors.topology import describe_host

    if not keep:
        return named
    here: str | None = describe_host()["processor"]
    if named not in (None, here):
        raise UsageError(
            f"--keep keeps a model for this machine ({here}), and --processor says {named}: leave one of them out"
        )
    return here


def _fit_table(
    table: Path, power: str, group: str | None, columns: dict[str, str], processor: str | None
) -> dict[str, Any]:
    from tprof.analysis.models.calibration import fit
    from tprof.analysis.models.calibration.measured_runs import equation_1_table, read_csv

    observations = equation_1_table(read_csv(table), power=power, group=group, columns=columns)
    return _as_model(fit(observations), processor=processor, source=table.name, quality="given")


def _run_kernels(kernels: str, session: Path | None, seconds: float) -> dict[str, Any]:
    import tempfile

    from tprof.benchmarks.calibration import record

    with tempfile.TemporaryDirectory(prefix="tprof-calibrate-") as folder:
        with bar("calibrating") as report:
            path = record(session or Path(folder), seconds_each=seconds, progress=report, kernels=kernels)
        return _fit_session(path)


def _fit_session(path: Path) -> dict[str, Any]:
    from tprof.analysis.models.calibration import fit, observe
    from tprof.trace import load

    trace = load(path)
    qualities = sorted(
        {str(one.quality) for one in trace.readings.values() if one.quantity == "energy" and one.counted}
    )
    host = trace.manifest.get("host") or {}
    quality = ", ".join(qualities) or "unknown"
    model = _as_model(fit(observe(trace)), processor=host.get("processor"), source="tprof calibrate", quality=quality)
    if model["idle_w"] is None:
        model["warnings"].append(NO_IDLE)
    return model


def _is_of_this_machine(model: dict[str, Any]) -> bool:
    """Return whether a session's model may be kept: one of another machine, or of a simulated one, is only shown."""
    from tprof.sensors.topology import describe_host

    here = describe_host()["processor"]
    return bool(model["quality"] == "measured" and here is not None and model["processor"] == here)


def _as_model(calibration: Any, *, processor: str | None, source: str, quality: str) -> dict[str, Any]:
    from datetime import datetime

    from tprof.analysis.models.calibration import as_model
    from tprof.distribution import version

    date = datetime.now(UTC).astimezone().date().isoformat()
    return as_model(calibration, processor=processor, date=date, version=version(), source=source, quality=quality)


def _finish(model: dict[str, Any], output: Path | None, *, kept: bool, as_json: bool) -> None:
    from tprof.trace.power_model import model_path, write_model

    if output is not None:
        _write(model, output)
    if kept:
        write_model(model)
    if as_json:
        dump(model)
        return
    show_model(model)
    if kept:
        print(f"kept in {model_path()}: recordings of this machine use it from now on")
    elif output is None:
        print("nothing was kept: name a file with --output")


def _write(model: dict[str, Any], output: Path) -> None:
    from tprof.trace.power_model import write_model

    write_model(plain(model), output)
    print(f"written to {output}", file=sys.stderr)


def show_model(model: Mapping[str, Any]) -> None:
    """Print a model of equation 1 and the goodness of its fit."""
    console = _console()
    title = f"Power model of {clean(model['processor'] or 'a processor not named')} ({clean(model['quality'])})"
    rows = [
        (f"{name}: {MEANINGS[name][0]}", value, MEANINGS[name][1], name)
        for name, value in model["coefficients"].items()
    ]
    _coefficients(console, title, rows, model, set(model["left_out"]))
    _errors(console, [("equation 1", model["left_out_error"]), ("predict the mean", model["mean_error"])])
    _line(console, f"R² {model['r2']:.3f}, error on its own {model['runs']} runs {percent(model['error'])}")
    for one in model["other_frequencies"]:
        core = f"at {one['hz'] / 1e9:.2f} GHz a core draws {one['core']:.2f} × as much"
        _line(console, f"{core}, the package {one['package_w']:.1f} W")
    if model["idle_w"] is not None:
        _line(console, f"idle package: {model['idle_w']:.1f} W")
    for warning in model["warnings"]:
        _line(console, f"warning: {warning}")
    for name in model["left_out"]:
        _line(console, f"warning: {name} was left out: no counter shows the {MEANINGS[name][0]}")


def show_counters(found: Mapping[str, Any]) -> None:
    """Print a fit to any counters."""
    console = _console()
    rows = [
        (name, value, "W" if name == "constant" else "W per unit", name)
        for name, value in found["coefficients"].items()
    ]
    _coefficients(console, f"Power by counters, {clean(found['source'])}", rows, found, set())
    _errors(
        console,
        [
            ("a straight line", found["line_error"]),
            ("a curve (trees and kernels)", found["curve_error"]),
            ("predict the mean", found["mean_error"]),
        ],
        heading=f"mean error, each of {found['groups']} groups left out in turn",
    )
    _line(console, f"R² of the line {found['r2']:.3f} on {found['rows']:,} rows")
    worst = sorted(found["by_group"].items(), key=lambda item: -item[1])
    _line(console, "the curve by group: " + ", ".join(f"{name} {percent(error)}" for name, error in worst))
    for warning in found["warnings"]:
        _line(console, f"warning: {warning}")


def _console() -> Console:
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 140)


def _coefficients(
    console: Console,
    title: str,
    rows: list[tuple[str, float, str, str]],
    goodness: Mapping[str, Any],
    left_out: set[str],
) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left")
    table.add_column("coefficient", overflow="fold")
    for heading in ("value", "unit", "95 % interval", "inflation"):
        table.add_column(heading, justify="right", no_wrap=True)
    for label, value, unit, name in rows:
        low, high = goodness["intervals"][name]
        factor = goodness["inflation"].get(name)
        known = name not in left_out
        table.add_row(
            Text(clean(label)),
            f"{value:.4g}" if known else "not known",
            unit,
            f"{low:.3g} … {high:.3g}" if known else "",
            "" if factor is None else f"{factor:.3g}",
        )
    console.print(table)


def _errors(
    console: Console, rows: list[tuple[str, float | None]], heading: str = "mean error, each kernel left out in turn"
) -> None:
    from rich.table import Table

    table = Table()
    table.add_column("predicted by")
    table.add_column(heading, justify="right")
    for name, error in rows:
        table.add_row(name, "not known" if error is None else percent(error))
    console.print(table)


def _line(console: Console, text: str) -> None:
    from rich.text import Text

    console.print(Text(clean(text)))
