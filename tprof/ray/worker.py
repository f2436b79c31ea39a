"""Set-up of a worker process of Ray: it joins its node's part, and what it executes are tasks."""

from __future__ import annotations

import os

from tprof.errors import TprofError
from tprof.sensors import sysroot
from tprof.sensors.topology import boot_id, host_name
from tprof.session import hosts
from tprof.trace.hosts_table import clean_name

from .job import VARIABLE, Board, Job, NodePart
from .marking import mark_in

ID_CHARACTERS = 12
"""Of the long names of workers and nodes."""


def set_up_worker() -> None:
    """Record this worker's remote functions and methods; `runtime_env` lets Ray call it in each new worker.

    A worker that cannot be recorded runs unrecorded, and the driver is told why.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return
    import ray
    from ray._private import function_manager

    job = Job.from_text(text)
    board = Board(job)
    if board.has_ended():
        return
    context = ray.get_runtime_context()
    node_id = context.get_node_id()
    labels = {"worker": context.get_worker_id()[:ID_CHARACTERS], "node": node_id[:ID_CHARACTERS]}
    directory = job.here
    machine = boot_id(sysroot()) or ""
    try:
        part = hosts.ensure(directory, job.options)
        hosts.join(part, labels)
    except (TprofError, OSError) as error:
        host = clean_name(host_name(sysroot()))
        problem = f"process {os.getpid()} could not be recorded: {error}"
        board.announce(NodePart(node_id, machine, host, "", is_home=False, problem=problem))
        return
    board.announce(NodePart(node_id, machine, part.name, os.fspath(part), is_home=directory == job.path))
    mark_in(function_manager)
