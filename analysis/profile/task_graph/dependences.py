"""Which instances had to wait for which, by events of a task runtime and by keys: pairs of ids, of any number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tprof.trace import EventKind
from tprof.trace.long_arrays import AppendedColumns, blocks
from tprof.trace.long_sorts import first_rows, sorted_arrays

from .keyed import needed_rows, needs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tprof.analysis.profile import Profile

    from .instances import Ran
    from .runtime_events import Ids, RuntimeEvents


@dataclass(frozen=True)
class Dependences:
    """Pairs of instances, the first of which had to wait for the second: (pairs,) each, increasing, each pair once."""

    instance: Ids
    waits_for: Ids

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.instance)

    def parts(self) -> Iterator[pd.DataFrame]:
        """Yield the rows of the table in parts, one at least."""
        for at in blocks(max(len(self), 1), self.instance, self.waits_for):
            yield pd.DataFrame({"instance": self.instance[at], "waits_for": self.waits_for[at]})

    def table(self) -> pd.DataFrame:
        """Return the table."""
        return pd.DataFrame({"instance": self.instance, "waits_for": self.waits_for})


def dependences(profile: Profile) -> Dependences:
    """Find the dependences between instances."""
    found = AppendedColumns(np.uint64, np.uint64)
    for pairs in _of_events(profile.events, None if profile.trace.recorded is None else profile.ran):
        found.add(*pairs)
    if len(profile.keys):
        for pairs in _of_keys(profile):
            found.add(*pairs)
    return Dependences(*first_rows(sorted_arrays(found.finish(), keys=2), keys=2))


def _of_events(events: RuntimeEvents, here: Ran | None) -> Iterator[tuple[Ids, Ids]]:
    """Yield the pairs that events name; in a window of time those of instances that are in it."""
    for _, part in events.parts():
        named = part[(part["kind"] == EventKind.DEPENDENCE) & (part["instance"] != 0) & (part["other"] != 0)]
        if here is not None:
            named = named[here.rows(named["instance"]) >= 0]
        yield named["instance"], named["other"]


def _of_keys(profile: Profile) -> Iterator[tuple[Ids, Ids]]:
    """Yield the pairs that follow from keys: who made what another one needed."""
    ran = profile.ran
    waits, waits_for, _ = needed_rows(needs_of(profile.keys, ran), ran.start_ns, ran.end_ns)
    for at in blocks(len(waits), waits, waits_for, ran.instance):
        yield ran.instance[waits[at]], ran.instance[waits_for[at]]
