"""Labels a process by what OpenTelemetry and its pool call it: the service, and the worker's name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tprof import _core
from tprof.session.labels import set_labels
from tprof.session.process_state import this_process

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import Span

_POOLS = ("billiard.process", "multiprocessing.process")  # Celery's, and that of uvicorn's workers
_UNKNOWN = "unknown_service"  # what OpenTelemetry calls a service without a name


class Labelling:
    """Labels this process once in each recording; labels that the program gave stay."""

    def __init__(self) -> None:
        """Begin with no recording."""
        self._generation = 0

    def label(self, span: Span) -> None:
        """Label the process by its first span in the recording; cheap afterwards."""
        generation = _core.generation()
        if generation == self._generation:
            return
        self._generation = generation
        found = {"service": _service(span), "worker": _worker()}
        known = this_process.labels
        set_labels({name: value for name, value in found.items() if value and name not in known})


def _service(span: Span) -> str:
    name = str(span.resource.attributes.get("service.name", ""))
    return "" if name.startswith(_UNKNOWN) else name


def _worker() -> str:
    """Return the name of a pool's process; empty for any other."""
    for module in _POOLS:
        pool = sys.modules.get(module)
        name: str = pool.current_process().name if pool is not None else "MainProcess"
        if name != "MainProcess":
            return name
    return ""
