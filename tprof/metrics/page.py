"""A page of metrics for Prometheus, served by this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof.errors import UsageError
from tprof.trace.metric_names import MOST_TASKS

from .election import Election
from .server import Server
from .service import service

if TYPE_CHECKING:
    from collections.abc import Callable

    from .server import Answer

USUAL_PORT = 9464
"""What OpenTelemetry's exporters for Prometheus take."""
_election = Election("metrics")


def start(port: int = USUAL_PORT, *, address: str = "127.0.0.1", most_tasks: int = MOST_TASKS) -> int | None:
    """Serve the metrics of the recording that this process takes part in: ``http://ADDRESS:PORT/metrics``.

    The page is of all processes of the recording, so one of them serves it: the first one that calls this. In the
    others nothing happens. A program may call it before its recording begins, and goes on to be served in the next one.

    Parameters
    ----------
    port
        0: any free one.
    address
        That of this machine by default. Energy reveals more of a program than its duration, so think before you serve
        it to all (``"0.0.0.0"``).
    most_tasks
        Series of tasks; further ones are ``<other tasks>``.

    Returns
    -------
    int or None
        The port; None if another process of the recording serves.

    Raises
    ------
    UsageError
        If the port is taken, this process serves already, or prometheus_client is not installed.

    Examples
    --------
    >>> import tempfile, tprof, tprof.metrics
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with tprof.record(directory + "/a.tprof", energy="estimate"):
    ...         port = tprof.metrics.start(0)
    ...         tprof.metrics.stop()
    """
    if type(port) is not int or not 0 <= port < 1 << 16:
        raise UsageError(f"a port is a number from 0 to 65535, got {port!r}")
    if service.is_serving:
        raise UsageError("this process serves metrics already: call tprof.metrics.stop() before another start()")
    if not _election.is_won():
        return None
    server = Server(address, port, _page(most_tasks))
    service.start(server)
    return server.server_port


def stop() -> None:
    """Serve no more, and close the port; nothing happens if this process serves nothing."""
    service.stop()
    _election.leave()


def _page(most_tasks: int) -> Callable[[str], Answer]:
    """Return what makes the page for a header `Accept`."""
    try:
        from prometheus_client import CollectorRegistry  # noqa: PLC0415 - it may be absent
        from prometheus_client.exposition import choose_encoder  # noqa: PLC0415 - see above

        from .prometheus import EnergyCollector  # noqa: PLC0415 - see above
    except ImportError as error:
        raise UsageError("metrics need prometheus_client: pip install 'tprof-energy[prometheus]'") from error
    registry = CollectorRegistry()
    registry.register(EnergyCollector(most_tasks))

    def page(accept: str) -> Answer:
        try:
            encode, kind = choose_encoder(accept)
        except (TypeError, ValueError):  # as of a version that is no number
            encode, kind = choose_encoder("")
        return "200 OK", kind, encode(registry)

    return page
