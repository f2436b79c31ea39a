"""The beginning and the end of a job's recording in the driver."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import uuid
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError, UsageError
from tprof.session import hosts
from tprof.session.process_state import this_process

from .job import VARIABLE, Job

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SET_UP = "worker_process_setup_hook"
_WORKER = "tprof.ray.set_up_worker"
_jobs: dict[Path, Job] = {}
"""Those that this process began and has not collected."""


def runtime_env(
    path: str | os.PathLike[str],
    *,
    energy: str | Sequence[str] = "auto",
    counters: str | Sequence[str] = "auto",
    watts: tuple[float, float] | str | None = None,
    idle_s: float | None = None,
    overwrite: bool = False,
    others: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Begin to record a job of Ray, and return the runtime environment in which its workers join.

    The driver is recorded too, from now on. Each node records with its own sensors: what its workers run are tasks by
    their names, ``function`` or ``Class.method``, with the labels ``worker``, ``node`` and ``actor`` (the name of the
    actor, or of its class). The job ends with `collect`, with ``ray.shutdown()``, or with the driver.

    Parameters
    ----------
    path
        The directory of the job to make, by convention ``NAME.tprof``.
    energy, counters, watts, idle_s
        As for `tprof.record`, on every node.
    overwrite
        Replace an existing job.
    others
        What else is in the runtime environment, such as ``{"pip": ["numpy"]}``. tprof must be installed on every node.

    Returns
    -------
    dict
        For ``ray.init(runtime_env=…)``.

    Raises
    ------
    UsageError
        If the path is taken, a recording runs in this process, or `others` has a set-up hook of workers.
    SensorError
        If the requested sensor cannot be read here.
    """
    environment = _environment(others)
    if _SET_UP in environment:
        raise UsageError(f"a runtime environment has one {_SET_UP}: call tprof.ray.set_up_worker() in yours instead")
    if this_process.membership is not None:
        where = this_process.membership.plan.directory
        raise UsageError(
            f"a recording already runs in this process ({where}): leave out tprof.ray.runtime_env, or that recording"
        )
    options = hosts.RecordingOptions(energy=energy, counters=counters, watts=watts, idle_s=idle_s)
    job = Job(Path(path).absolute(), uuid.uuid4().hex, options)
    _make_free(job.path, overwrite=overwrite)
    import ray  # its own end is registered when it is imported, and comes after what is registered later

    _begin(job)
    _jobs[job.path] = job
    _collect_before_shutdown(ray)
    environment["env_vars"] = {VARIABLE: job.as_text(), **environment["env_vars"]}
    environment[_SET_UP] = _WORKER
    return environment


def _environment(others: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy, with `env_vars`. Raises UsageError for what Ray would refuse after the recording has begun."""
    found = {} if others is None else others
    variables = found.get("env_vars", {}) if isinstance(found, dict) else None
    if not isinstance(variables, dict):
        raise UsageError(f'others= is a dict such as {{"env_vars": {{"NAME": "value"}}}}, got {others!r}')
    return {**found, "env_vars": variables}


def job_at(path: Path) -> Job:
    """Return the job that this process began there, and forget it. Raises UsageError."""
    job = _jobs.pop(path, None)
    if job is None:
        raise UsageError(
            f"{path} is not recorded by this process: tprof.ray.runtime_env begins a job, and it ends once"
        )
    return job


def _begin(job: Job) -> None:
    """Make the job, and record the driver. Raises TprofError."""
    part = hosts.ensure(job.path, job.options)
    job.marker.touch(mode=0o600)
    hosts.join(part, {"worker": "driver"})
    atexit.register(_collect_quietly, job.path)


def _make_free(path: Path, *, overwrite: bool) -> None:
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise UsageError(f"{path} exists: choose another path, or replace it with overwrite=True")
    if not path.is_dir() or not ((path / "hosts").is_dir() or (path / "manifest.json").exists()):
        raise UsageError(f"{path} is not a job: it is left alone, choose another path")
    shutil.rmtree(path)


def _collect_before_shutdown(ray: Any) -> None:
    """Collect before the program disconnects from the cluster, since nothing can be brought home afterwards."""
    genuine = ray.shutdown
    if hasattr(genuine, "__wrapped_by_tprof__"):
        return

    @functools.wraps(genuine)
    def shutdown(*arguments: Any, **options: Any) -> Any:
        for path in list(_jobs):
            _collect_quietly(path)
        return genuine(*arguments, **options)

    shutdown.__wrapped_by_tprof__ = True  # type: ignore[attr-defined]
    ray.shutdown = shutdown


def _collect_quietly(path: Path) -> None:
    """Collect where the program does not expect an exception of ours."""
    from .collection import collect

    if path not in _jobs:
        return
    try:
        collect(path)
    except (TprofError, OSError) as error:
        warnings.warn(f"tprof could not collect {path}: {error}", RuntimeWarning, stacklevel=3)
