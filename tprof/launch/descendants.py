"""How the options of `tprof run` reach the program's Python child processes and other interpreters.

Every Python child imports this at its start, so it imports little.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof import _core, mpi
from tprof.session.process_state import TASKS

from .dask_workers import mark_dask_workers
from .default_tasks import DefaultTasks
from .ray_workers import mark_ray_worker

if TYPE_CHECKING:
    from collections.abc import Sequence

_installed = False
SITE = Path(__file__).parent / "site"
_HELPER = re.compile(r"(?:import sys; )?from (?:joblib\.externals\.)?((?:multiprocessing|loky)\.[\w.]+) import")
_POOL_WORKERS = {
    "joblib.externals.loky.backend.popen_loky_posix": "joblib worker",
    "loky.backend.popen_loky_posix": "loky worker",
}


def hand_to_children(
    texts: Sequence[str], main_names: Sequence[str], main_file: str, program: str, *, spans: bool
) -> None:
    """Pass the patterns to Python child processes of this one, called `program`, by the environment.

    With `spans` they make the spans of OpenTelemetry tasks too.
    """
    handed: dict[str, object] = {"tasks": list(texts), "main": list(main_names), "file": main_file, "program": program}
    handed |= {"mpi": mpi.is_followed(), "spans": spans}
    os.environ[TASKS] = json.dumps(handed)
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SITE), others] if others else [str(SITE)])


def hand_to_interpreters() -> None:
    """Pass the program's arguments and search path to other interpreters, which begin with those of `tprof run`."""
    _in_new_interpreters(
        f"import sys; sys.argv[:] = {sys.argv!r}; sys.orig_argv[:] = {sys.orig_argv!r}; sys.path[:] = {sys.path!r}"
    )


def install_in_new_interpreters() -> None:
    """Let other interpreters apply the patterns too, since they load their own code."""
    _in_new_interpreters("__import__('tprof.launch.descendants', fromlist=['descendants']).install_from_environment()")


def _in_new_interpreters(code: str) -> None:
    """Execute code in each interpreter that this one creates."""
    try:
        import _interpreters  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return  # before Python 3.13 no library creates any
    create, execute = _interpreters.create, _interpreters.exec

    @functools.wraps(create)
    def create_prepared(*arguments: Any, **options: Any) -> Any:
        made = create(*arguments, **options)
        execute(made, code)
        return made

    _interpreters.create = create_prepared


def install_from_environment() -> None:
    """Apply the parent's patterns in a child process or in another interpreter."""
    global _installed  # noqa: PLW0603 - once in each interpreter
    if _installed:
        return
    _installed = True
    handed = json.loads(os.environ[TASKS])
    if handed["spans"] and _core.is_main_interpreter():
        from .spans import follow_spans

        follow_spans()
    if handed["mpi"] and _core.is_main_interpreter():
        mpi.follow()
    mark_ray_worker()
    if _core.is_main_interpreter():
        mark_dask_workers()
    if handed["tasks"]:
        from .hook import Tasks

        Tasks(handed["tasks"], handed["main"], handed["file"]).begin(is_child=True)
    if _core.is_main_interpreter():
        default = DefaultTasks(name_of_child(sys.orig_argv, handed["program"]), None)
        default.begin()
        atexit.register(default.end_program)


def interpreter_words(words: Sequence[str]) -> Sequence[str]:
    """Return the interpreter and its own options, which come before the program in a command line."""
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-c", "-m", "-"):
        at += 2 if words[at] in ("-W", "-X") else 1
    return words[:at]


def name_of_child(words: Sequence[str], program: str) -> str:
    """Return the name of a Python process: its script or module, or the program that spawned it."""
    if "--multiprocessing-fork" in words:
        return f"{program} (spawned)"
    what, *after = [*words[len(interpreter_words(words)) :], ""]
    if what == "-m":
        return f"{program} ({_POOL_WORKERS[after[0]]})" if after[0] in _POOL_WORKERS else after[0]
    helper = _HELPER.match(after[0]) if what == "-c" else None
    if helper is not None:
        return helper[1]
    return Path(what).name if what and not what.startswith("-") else f"python {what}".rstrip()
