"""Task graphs of the paper's programs, as far as operating points see them: tasks, lengths, who waits for whom.

The lengths at the highest frequency are invented: the paper prints how tasks respond to the frequency, not how long
each instance takes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tprof.benchmarks.virtual.machine import RESPONSES

CHUNKS = 64
SORT_S, MERGE_S = 0.080, 0.008


@dataclass(frozen=True)
class Job:
    """An instance: seconds at the highest frequency, and the jobs before it by their places."""

    task: str
    seconds: float
    after: tuple[int, ...] = ()


@dataclass(frozen=True)
class Mix:
    """A program.

    Attributes
    ----------
    name, description : what it is.
    jobs : in the order of spawning; each waits for earlier ones only.
    """

    name: str
    description: str
    jobs: tuple[Job, ...] = field(repr=False)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Return the tasks' names."""
        return tuple(dict.fromkeys(job.task for job in self.jobs))


def multisort(chunks: int = CHUNKS, sort_s: float = SORT_S, merge_s: float = MERGE_S) -> Mix:
    """Return the paper's multisort: chunks are sorted, then merged in pairs until one is left."""
    jobs = [Job("sort", sort_s) for _ in range(chunks)]
    level = list(range(chunks))
    while len(level) > 1:
        merge_s, pairs = merge_s * (2 if len(level) < chunks else 1), list(zip(level[::2], level[1::2], strict=True))
        level = list(range(len(jobs), len(jobs) + len(pairs)))
        jobs += [Job("merge", merge_s, pair) for pair in pairs]
    return Mix("multisort", f"{chunks} sorts of {sort_s * 1e3:g} ms, merged in pairs", tuple(jobs))


def side_by_side(tasks: tuple[str, ...], instances: int = 60, seconds: float = 0.03) -> Mix:
    """Return tasks that wait for nobody, in turn, so that different ones run at the same time."""
    jobs = tuple(Job(task, seconds) for _ in range(instances) for task in tasks)
    return Mix(" and ".join(tasks) if len(tasks) < 4 else "all tasks", f"{instances} of each, in turn", jobs)


MIXES = (multisort(), side_by_side(("sort", "merge")), side_by_side(tuple(RESPONSES)))
