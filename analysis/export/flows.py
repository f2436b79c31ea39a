"""The dependences of a session as arrows between slices, each with a number."""

from __future__ import annotations

import zlib
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tprof.analysis.profile import Profile


class Flows:
    """The arrows of dependences between instances that ran, by the id of an instance; none of those without.

    Attributes
    ----------
    leaving, arriving : the numbers of the arrows that leave it and of those that reach it
    waited_for : the instances from which arrows reach it
    """

    def __init__(self) -> None:
        """Begin without arrows."""
        self.leaving, self.arriving, self.waited_for = (defaultdict[int, list[int]](list) for _ in range(3))

    @classmethod
    def of(cls, profile: Profile) -> Flows:
        """Return the arrows of a profile."""
        found = cls()
        if not profile.has_graph:
            return found
        pairs = profile.dependences
        have_run = pairs.isin(profile.graph.ids).all(axis=1)
        # Numbers of several hosts must not meet, and JavaScript has no larger ones.
        first = zlib.crc32(str(profile.trace.path).encode("utf-8", "surrogateescape")) << 20 | 1
        for number, (instance, other) in enumerate(pairs[have_run].to_numpy().tolist(), first):
            found.leaving[other].append(number)
            found.arriving[instance].append(number)
            found.waited_for[instance].append(other)
        return found
