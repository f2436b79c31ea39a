"""Runs a script, a module or a program text as ``__main__`` in this process, as the interpreter would."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import os
import re
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tprof import _core
from tprof.errors import UsageError

from .dask_workers import mark_dask_workers
from .default_tasks import DefaultTasks
from .descendants import hand_to_children, hand_to_interpreters, interpreter_words
from .hook import Tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .matches import Matches

COMMAND = "-c"
STDIN = "-"
_FILES = {COMMAND: "<string>", STDIN: "<stdin>"}
_STEMS = {COMMAND: "command", STDIN: "stdin"}

_DEFINITION = re.compile(rb"^\s*(?:async\s+)?def\s", re.MULTILINE)

_matches: list[Matches] = []


@dataclass(frozen=True)
class Program:
    """What to run, with its arguments: a script's path, a module's name, `-c` with a text or `-` for standard input."""

    name: str
    arguments: tuple[str, ...]
    is_module: bool = False
    text: str | None = None

    @property
    def is_script(self) -> bool:
        """Whether it is a path: a file, a folder or an archive."""
        return not self.is_module and self.name not in _FILES

    @property
    def words(self) -> list[str]:
        """How it is named to the interpreter."""
        named = ["-m", self.name] if self.is_module else [self.name, *([] if self.text is None else [self.text])]
        return [*named, *self.arguments]

    @property
    def stem(self) -> str:
        """Name of its session."""
        if self.is_module:
            return self.name.rpartition(".")[2]
        return Path(self.name).resolve().stem if self.is_script else _STEMS[self.name]

    @property
    def shown_name(self) -> str:
        """Name of the default task for the whole program."""
        if self.is_module:
            return self.name
        return Path(self.name).name if self.is_script else f"python {self.name}"


@dataclass(frozen=True)
class Main:
    """A program that was found: its source, or its code without one, and the attributes of `__main__`."""

    program: bytes | types.CodeType
    file: str
    spec: importlib.machinery.ModuleSpec | None

    @property
    def defines_functions(self) -> bool:
        """Whether it may define a function: its source has a line that begins one, or there is only its code."""
        return not isinstance(self.program, bytes) or _DEFINITION.search(self.program) is not None

    def imported_packages(self) -> list[str]:
        """Return the packages that its source imports in its own text, without Python's own and tprof."""
        try:
            nodes = list(ast.walk(ast.parse(self.program))) if isinstance(self.program, bytes) else []
        except (SyntaxError, ValueError):  # which running it reports
            return []
        modules = [name.name for node in nodes if isinstance(node, ast.Import) for name in node.names]
        modules += [
            node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level
        ]
        names = dict.fromkeys(one.partition(".")[0] for one in modules)
        return sorted(one for one in names if one not in sys.stdlib_module_names and one != "tprof")


def find_program(program: Program) -> Main:
    """Find the program and let it import from its own folder.

    Raises
    ------
    UsageError
        If there is no such script or module.
    """
    _prepare_path(program)
    if program.is_module:
        return _find_module(program.name)
    return _find_script(program.name) if program.is_script else _read_text(program)


def run_program(program: Program, main: Main, tasks: Sequence[str], *, spans: bool = False) -> None:
    """Run the program, with or without a recording; all its exceptions, including SystemExit, propagate.

    The interpreter ends the program by them as it would without tprof: call this outside all exception handlers.
    """
    names = ["__main__"]
    if main.spec is not None or program.is_script:
        names.append(main.spec.name if main.spec is not None else program.stem)
    sys.argv[:] = [main.file if program.is_module else program.name, *program.arguments]
    sys.orig_argv[:] = [*interpreter_words(sys.orig_argv), *program.words]
    making = Tasks(tasks, names, main.file)
    hand_to_children([one.text for one in making.matches.patterns], names, main.file, program.shown_name, spans=spans)
    hand_to_interpreters()
    if spans:
        from .spans import follow_spans

        follow_spans()
    if tasks:
        making.begin()
        _matches[:] = [making.matches]
    default = DefaultTasks(program.shown_name, main.file)
    default.begin()
    mark_dask_workers()
    module = sys.modules["__main__"] = _make_module(main)
    code = None
    try:
        code = making.compile_main(main.program, main.file)
        if main.file == _FILES[COMMAND]:
            _let_show(code, main.program)
        _core.run_main(code, vars(module), _depth())
    except SystemExit:
        raise
    except BaseException as error:
        here = error.__traceback__
        _show_from(None if code is None or here is None else here.tb_next)
        raise
    finally:
        default.end_program()


def _let_show(code: types.CodeType, text: bytes | types.CodeType) -> None:
    """Let tracebacks show the lines of a text without a file, as Python does since 3.13."""
    import linecache

    register = vars(linecache).get("_register_code")
    if register is not None and isinstance(text, bytes):
        # The first versions of Python 3.13 know such a text by its file's name.
        key = code if hasattr(linecache, "_interactive_cache") else code.co_filename
        register(key, os.fsdecode(text), code.co_filename)


def _depth() -> int:
    """Return the number of frames below the program's, including its caller's."""
    frame: types.FrameType | None = sys._getframe(1)  # noqa: SLF001 - the only cheap way to count them
    depth = 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


def matches() -> Matches | None:
    """Return the matches of the patterns in this process; None before the program, or without patterns."""
    return _matches[0] if _matches else None


def _prepare_path(program: Program) -> None:
    if sys.flags.safe_path:
        return
    if program.is_module:
        sys.path[0] = str(Path.cwd())
    elif not program.is_script:
        sys.path[0] = ""
    elif _importer_of(program.name) is not None:
        sys.path[0] = _absolute(program.name)
    else:
        sys.path[0] = str(Path(program.name).resolve().parent)


def _importer_of(name: str) -> Any:
    """Return the importer of a folder or an archive; None for a script."""
    import pkgutil

    return pkgutil.get_importer(_absolute(name))


def _absolute(name: str) -> str:
    """Return the path as Python gives it to a program: from the root, but neither shortened nor resolved."""
    if os.path.isabs(name):  # noqa: PTH117 - as below; the working folder may have been removed
        return name
    return os.path.join(os.getcwd(), name)  # noqa: PTH109, PTH118 - pathlib would leave parts out


def _find_script(name: str) -> Main:
    importer = _importer_of(name)
    if importer is not None:
        spec = importer.find_spec("__main__")
        if spec is None or spec.loader is None:
            raise UsageError(f"cannot run {name}: there is no __main__ in it; name a script, or use -m for a package")
        return _found_by(spec, name)
    try:
        content = Path(name).read_bytes()
        if not content.startswith(importlib.util.MAGIC_NUMBER):
            return Main(content, _absolute(name), None)
        code = importlib.machinery.SourcelessFileLoader("__main__", _absolute(name)).get_code("__main__")
    except (OSError, ImportError, EOFError, ValueError, TypeError) as error:
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise UsageError(f"cannot run {name}: {why}; check the path, or use -m for a module") from None
    return Main(cast("types.CodeType", code), _absolute(name), None)


def _read_text(program: Program) -> Main:
    text = sys.stdin.buffer.read() if program.text is None else os.fsencode(program.text)
    return Main(text, _FILES[program.name], None)


def _find_module(name: str) -> Main:
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError):
        spec = None
    if spec is not None and not hasattr(spec.loader, "get_code") and (spec.origin or "").endswith(".py"):
        spec = importlib.util.spec_from_file_location(spec.name, spec.origin)  # a hook of another, such as pytest's
    if spec is None or not hasattr(spec.loader, "get_code"):
        raise UsageError(
            f"cannot run -m {name}: there is no such module, or a package without __main__; check the name"
        )
    return _found_by(spec, f"-m {name}")


def _found_by(spec: importlib.machinery.ModuleSpec, name: str) -> Main:
    loader: Any = spec.loader
    source = loader.get_source(spec.name) if hasattr(loader, "get_source") else None
    found = loader.get_code(spec.name) if source is None else source.encode()
    if found is None:
        raise UsageError(f"cannot run {name}: it has neither source nor code")
    return Main(found, spec.origin or name, spec)


def _make_module(main: Main) -> types.ModuleType:
    module = types.ModuleType("__main__")
    if main.file != _FILES[COMMAND]:
        module.__file__ = main.file
    module.__spec__ = main.spec
    module.__builtins__ = sys.modules["builtins"]  # type: ignore[attr-defined]
    if main.spec is not None:
        module.__package__ = main.spec.parent
        module.__loader__ = main.spec.loader
        vars(module)["__cached__"] = main.spec.cached
    else:
        module.__package__ = None
        # The version of Python determines which of these a script has.
        own = vars(sys.modules["__main__"])
        if "__annotations__" in own:
            module.__annotations__ = {}
        if "__cached__" in own and main.file != _FILES[COMMAND]:
            vars(module)["__cached__"] = None
        is_file = main.file not in _FILES.values()
        module.__loader__ = (
            importlib.machinery.SourceFileLoader("__main__", main.file)
            if is_file
            else importlib.machinery.BuiltinImporter  # as in Python itself
        )
    return module


def _show_from(trace: types.TracebackType | None) -> None:
    """Remove the frames above the program from an exception, before the interpreter prints it by its hook."""
    print_error = vars(sys).get("excepthook")
    if print_error is None:
        return

    def print_from(kind: type[BaseException], error: BaseException, _: types.TracebackType | None) -> None:
        sys.excepthook = print_error
        sys.last_traceback = error.__traceback__ = trace
        print_error(kind, error, trace)

    sys.excepthook = print_from
