"""Frequencies and workers that are learnt while a program runs: explored, then decided, then decided anew.

What takes long, solving for the powers of tasks and choosing among all of their frequencies, is a review of a copy of
all observations. The thread on which it became due makes it without the loop's lock, so no other thread waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .decision import Decision, Thresholds
from .exploration import MAX_UNCERTAINTY, Exploration, ExplorationBudget
from .strategy import Change, Voting, reason
from .worker_search import WorkerSearch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.operating_points.goals import Goal

    from .controls import Controls
    from .power_estimator import PowerEstimator
    from .strategy import Entry, Present, Review, Run


@dataclass(frozen=True)
class Learnt:
    """The answer of a review.

    Attributes
    ----------
    finished, short : tasks whose exploration has ended, and all that are shorter than a change of the frequency.
    decision, changed : the decision, and the tasks whose frequency has changed.
    uncertainties : relative standard deviations of the tasks' energies.
    why : of the choice.
    """

    finished: tuple[str, ...]
    short: frozenset[str]
    decision: Decision
    changed: list[str]
    uncertainties: Mapping[str, float]
    why: str


PERIOD_NS = 5_000_000
"""How often instances are counted and the search for workers is continued; its spans last 0.1 s at least."""


class Learning(Voting):
    """Explores tasks at a few frequencies, and decides again as the weights of the tasks become known."""

    reads_sensor = learns = True
    period_ns = PERIOD_NS

    def __init__(
        self,
        goal: Goal,
        controls: Controls,
        explored_hz: Sequence[int],
        estimator: PowerEstimator,
        *,
        workers: int,
        budget: ExplorationBudget | None = None,
        thresholds: Thresholds | None = None,
        adapt_workers: bool = True,
    ) -> None:
        """Begin with the highest frequency and all workers."""
        thresholds = thresholds or Thresholds()
        super().__init__(goal.name, controls, Decision(thresholds), workers)
        self._goal, self._estimator, self._all_workers = goal, estimator, workers
        at_once = -(-workers // controls.count)
        self._exploration = Exploration(
            explored_hz, budget or ExplorationBudget(), controls.transition_s, at_once=at_once
        )
        self._search: WorkerSearch | None = None
        if adapt_workers and workers > 1:
            self._search = WorkerSearch(workers, goal.span_cost, estimator.read, thresholds.learnt_gain)
        self._undecided: dict[str, None] = {}
        self._instances = self._review_at = 0
        self._short: frozenset[str] = frozenset()
        self._in_review = self._has_explored = False

    def keep_workers(self, workers: int) -> None:
        """Keep this number and end the search."""
        super().keep_workers(workers)
        self._search = None

    def explores(self, task: str) -> bool:
        """Return whether a task is being explored."""
        return self._exploration.explores(task)

    def _explores_any(self, running: Sequence[Run]) -> bool:
        return any(self._exploration.explores(run.task) for run in running)

    def watches(self, task: str) -> bool:
        """Return whether a task is explored, or will be."""
        return self._exploration.is_open(task)

    def poll(self, present: Present) -> None:
        """Attribute the energy to what runs while any of it is explored."""
        if self._explores_any(present.running):
            self._has_explored = True
            kinds = [(run.task, present.held_hz[run.control]) for run in present.running]
            self._estimator.poll(present.now_ns, kinds)
        else:
            self._estimator.pause()

    def on_set(self, now_ns: int, running: Sequence[Run]) -> None:
        """Attribute the energy from here on if a task is explored."""
        if self._estimator.is_paused and self._explores_any(running):
            self._estimator.poll(now_ns, ())

    def request(self, run: Run, sharing: Sequence[Run], running: Sequence[Run], held_hz: int) -> tuple[int | None, str]:
        """Return the frequency that is explored now, or the one that the tasks agree on.

        While a task that has no vote may still be learnt, the present frequency stays.
        """
        probe_hz = self._probe(run, running, held_hz)
        if probe_hz is not None:
            return probe_hz, "explore"
        hz, why = super().request(run, sharing, running, held_hz)
        if why == "unknown" and not any(one.task in self._undecided for one in sharing):
            return None, why
        return hz, why

    def _probe(self, run: Run, running: Sequence[Run], held_hz: int) -> int | None:
        """Return the frequency that is explored now, the same on all controls, since they share the sensor.

        It stays until it is due for no running task. Then the task that begins chooses the next.
        """
        exploration = self._exploration
        exploring = [one for one in running if exploration.explores(one.task)]
        if not exploring:
            return None
        for one in exploring:
            if one is not run and one.clean and exploration.is_due(one.task, one.hz):
                return one.hz
        if exploration.explores(run.task):
            return held_hz if exploration.is_due(run.task, held_hz) else exploration.next_hz(run.task)
        return exploring[0].hz or None

    def on_end(self, run: Run, now_ns: int) -> None:
        """Add the instance if it ran at one frequency and if its task was explored all the time, or never."""
        if run.clean and run.explored == self._exploration.explores(run.task):
            self._exploration.add(run.task, run.hz, (now_ns - run.begin_ns) * 1e-9)

    def on_ended(self, instances: Mapping[str, int], now_ns: int) -> Change | None:
        """Count the instances: the weights of the tasks become known as the run goes on. Then adapt the workers."""
        for task, count in instances.items():
            if task not in self.ignored:
                self._instances += count
                self._exploration.count(task, count)
        return self._adapt_workers(instances, now_ns)

    def _adapt_workers(self, instances: Mapping[str, int], now_ns: int) -> Change | None:
        """Try fewer workers, unless a task was explored since the last call: the two would disturb each other."""
        search, means_s = self._search, self._decision.means_s
        has_explored, self._has_explored = self._has_explored, False
        if search is None or not means_s:
            return None
        if has_explored:
            changed = search.interrupt()
        else:
            search.on_end(sum(means_s.get(task, 0.0) * count for task, count in instances.items()))
            changed = search.poll(now_ns, max(means_s.values()))
        self.workers = search.workers
        return Change("explore" if search.is_trying else "learnt") if changed else None

    @property
    def is_review_due(self) -> bool:
        """Whether tasks have been explored or turned out short, or the weights are known twice as well."""
        return (self._is_due or bool(self._exploration.pending)) and not self._in_review

    @property
    def _is_due(self) -> bool:
        return len(self._exploration.short) > len(self._short) or 0 < self._review_at <= self._instances

    def review(self) -> Review | None:
        """Return what decides by a copy of all observations, if there is something to find out; one at a time."""
        if not self.is_review_due:
            return None
        self._in_review = True
        is_due, equations, quality = self._is_due, self._estimator.equations(), self._estimator.quality
        explored = self._exploration.explored(self._controls.frequencies_hz)
        former, short, transition_s = self._decision, frozenset(self._exploration.short), self._controls.transition_s

        def decide() -> Learnt | None:
            """Return the decision; None if only pending tasks were the reason, and none of them is finished."""
            finished = explored.finished(equations.uncertainties)
            if not finished and not is_due:
                return None
            uncertainties = explored.uncertainties((*explored.tasks, *finished), equations.uncertainties)
            known = explored.knowledge(equations.powers_w(), uncertainties, quality)
            choice = self._goal.choose({self._all_workers: known})
            decision, changed = former.updated(choice.costs, known, transition_s, short)
            return Learnt(finished, short, decision, changed, uncertainties, reason(choice, "learnt"))

        return decide

    def apply(self, answer: Learnt | None) -> Change | None:
        """Take over what was learnt; None if nothing was, or if the review failed and will be made again."""
        self._in_review = False
        if answer is None:
            return None
        self._exploration.finish(answer.finished)
        self._short, self._review_at = answer.short, 2 * self._instances
        self._decision, self.ignored = answer.decision, answer.decision.short
        whys = {task: f"{answer.why}, to {answer.uncertainties[task]:.0%}" for task in answer.changed}
        return Change(answer.why, [*self._chosen(whys), *self._not_learnt(answer.uncertainties)])

    def _not_learnt(self, uncertainties: Mapping[str, float]) -> list[Entry]:
        """Return entries on tasks that are known too badly for a choice, each once."""
        fresh = {
            task: uncertainty
            for task, uncertainty in uncertainties.items()
            if uncertainty > MAX_UNCERTAINTY and task not in self._undecided
        }
        self._undecided |= dict.fromkeys(fresh)
        return [
            {"kind": "chosen", "task": task, "frequency_hz": self._highest_hz,
             "why": f"not learnt: known to {uncertainty:.0%} only"}
            for task, uncertainty in fresh.items()
        ]  # fmt: skip
