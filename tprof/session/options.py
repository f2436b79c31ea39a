"""The options of a recording, which engines also send to other hosts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LONGEST_IDLE_S = 60.0
LINGER_S = 5.0
LONGEST_LINGER_S = 86_400.0


@dataclass(frozen=True)
class RecordingOptions:
    """What is recorded and how; `tprof.record` explains each option but the last.

    Attributes
    ----------
    energy, counters, watts, idle_s, poller_share, attribute_native : as for `tprof.record`
    linger_s : seconds for which a host recorder waits for new members when the last one has left
    members : number of processes of the host that will join, as far as it is known: a host recorder waits for them too
    """

    energy: str | Sequence[str] = "auto"
    counters: str | Sequence[str] = "auto"
    watts: tuple[float, float] | str | None = None
    idle_s: float | None = None
    poller_share: float = 0.01
    attribute_native: bool = True
    linger_s: float = LINGER_S
    members: int = 0

    def __post_init__(self) -> None:
        """Check the numbers. Raises UsageError."""
        if self.idle_s is not None and not 0 <= self.idle_s <= LONGEST_IDLE_S:
            raise UsageError(f"idle_s must be from 0 to {LONGEST_IDLE_S:g} seconds, got {self.idle_s!r}")
        if not 0 <= self.poller_share <= 1:
            raise UsageError(f"poller_share must be from 0 to 1 of a core, got {self.poller_share!r}")
        if not 0 <= self.linger_s <= LONGEST_LINGER_S:
            raise UsageError(f"linger_s must be from 0 to {LONGEST_LINGER_S:g} seconds, got {self.linger_s!r}")

    def as_json(self) -> dict[str, Any]:
        """Return them as plain values for another process."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """Create them from plain values. Raises UsageError if one is unknown or out of range."""
        unknown = sorted(set(plain) - set(cls.__annotations__))
        if unknown:
            raise UsageError(f"a recording has no option {unknown[0]!r}: use {', '.join(cls.__annotations__)}")
        given: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in plain.items()}
        return cls(**given)
