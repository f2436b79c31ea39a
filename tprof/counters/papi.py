"""Counters by PAPI, whose library the package python-papi contains: `counters="papi"`.

PAPI knows processors that tprof's tables lack, and has names for many more events. A recording calls its library from C
(`csrc/papi.c`). Here are the choice of events, and what PAPI says where it cannot count.
"""

from __future__ import annotations

import importlib
import re
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof import _core
from tprof.errors import SensorError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WORD = "papi"
PRESETS = {
    "instructions": "PAPI_TOT_INS",
    "cycles": "PAPI_TOT_CYC",
    "llc_misses": "PAPI_L3_TCM",
    "llc_refs": "PAPI_L3_TCA",
    "l2_refs": "PAPI_L2_TCA",
    "stalls_frontend": "PAPI_STL_ICY",
}
"""PAPI's presets for tprof's columns."""
MOST_EVENTS, LONGEST_NAME = 11, 127
MAIN_COMPONENT = "perf_event"
"""PAPI's component for the counters of the processor's cores."""
INSTALL = 'counters="papi" needs the package python_papi: pip install "tprof-energy[papi]"'


def is_asked(counters: str) -> bool:
    """Return whether a request means PAPI's counters: "papi", or "papi:" and names of its events."""
    return counters.partition(":")[0] == WORD


def named_events(counters: str) -> dict[str, str]:
    """Return the events that a request names, by column. Raises UsageError.

    The column of a preset that is one of tprof's has tprof's name; others are the event's, as an identifier.
    """
    names = [name.strip() for name in counters.partition(":")[2].split(",") if name.strip()]
    if len(names) > MOST_EVENTS or any(len(name.encode()) > LONGEST_NAME for name in names):
        raise UsageError(
            f"counters by PAPI are at most {MOST_EVENTS} names of at most {LONGEST_NAME} bytes, got {counters!r}"
        )
    columns = {name: column for column, name in PRESETS.items()}
    return {columns.get(name, re.sub(r"\W", "_", name, flags=re.ASCII)): name for name in names}


def begin() -> None:
    """Load and initialise PAPI in this process. Raises SensorError with its own sentence."""
    library = _library()
    if library is None:
        raise SensorError(INSTALL)
    try:
        version = int(importlib.import_module("pypapi.consts").PAPI_VER_CURRENT)
    except (ImportError, AttributeError, ValueError) as error:
        raise SensorError(f"the package python_papi does not load: {error}; install it again") from error
    problem = _core.papi_load(library, version)
    if problem is not None:
        raise SensorError(f'PAPI cannot be used here: {problem}; use counters="auto"')


def _library() -> str | None:
    spec = find_spec("pypapi")
    places = [] if spec is None else spec.submodule_search_locations or []
    files = (Path(place) / f"_papi{suffix}" for place in places for suffix in EXTENSION_SUFFIXES)
    return next((str(file) for file in files if file.is_file()), None)


def count_briefly(events: Mapping[str, str]) -> dict[str, str | None]:
    """Return for each column None, or PAPI's reason why it does not count here. PAPI must have begun."""
    found = _core.papi_try(tuple(events.values()))
    return {
        column: f"PAPI has no {name} here: {_with_component(result)}" if isinstance(result, str) else None
        for (column, name), result in zip(events.items(), found, strict=True)
    }


def _with_component(sentence: str) -> str:
    """Add what PAPI says of its component for the processor's counters, if that is disabled."""
    low: Any = importlib.import_module("pypapi.papi_low")
    components: Sequence[Any] = [low.get_component_info(number) for number in range(low.num_components())]
    reasons = [one.disabled_reason for one in components if one.disabled and one.name == MAIN_COMPONENT]
    return f"{sentence} ({MAIN_COMPONENT}: {reasons[0]})" if reasons else sentence
