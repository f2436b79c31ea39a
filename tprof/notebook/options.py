"""The options of ``%%tprof`` and ``%tprof``: from the line, variables and pyproject.toml."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Self

from tprof.configuration import Kind, Option, configured
from tprof.errors import UsageError

COMMAND = "notebook"
"""The table of pyproject.toml, and the middle of the variables."""
OPTIONS = (
    Option("task", Kind.LIST),
    Option("model", Kind.TEXT, is_general=True),
    Option("energy", Kind.TEXT, is_general=True),
    Option("watts", Kind.TEXT),
    Option("counters", Kind.TEXT, is_general=True),
    Option("idle", Kind.NUMBER),
    Option("output", Kind.TEXT, by_user_only=True),
    Option("overwrite", Kind.FLAG, by_user_only=True),
    Option("quiet", Kind.FLAG),
)
USAGE = "[--task PATTERN]... [--model M] [--energy E] [--watts IDLE,PER_CORE] [--counters C] [--idle SECONDS] "
USAGE += "[-o SESSION] [--overwrite] [-q]"
_SHORT = {"-o": "--output", "-q": "--quiet"}
_WORD = re.compile(r"\s*(--?[A-Za-z][A-Za-z-]*)(?==|\s|$)")
_VALUE = re.compile(r"""(?:=|\s+)('[^']*'|"[^"]*"|[^\s'"][^\s]*)""")


@dataclass(frozen=True)
class CellOptions:
    """What a line asks for; `tprof run` has options of the same names."""

    task: tuple[str, ...] = ()
    model: str = "auto"
    energy: str = "auto"
    watts: str | None = None
    counters: str = "auto"
    idle: float | None = None
    output: str | None = None
    overwrite: bool = False
    quiet: bool = False

    @classmethod
    def parse(cls, line: str) -> tuple[Self, str]:
        """Return the options at the begin of a line, and the rest of it. Raises UsageError."""
        known = {option.key: option for option in OPTIONS}
        given: dict[str, Any] = {}
        while found := _WORD.match(line):
            word = found[1]
            key = _SHORT.get(word, word).removeprefix("--")
            if key not in known or word.startswith("-") != _SHORT.get(word, word).startswith("-"):
                near = get_close_matches(word, [f"--{one}" for one in known], 1)
                raise UsageError(f"%tprof has no option {word}{f'; did you mean {near[0]}?' if near else f': {USAGE}'}")
            line = line[found.end() :]
            if known[key].kind is Kind.FLAG:
                given[key] = True
                continue
            value = _VALUE.match(line)
            if value is None:
                raise UsageError(f"{word} needs a value after it: %tprof {USAGE}")
            line = line[value.end() :]
            text = value[1].strip("'\"") if value[1][0] in "'\"" else value[1]
            given[key] = (*given.get(key, ()), text) if key == "task" else _converted(word, text, known[key].kind)
        values = {key: setting.value for key, setting in configured(COMMAND, OPTIONS).items()} | given
        if "task" in values:
            values["task"] = tuple(values["task"])
        rest = line.strip()
        return cls(**values), rest.removeprefix("--").lstrip() if rest.startswith("-- ") else rest

    @property
    def counter_names(self) -> str | list[str]:
        """The counters as `tprof.record` takes them."""
        names = [one.strip() for one in self.counters.split(",")]
        return names if len(names) > 1 else self.counters


def _converted(word: str, text: str, kind: Kind) -> str | float:
    if kind is not Kind.NUMBER:
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{word} must be a number, got {text!r}") from None
