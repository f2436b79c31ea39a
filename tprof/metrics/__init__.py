"""Metrics of a service that is recorded: joules of tasks and accounts, and watts, for Prometheus and OpenTelemetry.

They are of the recording that this process takes part in, and go on with its next one.
"""

from __future__ import annotations

from tprof.lazy_names import lazy_names as _lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .opentelemetry import observe
    from .page import start, stop
    from .prometheus import EnergyCollector

__all__ = ["EnergyCollector", "observe", "start", "stop"]

__getattr__ = _lazy_names(
    __name__, {"EnergyCollector": "prometheus", "start": "page", "stop": "page", "observe": "opentelemetry"}
)
