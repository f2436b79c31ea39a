"""Warnings of a profile: what makes a figure uncertain, and the remedy where there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from tprof.analysis.attribution.load import losses
from tprof.analysis.attribution.segment_energy import spread
from tprof.analysis.names import shown
from tprof.analysis.operating_points.scales import NORMAL_95

from tprof.trace.plain_values import counted, first_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.sharing import Sharing
    from tprof.analysis.models import Chosen
    from tprof.analysis.models.fitted import Fit
    from tprof.analysis.models.fitted.findings import Finding

    from tprof.trace import Trace
    from tprof.trace.gpu import GpuNote
    from tprof.trace.tasks import TaskEntry

    from .information import Found
    from .recipe import Recipe

UNSEEN_SHARE, LEAST_UNSEEN_S = 0.05, 0.5
"""Less hardly changes the figures: starts of libraries' threads alone take tenths of a second."""
LARGE_SHARE = 0.25
"""So much changes them in short programs, too."""
UNCERTAIN_LEVEL = 0.2
MOST_NAMES = 10


def ran_in(plan: Sharing) -> NDArray[np.bool_]:
    """Return in which quanta segments with power ran: from where they begin to where they end, (k,)."""
    measured = plan.measured
    ran = (spread(replace(one, edges_ns=measured.edges_ns)) for one in plan.load.located)
    return np.asarray(sum(ran, np.zeros(len(measured) + 2))[1:-1] > 0)


def stuck_sensor_warnings(quanta: Quanta, ran: NDArray[np.bool_], start_ns: int) -> list[str]:
    """Warn where a sensor stood still while tasks ran, `ran` by quantum."""
    if not len(at := np.flatnonzero(quanta.stuck & ran)):
        return []
    since, length, more = _when(quanta, at, start_ns)
    return [f"{quanta.name} was stuck {since} {length}{more}: what it drew meanwhile is in no figure"]


def _when(quanta: Quanta, at: NDArray[np.intp], start_ns: int) -> tuple[str, str, str]:
    """Return since when the first of some quanta was, how long, and how many more there are."""
    since_s = (int(quanta.edges_ns[at[0]]) - start_ns) * 1e-9
    length_s = (quanta.edges_ns[at + 1] - quanta.edges_ns[at]) * 1e-9
    more = f" (and {len(at) - 1} more times, for {length_s.max():.3g} s at the longest)" if len(at) > 1 else ""
    return f"since {since_s:.3f} s of the recording", f"for {length_s[0]:.3g} s", more


def unread_warnings(quanta: Quanta, start_ns: int, *, integrated: bool) -> list[str]:
    """Warn where a sensor was not read for far longer than usual, though it was again before the end."""
    if quanta.unread is None or not len(at := np.flatnonzero(quanta.valid & quanta.unread)):
        return []
    since, length, more = _when(quanta, at, start_ns)
    how = "its power is taken as a straight line" if integrated else "its joules are shared as in any longer interval"
    why = "since the sensor hung or the machine was too busy"
    return [f"{quanta.name} was not read {length} {since}{more}, {why}: {how} ({quanta.energy_j[at].sum():.3g} J)"]


def sample_warnings(trace: Trace, found: Found, model: Chosen, *, lost: bool) -> list[str]:
    """Warn of samples that make a figure uncertain.

    If some are `lost`, since they could not be written, CPU time without samples says nothing about the program.
    """
    facts, out = found.read, [shown(text) for text in losses(trace)]
    if facts.disordered > 0:
        out.append(
            f"{counted(facts.disordered, 'time stamp')} went backwards within a thread: raised to the one before"
        )
    if facts.aborted > 0:
        out.append(
            f"{counted(facts.aborted, 'thread')} ended inside a task, which is closed at the thread's last sample"
        )
    if facts.guessed > 0:
        out.append(
            f"{counted(facts.guessed, 'thread was', 'threads were')} in a task when the process ended without "
            "reporting its end (killed, or by os._exit): the CPU time since the last sample is a guess, at most what "
            "the process took in that time"
        )
    if facts.bare > 0:
        out.append(
            f'{counted(facts.bare, "thread lacks", "threads lack")} the counters of model "{model.name}": power '
            "there is the mean of the others"
        )
    if facts.moved:
        out.append(
            f"{counted(facts.moved, 'segment')} began on one package and ended on another: half is counted on each"
        )
    out += _hidden_warnings(found, lost=lost)
    if facts.starts > found.instances:
        out.append(
            f"{counted(facts.starts - found.instances, 'instance begins', 'instances begin')} more than once: ids are "
            "not unique, and each counts as one instance"
        )
    if found.unnamed > 0:
        out.append(
            f"no table of the recording names the task of {counted(found.unnamed, 'instance')} (a line is "
            "damaged or lost): the joules are in the account `tasks`, and in no task's row"
        )
    if found.instances == 0:
        out.append(
            "the trace has no task instances: mark functions with @tprof.task, or name with tprof run --task functions "
            "that the program calls"
        )
    return out


def _is_notable(share: float, of_s: float) -> bool:
    return share > LARGE_SHARE or (share > UNSEEN_SHARE and share * of_s > LEAST_UNSEEN_S)


DASK_OWN = "in workers of dask these are mostly the event loop and imports"


def _hidden_warnings(found: Found, *, lost: bool) -> list[str]:
    """Warn of CPU time that no sample shows, and where it is not known; tasks with keys are those of dask's workers."""
    out, hidden, has_keys = [], found.hidden, len(found.said.keys) > 0
    advice = DASK_OWN if has_keys else "if they are yours, decorate what they run with @tprof.task"
    limit = "; if they are a pool of BLAS or OpenMP, limit it to one thread with threadpoolctl or OMP_NUM_THREADS=1"
    if _is_notable(hidden.unseen_share, hidden.program_s) and not lost:
        out.append(
            f"{100 * hidden.unseen_share:.0f} % of the program's CPU time ran in threads that run no task, and that no "
            f"task is known to use (in `runtime`): {advice}{'' if found.native is not None or has_keys else limit}"
        )
    if _is_notable(hidden.before_share, hidden.program_s):
        out.append(
            f"{100 * hidden.before_share:.0f} % of the program's CPU time passed before the first task of its "
            "processes and threads (in `runtime`): mostly starts of Python and imports in child processes"
        )
    if hidden.hides_others:
        out.append(
            f"the kernel counted {hidden.busy_s:.3g} s of CPU time of all programs, but this program alone used "
            f"{hidden.program_s:.3g} s: what other programs used is not known, and their joules count as the program's"
        )
    out += [
        f"{name} is damaged: {counted(count, 'reading')} with times that are not in order left out"
        for name, count in hidden.unordered.items()
    ]
    return out


def finding_text(finding: Finding, domain: str, fits: Mapping[str, Fit]) -> str:
    """Return the sentence of a finding, which names the domain where several were fitted."""
    return finding.text + (f" (on {domain})" if len(fits) > 1 else "")


def fit_warnings(fits: Mapping[str, Fit], names: Sequence[str]) -> list[str]:
    """Warn of what was found, of tasks that are not resolved, and of an uncertain static power."""
    out: list[str] = []
    for domain, fit in fits.items():
        out += dict.fromkeys(finding_text(finding, domain, fits) for finding in fit.findings)
        if unresolved := [names[int(task)] for task in np.flatnonzero(fit.unresolved)]:
            which = first_of(unresolved, MOST_NAMES)
            out.append(f"the power of {which} is not resolved on {domain}: their intervals reach zero")
        out += _uncertain(domain, fit.level_w, fit.static_error_w)
    return out


def static_warnings(recipe: Recipe) -> list[str]:
    """Warn of what fits found that are not used, and of an uncertain static power beside a model that is not fitted."""
    rejected = recipe.rejected
    out = [finding_text(finding, domain, rejected) for domain, fit in rejected.items() for finding in fit.findings]
    for domain, error_w in recipe.static_error_w.items():
        if domain not in recipe.fits:
            out += _uncertain(domain, recipe.static_power_w[domain], error_w)
    return list(dict.fromkeys(out))


def _uncertain(domain: str, level_w: float, error_w: float) -> list[str]:
    if error_w <= UNCERTAIN_LEVEL * max(level_w, 1e-12):
        return []
    text = f"static power of {domain} is uncertain ({level_w:.3g} ± {NORMAL_95 * error_w:.2g} W)"
    return [f"{text}, and with it the common level of all tasks: leave a third of a second idle in the recording"]


def gpu_warnings(notes: Iterable[GpuNote]) -> list[str]:
    """Warn of work on GPUs that could not be marked as the program asked."""
    notes = tuple(notes)
    out = []
    if lost := sum(note.lost for note in notes):
        out.append(
            f"{counted(lost, 'mark on GPUs has', 'marks on GPUs have')} no time, since the GPU did not "
            "come so far before the end: such work counts as unmarked, or up to the end; wait for the GPU "
            "(synchronize) inside the recording"
        )
    if captured := sum(note.captured for note in notes):
        out.append(
            f"{counted(captured, 'mark on GPUs was', 'marks on GPUs were')} left out while a graph was captured: put "
            "tprof.gpu() around its replay"
        )
    if any(note.overlapped for note in notes):
        out.append(
            "several threads launched on one stream of a GPU in tprof.gpu() blocks at a time: what they launched "
            "counts for the block that was opened last; give each thread a stream of its own"
        )
    out += [f"marks on GPUs ended with an error: {shown(note.problem)}" for note in notes if note.problem is not None]
    return out


def failed_declarations(tasks: Iterable[TaskEntry]) -> list[str]:
    """Return a sentence for each task whose declared functions gave no number for some calls."""
    return [
        f"{one.failed or 'flops or bytes'} of task {shown(one.name)}: the declared function failed for "
        f"{one.calls_failed:,} of {counted(one.calls + one.calls_failed, 'call')}"
        + (f" ({shown(' '.join(one.failure.split()))})" if one.failure else "")
        for one in tasks
        if one.calls_failed
    ]
