"""Reads the parts of a job: one after the other or as a `map` does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tprof.errors import TraceError

from .build import build_profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tprof.trace import HostPart, Trace

    from .parallel_maps import Map
    from .profile import Profile
    from .stored_instances import Progress

Found = TypeVar("Found")


@dataclass(frozen=True)
class Analysis:
    """What parts are analysed with.

    Attributes
    ----------
    model : name of the power model
    options : further ones of `build_profile`
    map : calls a function for each part; None: one after the other in this process
    """

    model: str
    options: dict[str, Any]
    map: Map | None = None

    def read(
        self, call: Callable[..., Found], parts: Sequence[HostPart], progress: Progress | None = None
    ) -> Iterator[Found]:
        """Yield what a function returns for each part; it also takes `progress`, which names the host."""
        if self.map is not None:
            for number, found in enumerate(self.map(call, parts)):
                if progress is not None:
                    progress("hosts", number + 1, len(parts))
                yield found
            return
        for number, part in enumerate(parts):
            yield call(part, progress=None if progress is None else _of_host(progress, part, number, len(parts)))

    def ask(
        self, call: Callable[[str, Profile], Found], parts: Sequence[HostPart], progress: Progress | None = None
    ) -> Iterator[Found | None]:
        """Yield what a function returns for the name and the profile of each part; None of one that cannot be read."""
        asked = partial(_asked, call=call, model=self.model, options=self.options)
        return self.read(asked, parts, progress)


def part_profile(trace: Trace, *, model: str, options: Mapping[str, Any], progress: Progress | None = None) -> Profile:
    """Return the profile of a part, by default without its table of instances.

    Raises
    ------
    UsageError, TraceError
        As `build_profile`.
    """
    return build_profile(trace, model=model, progress=progress, **{"tables": False, **options})


def _asked(
    part: HostPart,
    *,
    call: Callable[[str, Profile], Found],
    model: str,
    options: Mapping[str, Any],
    progress: Progress | None = None,
) -> Found | None:
    try:
        profile = part_profile(part.load(), model=model, options=options, progress=progress)
    except TraceError:
        return None  # it was there when the profile was made; the table of hosts says why it is not now
    return call(part.name, profile)


def _of_host(progress: Progress, part: HostPart, number: int, hosts: int) -> Progress:
    """Return what says of a host how far it is, and begin with how many hosts are done."""
    progress(part.name, number, hosts)
    return lambda doing, done, of: progress(f"{part.name} ({number + 1} of {hosts}): {doing}", done, of)
