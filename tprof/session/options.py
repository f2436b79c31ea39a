"""The options of a recording, which engines also send to other hosts."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LONGEST_IDLE_S = 60.0
LINGER_S = 5.0
LONGEST_LINGER_S = 86_400.0
EVERYTHING, SUMMARY, THREADS = "all", "summary", "threads"
SHORTEST_SPAN_S, LONGEST_SPAN_S = 0.01, 86_400.0
LEAST_SIZE = 16_000_000
"""Of a session with a limit: readings, tables and the open files of a few threads fit in."""
MOST_SEGMENT_BYTES = 1 << 21
"""Of so many samples of 64 bytes as a compressed block has."""
LEAST_SEGMENT_BYTES = 1 << 16
SUMMARY_SEGMENT_BYTES = 1 << 18
"""Where only sums are kept: about four seconds of a thread with a thousand samples a second."""
SEGMENTS = 500
"""Of the limit, so that what is removed at once is a small part, and many threads have room."""
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}  # fmt: skip
_SIZE = re.compile(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([A-Za-z]*)\s*", re.ASCII)


@dataclass(frozen=True)
class RecordingOptions:
    """What is recorded and how; `tprof.record` explains each option but the last.

    Attributes
    ----------
    energy, counters, watts, idle_s, poller_share, attribute_native, stacks, keep, span_s, max_size, compress : as for
        `tprof.record`
    linger_s : seconds for which a host recorder waits for new members when the last one has left
    members : number of processes of the host that will join, as far as it is known: a host recorder waits for them too
    """

    energy: str | Sequence[str] = "auto"
    counters: str | Sequence[str] = "auto"
    watts: tuple[float, float] | str | None = None
    idle_s: float | None = None
    poller_share: float = 0.01
    attribute_native: bool = True
    stacks: bool = False
    keep: str = EVERYTHING
    span_s: float = 1.0
    max_size: int | str | None = None
    compress: bool = False
    linger_s: float = LINGER_S
    members: int = 0

    def __post_init__(self) -> None:
        """Check the numbers. Raises UsageError."""
        if self.idle_s is not None and not 0 <= self.idle_s <= LONGEST_IDLE_S:
            raise UsageError(f"idle_s must be from 0 to {LONGEST_IDLE_S:g} seconds, got {self.idle_s!r}")
        if not 0 <= self.poller_share <= 1:
            raise UsageError(f"poller_share must be from 0 to 1 of a core, got {self.poller_share!r}")
        if self.keep not in (EVERYTHING, SUMMARY, THREADS):
            raise UsageError(f"keep must be {EVERYTHING!r}, {SUMMARY!r} or {THREADS!r}, got {self.keep!r}")
        if not SHORTEST_SPAN_S <= self.span_s <= LONGEST_SPAN_S:
            raise UsageError(
                f"span_s must be from {SHORTEST_SPAN_S:g} to {LONGEST_SPAN_S:g} seconds, got {self.span_s!r}"
            )
        if self.stacks and self.keeps_summary:
            raise UsageError("stacks are of single moments, and sums have none: leave stacks or keep out")
        if self.keeps_summary and (self.compress or self.max_size is not None):
            raise UsageError(f"keep={self.keep!r} removes samples by itself: leave max_size and compress out")
        size_bytes(self.max_size)
        if not 0 <= self.linger_s <= LONGEST_LINGER_S:
            raise UsageError(f"linger_s must be from 0 to {LONGEST_LINGER_S:g} seconds, got {self.linger_s!r}")

    @property
    def keeps_summary(self) -> bool:
        """Whether sums are kept instead of samples."""
        return self.keep in (SUMMARY, THREADS)

    @property
    def looks_after_disk(self) -> bool:
        """Whether files are removed or compressed while they are recorded."""
        return self.max_bytes is not None or self.compress

    @property
    def max_bytes(self) -> int | None:
        """The size limit of the session's folder."""
        return size_bytes(self.max_size)

    @property
    def segment_bytes(self) -> int:
        """Of the files in which streams are left; 0: in one file each."""
        if self.keeps_summary:
            return SUMMARY_SEGMENT_BYTES
        if self.max_bytes is None:
            return MOST_SEGMENT_BYTES if self.compress else 0
        return min(max(self.max_bytes // SEGMENTS, LEAST_SEGMENT_BYTES), MOST_SEGMENT_BYTES)

    def as_json(self) -> dict[str, Any]:
        """Return them as plain values for another process."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """Create them from plain values. Raises UsageError if one is unknown or out of range."""
        unknown = sorted(set(plain) - set(cls.__annotations__))
        if unknown:
            known = ", ".join(name for name in cls.__annotations__ if name != "members")  # which launchers say
            raise UsageError(f"a recording has no option {unknown[0]!r}: use {known}")
        given: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in plain.items()}
        return cls(**given)


def size_bytes(size: int | str | None) -> int | None:
    """Return the bytes of a size limit such as 2GB, 500MiB or a number; None without one.

    Raises
    ------
    UsageError
        If it is no size, or too small for any session.
    """
    if size is None:
        return None
    match = _SIZE.fullmatch(str(size))
    unit = None if match is None else _UNITS.get(match[2].upper())
    if match is None or unit is None:
        raise UsageError(f"--max-size (max_size in Python) must be a size such as 2GB or 500MB, got {size!r}")
    found = int(float(match[1]) * unit)
    if found < LEAST_SIZE:
        raise UsageError(f"--max-size (max_size in Python) must be at least {LEAST_SIZE // 10**6}MB, got {size!r}")
    return found
