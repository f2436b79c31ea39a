"""Decisions of a runtime's policy or a budget: one file per process, a line per decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .plain_values import counted, is_finite, parse_trace_json
from .tasks import MAX_NAME_CHARACTERS, lines_of

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("chosen", "set", "allowed", "workers", "released", "acted", "cut")
MAX_DECISIONS = 200_000
MAX_CPUS = 4096
MAX_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision; fields that do not belong to its kind are None.

    Attributes
    ----------
    t_ns : its time, CLOCK_MONOTONIC.
    process : ordinal of its process.
    kind : "chosen" (a frequency is best for a task), "set" (processors got a frequency), "allowed" (the highest that
        a cap on the power leaves), "workers" (so many are active), "released" (nothing is held any more), "acted" (what
        a budget did, in `why`), "cut" (what follows was not written).
    policy, why : its policy and reason.
    task : the task's name; with "set" the one that began.
    frequency_hz, former_hz, cpus : with "set"; the first also with "chosen", the first two with "allowed".
    workers : with "workers".
    energy_j, time_s, quality : with "chosen": of a mean instance at this frequency, as known to the policy, and the
        quality of these joules.
    """

    t_ns: int
    process: int
    kind: str
    policy: str
    why: str | None = None
    task: str | None = None
    frequency_hz: int | None = None
    former_hz: int | None = None
    cpus: tuple[int, ...] = ()
    workers: int | None = None
    energy_j: float | None = None
    time_s: float | None = None
    quality: str | None = None


def read_decisions(path: Path, process: int, most: int) -> tuple[list[Decision], list[str]]:
    """Return the decisions of a file, at most `most` of them, and notes on what was left out. Raises TraceError."""
    found: list[Decision] = []
    damaged = 0
    notes = []
    for line in lines_of(path):
        if len(found) >= most:
            notes.append(f"{path.name}: what follows {MAX_DECISIONS} decisions of a policy is left out")
            break
        decision = _parse(line, process)
        if decision is None:
            damaged += 1
        else:
            found.append(decision)
    if damaged:
        lines = counted(damaged, "line of a policy's decisions is", "lines of a policy's decisions are")
        notes.append(f"{path.name}: {lines} damaged, and left out")
    if any(one.kind == "cut" for one in found):
        notes.append(f"{path.name}: the policy decided more often than is written down")
    return found, notes


def _parse(line: bytes, process: int) -> Decision | None:
    try:
        record: Any = parse_trace_json(line)
        t_ns, kind, policy = record["t_ns"], record["kind"], record["policy"]
    except (ValueError, KeyError, TypeError):
        return None
    if not _is_whole(t_ns) or kind not in KINDS or not isinstance(policy, str):
        return None
    return Decision(
        t_ns=t_ns,
        process=process,
        kind=kind,
        policy=policy[:MAX_NAME_CHARACTERS],
        why=_text(record.get("why")),
        task=_text(record.get("task")),
        frequency_hz=_whole(record.get("frequency_hz")),
        former_hz=_whole(record.get("former_hz")),
        cpus=_cpus(record.get("cpus")),
        workers=_whole(record.get("workers")),
        energy_j=_number(record.get("energy_j")),
        time_s=_number(record.get("time_s")),
        quality=_text(record.get("quality")),
    )


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_NUMBER


def _whole(value: Any) -> int | None:
    return value if _is_whole(value) else None


def _number(value: Any) -> float | None:
    return float(value) if is_finite(value) and abs(value) < MAX_NUMBER else None


def _text(value: Any) -> str | None:
    return value[:MAX_NAME_CHARACTERS] if isinstance(value, str) else None


def _cpus(value: Any) -> tuple[int, ...]:
    return tuple(filter(_is_whole, value[:MAX_CPUS])) if isinstance(value, list) else ()
