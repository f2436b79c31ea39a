"""What stands behind a profile's tables: warnings, provenance, and the limits of its joules."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from tprof.analysis.attribution.accounts import Account
from tprof.analysis.attribution.meter_delay import delay_warning
from tprof.analysis.display.frames import AccountsTable
from tprof.analysis.names import shown

from tprof.trace import Quality
from tprof.trace.estimate import EXACT, most_watts, watts_error

from .intervals import common_error
from .memory import GRAPH_BYTES, lacking
from .native_threads import native_warnings
from .profile_warnings import fit_warnings, gpu_warnings, sample_warnings, static_warnings, unread_warnings
from .provenance import describe, dropped_samples
from .removed import removed_part
from .task_graph import lifecycle_columns, read_events, read_instance_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tprof.analysis.attribution.blocks import ReadFacts
    from tprof.analysis.attribution.hidden import HiddenTime
    from tprof.analysis.attribution.quanta import Quanta

    from tprof.trace import Trace
    from tprof.trace.estimate import WattsError

    from .recipe import Prepared, Recipe
    from .task_graph import InstanceKeys, RuntimeEvents


@dataclass(frozen=True)
class Said:
    """What a recording says of instances besides its samples.

    Attributes
    ----------
    events : of a task runtime
    keys : of an engine's tasks
    """

    events: RuntimeEvents
    keys: InstanceKeys

    @classmethod
    def of(cls, trace: Trace) -> Said:
        """Read it. Raises TraceError."""
        return cls(read_events(trace), read_instance_keys(trace))

    @property
    def names_waits(self) -> bool:
        """Whether it says what instances waited for."""
        return bool(len(self.events) or len(self.keys))

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what is missing."""
        return (*self.events.notes, *self.keys.notes)


@dataclass(frozen=True)
class Found:
    """What sharing the joules found.

    Attributes
    ----------
    accounts : by domain
    stuck : sentences on sensors that stood still
    read : what the samples show
    instances, unnamed : how many there are, and how many of tasks that are in no table
    hidden : CPU time without samples
    native : facts on native threads; None if none serves a task
    said : what else the recording says of instances
    """

    accounts: Mapping[str, Account]
    stuck: Sequence[str]
    read: ReadFacts
    instances: int
    unnamed: int
    hidden: HiddenTime
    native: dict[str, Any] | None
    said: Said


def informed(trace: Trace, prepared: Prepared, recipe: Recipe, found: Found) -> dict[str, Any]:
    """Return the `info` of a profile."""
    names = [entry.name for entry in trace.tasks]
    warnings = [*found.said.notes, *prepared.problems, *found.stuck]
    if found.said.names_waits and (lack := lacking(found.instances, GRAPH_BYTES)) is not None:
        warnings.append(f"what tasks waited for is not shown, since it {lack}: take a window of time, --between")
    warnings += sample_warnings(trace, found, recipe.model, lost=any(dropped_samples(trace).values()))
    for domain in recipe.quanta:
        warnings += unread_warnings(domain, trace.start_ns, integrated=trace.readings[domain.name].integrated)
    warnings += fit_warnings(recipe.fits, names) + static_warnings(recipe) + gpu_warnings(trace.gpu.notes)
    read = {domain.name for domain in recipe.whole if domain.valid.any()}
    late = (name for name, delay in prepared.delays.items() if delay.delay_s is None and name in read)
    warnings += [delay_warning(name) for name in late]
    measured_j = sum(found.accounts[domain.name].measured_j for domain in recipe.quanta if _counts(domain))
    warnings += native_warnings(found.native, measured_j)
    info: dict[str, Any] = describe(trace, recipe, warnings) | {
        "native": found.native,
        "removed": removed_part(trace, prepared.recorded),
    }
    info["meters"] = {name: asdict(delay) for name, delay in prepared.delays.items()} or None
    info["static_power_w"] = recipe.static_power_w | {name: fit.level_w for name, fit in recipe.fits.items()}
    errors_w = {name: fit.static_error_w for name, fit in recipe.fits.items()}
    info["static_error_w"] = recipe.static_error_w | errors_w
    return info


def _counts(domain: Quanta) -> bool:
    return domain.counted and len(domain) > 0


def limits_of(trace: Trace, recipe: Recipe) -> tuple[WattsError, float]:
    """Return the error that all joules share, and the most watts of a thread; infinite if these are not known."""
    counted = [domain for domain in recipe.quanta if _counts(domain)]
    watts = common_error(counted, watts_error(trace.manifest)) if counted else EXACT
    only_estimated = all(domain.quality == Quality.ESTIMATED for domain in counted)
    return watts, most_watts(trace.manifest) if counted and only_estimated else np.inf


def accounts_table(recipe: Recipe, accounts: Mapping[str, Account]) -> AccountsTable:
    """Return the accounts of a profile."""
    frame = pd.DataFrame([vars(account) for account in accounts.values()], columns=list(Account.__annotations__))
    frame["quality"] = [domain.quality for domain in recipe.quanta]
    return AccountsTable(frame.set_index("domain"))


def completed(tasks: pd.DataFrame, trace: Trace, said: Said, quality: str) -> pd.DataFrame:
    """Return some rows of the table of instances with what their samples do not say: keys, events, and the quality."""
    columns: dict[str, Any] = {}
    if trace.key_files:
        keys = said.keys.made["text"].reindex(tasks["instance"])
        texts = [shown(key) if isinstance(key, str) else None for key in keys]
        # With a text at the end the type is that of texts in a part without keys, too.
        columns["key"] = pd.Series([*texts, ""]).array[:-1]
    if len(said.events):
        columns |= lifecycle_columns(said.events, trace, tasks)
    return with_quality(tasks.assign(**columns) if columns else tasks, quality)


def with_quality(tasks: pd.DataFrame, quality: str) -> pd.DataFrame:
    """Add the column `quality` to a table of instances."""
    tasks["quality"] = pd.Categorical.from_codes(np.zeros(len(tasks), np.int8), categories=pd.Index([quality]))
    return tasks
