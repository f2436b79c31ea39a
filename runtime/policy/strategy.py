"""What a policy decides for the loop: fixed frequencies, those of a table, and the base of those that are learnt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tprof.analysis.operating_points.goals import FORBIDDEN

from .decision import Decision

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.operating_points.curves import Knowledge
    from tprof.analysis.operating_points.goals import Choice, Goal

    from .controls import Controls
    from .decision import Thresholds
    from .power_limiter import PowerLimiter

Entry = dict[str, Any]
"""A decision as it is recorded, without its time and the policy's name."""
Review = Callable[[], Any]
"""Computes what takes long, from a copy of a strategy's data, so without the loop's lock."""


@dataclass(eq=False)
class Run:
    """An instance of a task that runs on a thread.

    Attributes
    ----------
    task, control, number : its task, the control of its core's frequency, and the task's number.
    watched : whether the strategy learns from it; only then the next ones are known.
    begin_ns, hz : when it began, and at what frequency.
    clean : whether it ran at one frequency and without interruption.
    explored : whether it began while its task was explored.
    """

    task: str
    control: int
    number: int = -1
    watched: bool = False
    begin_ns: int = 0
    hz: int = 0
    clean: bool = True
    explored: bool = False


class Present(NamedTuple):
    """What holds when sensors are read.

    Attributes
    ----------
    now_ns : the time.
    running : all instances that run.
    held_hz : the frequencies of the controls.
    busy_ns : time so far in which tasks ran, of strategies that have `times_tasks`.
    """

    now_ns: int
    running: Sequence[Run]
    held_hz: Sequence[int]
    busy_ns: int = 0


@dataclass(frozen=True)
class Change:
    """A strategy has decided anew: what to record of it, and why the number of workers may change."""

    why: str
    entries: Sequence[Entry] = field(default_factory=list)


class Strategy(ABC):
    """Decides on frequencies and workers; the loop holds its lock during each call.

    Attributes
    ----------
    name : of the policy.
    workers : the number of workers that are to be active.
    ignored : tasks that change nothing, so the loop ignores them.
    reads_sensor : whether `poll` is called.
    times_tasks : whether the time in which tasks run is measured for it.
    learns : whether `on_set` and `on_ended` are called.
    period_ns : the longest time between two polls, while tasks begin or end.
    limiter : what keeps a cap, if the policy has one.
    """

    name: str
    workers: int
    ignored: frozenset[str] = frozenset()
    reads_sensor = False
    times_tasks = False
    learns = False
    period_ns = 1_000_000_000
    limiter: PowerLimiter | None = None

    @abstractmethod
    def request(self, run: Run, sharing: Sequence[Run], running: Sequence[Run], held_hz: int) -> tuple[int | None, str]:
        """Return the frequency for a control and why; None: the one that it has.

        The answer for the same tasks on the control at the same frequency stays until a `Change`, except while a
        watched task runs. So it is not called for each instance.

        Parameters
        ----------
        run
            Which has begun or goes on.
        sharing
            All that run on the control.
        running
            All that run.
        held_hz
            The control's present frequency.
        """

    def keep_workers(self, workers: int) -> None:
        """Keep a number of workers that the program itself has set, which has priority."""
        self.workers = workers

    def begin(self) -> Change | None:
        """Return the first decision, if there is one."""
        return None

    def state(self) -> list[Entry]:
        """Return what holds now, for a recording that begins."""
        return []

    def poll(self, present: Present) -> Change | None:  # noqa: ARG002 - the interface
        """Read sensors; called before a watched task, or one beside it, begins or ends, and each `period_ns`."""
        return None

    def watches(self, task: str) -> bool:  # noqa: ARG002 - the interface
        """Return whether it learns from each instance of a task; that may change with a review only."""
        return False

    @property
    def is_review_due(self) -> bool:
        """Whether there is something to find out."""
        return False

    def on_set(self, now_ns: int, running: Sequence[Run]) -> None:  # noqa: B027 - most learn nothing
        """Go on after a task has begun or continued, at its frequency."""

    def on_end(self, run: Run, now_ns: int) -> None:  # noqa: B027 - most learn nothing
        """Learn from an instance of a watched task that ended."""

    def on_ended(self, instances: Mapping[str, int], now_ns: int) -> Change | None:  # noqa: ARG002 - the interface
        """Learn how many instances of each task have ended since the last call; called each `period_ns`."""
        return None

    def explores(self, task: str) -> bool:  # noqa: ARG002 - the interface
        """Return whether a task is being explored."""
        return False

    def review(self) -> Review | None:
        """Return what to find out now, if anything; `apply` gets the answer, or None if that failed."""
        return None

    def apply(self, answer: Any) -> Change | None:  # noqa: ARG002 - the interface
        """Take over the answer of a review."""
        return None


class FixedFrequencies(Strategy):
    """Given frequencies: by task, or one for all others; without one they keep the present frequency."""

    name = "fixed"

    def __init__(self, frequency_hz: int | None, tasks_hz: Mapping[str, int], workers: int) -> None:
        """Take the frequencies."""
        self._frequency_hz, self._tasks_hz, self.workers = frequency_hz, tasks_hz, workers

    def request(self, run: Run, sharing: Sequence[Run], running: Sequence[Run], held_hz: int) -> tuple[int | None, str]:  # noqa: ARG002 - the interface
        """Return the highest frequency given for the tasks that share the control."""
        given = (self._tasks_hz.get(one.task, self._frequency_hz) for one in sharing)
        return max((hz for hz in given if hz is not None), default=None), "fixed"


class Voting(Strategy):
    """Tasks that share a control vote by their costs; a task without costs runs at the highest frequency."""

    def __init__(self, name: str, controls: Controls, decision: Decision, workers: int) -> None:
        """Begin with a decision."""
        self.name, self._controls, self._decision, self.workers = name, controls, decision, workers
        self._highest_hz = controls.frequencies_hz[-1]

    def request(self, run: Run, sharing: Sequence[Run], running: Sequence[Run], held_hz: int) -> tuple[int | None, str]:  # noqa: ARG002 - the interface
        """Return the frequency that the tasks agree on."""
        hz, why = self._decision.frequency_for([one.task for one in sharing], held_hz, self._controls.transition_s)
        return (self._highest_hz if why == "unknown" else hz), why

    def state(self) -> list[Entry]:
        """Return the choice of each task."""
        return self._chosen(dict.fromkeys(self._decision.best, "held"))

    def _chosen(self, tasks: Mapping[str, str]) -> list[Entry]:
        """Return the choices of tasks, for the reasons that are given."""
        known, best = self._decision.known, self._decision.best
        return [
            {"kind": "chosen", "task": task, "frequency_hz": best[task], "why": why, "energy_j": point.energy_j,
             "time_s": point.time_s, "quality": known.quality}
            for task, why in tasks.items()
            if (point := known.curves.get(task, {}).get(best[task])) is not None
        ]  # fmt: skip


class FromTable(Voting):
    """Decides once, from what a sweep found by the number of workers."""

    def __init__(self, goal: Goal, known: Mapping[int, Knowledge], controls: Controls, thresholds: Thresholds) -> None:
        """Decide."""
        choice = goal.choose(known)
        decision, self._changed = Decision(thresholds).updated(
            choice.costs, known[choice.workers], controls.transition_s
        )
        super().__init__(goal.name, controls, decision, choice.workers)
        self.ignored, self._why = decision.short, reason(choice, "table")

    def begin(self) -> Change:
        """Return the choices."""
        return Change(self._why, self._chosen(dict.fromkeys(self._changed, self._why)))


def reason(choice: Choice, why: str) -> str:
    """Return why a choice was made, and whether it breaks the goal's bound."""
    return f"{why}; the bound cannot be kept" if choice.score >= FORBIDDEN else why
