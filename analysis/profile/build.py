"""Builds a profile: window after window of the recording is read and shared, and sums are kept.

The figures are those of the whole recording (see `tprof.analysis.attribution.windows`), up to the order of additions. A
first pass over the samples is made where one is needed (`tprof.analysis.attribution.survey`). Memory holds the readings
of the sensors, a window's samples, and the instances that have not ended.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from tprof.analysis.attribution.load import idle_power_w
from tprof.analysis.attribution.natives.pools import recorded_ns, surroundings, survey_pools
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.attribution.survey import survey
from tprof.analysis.attribution.windows import PER_THREAD, STEP, Reach, cut_windows, most_at_once
from tprof.analysis.models.fitted.powers import mean_errors
from tprof.analysis.models.fitted.what_ran import WhatRan
from tprof.analysis.names import places, shown

from tprof import log

from .fits import counted, fitted_domains, needs_fits, reach_of
from .fits import fitted as fit_powers_of
from .information import Found, Said, accounts_table, completed, informed
from .instances import Instances, Piece
from .profile import Profile
from .recipe import prepare
from .tables import settled_joules
from .task_graph import services_of
from .task_sums import OPTIONAL, TaskSums, limits_j
from .window_gpus import WindowGpus, without_gpus
from .window_stream import WindowStream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from tprof.analysis.attribution.instances import Ended
    from tprof.analysis.attribution.natives.pools import StreamedPools
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.attribution.survey import Survey
    from tprof.analysis.attribution.windows import Window
    from tprof.analysis.models import Coefficients
    from tprof.analysis.models.fitted.equations import Work

    from tprof.trace import Trace

    from .fits import FittedDomain
    from .instances import Progress
    from .recipe import Recipe
    from .window_stream import SharedWindows

WINDOW_SAMPLES = 100_000
"""Of a window, about: its arrays stay in memory that is used again, and in caches as far as they can."""
STEPS = 8
"""A window has so many of the times by which samples are found, or more, of each thread if they are not too many."""
LEAST_STEP = 512
"""Samples from one of these times to the next, unless windows are small."""
LEAST_TIMES, LEAST_APART = 4096, 32
"""So many of these times are kept of a recording, unless so few samples would be between them."""


def _follows_natives(trace: Trace, recipe: Recipe) -> bool:
    # What a thread used before its first reading may count since its birth.
    return recipe.attribute_native and any(len(one.cpu_ns) and one.cpu_ns[-1] > 0 for one in trace.native_threads)


def energy_by_domain(profile: Profile) -> pd.DataFrame:
    """Share every domain's joules, those outside the total too: one row per task, a column per domain.

    Returns
    -------
    Index `task`, columns the domains' names: joules of all instances of the task, nested tasks left out; NaN if the
    domain measured none. The columns of domains that nest overlap: only those of the total may be added.
    """
    columns: dict[str, NDArray[np.float64]] = {}
    for domain in profile.quanta:
        columns[domain.name] = np.full(len(profile.sums.names), np.nan)
        if len(domain) and domain.valid.any():
            stream = profile.host_instances.stream.of_domain(domain.name)
            columns[domain.name] = _shared(stream, None)[0].total.columns["energy_j"]
    return pd.DataFrame(columns, index=pd.Index(np.asarray(profile.sums.names, object), name="task"))


def build_profile(
    trace: Trace,
    *,
    model: str = "auto",
    coefficients: str | Mapping[str, float] | Coefficients | None = None,
    max_power_w: float | None = None,
    attribute_native: bool = True,
    tables: bool = True,
    window_samples: int | None = None,
    progress: Progress | None = None,
) -> Profile:
    """Attribute a trace's joules to its tasks.

    Parameters
    ----------
    trace : from `tprof.load`
    model : "auto", "linear", "fitted", "fesc", "ipc" or "cputime"
    coefficients : for "linear": "tprof-table1", or a mapping of a, b, c, C1, C2 in watts
    max_power_w : float, watts; an interval of a sensor that implies more is invalid (default 1000)
    attribute_native : whether the CPU time of native threads (BLAS, OpenMP, polars, …) goes to the tasks that use them;
        False: to `runtime`
    tables : whether the table of instances is made now if it fits into memory; else the recording is read again when
        somebody asks for it
    window_samples : so many samples, about, are read at a time; None: a hundred thousand, or more where many
        threads live at the same time. The figures do not depend on it
    progress : called with what is done, how many windows are, and how many there are

    Raises
    ------
    UsageError
        If the model or its coefficients are unknown, or the trace lacks what it needs.
    """
    recipe = prepare(trace, model, coefficients, max_power_w, attribute_native=attribute_native)
    profile = _build(trace, recipe, model, window_samples, progress)
    if tables and profile.host_instances.table_fits:
        profile.instances.tasks  # noqa: B018 - it is kept
    return profile


def _build(trace: Trace, recipe: Recipe, asked: str, samples: int | None, progress: Progress | None) -> Profile:
    """Build the profile of a trace; `asked` is the model that was asked for."""
    log.info("analysis", "reading %s: %d threads, %d domains", trace.path, len(trace.threads), len(recipe.whole))
    recorded = sum(one.count > 0 for one in trace.threads)
    follows = _follows_natives(trace, recipe)
    count, native_count = (sum(one.count for one in some) for some in (trace.threads, trace.native))
    readings = sum(one.count for one in trace.readings.values() if one.quantity == "energy")
    share = 1 - native_count / (count + readings + native_count) if follows else 1.0
    step = _step(samples or max(int(WINDOW_SAMPLES * share), 1), recorded, count)
    found = survey(trace, recipe.model, recipe.packages, step)
    gpus = WindowGpus.of(trace, recipe)
    samples = samples or max(WINDOW_SAMPLES, PER_THREAD * most_at_once(found.threads))
    reaches = _reaches(recipe, asked, gpus)
    windows = tuple(cut_windows(found.threads, reaches, samples, [recorded_ns(trace)] if follows else []))
    found, pools = _with_pools(trace, found, windows, samples, follows=follows)
    recipe = recipe.idled(_idle_watts(recipe, found, pools, samples))
    recipe, fitted, modelled = _fitted(trace, recipe, found, pools, windows, asked, progress)
    log.info("analysis", "model %s: %s", recipe.model.name, recipe.model.why)
    said = Said.of(trace)
    services = services_of(said.events, trace)
    stream = WindowStream(trace, recipe, found, windows, fitted, pools, gpus, services)
    summed, shared, stream = _shared(stream, progress)
    total, last = summed.total, summed.last
    unnamed = total.rows - int(total.columns["instances"].sum())
    names = [entry.name for entry in trace.tasks]
    native = None if shared.pools is None else shared.pools.facts(names)
    stuck = [text for domain in recipe.quanta for text in shared.stuck.get(domain.name, ())]
    known = Found(shared.accounts, stuck, shared.facts, total.rows, unnamed, found.hidden, native, said)
    info = informed(trace, recipe, known)
    stream = replace(stream, known=shared.pools, services=())
    complete = partial(completed, trace=trace, said=said, quality=info["quality"])
    instances = Instances(total, Piece(complete(last.tasks), last.own_s), stream, complete, shared.served)
    accounts = accounts_table(recipe, shared.accounts)
    bounds = None if shared.pools is None else shared.pools.bounds(names)
    errors_j = None
    if recipe.fits:
        errors_j = mean_errors(recipe.fits, modelled, total.columns["instances"], names)
        if shared.gpus is not None:
            errors_j = np.hypot(errors_j, np.sqrt(shared.gpus.variance_j2) / np.maximum(total.columns["instances"], 1))
    return Profile(trace, instances, accounts, info, recipe, errors_j, stream.limits[0], bounds, said)


def _shared(stream: WindowStream, progress: Progress | None) -> tuple[_Summed, SharedWindows, WindowStream]:
    """Share all joules once, and a second time if instances ran again after they seemed to have ended."""
    summed = _Summed(stream)
    found = stream.run(summed.add, (), progress)
    if len(found.again):
        return _shared(replace(stream, again=np.union1d(stream.again, found.again)), progress)
    return summed, found, stream


class _Summed:
    """Sums over instances.

    Attributes
    ----------
    last : the instances of the last window
    """

    last: Piece
    _sums: TaskSums

    def __init__(self, stream: WindowStream) -> None:
        self._stream, tasks = stream, stream.trace.tasks
        names, places_of = places([shown(entry.name) for entry in tasks])
        self._names, self._code = tuple(names), np.append(places_of, -1).astype(np.int32)
        self._limit_j = limits_j(names, tasks)
        self._threads = stream.threads
        self._thread_s = np.zeros(len(stream.threads))

    def add(self, ended: Ended, *, is_last: bool) -> None:
        """Add the instances that ended with a window."""
        if is_last:
            self.last = self._stream.table(ended.copy())
        energy_j, half_j = settled_joules(ended, *self._stream.limits)
        start_ns, end_ns, cpu_s = (ended.column(name) for name in ("start_ns", "end_ns", "cpu_s"))
        figures = {
            "duration_s": np.multiply(end_ns - start_ns, 1e-9),
            "cpu_s": cpu_s,
            "own_s": ended.column("own_s"),
            "energy_j": energy_j,
            "dynamic_j": ended.joules["dynamic_j"],
            "half_j": half_j,
        }
        figures |= {name: ended.joules[name] for name in OPTIONAL if name in ended.joules}
        code = self._code.take(ended.records["task"], mode="clip")
        sums = TaskSums.of(self._names, code, figures, self._limit_j)
        self._sums = self._sums.plus(sums) if "_sums" in vars(self) else sums
        self._thread_s += sum_by(ended.records["thread"], np.nan_to_num(cpu_s), len(self._thread_s))

    @property
    def total(self) -> TaskSums:
        """The sums of all windows."""
        of = ((one.pid, one.tid, shown(one.name) or f"thread-{one.ordinal}") for one in self._threads)
        by_thread = pd.DataFrame(of, columns=["pid", "tid", "name"]).assign(cpu_s=self._thread_s)
        sums_s = by_thread.groupby(["pid", "tid", "name"])["cpu_s"].sum()
        return replace(self._sums, by_thread=sums_s[sums_s > 0])


def _reaches(recipe: Recipe, asked: str, gpus: WindowGpus | None) -> list[Reach]:
    """Return when what the quanta of each domain share runs; domains whose quanta no window shares have none."""
    begins_ns = [int(one.edges_ns[0]) for one in recipe.quanta if len(one)]
    of_gpus = {} if gpus is None else gpus.reaches(min(begins_ns))
    of = reach_of if needs_fits(recipe, asked) else Reach.of
    return [of_gpus.get(number, of(one)) for number, one in enumerate(without_gpus(recipe.quanta))]


def _step(samples: int, recorded: int, count: int) -> int:
    """Return of how many samples of a thread one's time is kept, for windows of so many of so many threads.

    Of a recording of so few as `count` it is one of fewer, since its timeline shows times between them.
    """
    of_thread = max(samples // (STEPS * max(recorded, 1)), LEAST_STEP)
    return min(STEP, max(samples // STEPS, 1), of_thread, max(count // LEAST_TIMES, LEAST_APART))


def _with_pools(
    trace: Trace, found: Survey, windows: Sequence[Window], samples: int, *, follows: bool
) -> tuple[Survey, StreamedPools | None]:
    """Find the pools of native threads: returns what is known with their CPU time, and the pools."""
    if not follows:
        return found, None

    if trace.recorded is not None:
        found = found.with_around(surroundings(trace, trace.recorded))
    pools = survey_pools(found, windows, samples)
    if pools is None:
        return found, None
    return found.with_pools(pools.used_s(found.hidden.t_ns), pools.modelled()), pools


def _fitted(
    trace: Trace,
    recipe: Recipe,
    found: Survey,
    pools: StreamedPools | None,
    windows: Sequence[Window],
    asked: str,
    progress: Progress | None,
) -> tuple[Recipe, dict[str, FittedDomain], NDArray[np.float64]]:
    """Fit powers if the model needs that: returns the recipe, how fitted domains are shared, and modelled sums."""
    tasks = len(trace.tasks)
    if not needs_fits(recipe, asked):
        return recipe, {}, np.zeros(tasks)
    read = found.activities(recipe.model, pools)
    run = WhatRan.of(read, counted(windows, "what ran", progress), tasks, recipe.packages)

    def ran(domain: Quanta) -> tuple[list[Work], NDArray[np.float64]]:
        if progress is not None:
            progress(f"powers of {domain.name}", 0, 1)
        return run.work(domain), sum(found.hidden.between(domain.edges_ns, domain.package), np.zeros(len(domain)))

    chosen = fit_powers_of(recipe, trace, ran, asked=asked)
    return chosen, fitted_domains(chosen, run, read, windows, progress), run.modelled


def _idle_watts(recipe: Recipe, found: Survey, pools: StreamedPools | None, samples: int) -> dict[str, float | None]:
    """Return the watts of domains in idle quanta, where a calibrated static power gives way to them."""
    domains = recipe.idles
    if not domains:
        return {}
    sums = {one.name: np.zeros(2) for one in domains}
    read = found.activities(recipe.model, pools)
    for window in cut_windows(found.threads, [Reach.of(one) for one in domains], samples):
        activity = read(window)
        for domain, which in zip(domains, window.quanta, strict=True):
            if which.stop > which.start:
                sums[domain.name] += activity.load(domain.part(which)).idle()
    return {name: idle_power_w(*both.tolist()) for name, both in sums.items()}
