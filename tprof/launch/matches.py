"""The functions that match each ``--task``, in all processes of a session: a file per process, a line per module."""

from __future__ import annotations

import os
from json import loads
from typing import TYPE_CHECKING, Any

from tprof.session.process_state import this_process
from tprof.session.table_file import TableFile, to_json
from tprof.trace.directory import MATCHES

if TYPE_CHECKING:
    import types
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from .pattern import Pattern

Place = tuple[str, str, int]
"""A function: its qualified name, file and line."""


class Matches:
    """The matches of the patterns in this process, written at once: workers may be killed."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        """Begin without matches."""
        self.patterns = patterns
        self._met: set[Place] = set()
        self._others: dict[str, set[str]] = {}
        self._lines: list[dict[str, Any]] = []
        self._file: TableFile | None = None
        self._process: int | None = None

    def may_match(self, names: Sequence[str], file: str | None) -> bool:
        """Whether functions of a module can match; those of tprof itself cannot."""
        if names and names[0].startswith("tprof.") and not names[0].startswith("tprof.benchmarks."):
            return False
        return any(pattern.matches_module(names, file) for pattern in self.patterns)

    def choose(self, file: str, codes: Iterable[types.CodeType], names: Sequence[str]) -> list[types.CodeType]:
        """Return the matching functions of a module, and note all of its functions; `names` are the module's."""
        found = [(code, self.which(names, file, code.co_qualname)) for code in codes]
        self.note(names, file, [(code.co_qualname, code.co_firstlineno, which) for code, which in found])
        return [code for code, which in found if which]

    def which(self, names: Sequence[str], file: str | None, qualname: str) -> list[int]:
        """Return the indices of the patterns that match the function."""
        return [index for index, pattern in enumerate(self.patterns) if pattern.matches(names, file, qualname)]

    def note(self, names: Sequence[str], file: str, functions: Sequence[tuple[str, int, list[int]]]) -> None:
        """Write functions of a module with the patterns that match each, and the names of other functions."""
        new = [one for one in functions if one[2] and (one[0], file, one[1]) not in self._met]
        self._met.update((qualname, file, line) for qualname, line, _ in new)
        if new:
            self._write({"module": names[0] if names else "", "file": file, "functions": new, "others": []})
        self._note_others(names, file, {qualname for qualname, _, which in functions if not which})

    def _note_others(self, names: Sequence[str], file: str, others: set[str]) -> None:
        """Write functions without a match if a pattern names their module: the pattern may be misspelt."""
        new = others - self._others.get(file, set())
        if new and any(one.function not in {None, "*"} for one in self._meaning(names, file)):
            self._others.setdefault(file, set()).update(new)
            self._write({"module": names[0] if names else "", "file": file, "functions": [], "others": sorted(new)})

    def _meaning(self, names: Sequence[str], file: str) -> list[Pattern]:
        return [one for one in self.patterns if one.matches_module(names, file) and one.module != "*"]

    def _write(self, line: dict[str, Any]) -> None:
        self._lines.append(line)
        member = this_process.membership
        if member is None:
            return
        try:
            if self._process != member.process or self._file is None:
                directory = member.plan.directory / MATCHES
                directory.mkdir(mode=0o700, exist_ok=True)
                self._file, self._process = TableFile(directory / f"{member.process:08d}.jsonl"), member.process
        except OSError:
            self._file = None  # a full disk loses it, like names of tasks
            return
        self._file.append(to_json(line).encode() + b"\n")

    def close(self) -> None:
        """Close the file of a recording that has ended, where the process goes on."""
        if self._file is not None:
            self._file.close()
        self._file = self._process = None

    def gathered(self, session: Path | None) -> Gathered:
        """Combine the matches of all processes of the session."""
        lines = list(self._lines)
        if session is not None:
            lines += _read(session / MATCHES)
        return Gathered(self.patterns, lines)


class Gathered:
    """The matches of the patterns in all processes."""

    def __init__(self, patterns: Sequence[Pattern], lines: Iterable[dict[str, Any]]) -> None:
        """Sort the lines of all processes by pattern."""
        self.patterns = patterns
        self.met: list[set[Place]] = [set() for _ in patterns]
        self._others: dict[tuple[str, str], set[str]] = {}
        for line in lines:
            module, file = str(line["module"]), str(line["file"])
            self._others.setdefault((module, file), set()).update(map(str, line["others"]))
            for qualname, number, which in line["functions"]:
                self._others[module, file].add(qualname)
                for index in which:
                    if index < len(patterns):
                        self.met[index].add((qualname, file, number))

    def unmet(self) -> list[Pattern]:
        """Return the patterns without a match."""
        return [pattern for pattern, met in zip(self.patterns, self.met, strict=True) if not met]

    def near(self, pattern: Pattern, modules: Iterable[str]) -> list[str]:
        """Return suggestions for a pattern without a match; `modules` were imported."""
        from difflib import get_close_matches

        if pattern.expression is not None or pattern.function is None:
            return []
        found = []
        meant = False
        for (module, file), functions in self._others.items():
            if pattern.matches_module([module], file):
                meant = True
                where = module if pattern.module is not None else os.path.basename(file)  # noqa: PTH119 - a name
                found += [f"{where}:{name}" for name in get_close_matches(pattern.function, functions, 3, 0.6)]
        if not meant and pattern.module is not None:
            found = [f"{name}:{pattern.function}" for name in get_close_matches(pattern.module, modules, 3, 0.6)]
        return [one for one in found if one != pattern.shown][:3]


def _read(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.jsonl")) if os.path.isdir(folder) else ():
        for line in path.read_bytes().splitlines():
            try:
                value = loads(line)
            except ValueError:
                continue  # torn by a full disk
            if isinstance(value, dict) and {"module", "file", "functions", "others"} <= value.keys():
                yield value
