"""Runs a script or module as ``__main__`` in this process, as the interpreter would."""

from __future__ import annotations

import ast
import importlib.machinery
import os
import signal
import sys
import threading
import traceback
import types
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tprof.errors import UsageError

from .adopt import ADOPT, MainRewriter, adopt
from .hook import hand_to_children, install
from .pattern import parse_patterns

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 128 + signal.SIGINT
_recorded_in: list[Path] = []


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


@dataclass(frozen=True)
class Main:
    """A program that was found: its source or code, and what `__main__` shall know of it."""

    source: bytes | None
    code: types.CodeType | None
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
    """Run what was found, recorded in a session or not; whatever it raises, SystemExit too, comes out."""
    _recorded_in[:] = [] if recorded_in is None else [recorded_in]
    names = ["__main__", main.spec.name if main.spec is not None else program.stem]
    sys.argv[:] = [main.file if program.is_module else program.name, *program.arguments]
    if tasks:
        hand_to_children(tasks, names)
        install(tasks, names)
    _execute(main, tasks, names)


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
        return Main(path.read_bytes(), None, os.path.abspath(name), None)  # noqa: PTH100 - links stay, as in Python
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
    data = None if source is None else source.encode()
    return Main(data, loader.get_code(spec.name), spec.origin or name, spec)


def _execute(main: Main, tasks: Sequence[str], names: Sequence[str]) -> None:
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
        module.__loader__ = importlib.machinery.SourceFileLoader("__main__", main.file)
    meant = [pattern for pattern in parse_patterns(tasks) if pattern.names_module(names)]
    code = _compile(main, module, meant)
    sys.modules["__main__"] = module
    try:
        exec(code, vars(module))  # noqa: S102 - the user's program, as Python would run it
    finally:
        _wait_for_threads()


def _compile(main: Main, module: types.ModuleType, meant: Sequence[Any]) -> types.CodeType:
    if main.source is None or (main.code is not None and not meant):
        if main.code is None:
            message = f"cannot run {main.file}: it has neither source nor code"
            raise UsageError(message)
        return main.code
    tree = cast("ast.Module", compile(main.source, main.file, "exec", ast.PyCF_ONLY_AST, dont_inherit=True))
    if meant:
        setattr(module, ADOPT, lambda qualified: lambda value: adopt(value, qualified, meant))
        tree = cast("ast.Module", MainRewriter(meant).visit(tree))
    code: types.CodeType = compile(tree, main.file, "exec", dont_inherit=True)
    return code


def _wait_for_threads() -> None:
    """Wait as Python does at its end, so that the threads' tasks are still recorded."""
    pools = sys.modules.get("concurrent.futures.thread")
    if pools is not None:
        pools._python_exit()  # noqa: SLF001 - what the interpreter itself calls here
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def end_process(error: BaseException | None) -> int:
    """Say what ended the program as Python would, and return the exit status.

    An interrupt ends the process by the signal itself, so that a shell sees it.
    """
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        return _exit_status(error.code)
    _print_traceback(error)
    if not isinstance(error, KeyboardInterrupt):
        return 1
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGINT)
    return INTERRUPTED


def _exit_status(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


def _print_traceback(error: BaseException) -> None:
    own = str(Path(__file__).parent.parent)
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(own):
        frame = frame.tb_next
    error.__traceback__ = frame
    if sys.excepthook is not sys.__excepthook__:
        sys.excepthook(type(error), error, frame)
    else:
        traceback.print_exception(error)
