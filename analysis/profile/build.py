"""Builds a profile: reads the threads, chooses or fits a model, shares every domain's joules, makes the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from tprof.analysis.attribution.accounts import Account, NativeTotals, Totals, settle
from tprof.analysis.attribution.gpu import settle_gpu
from tprof.analysis.attribution.gpu_use import SCOPE as GPU
from tprof.analysis.attribution.gpu_use import gpu_use
from tprof.analysis.attribution.instances import join_rows
from tprof.analysis.attribution.load import idle_power_w
from tprof.analysis.attribution.segment_energy import sum_by
from tprof.analysis.attribution.windows import UnorderedError
from tprof.analysis.models.fitted.base_fit import work_of
from tprof.analysis.models.fitted.powers import mean_errors
from tprof.analysis.names import places, shown

from tprof import log
from tprof.errors import UsageError

from .fits import Ran, fitted
from .information import Found, Said, accounts_table, completed, informed, limits_of
from .instances import Instances
from .memory import fits_in_memory, too_large
from .native_threads import NativeBounds, PoolFacts, native_facts
from .profile import Profile
from .profile_warnings import SampleFacts, ran_in, stuck_sensor_warnings
from .recipe import prepare
from .streamed import build_streamed
from .tables import tasks_table
from .task_sums import TaskSums, limits_j
from .window_gpus import gpu_errors, gpu_variance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from tprof.analysis.attribution.instances import InstanceRows, Joined
    from tprof.analysis.attribution.load import Activity
    from tprof.analysis.attribution.quanta import Quanta
    from tprof.analysis.models import Coefficients

    from tprof.trace import Trace

    from .parallel_maps import Map
    from .recipe import Prepared, Recipe
    from .stored_instances import Progress


def energy_by_domain(recipe: Recipe, trace: Trace) -> pd.DataFrame:
    """Share every domain's joules, those outside the total too: one row per task, a column per domain.

    Returns
    -------
    Index `task`, columns the domains' names: joules of all instances of the task, nested tasks left out; NaN if the
    domain measured none. The columns of domains that nest overlap: only those of the total may be added.
    """
    activity = recipe.read(trace)
    joined = join_rows([one.rows for one in activity.groups])
    names, places_of = places([shown(entry.name) for entry in trace.tasks])
    code = np.append(places_of, -1)[np.minimum(joined.rows.task, len(places_of))]
    known = code >= 0
    columns: dict[str, NDArray[np.float64]] = {}
    for domain in recipe.quanta:
        totals = Totals.zeros(len(joined.rows), NativeTotals.of(activity.pools, joined, len(trace.tasks)))
        columns[domain.name] = np.full(len(names), np.nan)
        if len(domain) and domain.valid.any():
            _settled(recipe, trace, domain, activity, joined, totals)
            energy_j = totals.dynamic_j + totals.static_j + (0.0 if totals.gpu is None else totals.gpu.joules)
            by_task = np.bincount(code[known], weights=energy_j[known], minlength=len(names))
            columns[domain.name] = by_task.astype(np.float64)
    return pd.DataFrame(columns, index=pd.Index(np.asarray(names, object), name="task"))


def build_profile(  # noqa: PLR0913 - one parameter an option
    trace: Trace,
    *,
    model: str = "auto",
    coefficients: str | Mapping[str, float] | Coefficients | None = None,
    max_power_w: float | None = None,
    attribute_native: bool = True,
    tables: bool = True,
    window_samples: int | None = None,
    progress: Progress | None = None,
    map: Map | None = None,  # noqa: A002 - it stands in for the built-in one
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
    tables : whether the table of instances is made now. Without it, and where it does not fit into memory, the
        recording is read window by window, in memory that does not grow with its samples, unless other windows'
        samples decide what one holds (`UnorderedError`). The figures are the same
    window_samples : of such a window, about; None: a quarter of a million, or a thousand of each thread if that is more
    progress : called for each of them with what is done, how many are, and how many there are
    map : calls a function for each window, by default on a few threads: a pool's or an engine's, with which windows
        are shared at the same time. The files must be there under the same path. The figures do not depend on it, to
        the last bit

    Raises
    ------
    UsageError
        If the model or its coefficients are unknown, the trace lacks what it needs, or it must be read into memory as a
        whole and does not fit.
    """
    prepared = prepare(trace, model, coefficients, max_power_w, attribute_native=attribute_native)
    fits = fits_in_memory(trace)
    if not tables or not fits:
        try:
            return build_streamed(trace, prepared, asked=model, samples=window_samples, progress=progress, map=map)
        except UnorderedError as error:
            why = str(error)
        if not fits:
            raise UsageError(too_large(trace, why))
        log.info("analysis", "%s is read into memory: %s", trace.path, why)
    return build_in_memory(trace, prepared, asked=model)


def build_in_memory(trace: Trace, prepared: Prepared, *, asked: str) -> Profile:
    """Attribute a trace's joules with all its samples in memory; `asked` is the model that was asked for."""
    activity = prepared.recipe.read(trace)
    names = [entry.name for entry in trace.tasks]
    idle_w = {domain.name: idle_power_w(*activity.load(domain).idle()) for domain in prepared.idles}
    recipe = fitted(prepared.idled(idle_w), trace, _ran_in(activity, len(names)), asked=asked)
    rows, totals, accounts, stuck = _share(recipe, activity, trace)
    pool_j = [] if totals.native is None else totals.native.pool_j
    native = native_facts([PoolFacts.of(pool) for pool in activity.pools], pool_j, names)
    facts, said = SampleFacts.of(activity, len(rows), int((rows.task >= len(names)).sum())), Said.of(trace)
    info = informed(trace, prepared, recipe, Found(accounts, stuck, facts, activity.hidden, native, said))
    errors_j = None
    if recipe.fits:
        errors_j = mean_errors(
            recipe.fits, _modelled_by_task(activity, len(names)), _instances_by_name(rows, names), names
        )
        if totals.gpu is not None:
            unique, codes = places(names)
            every = np.ones(len(rows), bool)
            variance_j2 = gpu_variance(totals.gpu, rows.task, every, codes, len(unique))
            errors_j = np.hypot(errors_j, gpu_errors(variance_j2, _instances_by_name(rows, names)))
    threads = [thread for one in activity.groups for thread in one.threads]
    del activity
    watts, most_w = limits_of(trace, recipe)
    tasks, half_j = tasks_table(trace, threads, rows, totals, watts, most_w)
    bounds = None
    if totals.native is not None:
        bounds = NativeBounds.of(totals.native.task_least_j, totals.native.task_most_j, names)
    tasks = completed(tasks, trace, said, info["quality"])
    sums = TaskSums.of_table(tasks, rows.own_s, half_j, limits_j(tasks["task"].cat.categories, trace.tasks))
    instances = Instances(sums, tasks, rows.own_s)
    return Profile(trace, instances, accounts_table(recipe, accounts), info, recipe, errors_j, watts, bounds, said)


def _share(
    recipe: Recipe, activity: Activity, trace: Trace
) -> tuple[InstanceRows, Totals, dict[str, Account], list[str]]:
    """Share the joules of all domains: returns the instances, their joules, the accounts, and warnings."""
    log.info("analysis", "model %s: %s", recipe.model.name, recipe.model.why)
    joined = join_rows([one.rows for one in activity.groups])
    for one, place in zip(activity.groups, joined.places, strict=True):
        if isinstance(place, slice):
            one.rows = joined.rows.view(place)  # frees each group's own copy, as large as all its columns
    totals = Totals.zeros(len(joined.rows), NativeTotals.of(activity.pools, joined, len(trace.tasks)))
    accounts = {domain.name: Account(domain.name, *[float("nan")] * 7) for domain in recipe.quanta}
    stuck = []
    for domain in recipe.quanta:
        if len(domain):
            counted = totals if domain.counted else None
            accounts[domain.name], warnings = _settled(recipe, trace, domain, activity, joined, counted)
            stuck += warnings
    return joined.rows, totals, accounts, stuck


def _settled(
    recipe: Recipe, trace: Trace, domain: Quanta, activity: Activity, joined: Joined, totals: Totals | None
) -> tuple[Account, list[str]]:
    """Share one domain's joules: a GPU's by the time in which it worked, others by the load of processors."""
    if domain.scope == GPU:
        use, idle_w = gpu_use(trace, domain.name), recipe.static_power_w.get(domain.name)
        return settle_gpu(domain, use, idle_w, activity.groups, joined, totals)
    plan = recipe.plan(domain, activity)
    account = settle(plan, activity.groups, activity.pools, joined, totals)
    return account, stuck_sensor_warnings(domain, ran_in(plan), trace.start_ns) if domain.stuck.any() else []


def _ran_in(activity: Activity, tasks: int) -> Callable[[Quanta], Ran]:
    """Return what says what ran, for a domain."""

    def ran(domain: Quanta) -> Ran:
        load = activity.load(domain)
        return Ran(work_of(load.threads, load.segments, tasks), load.hidden_s)

    return ran


def _modelled_by_task(activity: Activity, tasks: int) -> NDArray[np.float64]:
    sums = (sum_by(one.task_numbers(tasks), one.modelled, tasks + 1)[:tasks] for one in activity.all_groups)
    return sum(sums, np.zeros(tasks))


def _instances_by_name(rows: InstanceRows, names: Sequence[str]) -> NDArray[np.intp]:
    unique, code = places(names)
    return np.bincount(code[rows.task[rows.task < len(names)]], minlength=len(unique))
