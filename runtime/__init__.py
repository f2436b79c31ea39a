"""A task runtime: finds the parallelism in what tasks say of their data, and lets every task be profiled.

General layout: `runtime` is the face; `future` and `group` are what a program holds in its hands; `workers` starts
and places the threads; `kept_graph` writes down what depended on what; `operating` chooses the processor's frequency.
The scheduler itself (`_scheduler`) is C.
"""

from tprof.distribution import refuse_damage

refuse_damage()  # the scheduler, loaded next, asks the package for the core

from tprof import _core

if not _core.is_main_interpreter():
    _message = "tprof.runtime runs in the main interpreter of a process only: import it there"
    raise ImportError(_message)

from tprof.runtime.future import Task, TaskCancelledError
from tprof.runtime.group import Group
from tprof.runtime.kept_graph import Graph
from tprof.runtime.runtime import Runtime, current

__all__ = ["Graph", "Group", "Runtime", "Task", "TaskCancelledError", "current"]
