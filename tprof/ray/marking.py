"""Makes tasks of the remote functions and actor methods that a worker of Ray executes, by their names.

A worker looks up what it is to execute by `FunctionActorManager.get_execution_info`, and calls what it finds: on its
main thread, on the threads of a concurrency group, or on the event loop of an asynchronous actor. So what is found is
replaced by a task of the same kind. This was tried with Ray 2.40 and 2.60, whose executing loop is compiled and offers
no other place. Ray's own methods of actors (``__ray_…__``) are no tasks.
"""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

from tprof.session.labels import set_labels
from tprof.session.process_state import this_process
from tprof.task import is_task, make_task

if TYPE_CHECKING:
    import types
    from collections.abc import Callable

LIBRARY = "Ray"
_MARKS = "_tprof_marks"
_INTERNAL = "__ray"
_UNKNOWN = (
    "tprof does not know how this version of Ray looks up functions: remote functions and methods of actors are no "
    "tasks by themselves; put @tprof.task below @ray.remote"
)


def mark_in(module: types.ModuleType) -> None:
    """Let what this process executes be tasks from now on.

    Parameters
    ----------
    module
        Ray's ``ray._private.function_manager``.
    """
    manager: Any = getattr(module, "FunctionActorManager", None)
    genuine: Any = getattr(manager, "get_execution_info", None)
    if genuine is None:
        warnings.warn(_UNKNOWN, RuntimeWarning, stacklevel=2)
        return
    if hasattr(genuine, _MARKS):
        return
    marks: dict[object, tuple[Any, Any]] = {}

    @functools.wraps(genuine)
    def get_execution_info(self: Any, job_id: Any, function_descriptor: Any) -> Any:
        info = genuine(self, job_id, function_descriptor)
        found = marks.get(function_descriptor.function_id)
        if found is None or found[0] is not info:
            found = info, _marked(info, function_descriptor)
            marks[function_descriptor.function_id] = found
        return found[1]

    setattr(get_execution_info, _MARKS, marks)
    manager.get_execution_info = get_execution_info


def _marked(info: Any, descriptor: Any) -> Any:
    """Return what the worker is to execute, with a task in place of the function."""
    method: Callable[..., Any] | None = getattr(info.function, "method", None)
    if method is None:
        return info if is_task(info.function) else info._replace(function=make_task(info.function, library=LIBRARY))
    if info.function_name.startswith(_INTERNAL):
        return info
    class_name = descriptor.class_name.rpartition("<locals>.")[2]
    _label_actor(class_name)
    if is_task(method):
        return info
    name = f"{class_name}.{info.function_name}"
    return info._replace(function=make_task(info.function, name, within=method, library=LIBRARY))


def _label_actor(class_name: str) -> None:
    """Label this worker, which serves one actor for good, with the actor's name, or else its class."""
    if "actor" not in this_process.labels:
        import ray

        set_labels({"actor": ray.get_runtime_context().get_actor_name() or class_name})
