"""A task runtime: finds the parallelism from the data that tasks declare, and lets every task be profiled.

General layout: `runtime` is the public interface, with `future` and `group`; `entered` knows which runtime receives a
call; `workers` starts and pins the threads; `kept_graph` exports the graph of dependences; `cluster` runs tasks on
dask's workers; `policy` chooses the processor's frequency. The scheduler itself (`_scheduler`) is C.
"""

from tprof.distribution import refuse_damage

refuse_damage()  # the scheduler, loaded next, imports the core from the package

from tprof import _core

if not _core.is_main_interpreter():
    _message = "tprof.runtime runs in the main interpreter of a process only: import it there"
    raise ImportError(_message)

from tprof.runtime.future import Task, TaskCancelledError
from tprof.runtime.group import Group
from tprof.runtime.kept_graph import Graph
from tprof.runtime.runtime import Runtime, current

__all__ = ["Graph", "Group", "Runtime", "Task", "TaskCancelledError", "current"]
