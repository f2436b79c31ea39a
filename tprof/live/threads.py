"""The threads of a session: rows of what ran on them since the last step."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tprof import _core
from tprof.trace import layout

if TYPE_CHECKING:
    from tprof.trace import Thread

Learn = Callable[[int, int], tuple[int, bool]]
"""Called with process and number of a new task; returns its index, and whether each instance gets its own rows."""


class FollowedThread:
    """One file of samples."""

    def __init__(
        self, thread: Thread, *, own: bool = False, end_ns: int | None = None, cut_off_s: float = math.inf
    ) -> None:
        """Begin at its first sample.

        Parameters
        ----------
        thread : of a trace
        own : whether it is a thread of this process, whose clock can be read
        end_ns : where its last segment ends; None: it may still run
        cut_off_s : most CPU seconds of a last segment that nothing in the file closes
        """
        names = thread.dtype.names or ()
        self._process = thread.process
        self._follower = _core.Follower(
            path=os.fspath(thread.stream.path),
            record_bytes=thread.dtype.itemsize,
            body_at=layout.HEADER_BYTES + thread.stream.number("window_bytes"),
            process=thread.process,
            pid=thread.pid,
            tid=thread.tid,
            own=own,
            column=names.index("cpu_ns") - len(layout.SAMPLE_HEAD) if "cpu_ns" in thread.columns else -1,
            packages=np.asarray(thread.packages_of_cpus, np.int16).tobytes(),
            end_ns=end_ns,
            cut_off_ns=cut_off_s * 1e9,
        )

    @property
    def first_ns(self) -> int | None:
        """Time of the first sample; None without one."""
        return self._follower.first_ns

    def follow(self, edges_ns: bytes, now_ns: int, learn: Learn) -> tuple[bytes, list[tuple[int, int]]]:
        """Return the rows between the edges, and the number of starts of each task.

        Parameters
        ----------
        edges_ns : int64, increasing; the first is the last one of the step before
        now_ns : not before the last edge
        learn : called with each new task

        Raises
        ------
        OSError
            If the file is gone.
        """
        return self._follower.follow(edges_ns, now_ns, lambda number: learn(self._process, number))
