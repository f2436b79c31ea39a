"""What `tprof run` says of its ``--task`` patterns: what they met, what was called, and what may have been meant."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tprof.analysis import Profile
    from tprof.launch.matches import Gathered
    from tprof.launch.pattern import Pattern


def near_modules(gathered: Gathered) -> list[str]:
    """Return names of modules of this process that patterns which met nothing may mean."""
    from difflib import get_close_matches

    known = ["__main__", *(name for name in sys.modules if not name.startswith("_"))]
    meant = [pattern.module for pattern in gathered.unmet() if pattern.module is not None]
    return sorted({name for module in meant for name in get_close_matches(module, known, 3, 0.6)})


def unmet_text(pattern: Pattern, near: Sequence[str]) -> str:
    """Return the sentence on a pattern that met no function."""
    if near:
        return f"--task {pattern} met no function; did you mean {' or '.join(near)}?"
    advice = "take the name of the module as it is imported (the program itself is __main__), and a function or "
    advice += "Class.method that this module defines"
    if pattern.expression is not None:
        advice = f"all of module:function must match {pattern.expression.pattern}; the module re is [r]e"
    return f"--task {pattern} met no function: {advice}; tprof run --list-tasks MODULE shows what there is"


def texts(gathered: Gathered, modules: Sequence[str], profile: Profile | None) -> Iterator[str]:
    """Yield a sentence on each pattern of which there is something to say."""
    called = None if profile is None else _called(profile)
    for pattern, met in zip(gathered.patterns, gathered.met, strict=True):
        if not met:
            yield unmet_text(pattern, gathered.near(pattern, modules))
        elif called is not None:
            ran = len({place for place in met if (place[1], place[2]) in called})
            if ran < len(met):
                functions = f"{len(met)} function{'' if len(met) == 1 else 's'}"
                were = "1 was" if ran == 1 else f"{ran or 'none'} {'were' if ran else 'was'}"
                yield f"--task {pattern} matched {functions}, {were} called"


def _called(profile: Profile) -> set[tuple[str | None, int | None]]:
    """Return where the functions stand that have instances."""
    names = set(profile.tasks["task"].unique())
    return {(entry.file, entry.line or 0) for entry in profile.trace.tasks if entry.name in names}


def list_tasks(where: str, tasks: Sequence[str]) -> None:
    """Print the functions of a module, package or script that the patterns mean, all without patterns."""
    from tprof.launch.pattern import parse_patterns

    patterns = parse_patterns(tasks)
    for names, code, function in _functions(where):
        meant = not patterns and not function.co_name.startswith("<")
        if meant or any(pattern.means(names, code.co_filename, function.co_qualname) for pattern in patterns):
            print(f"{names[0]}:{function.co_qualname}  {function.co_filename}:{function.co_firstlineno}")


def _functions(where: str) -> Iterator[tuple[list[str], Any, Any]]:
    import os
    from pathlib import Path

    from tprof.launch.codes import code_of, find_modules, functions_in, spec_of_file

    sys.path[0] = os.getcwd()  # noqa: PTH109 - as python -m has it
    script = where.endswith(".py") or os.sep in where
    package = where.removesuffix(".*")
    specs = [spec_of_file(where, Path(where).stem)] if script else list(find_modules(package))
    codes = [(spec, code_of(spec)) for spec in specs]
    if all(code is None for _, code in codes):
        message = f"cannot list the tasks of {where}: there is no such module or script with code; check the name"
        raise UsageError(message)
    for spec, code in codes:
        names = ["__main__", spec.name] if script else [spec.name]
        for function in sorted(functions_in(code), key=lambda one: one.co_firstlineno) if code is not None else ():
            yield names, code, function
