"""The entry of `dask worker --preload tprof.dask`: records a worker without a client that asks for it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from distributed import Scheduler, Worker

from tprof.errors import UsageError
from tprof.session.options import RecordingOptions

from .panel import Panel
from .worker_hooks import mark_tasks
from .worker_plugin import NAME, Job, TaskPlugin

if TYPE_CHECKING:
    from distributed.core import Server

JOB = "TPROF_DASK"
"""The variable with the job's directory; without it a worker's tasks are marked in the recording that it is in."""
OPTIONS = "TPROF_DASK_OPTIONS"
"""The variable with options of `tprof.dask.record` as a JSON object."""


async def dask_setup(server: Server) -> None:
    """Let a worker record its tasks, and a scheduler have the page on energy; dask calls it when they have started.

    Raises
    ------
    UsageError
        If the options are no JSON object, or one of them is unknown.
    """
    if isinstance(server, Scheduler):
        panel = Panel()
        await panel.start(server)
        server.add_plugin(panel)
    if not isinstance(server, Worker):
        return
    job = os.environ.get(JOB)
    if not job:
        mark_tasks(server)
        return
    await server.plugin_add(TaskPlugin(Job(job), _options()), name=f"{NAME} of the preload")


def _options() -> RecordingOptions:
    text = os.environ.get(OPTIONS, "{}")
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise UsageError(f'{OPTIONS} is no JSON object such as {{"energy": "estimate"}}, got {text!r}')
    return RecordingOptions.from_json(given)
