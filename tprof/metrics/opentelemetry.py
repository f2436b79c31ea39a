"""The figures as instruments of OpenTelemetry, which its readers collect and send, such as by OTLP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.metrics import Observation

from tprof.trace.metric_names import ACCOUNT_ENERGY, MOST_TASKS, POWER, TASK_ENERGY, TASK_INSTANCES

from .election import Election
from .service import service
from .task_series import TaskSeries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.metrics import CallbackOptions, Meter

    from .figures import Values


def observe(meter: Meter, *, most_tasks: int = MOST_TASKS) -> None:
    """Create the metrics of the recording that this process takes part in: ``tprof.energy`` and others.

    Each process that calls it reports the joules of its own tasks, so that backends can add processes up. What cannot
    be divided by processes, which are accounts, watts and instances, one of them reports for all.

    Parameters
    ----------
    meter
        Of a provider, whose readers collect the metrics.
    most_tasks
        Series of tasks; further ones are ``<other tasks>``.

    Examples
    --------
    >>> import tprof.metrics
    >>> from opentelemetry.sdk.metrics import MeterProvider
    >>> tprof.metrics.observe(MeterProvider().get_meter("shop"))
    """
    if not service.is_running:
        service.start()
    found = _Observed(most_tasks)
    for metric, callback in (
        (TASK_ENERGY, found.tasks),
        (TASK_INSTANCES, found.instances),
        (ACCOUNT_ENERGY, found.accounts),
    ):
        meter.create_observable_counter(metric.name, [callback], unit=metric.unit, description=metric.help)
    meter.create_observable_gauge(POWER.name, [found.power], unit=POWER.unit, description=POWER.help)


class _Observed:
    """The callbacks of the instruments."""

    def __init__(self, most_tasks: int) -> None:
        self._joules, self._instances = TaskSeries(most_tasks), TaskSeries(most_tasks)
        self._last: dict[str, tuple[float, int]] = {}
        self._last_instances: dict[str, tuple[float, int]] = {}
        self._election = Election("observed")

    def tasks(self, _: CallbackOptions) -> Iterator[Observation]:
        service.figures.poll()
        values = service.figures.values
        tasks = {name: (energy_j, 0) for name, energy_j in values.own_tasks_j.items()}
        shown, self._last = self._joules.of(tasks, self._last), tasks
        for name, (energy_j, _count) in shown.items():
            yield Observation(energy_j, {"task": name, "quality": values.task_quality})

    def instances(self, _: CallbackOptions) -> Iterator[Observation]:
        if not self._election.is_won():
            return
        tasks = self._values.tasks
        shown, self._last_instances = self._instances.of(tasks, self._last_instances), tasks
        for name, (_energy_j, count) in shown.items():
            yield Observation(count, {"task": name})

    def accounts(self, _: CallbackOptions) -> Iterator[Observation]:
        if self._election.is_won():
            for labels, energy_j in self._values.accounts_j.items():
                yield Observation(energy_j, dict(zip(ACCOUNT_ENERGY.labels, labels, strict=True)))

    def power(self, _: CallbackOptions) -> Iterator[Observation]:
        if self._election.is_won():
            for labels, watts in self._values.power_w.items():
                yield Observation(watts, dict(zip(POWER.labels, labels, strict=True)))

    @property
    def _values(self) -> Values:
        return service.figures.values
