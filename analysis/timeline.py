"""Who ran when on which processor, as a frame: what a timeline is drawn of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .segments import make_segments
from .tables import LOST

if TYPE_CHECKING:
    from tprof.trace import Trace


def segments_frame(trace: Trace) -> pd.DataFrame:
    """Make `Profile.segments`."""
    names = np.array([entry.name for entry in trace.tasks] + [LOST], dtype=object)
    frames = []
    for thread in trace.threads:
        segments = make_segments(trace, thread, ())
        if segments is None:
            continue
        ran = np.flatnonzero(segments.instance != 0)
        begin = segments.edges_ns[ran]
        frames.append(
            pd.DataFrame(
                {
                    "start_s": (begin - trace.start_ns) * 1e-9,
                    "duration_s": (segments.edges_ns[ran + 1] - begin) * 1e-9,
                    "cpu": segments.cpu[ran].astype(np.int32),
                    "package": segments.package[ran],
                    "thread": thread.name or str(thread.tid),
                    "tid": thread.tid,
                    "task": names[np.minimum(segments.task[ran], len(names) - 1)],
                    "instance": segments.instance[ran],
                }
            )
        )
    columns = ["start_s", "duration_s", "cpu", "package", "thread", "tid", "task", "instance"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)
