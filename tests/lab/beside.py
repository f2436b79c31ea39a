"""pyRAPL and PAPI beside a recording: what each says of the same work, and between which truths it must lie."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from debian import CACHE
from operating_points import truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAPI_UNIT_J = 2.0**-32
PAPI_EVENTS = {"package": "rapl::RAPL_ENERGY_PKG:cpu=0", "dram": "rapl::RAPL_ENERGY_DRAM:cpu=0"}


def beside(work: Callable[[], None]) -> dict[str, Any]:
    """Work within a measurement of each tool, one in the other; return joules, the least and most truth, and when."""
    said: dict[str, Any] = {}
    _measure([("pyRAPL", _pyrapl()), ("PAPI", _papi())], work, said)
    return said


def _measure(tools: list[tuple[str, Iterator[Any]]], work: Callable[[], None], said: dict[str, Any]) -> None:
    """Begin the first tool, measure with the others inside it, and end it."""
    if not tools:
        work()
        return
    (name, tool), *others = tools
    try:
        next(tool)  # loads
        times = [_drawn()]
        next(tool)  # begins
        times.append(_drawn())
    except Exception as error:  # noqa: BLE001 - the tool's own sentence is the result
        said[name] = {"failed": f"{type(error).__name__}: {error}"}
        _measure(others, work, said)
        return
    _measure(others, work, said)
    times.append(_drawn())
    joules = next(tool)
    times.append(_drawn())
    least, most = ({what: times[end][what] - times[begin][what] for what in joules} for begin, end in ((1, 2), (0, 3)))
    window_ns = [(times[place]["t_ns"] + times[place + 1]["t_ns"]) // 2 for place in (0, 2)]
    said[name] = {"joules": joules, "least": least, "most": most, "window_ns": window_ns}


def _drawn() -> dict[str, float]:
    now = truth()
    return {"t_ns": now["now_ns"]} | {what: now["package0"][f"{what}_uj"] / 1e6 for what in ("package", "dram")}


def _pyrapl() -> Iterator[dict[str, float] | None]:
    sys.path.insert(0, str(CACHE / "beside"))
    import pyRAPL  # noqa: PLC0415 - installed beside, and tried

    pyRAPL.setup()
    measurement = pyRAPL.Measurement("lab")
    yield None
    measurement.begin()
    yield None
    measurement.end()
    yield {"package": sum(measurement.result.pkg) / 1e6, "dram": sum(measurement.result.dram) / 1e6}


def _papi() -> Iterator[dict[str, float] | None]:
    from pypapi import papi_low  # noqa: PLC0415 - tried

    papi_low.library_init()
    events = papi_low.create_eventset()
    for name in PAPI_EVENTS.values():
        papi_low.add_named_event(events, name)
    yield None
    papi_low.start(events)
    yield None
    counts = papi_low.stop(events)
    yield {what: count * PAPI_UNIT_J for what, count in zip(PAPI_EVENTS, counts, strict=True)}
