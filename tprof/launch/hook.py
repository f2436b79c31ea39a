"""The import hook that makes tasks of a module's functions when it is imported, in this process and its children."""

from __future__ import annotations

import atexit
import importlib.abc
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.environment import TASKS

from .adopt import patch_module
from .default_tasks import DefaultTasks
from .pattern import parse_patterns

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec

    from .pattern import Pattern

SITE = Path(__file__).parent / "site"
_SPAWN = "multiprocessing.spawn"
_MULTIPROCESSING = re.compile(r"from (multiprocessing\.\w+) import")


class _Finder(importlib.abc.MetaPathFinder):
    """Asks the other finders, and lets the module be patched after its code ran."""

    def __init__(self, patterns: Sequence[Pattern], main_names: Sequence[str]) -> None:
        self.patterns = patterns
        self.main_names = main_names

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module that patterns mean, its loader made to patch."""
        if name != _SPAWN and not any(pattern.names_module([name]) for pattern in self.patterns):
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None and not isinstance(spec.loader, type):
                    self._extend(spec.loader)
                return spec
        return None

    def _extend(self, loader: Any) -> None:
        execute = loader.exec_module

        def execute_and_patch(module: types.ModuleType) -> None:
            execute(module)
            self.patch(module)

        loader.exec_module = execute_and_patch

    def patch(self, module: types.ModuleType) -> None:
        """Make the tasks of a module that stands."""
        if module.__name__ == _SPAWN:
            self._patch_spawn(module)
        else:
            patch_module(module, self.patterns, [module.__name__])

    def _patch_spawn(self, module: Any) -> None:
        """In a spawned child the main program is imported by multiprocessing, which no finder sees."""
        for name in ("_fixup_main_from_path", "_fixup_main_from_name"):
            setattr(module, name, self._then_patch_main(getattr(module, name)))

    def _then_patch_main(self, fix_up: Callable[[str], None]) -> Callable[[str], None]:
        def fix_up_and_patch(where: str) -> None:
            before = sys.modules["__main__"]
            fix_up(where)
            main = sys.modules["__main__"]
            if main is not before:
                patch_module(main, self.patterns, self.main_names)

        return fix_up_and_patch


def install(texts: Sequence[str], main_names: Sequence[str]) -> None:
    """Make tasks of what the patterns name, in modules imported already and from now on.

    Parameters
    ----------
    texts
        MODULE:FUNCTION each.
    main_names
        The names under which the main program is meant, ``__main__`` among them.

    Raises
    ------
    UsageError
        If a pattern is none.
    """
    finder = _Finder(parse_patterns(texts), main_names)
    for name, module in list(sys.modules.items()):
        if module is not None and name not in main_names and not name.startswith("tprof"):
            meant = name == _SPAWN or any(pattern.names_module([name]) for pattern in finder.patterns)
            if meant and getattr(module, "__name__", None) == name:
                finder.patch(module)
    sys.meta_path.insert(0, finder)


def hand_to_children(texts: Sequence[str], main_names: Sequence[str], program: str) -> None:
    """Let Python processes that this one, called so, starts install the same hook, by the environment."""
    os.environ[TASKS] = json.dumps({"tasks": list(texts), "main": list(main_names), "program": program})
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SITE), others] if others else [str(SITE)])


def install_from_environment() -> None:
    """In a child: install what the parent handed on."""
    handed = json.loads(os.environ[TASKS])
    if handed["tasks"]:
        install(handed["tasks"], handed["main"])
    else:
        default = DefaultTasks(_name_of_child(sys.orig_argv[1:], handed["program"]), None)
        default.begin()
        atexit.register(default.end_program)


def _name_of_child(words: Sequence[str], program: str) -> str:
    """Return what a Python process is called: by its script or module, or by the program that spawned it."""
    if "--multiprocessing-fork" in words:
        return f"{program} (spawned)"
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-c", "-m", "-"):
        at += 2 if words[at] in ("-W", "-X") else 1
    what, *after = [*words[at:], ""]
    if what == "-m":
        return after[0]
    helper = _MULTIPROCESSING.match(after[0]) if what == "-c" else None
    if helper is not None:
        return helper[1]
    return Path(what).name if what and not what.startswith("-") else f"python {what}".rstrip()
