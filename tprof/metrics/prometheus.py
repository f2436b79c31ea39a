"""The figures as families of Prometheus, for any registry of prometheus_client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, Exemplar, GaugeMetricFamily
from prometheus_client.registry import Collector

from tprof.trace.metric_names import ACCOUNT_ENERGY, MOST_TASKS, POWER, TASK_ENERGY, TASK_INSTANCES

from .exemplars import exemplar_of
from .service import service
from .task_series import TaskSeries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.metrics_core import Metric as Family

    from tprof.trace.metric_names import Metric


class EnergyCollector(Collector):
    """Collects the metrics of the recording that this process takes part in, of all its processes.

    ``prometheus_client.REGISTRY.register(tprof.metrics.EnergyCollector())`` adds them to the page that a program has.
    Without a recording, there are none.

    Parameters
    ----------
    most_tasks
        Series of tasks; further ones are ``<other tasks>``.
    """

    def __init__(self, most_tasks: int = MOST_TASKS) -> None:
        """Begin to read."""
        self._series = TaskSeries(most_tasks)
        self._last: dict[str, tuple[float, int]] = {}
        if not service.is_running:
            service.start()

    def describe(self) -> list[Family]:
        """Return families without samples, so that a registry need not collect to know their names."""
        return [_family(metric) for metric in (TASK_ENERGY, TASK_INSTANCES, ACCOUNT_ENERGY, POWER)]

    def collect(self) -> Iterator[Family]:
        """Read what is new, and yield the families."""
        service.figures.poll()
        values = service.figures.values
        series = self._series.of(values.tasks, self._last)
        self._last = values.tasks
        joules, instances = _counter(TASK_ENERGY), _counter(TASK_INSTANCES)
        for name, (energy_j, count) in series.items():
            joules.add_metric([name, values.task_quality], energy_j, exemplar=_exemplar(name))
            instances.add_metric([name], count)
        accounts = _counter(ACCOUNT_ENERGY)
        for labels, energy_j in values.accounts_j.items():
            accounts.add_metric(labels, energy_j)
        power = GaugeMetricFamily(POWER.of_prometheus, POWER.help, labels=POWER.labels)
        for of_domain, watts in values.power_w.items():
            power.add_metric(of_domain, watts)
        yield from (joules, instances, accounts, power)


def _counter(metric: Metric) -> CounterMetricFamily:
    return CounterMetricFamily(metric.of_prometheus, metric.help, labels=metric.labels)


def _family(metric: Metric) -> Family:
    if metric.is_counter:
        return _counter(metric)
    return GaugeMetricFamily(metric.of_prometheus, metric.help, labels=metric.labels)


def _exemplar(task: str) -> Exemplar | None:
    found = exemplar_of(task)
    if found is None:
        return None
    return Exemplar({"trace_id": found.trace_id, "span_id": found.span_id}, found.energy_j, found.time_s)
