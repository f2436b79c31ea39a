"""A profile as spans of OpenTelemetry: one for each instance, with its joules as attributes.

The file is of OTLP's file format: a line is a batch of spans in the JSON form of `TracesData`, which a collector reads
with its `otlpjsonfile` receiver. All spans are of one trace. A span's parent is the instance around it, or else that of
the recording; what it waited for are its links. Times are UNIX time.
"""

from __future__ import annotations

import json
import math
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from .facts import facts_of
from .flows import Flows
from .hosts import Host, hosts_of, wall_clock
from .whole_file import written

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    import pandas as pd
    from tprof.analysis.profile import Profile
    from tprof.analysis.profile.instances import Piece

    from .formats import Progress

BATCH = 1000
INTERNAL, ERROR = 1, 2
SCOPE = "tprof"
ATTRIBUTES = {
    "energy_j": "tprof.energy_j",
    "energy_low_j": "tprof.energy_low_j",
    "energy_high_j": "tprof.energy_high_j",
    "power_w": "tprof.power_w",
    "cpu_s": "tprof.cpu_s",
}
"""Names of the attributes by column of the table of instances; the first and the last as in live spans."""


def write_otlp(profile: Profile, path: str | os.PathLike[str], *, progress: Progress | None = None) -> None:
    """Write spans as lines of JSON.

    Raises
    ------
    TprofError
        The file cannot be written.
    """
    every, done = profile.sums.rows, 0
    trace_id = _hex(16, profile.trace.path.name)
    with written(path) as file:
        for host in hosts_of(profile):
            spans = _Spans(host, trace_id)
            resource = _resource(profile, host)

            def write(batch: list[dict[str, Any]], resource: dict[str, Any] = resource) -> None:
                nonlocal done
                scope = [{"scope": {"name": SCOPE}, "spans": batch}]
                line = {"resourceSpans": [{"resource": resource, "scopeSpans": scope}]}
                file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
                done += len(batch)
                if progress is not None:
                    progress("spans", min(done, every), every)

            write([spans.recording])
            host.profile.instances.share(partial(_write_piece, spans, write))


def _write_piece(spans: _Spans, write: Callable[[list[dict[str, Any]]], None], piece: Piece) -> None:
    for at in range(0, len(piece.tasks), BATCH):
        write(spans.of(piece.tasks.iloc[at : at + BATCH]))


def _resource(profile: Profile, host: Host) -> dict[str, Any]:
    facts = facts_of(host.profile)
    named = host.name or (host.profile.trace.manifest.get("host") or {}).get("hostname")
    attributes: dict[str, Any] = {"service.name": profile.trace.path.stem, "tprof.model": facts["model"]}
    attributes |= {"tprof.energy_quality": facts["quality"]} | ({"host.name": str(named)} if named else {})
    return {"attributes": [_attribute(name, value) for name, value in attributes.items()]}


class _Spans:
    """Makes the spans of a host; `recording` is that around all others."""

    def __init__(self, host: Host, trace_id: str) -> None:
        trace = host.profile.trace
        known = wall_clock(host)
        ahead_ns = 0 if known is None else known[1] - known[0]
        self._begin_ns = trace.start_ns + host.shift_ns + ahead_ns
        self._trace_id, self._place = trace_id, (trace.path, host.name)
        self._root = self._id("recording")
        times = self._begin_ns, self._begin_ns + trace.end_ns - trace.start_ns
        self.recording = _span(trace_id, self._root, trace.path.name, times)
        self._flows = Flows.of(host.profile)
        self._quality = _attribute("tprof.energy_quality", str(host.profile.info["quality"]))

    def of(self, rows: pd.DataFrame) -> list[dict[str, Any]]:
        """Return the spans of some instances."""
        names = [*map(str, rows["task"].cat.categories), "(unknown task)"]
        start_ns = self._begin_ns + np.rint(rows["start_s"].to_numpy() * 1e9).astype(np.int64)
        end_ns = start_ns + np.rint(rows["duration_s"].to_numpy() * 1e9).astype(np.int64)
        values = {name: rows[column].tolist() for column, name in ATTRIBUTES.items()}
        columns = zip(
            rows["instance"].tolist(), rows["parent"].tolist(), rows["task"].cat.codes.tolist(), start_ns.tolist(),
            end_ns.tolist(), rows["tid"].tolist(), rows["failed"].tolist(), strict=True,
        )  # fmt: skip
        spans = []
        for place, (instance, parent, code, begin, end, tid, failed) in enumerate(columns):
            span = _span(self._trace_id, self._id(instance), names[code], (begin, end))
            span["parentSpanId"] = self._id(parent) if parent else self._root
            numbers = ((name, column[place]) for name, column in values.items())
            span["attributes"] = [_attribute(name, value) for name, value in numbers if math.isfinite(value)]
            span["attributes"] += [self._quality, _attribute("thread.id", int(tid))]
            if links := self._flows.waited_for.get(instance):
                span["links"] = [{"traceId": self._trace_id, "spanId": self._id(one)} for one in links]
            if failed:
                span["status"] = {"code": ERROR}
            spans.append(span)
        return spans

    def _id(self, what: object) -> str:
        return _hex(8, *self._place, what)


def _span(trace_id: str, span_id: str, name: str, times: tuple[int, int]) -> dict[str, Any]:
    return {
        "traceId": trace_id,
        "spanId": span_id,
        "name": name,
        "kind": INTERNAL,
        "startTimeUnixNano": str(times[0]),
        "endTimeUnixNano": str(times[1]),
    }


def _attribute(name: str, value: str | float) -> dict[str, Any]:
    if isinstance(value, str):
        return {"key": name, "value": {"stringValue": value}}
    if isinstance(value, int):
        return {"key": name, "value": {"intValue": str(value)}}
    return {"key": name, "value": {"doubleValue": value}}


def _hex(size: int, *words: object) -> str:
    text = "\0".join(map(str, words)).encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=size).hexdigest()
