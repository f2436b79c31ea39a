"""A profile as spans of OpenTelemetry: one for each instance, with its joules as attributes.

The file is of OTLP's file format: a line is a batch of spans in the JSON form of `TracesData`, which a collector reads
with its `otlpjsonfile` receiver. All spans are of one trace. A span's parent is the instance around it, or else that of
the recording; what it waited for are its links. Times are UNIX time.
"""

from __future__ import annotations

import json
import math
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from .facts import facts_of
from .flows import Flows
from .hosts import Host, hosts_of, number_of_instances, wall_clock
from .whole_file import written

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from tprof.analysis.profile import ClusterProfile, Profile

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


def write_otlp(
    profile: Profile | ClusterProfile, path: str | os.PathLike[str], *, progress: Progress | None = None
) -> None:
    """Write spans as lines of JSON.

    Raises
    ------
    TprofError
        The file cannot be written.
    """
    every, done = number_of_instances(profile), 0
    trace_id = _hex(16, profile.trace.path.name)
    with written(path) as file:
        for host in hosts_of(profile):
            resource = _resource(profile, host)
            for spans in _batches(host, trace_id):
                scope = [{"scope": {"name": SCOPE}, "spans": spans}]
                line = {"resourceSpans": [{"resource": resource, "scopeSpans": scope}]}
                file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
                done += len(spans)
                if progress is not None:
                    progress("spans", min(done, every), every)


def _resource(profile: Profile | ClusterProfile, host: Host) -> dict[str, Any]:
    facts = facts_of(host.profile)
    named = host.name or (host.profile.trace.manifest.get("host") or {}).get("hostname")
    attributes: dict[str, Any] = {"service.name": profile.trace.path.stem, "tprof.model": facts["model"]}
    attributes |= {"tprof.energy_quality": facts["quality"]} | ({"host.name": str(named)} if named else {})
    return {"attributes": [_attribute(name, value) for name, value in attributes.items()]}


def _batches(host: Host, trace_id: str) -> Iterator[list[dict[str, Any]]]:
    """Yield the spans of a host by the thousand, first that of the recording."""
    profile = host.profile
    trace, tasks = profile.trace, profile.tasks
    known = wall_clock(host)
    ahead_ns = 0 if known is None else known[1] - known[0]
    begin_ns = trace.start_ns + host.shift_ns + ahead_ns
    root = _hex(8, trace.path, host.name, "recording")
    span = _span(trace_id, root, trace.path.name, (begin_ns, begin_ns + trace.end_ns - trace.start_ns))
    yield [span]
    flows = Flows.of(profile)
    waited_for = _waited_for(profile, flows)
    names = [*map(str, tasks["task"].cat.categories), "(unknown task)"]
    quality = _attribute("tprof.energy_quality", str(profile.info["quality"]))
    for at in range(0, len(tasks), BATCH):
        rows = tasks.iloc[at : at + BATCH]
        start_ns = begin_ns + np.rint(rows["start_s"].to_numpy() * 1e9).astype(np.int64)
        end_ns = start_ns + np.rint(rows["duration_s"].to_numpy() * 1e9).astype(np.int64)
        values = {name: rows[column].tolist() for column, name in ATTRIBUTES.items()}
        columns = zip(
            rows["instance"].tolist(), rows["parent"].tolist(), rows["task"].cat.codes.tolist(), start_ns.tolist(),
            end_ns.tolist(), rows["tid"].tolist(), rows["failed"].tolist(), strict=True,
        )  # fmt: skip
        spans = []
        for place, (instance, parent, code, begin, end, tid, failed) in enumerate(columns):
            span = _span(trace_id, _hex(8, trace.path, host.name, instance), names[code], (begin, end))
            span["parentSpanId"] = _hex(8, trace.path, host.name, parent) if parent else root
            numbers = ((name, column[place]) for name, column in values.items())
            span["attributes"] = [_attribute(name, value) for name, value in numbers if math.isfinite(value)]
            span["attributes"] += [quality, _attribute("thread.id", int(tid))]
            links = waited_for.get(at + place, ())
            if links:
                ids = (_hex(8, trace.path, host.name, one) for one in links)
                span["links"] = [{"traceId": trace_id, "spanId": one} for one in ids]
            if failed:
                span["status"] = {"code": ERROR}
            spans.append(span)
        yield spans


def _waited_for(profile: Profile, flows: Flows | None) -> dict[int, list[int]]:
    """Return for each row that had to wait the instances that it waited for."""
    found: dict[int, list[int]] = {}
    if flows is not None:
        instance = profile.tasks["instance"].to_numpy()
        for row, other in zip(flows.waits.tolist(), flows.waits_for.tolist(), strict=True):
            found.setdefault(row, []).append(int(instance[other]))
    return found


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
