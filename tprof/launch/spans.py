"""`tprof run --spans`: makes the spans of OpenTelemetry tasks in a program that does not name tprof."""

from __future__ import annotations

import sys

from tprof.errors import TprofError

from .after_import import after_import

_SDK = "opentelemetry.sdk.trace"


def follow_spans() -> None:
    """Make spans tasks, now or as soon as the program imports OpenTelemetry's SDK."""
    after_import(_SDK, lambda _: _follow())


def _follow() -> None:
    try:
        from tprof.otel import follow_all_spans

        follow_all_spans()
    except (TprofError, ImportError) as error:
        print(f"tprof: {error}; spans are not recorded", file=sys.stderr)
