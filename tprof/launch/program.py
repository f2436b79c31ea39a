"""Runs a script or module as ``__main__`` in this process, as the interpreter would."""

from __future__ import annotations

import importlib.machinery
import os
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import UsageError

from .default_tasks import DefaultTasks
from .hook import Tasks, hand_to_children

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .matches import Matches

_recorded_in: list[Path] = []
_matches: list[Matches] = []


@dataclass(frozen=True)
class Program:
    """What to run: a script's path or a module's name, and its arguments."""

    name: str
    arguments: tuple[str, ...]
    is_module: bool = False

    @property
    def stem(self) -> str:
        """What a session of it is called."""
        return self.name.rpartition(".")[2] if self.is_module else Path(self.name).resolve().stem

    @property
    def shown_name(self) -> str:
        """What the task is called that stands for all of it."""
        return self.name if self.is_module else Path(self.name).name


@dataclass(frozen=True)
class Main:
    """A program that was found: its source, or its code where it has none, and what `__main__` shall know of it."""

    program: bytes | types.CodeType
    file: str
    spec: importlib.machinery.ModuleSpec | None


def find_program(program: Program) -> Main:
    """Look it up and let it import from its own folder.

    Raises
    ------
    UsageError
        If there is no such script or module.
    """
    _prepare_path(program)
    return _find_module(program.name) if program.is_module else _find_script(program.name)


def run_program(program: Program, main: Main, tasks: Sequence[str], *, recorded_in: Path | None = None) -> None:
    """Run what was found, recorded in a session or not; whatever it raises, SystemExit too, comes out.

    What comes out is for the interpreter to end the program by, as it would have without us: call this outside all that
    handles exceptions.
    """
    _recorded_in[:] = [] if recorded_in is None else [recorded_in]
    names = ["__main__", main.spec.name if main.spec is not None else program.stem]
    sys.argv[:] = [main.file if program.is_module else program.name, *program.arguments]
    hand_to_children(tasks, names, main.file, program.shown_name)
    making = Tasks(tasks, names, main.file)
    default = None
    if tasks:
        making.begin()
        _matches[:] = [making.matches]
    else:
        default = DefaultTasks(program.shown_name, main.file)
        default.begin()
    module = sys.modules["__main__"] = _make_module(main)
    code = None
    try:
        code = making.compile_main(main.program, main.file)
        exec(code, vars(module))  # noqa: S102 - the user's program, as Python would run it
    except SystemExit:
        raise
    except BaseException as error:
        here = error.__traceback__
        _show_from(None if code is None or here is None else here.tb_next)
        raise
    finally:
        if default is not None:
            default.end_program()


def matches() -> Matches | None:
    """Return what the patterns met in this process; None before the program, or without patterns."""
    return _matches[0] if _matches else None


def is_recorded_in(session: Path) -> bool:
    """Tell whether it is `tprof run` that records this process there, and not the program itself."""
    return session in _recorded_in


def _prepare_path(program: Program) -> None:
    if sys.flags.safe_path:
        return
    sys.path[0] = str(Path.cwd()) if program.is_module else str(Path(program.name).resolve().parent)


def _find_script(name: str) -> Main:
    path = Path(name)
    if os.path.isdir(path):
        message = f"cannot run {name}: it is a folder; name the script in it, or use -m for a package"
        raise UsageError(message)
    try:
        return Main(path.read_bytes(), os.path.abspath(name), None)  # noqa: PTH100 - links stay, as in Python
    except OSError as error:
        message = f"cannot run {name}: {(error.strerror or str(error)).lower()}; check the path, or use -m for a module"
        raise UsageError(message) from None


def _find_module(name: str) -> Main:
    import importlib.util

    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError):
        spec = None
    loader: Any = None if spec is None else spec.loader
    if spec is None or loader is None or not hasattr(loader, "get_code"):
        message = f"cannot run -m {name}: there is no such module, or a package without __main__; check the name"
        raise UsageError(message)
    source = loader.get_source(spec.name) if hasattr(loader, "get_source") else None
    found = loader.get_code(spec.name) if source is None else source.encode()
    if found is None:
        message = f"cannot run -m {name}: it has neither source nor code"
        raise UsageError(message)
    return Main(found, spec.origin or name, spec)


def _make_module(main: Main) -> types.ModuleType:
    module = types.ModuleType("__main__")
    module.__file__ = main.file
    module.__spec__ = main.spec
    module.__builtins__ = sys.modules["builtins"]  # type: ignore[attr-defined]
    if main.spec is not None:
        module.__package__ = main.spec.parent
        module.__loader__ = main.spec.loader
        vars(module)["__cached__"] = main.spec.cached
    else:
        module.__package__ = None
        # Which of these a script has depends on the version.
        own = vars(sys.modules["__main__"])
        vars(module).update(
            {name: value for name, value in (("__annotations__", {}), ("__cached__", None)) if name in own}
        )
        module.__loader__ = importlib.machinery.SourceFileLoader("__main__", main.file)
    return module


def _show_from(trace: types.TracebackType | None) -> None:
    """Let the interpreter print an exception from here on, the program's own frames, by whatever hook it has."""
    print_error = vars(sys).get("excepthook")
    if print_error is None:
        return

    def print_from(kind: type[BaseException], error: BaseException, _: types.TracebackType | None) -> None:
        sys.excepthook = print_error
        sys.last_traceback = error.__traceback__ = trace
        print_error(kind, error, trace)

    sys.excepthook = print_from
