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
from .render import dump, plain

if TYPE_CHECKING:
    import pandas as pd

    from tprof.analysis.models.calibration.prediction import Floats, LeftOut, Prediction


_HELP = """Fit a power model to this machine, or to a table of counters and power.

Without --from it runs kernels that load pipeline, caches and memory on several numbers of cores (some minutes, on an
otherwise idle machine), fits watts per unit of IPC, per GB/s of L2 and LLC traffic, per core and for the package, and
keeps them: recordings of this machine then use them. It needs an energy sensor and hardware counters (tprof doctor).

Examples:

  tprof calibrate

  tprof calibrate --kernels all

  tprof calibrate --from node.csv --power watts --group program

  tprof calibrate --from runs.csv --power P --cores busy --ipc ipc --l2 l2_gbs --llc llc_gbs --group kernel

  tprof calibrate --from node.csv --power watts --group program --predict other.csv
"""

NO_IDLE = (
    "what the idle package draws was not seen, and is not needed for the coefficients: other processes ran before the "
    "first kernel, that time was too short, or the session is of several packages"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("calibrate", help=_HELP)(calibrate)


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
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Table, equation 1: IPC, summed over active cores; of each its instructions over its cycles in the "
            "whole run (not a mean of IPCs), times the part of the time it was active.",
        ),
    ] = None,
    l2: Annotated[str | None, typer.Option(metavar="COLUMN", help="Table, equation 1: L2 traffic, GB/s.")] = None,
    llc: Annotated[str | None, typer.Option(metavar="COLUMN", help="Table, equation 1: LLC traffic, GB/s.")] = None,
    hz: Annotated[str | None, typer.Option(metavar="COLUMN", help="Table, equation 1: frequency, Hz.")] = None,
    processor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Table, equation 1: the processor that it was measured on.")
    ] = None,
    predict: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Table: predict the watts of this table, which has the same columns; errors where it has the watts.",
        ),
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
    if predict is not None and (table is None or os.path.isdir(table)):
        raise UsageError("--predict applies the model of a table to another table: name the first with --from")
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
            _fit_counters(table, power, group, counters, predict, output, as_json=as_json)
            return
        model, prediction = _fit_table(table, power, group, chosen, _processor_of_table(processor, keep=keep), predict)
        kept = keep and not dry_run
    else:
        if processor is not None:
            raise UsageError("a session says which processor it was recorded on: leave --processor out")
        model = _fit_session(table) if table is not None else _run_kernels(kernels or "stress", session, seconds)
        kept, prediction = not dry_run and _is_of_this_machine(model), None
    _finish(model, output, prediction, kept=kept, as_json=as_json)


def _fit_counters(
    table: Path, power: str, group: str | None, counters: str | None, predict: Path | None, output: Path | None,
    *, as_json: bool,
) -> None:  # fmt: skip
    import numpy as np

    from tprof.analysis.models.calibration.counter_models import fit_counters, predict_counters
    from tprof.analysis.models.calibration.measured_runs import counters_table, numbers, read_csv
    from tprof.analysis.models.calibration.prediction import rows_outside

    from .calibrate_answers import show_counters, show_prediction

    named = counters.split(",") if counters else None
    rows = counters_table(read_csv(table), power=power, group=group, counters=named)
    other = None if predict is None else read_csv(predict)
    columns = None if other is None else np.column_stack([numbers(other, name) for name in rows.names])
    with status("leaving out") as report:
        found = fit_counters(rows, progress=lambda name: report(f"leaving out {name}"))
    result = {"source": table.name, "power": power, "group": group, **found.as_plain()}
    if output is not None:
        _write(result, output)
    prediction = None
    if other is not None and columns is not None:
        outside = rows_outside(rows.counters, columns)
        prediction = _prediction(other, power, group, found.left_out, predict_counters(found, rows, columns), outside)
    if as_json:
        dump(result | ({} if prediction is None else {"predicted": prediction.as_plain()}))
        return
    show_counters(plain(result))
    if prediction is not None:
        show_prediction(prediction, f"the {found.chosen} for {predict}")


def _prediction(
    other: pd.DataFrame, power: str, group: str | None, left_out: LeftOut, power_w: Floats, outside: int
) -> Prediction:
    from tprof.analysis.models.calibration.measured_runs import groups_of, known_watts
    from tprof.analysis.models.calibration.prediction import predicted

    return predicted(left_out, power_w, known_watts(other, power), groups_of(other, group), outside)


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
    table: Path, power: str, group: str | None, columns: dict[str, str], processor: str | None, predict: Path | None
) -> tuple[dict[str, Any], Prediction | None]:
    from tprof.analysis.models.calibration import fit
    from tprof.analysis.models.calibration.equation_1 import columns_known, predict_equation_1
    from tprof.analysis.models.calibration.measured_runs import equation_1_table, read_csv
    from tprof.analysis.models.calibration.prediction import rows_outside

    observations = equation_1_table(read_csv(table), power=power, group=group, columns=columns)
    calibration = fit(observations)
    model = _as_model(calibration, processor=processor, source=table.name, quality="given")
    if predict is None:
        return model, None
    other = read_csv(predict)
    runs = equation_1_table(other, power=None, group=None, columns=columns)
    outside = rows_outside(columns_known(observations), columns_known(runs))
    power_w = predict_equation_1(calibration, runs)
    return model, _prediction(other, power, group, calibration.by_kernel, power_w, outside)


def _run_kernels(kernels: str, session: Path | None, seconds: float) -> dict[str, Any]:
    import tempfile

    from tprof.benchmarks.calibration import record

    with tempfile.TemporaryDirectory(prefix="tprof-calibrate-") as folder:
        with bar("calibrating") as report:
            path = record(session or Path(folder), seconds_each=seconds, progress=report, kernels=kernels)
        return _fit_session(path)


def _fit_session(path: Path) -> dict[str, Any]:
    from tprof.analysis.models.calibration import fit, observe
    from tprof.trace import load_session

    trace = load_session(path)
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


def _finish(
    model: dict[str, Any], output: Path | None, prediction: Prediction | None, *, kept: bool, as_json: bool
) -> None:
    from tprof.trace.power_model import model_path, write_model

    from .calibrate_answers import show_model, show_prediction

    if output is not None:
        _write(model, output)
    if kept:
        write_model(model)
    if as_json:
        dump(model | ({} if prediction is None else {"predicted": prediction.as_plain()}))
        return
    show_model(model)
    if prediction is not None:
        show_prediction(prediction, "equation 1")
    if kept:
        print(f"kept in {model_path()}: recordings of this machine use it from now on")
    elif output is None:
        print("nothing was kept: name a file with --output")


def _write(model: dict[str, Any], output: Path) -> None:
    from tprof.trace.power_model import write_model

    write_model(plain(model), output)
    print(f"written to {output}", file=sys.stderr)
