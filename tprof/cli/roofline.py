"""`tprof roofline`: what time, energy and power this machine needs at each intensity, and where tasks stand."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.analysis.text_table import Table
from tprof.errors import UsageError
from tprof.trace.plain_values import counted

from .options import AsJson, Quick, open_profile
from .progress import bar
from .render import dump, percent, plain, quantity, show_tables, three_digits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tprof.analysis.theory.roofline import Machine
    from tprof.analysis.theory.roofline_tasks import TaskPoint
    from tprof.benchmarks.roofline import Measured
    from tprof.benchmarks.roofline.roofline_machine import Result


_HELP = """Draw the roofline of energy of this machine, or of a known one, and place a session's tasks under it.

Without --machine it runs polynomials of many degrees over streams on all cores (about half a minute, best on an idle
machine), and fits seconds and, where a sensor measures energy, joules a flop and a byte and the constant power.

Tasks are placed by the flops and bytes that they declare, @tprof.task(flops=..., bytes=...); without declared bytes,
64 for each LLC miss count where the session has that counter.

Examples:

  tprof roofline -o roofline.html

  tprof roofline --save laptop

  tprof roofline blur.tprof --machine laptop -o blur-roofline.html

  tprof roofline --machine gtx580 --json
"""
BEYOND = 1.05
"""Best run over fitted roof from which on the difference is explained."""
PICO = 1e12
UNITS = {
    "tau_mem_s": ("time a byte", "ps"), "tau_single_s": ("time a flop, single", "ps"),
    "tau_double_s": ("time a flop, double", "ps"), "eps_single_j": ("energy a flop, single", "pJ"),
    "eps_double_j": ("energy a flop, double", "pJ"), "delta_double_j": ("what double adds to a flop", "pJ"),
    "eps_mem_j": ("energy a byte", "pJ"), "pi0_w": ("constant power", "W"),
}  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("roofline", help=_HELP)(roofline)


def roofline(  # noqa: PLR0913 - one parameter an option
    session: Annotated[Path | None, typer.Argument(help="Place the tasks of this session.")] = None,
    named: Annotated[Path | None, typer.Option("--session", help="The same as SESSION.")] = None,
    machine: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="Do not measure: gtx580, i7-950, fermi, or one that was saved."),
    ] = None,
    precision: Annotated[str, typer.Option(help="Of the tasks' flops: double or single.")] = "double",
    model: Annotated[str, typer.Option(help="Power model for the session: auto, cputime, …")] = "auto",
    quick: Quick = False,
    save: Annotated[
        str | None, typer.Option(metavar="NAME|FILE.json", help="Keep the machine that was measured.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.html", help="Draw it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure, fit and draw; see the command's help."""
    from tprof.benchmarks.roofline.roofline_machine import known

    session = session or named
    _check(precision, machine, save, output)
    points, notes, processor = _placed_tasks(session, model) if session is not None else ([], [], None)
    result = known(machine, processor) if machine is not None else _measured(quick=quick, processor=processor)
    result.tasks, result.precision = points, precision
    result.notes += notes
    _refuse_precision(result, precision)
    if save is not None:
        _save(result, save)
    if output is not None:
        _draw(result, output)
    if as_json:
        _dump(result)
    else:
        if result.first is not None:
            print(f"{result.first[0].upper()}{result.first[1:]}.\n")
        show_tables(tables(result), sys.stdout)


def _check(precision: str, machine: str | None, save: str | None, output: Path | None) -> None:
    """Refuse before the work what cannot be done after it."""
    if precision not in {"single", "double"}:
        raise UsageError(f'--precision must be single or double, got "{precision}"')
    if save is not None and machine is not None:
        raise UsageError("--save keeps a machine that was measured: leave --machine out")
    if save is not None:
        from tprof.benchmarks.roofline.roofline_machine import saved_path

        saved_path(save)
    if output is not None and (os.path.isdir(output) or not os.path.isdir(output.absolute().parent)):
        raise UsageError(
            f"cannot write the page to {output}: name a file in a directory that exists, such as roofline.html"
        )


def _measured(*, quick: bool, processor: str | None) -> Result:
    from tprof.benchmarks.roofline.roofline_machine import measure_here

    with bar("measuring") as report:
        result = measure_here(quick=quick, processor=processor, progress=report)
    if result.measured is not None:
        result.notes += _below(result.machine, result.measured)
    return result


def _placed_tasks(session: Path, model: str) -> tuple[list[TaskPoint], list[str], str | None]:
    from tprof.analysis.profile.profile_warnings import failed_declarations
    from tprof.analysis.theory.roofline_tasks import task_points

    profile = open_profile(session, model)
    points, notes = task_points(profile)
    if not points:
        raise UsageError(_why_none(session, failed_declarations(profile.trace.tasks), notes))
    notes += _qualities(points)
    return points, notes, (profile.info["host"] or {}).get("processor")


def _why_none(session: Path, failed: list[str], notes: list[str]) -> str:
    if failed:
        return f"no task of {session} could be placed: {'; '.join(failed)}: mend what it declares and record again"
    why = f" ({notes[0]})" if notes else ""
    return (
        f"no task of {session} says what it computes and moves{why}: declare it with "
        "@tprof.task(flops=..., bytes=...) and record again"
    )


def _qualities(points: list[TaskPoint]) -> list[str]:
    """Return a sentence on the quality of the joules, so that no reader takes an estimate for a measurement."""
    found = sorted({point.quality for point in points if point.energy_j is not None})
    if not found:
        return []
    return [f"the tasks' joules are {' and '.join(found)}{'' if 'measured' in found else ', not measured'}"]


def _refuse_precision(result: Result, precision: str) -> None:
    if result.tasks and precision not in result.machine.precisions:
        raise UsageError(
            f"{result.machine.name} is known in {result.machine.precisions[0]} precision only: use --precision"
        )


def _save(result: Result, save: str) -> None:
    from dataclasses import replace

    from tprof.analysis.theory.roofline_machines import write_machine
    from tprof.benchmarks.roofline.roofline_machine import saved_path

    path = saved_path(save)
    write_machine(replace(result.machine, name=path.stem), path, fit_as_plain(result))
    print(f"kept in {path}: use it with --machine {save}", file=sys.stderr)


def _draw(result: Result, output: Path) -> None:
    from tprof.analysis.theory.roofline_page import Shown, write_roofline

    runs = result.measured.runs if result.measured is not None else None
    shown = Shown(result.machine, result.where, runs, result.tasks, result.precision, result.all_notes)
    write_roofline(shown, output)
    print(output, file=sys.stderr)


def _dump(result: Result) -> None:
    plain: dict[str, Any] = as_plain(result)
    dump(plain)


def tables(result: Result) -> Iterator[Table]:
    """Return the tables to print."""
    if result.fitted is not None and result.measured is not None:
        yield _achieved(result.measured)
        yield _estimates(result)
    yield _balances(result.machine, result)
    if result.tasks:
        yield _tasks_table(result)


def as_plain(result: Result) -> dict[str, Any]:
    """Return everything as plain values; a unit is a suffix."""
    from tprof.analysis.theory.roofline_page import describe

    machine = asdict(result.machine) | {"caches": dict(result.machine.caches)}
    values: dict[str, Any] = {
        "machine": machine,
        "where": result.where,
        "derived": {one: describe(result.machine.at(one)) for one in result.machine.precisions},
        "notes": result.all_notes,
        "tasks": _plain_tasks(result),
    }
    if result.measured is not None:
        values |= {"fit": fit_as_plain(result), "measured": _plain_measured(result.measured)}
    return values


def fit_as_plain(result: Result) -> dict[str, Any]:
    """Return how the machine was fitted."""
    fitted = result.fitted
    if fitted is None:
        return {}
    values: dict[str, Any] = plain({key: value for key, value in asdict(fitted).items() if key != "machine"})
    return values | {"where": result.where, "processor": result.processor}


def _plain_measured(measured: Measured) -> dict[str, Any]:
    runs = measured.runs
    columns = {field.name: getattr(runs, field.name).tolist() for field in fields(runs)} | {"degree": measured.degrees}
    return {
        "achieved": measured.achieved,
        "bytes_per_s": measured.bytes_per_s,
        "single_flops_per_s": measured.flops_per_s("single"),
        "double_flops_per_s": measured.flops_per_s("double"),
        "numpy_copy_bytes_per_s": measured.rates["copy"],
        "numpy_product_single_flops_per_s": measured.rates["product-single"],
        "numpy_product_double_flops_per_s": measured.rates["product-double"],
        "vectors": measured.vectors,
        "cpus": measured.cpus,
        "stream_bytes": measured.stream_bytes,
        "runs": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
    }


def _plain_tasks(result: Result) -> list[dict[str, Any]]:
    machine = result.machine.at(result.precision) if result.tasks else result.machine
    names = ("intensity", "flops_per_s", "flops_per_j", "power_w")
    return [
        asdict(point) | {name: getattr(point, name) for name in names} | {"of_roof": point.of_roof(machine)}
        for point in result.tasks
    ]


def _achieved(measured: Measured) -> Table:
    part = measured.achieved
    reached = [("bandwidth", "B/s", measured.bytes_per_s, measured.rates["copy"], part["bandwidth"])]
    reached += [
        (f"{one} precision", "flop/s", measured.flops_per_s(one), measured.rates[f"product-{one}"], part[one])
        for one in ("single", "double")
    ]
    rows = [
        (name, _rate(ours, unit), _rate(theirs, unit), percent(share)) for name, unit, ours, theirs, share in reached
    ]
    note = (
        f"Best of all runs on {counted(len(measured.cpus), 'core')} with {measured.vectors} vectors over "
        f"{measured.stream_bytes / 1e6:.0f} MB a core; beside it NumPy's copy on the same "
        "cores (bytes read and written) and NumPy's matrix product, in the same run."
    )
    return Table("Reached", ("", "kernels", "NumPy", "kernels / NumPy"), tuple(rows), note, 1)


def _estimates(result: Result) -> Table:
    fitted = result.fitted
    assert fitted is not None  # noqa: S101 - for the type checker; `tables` has asked
    rows = []
    for one in fitted.estimates:
        meaning, unit = UNITS[one.name]
        factor = 1.0 if unit == "W" else PICO
        interval = (
            "–" if one.low != one.low else f"{three_digits(one.low * factor)} … {three_digits(one.high * factor)}"
        )
        rows.append((meaning, f"{three_digits(one.value * factor)} {unit}", interval))
    note = f"From {counted(fitted.runs, 'run')}; the model's error on them is {100 * fitted.time_error:.1f} % in time"
    if fitted.energy_error is not None:
        note += f" and {100 * fitted.energy_error:.1f} % in energy (R² of equation 9: {fitted.r2:.4f})"
    return Table("Fitted machine", ("", "value", "95 % interval"), tuple(rows), f"{note}.", 1)


def _balances(machine: Machine, result: Result) -> Table:
    views = [machine.at(one) for one in machine.precisions]
    rows = [
        ("peak", *(_rate(1 / one.tau_flop_s, "flop/s") for one in views)),
        ("memory", *(_rate(1 / one.tau_mem_s, "B/s") for one in views)),
        ("time balance", *(f"{three_digits(one.time_balance)} flop/B" for one in views)),
    ]
    known = [one for one in views if one.has_energy]
    if len(known) == len(views):
        rows += [
            ("energy balance, no constant power", *(f"{three_digits(one.energy_balance)} flop/B" for one in views)),
            ("half of the best energy from", *(f"{three_digits(one.half_efficiency)} flop/B" for one in views)),
            ("best energy", *(_rate(one.most_flops_per_j, "flop/J") for one in views)),
            ("power: flops alone", *(f"{three_digits(one.compute_power_w)} W" for one in views)),
            ("power: memory alone", *(f"{three_digits(one.memory_power_w)} W" for one in views)),
            ("power: most", *(f"{three_digits(one.most_power_w)} W" for one in views)),
            ("race to halt saves energy", *("yes" if one.race_to_halt else "not always" for one in views)),
        ]
    if machine.cap_w is not None:
        rows.append(("power cap", *(f"{three_digits(machine.cap_w)} W" for _ in views)))
    headings = ("", *(f"{one} precision" for one in machine.precisions))
    note = " ".join([result.where, *_sentences(result.notes)])
    return Table(f"Machine: {machine.name}", headings, tuple(rows), note, 1)


def _tasks_table(result: Result) -> Table:
    machine = result.machine.at(result.precision)
    rows = []
    for point in result.tasks:
        mark = f" ({point.quality})"
        energy = "not resolved" if point.flops_per_j is None else _rate(point.flops_per_j, "flop/J") + mark
        watts = "not resolved" if point.power_w is None else quantity(point.power_w, "W") + mark
        source = ", ".join(dict.fromkeys((point.flops_from, point.bytes_from)))
        rows.append((
            point.task, source, f"{point.instances:,}", f"{three_digits(point.intensity)} flop/B",
            "memory" if point.intensity < machine.time_balance else "flops",
            _rate(point.flops_per_s, "flop/s"), percent(point.of_roof(machine)), energy, watts,
        ))  # fmt: skip
    headings = (
        "task", "flops and bytes", "instances", "intensity", "bound by", "speed", "of the roof", "energy", "power",
    )  # fmt: skip
    note = (
        f"Speed while at least one instance runs, under the roof of all cores in {result.precision} precision. A task "
        "on fewer cores, or whose bytes come from a cache, stands elsewhere than the machine's limits suggest."
    )
    return Table("Tasks", headings, tuple(rows), note, 2)


def _sentences(notes: list[str]) -> list[str]:
    return [f"{note[0].upper()}{note[1:]}." for note in notes]


def _interval(low: float, high: float) -> str:
    return "–" if math.isnan(low) else f"{three_digits(low)} … {three_digits(high)}"


def _below(machine: Machine, measured: Measured) -> list[str]:
    """Explain a roof that lies below what was reached."""
    views = [machine.at(one) for one in machine.precisions]
    pairs = [("memory", "B/s", measured.bytes_per_s, 1 / machine.tau_mem_s)]
    pairs += [
        (f"{one.precision} flops", "flop/s", measured.flops_per_s(one.precision), 1 / one.tau_flop_s) for one in views
    ]
    below = [
        f"{_rate(best, unit)} ({what}; fitted {_rate(fitted, unit)})"
        for what, unit, best, fitted in pairs
        if best > BEYOND * fitted
    ]
    if not below:
        return []
    why = "the fit is through all runs, also those that others slowed, so the roof lies below what was reached"
    return [f"{why}: the best runs reached {', '.join(below)}"]


def _rate(value: float, unit: str) -> str:
    """Write a rate with three digits and a prefix."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
