"""Which model a profile uses: the one asked for, or the best that the trace supports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tprof.errors import UsageError

from .cputime import CpuTime
from .linear import Coefficients, Linear, parse_coefficients
from .ratio import Fesc, Ipc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tprof.trace import Trace

    from .contract import Model

NAMES = ("auto", "linear", "ipc", "fesc", "cputime")


@dataclass(frozen=True)
class Chosen:
    """A model and why it is this one, in a clause."""

    model: Model
    why: str


def choose_model(
    trace: Trace, name: str = "auto", coefficients: str | Mapping[str, float] | Coefficients | None = None
) -> Chosen:
    """Choose a power model.

    Parameters
    ----------
    trace
        Whose columns decide what is possible.
    name
        One of "auto", "linear", "ipc", "fesc", "cputime".
    coefficients
        For `linear`: a name or a mapping.

    Raises
    ------
    UsageError
        If the model is unknown, lacks its coefficients, or needs counters that the trace does not have.
    """
    if name not in NAMES:
        message = f"model must be one of {', '.join(NAMES)}, got {name!r}"
        raise UsageError(message)
    if coefficients is not None and name not in {"auto", "linear"}:
        message = f"coefficients go with model=\"linear\", got model={name!r}"
        raise UsageError(message)
    if name == "linear" and coefficients is None:
        message = 'model="linear" needs coefficients: a name such as "tprof-table1", or a, b, c, C1 and C2'
        raise UsageError(message)
    columns = _columns(trace)
    if coefficients is not None:
        return _checked(Linear(parse_coefficients(coefficients)), columns, "its coefficients were given")
    if name != "auto":
        return _checked({"ipc": Ipc, "fesc": Fesc, "cputime": CpuTime}[name](), columns, "it was asked for")
    # Section 3.4 of the paper finds front-end stalls to follow power more closely than IPC.
    for model in (Fesc(), Ipc()):
        if set(model.columns) <= columns:
            return Chosen(model, f"the trace has {' and '.join(model.columns)}, and no coefficients were given")
    return Chosen(CpuTime(), "the trace has no hardware counters")


def _columns(trace: Trace) -> set[str]:
    """Return the columns that every thread with samples has."""
    having = [set(thread.columns) for thread in trace.threads if thread.count]
    return set.intersection(*having) if having else set()


def _checked(model: Model, columns: set[str], why: str) -> Chosen:
    missing = [name for name in model.columns if name not in columns]
    if missing:
        message = (
            f"model={model.name!r} needs {', '.join(missing)}, which this trace does not have: "
            f"record with counters={','.join(model.columns)!r}, or use model=\"auto\""
        )
        raise UsageError(message)
    return Chosen(model, why)
