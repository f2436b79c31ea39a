"""What a fit found beside the tasks' powers: what their powers depend on, and what the readings cannot decide.

`Finding` is the form in which `profile.info["fitted"]["findings"]` holds each (as a dictionary of plain values).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["drift", "length", "contention", "cores", "static", "lateness", "unexplained", "ratio"]


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Attributes
    ----------
    kind :
        - ``drift``: powers change over the recording;
        - ``length``: a task's power depends on how long an instance is;
        - ``contention``: a task's power depends on what runs beside it;
        - ``cores``: cores draw differently;
        - ``static``: static power changes over the recording;
        - ``lateness``: the sensor shows its updates later than their windows say;
        - ``unexplained``: something ran that no column explains;
        - ``ratio``: tasks ran in a ratio so constant that the readings hardly separate them.
    tasks : names of the tasks whose figures it concerns.
    size, low, high : as a fraction, with its 95 % interval: of the tasks' power (`drift`: from begin to end; `length`:
        for an instance twice as long; `contention`: of the first task beside the second; `cores`: of the core that
        differs most; `ratio`: half the width of the widest interval), of static power (`static`), of the usual time
        between updates (`lateness`), of the noise that was expected (`unexplained`). NaN where there is none.
    text : one sentence.
    """

    kind: Kind
    tasks: tuple[str, ...]
    size: float
    low: float
    high: float
    text: str
