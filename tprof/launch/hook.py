"""How patterns reach the modules that are imported, in this process and in its children."""

from __future__ import annotations

import importlib.abc
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.environment import TASKS
from tprof.monitored import monitored

from .matches import Matches
from .pattern import parse_patterns
from .rewrite import compile_with_tasks

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec

SITE = Path(__file__).parent / "site"
_SPAWN = "multiprocessing.spawn"


class _Rewriting(importlib.abc.MetaPathFinder):
    """Asks the other finders, and lets what patterns mean be compiled with tasks in it."""

    def __init__(self, matches: Matches, main_names: Sequence[str]) -> None:
        self.matches = matches
        self.main_names = main_names

    def begin(self) -> None:
        """Make tasks of what is imported already, and from now on."""
        from .adopt import patch_module
        from .selection import modules_meant

        for name, module in modules_meant(self.matches, self.main_names):
            patch_module(module, self.matches, [name])
        if _SPAWN in sys.modules:
            self._patch_spawn(sys.modules[_SPAWN])
        sys.meta_path.insert(0, self)

    def compile_main(self, source: bytes | types.CodeType, file: str) -> types.CodeType:
        """Return the code of the main program."""
        if not isinstance(source, bytes):
            return source
        return compile_with_tasks(source, file, self.matches, self.main_names)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module, its loader made to compile it with tasks if patterns can mean it."""
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                meant = name == _SPAWN or self.matches.means(self._names(name), spec.origin)
                if meant and spec.loader is not None and not isinstance(spec.loader, type):
                    self._extend(spec.loader)
                return spec
        return None

    def _names(self, name: str) -> Sequence[str]:
        return self.main_names if name in self.main_names else [name]

    def _extend(self, loader: Any) -> None:
        execute = loader.exec_module
        compiled = hasattr(loader, "source_to_code") and hasattr(loader, "get_data")

        def get_code(name: str) -> types.CodeType:
            file = loader.get_filename(name)
            return compile_with_tasks(loader.get_data(file), file, self.matches, self._names(name))

        def execute_and_adopt(module: types.ModuleType) -> None:
            execute(module)
            self._adopt(module, compiled=compiled)

        if compiled:
            loader.get_code = get_code
        loader.exec_module = execute_and_adopt

    def _adopt(self, module: types.ModuleType, *, compiled: bool) -> None:
        from .adopt import patch_module, replace_callables

        if module.__name__ == _SPAWN:
            self._patch_spawn(module)
        elif compiled:
            replace_callables(vars(module), self.matches, self._names(module.__name__))
        else:
            patch_module(module, self.matches, self._names(module.__name__))

    def _patch_spawn(self, module: Any) -> None:
        """In a spawned child the main program is run by multiprocessing, from a file that no finder is asked for."""
        fix_up = module._fixup_main_from_path  # noqa: SLF001 - no other place knows the path

        def fix_up_with_tasks(path: str) -> None:
            import runpy

            plain = runpy._get_code_from_file  # type: ignore[attr-defined]  # noqa: SLF001 - see above
            runpy._get_code_from_file = self._compiling(plain)  # type: ignore[attr-defined]  # noqa: SLF001
            try:
                fix_up(path)
            finally:
                runpy._get_code_from_file = plain  # type: ignore[attr-defined]  # noqa: SLF001

        module._fixup_main_from_path = fix_up_with_tasks  # noqa: SLF001

    def _compiling(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """Return what reads code as `plain` does: its last argument is the file, the code what it returns, or first."""

        def get_code(*given: Any) -> Any:
            found = plain(*given)
            try:
                code = self.compile_main(Path(given[-1]).read_bytes(), given[-1])
            except (SyntaxError, ValueError):
                return found  # it was compiled before
            return (code, *found[1:]) if isinstance(found, tuple) else code

        return get_code


class Tasks:
    """What makes tasks in this process, and what it met."""

    def __init__(self, texts: Sequence[str], main_names: Sequence[str], main_file: str) -> None:
        """Take patterns, the names under which the main program is meant, and its file. Raises UsageError."""
        self.matches = Matches(parse_patterns(texts))
        self._main_names, self._main_file = main_names, main_file
        self._rewriting: _Rewriting | None = None

    def begin(self, *, is_child: bool = False) -> None:
        """Make tasks of what the patterns mean, in what is imported already and from now on."""
        tool = monitored()
        if tool is None:
            self._rewriting = _Rewriting(self.matches, self._main_names)
            self._rewriting.begin()
        else:
            from .selection import Selection

            Selection(tool, self.matches, self._main_names, self._main_file, is_child=is_child).begin()

    def compile_main(self, source: bytes | types.CodeType, file: str) -> types.CodeType:
        """Return the code of the main program."""
        if self._rewriting is not None:
            return self._rewriting.compile_main(source, file)
        code: types.CodeType = compile(source, file, "exec", dont_inherit=True) if isinstance(source, bytes) else source
        return code


def hand_to_children(texts: Sequence[str], main_names: Sequence[str], main_file: str) -> None:
    """Let Python processes that this one starts do the same, by the environment."""
    given = [pattern.text for pattern in parse_patterns(texts)]
    os.environ[TASKS] = json.dumps({"tasks": given, "main": list(main_names), "file": main_file})
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SITE), others] if others else [str(SITE)])


def install_from_environment() -> None:
    """In a child: do what the parent handed on."""
    handed = json.loads(os.environ[TASKS])
    Tasks(handed["tasks"], handed["main"], handed["file"]).begin(is_child=True)
