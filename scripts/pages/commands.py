"""Whether the command lines of a page are ones that `tprof` takes."""

from __future__ import annotations

import functools
import re
import shlex
from typing import TYPE_CHECKING, Any

from tprof.cli.app import make_app

from .blocks import blocks_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHELLS = {"console", "bash", "sh", "yaml", "dockerfile"}
CALL = re.compile(r"(?:^|[\s`\"'(])tprof (?P<words>[a-z-].*)")
SPAN = re.compile(r"`(tprof [^`]+)`")
OF_TPROF_ITSELF = {"--help", "-h", "--version", "--install-completion", "-v", "--verbose"}
ENDS_OPTIONS = {"-m", "-c", "--help", "-h"}
END = re.compile(r"\s(?:\|\||\||&&|&|;|>|2>|<)\s?|;\s|;$|\s&$")


def wrong_commands(page: Path) -> list[str]:
    """Return a sentence on each command line of a page that `tprof` would refuse."""
    return [f"{place}: tprof {' '.join(words)}: {fault}" for place, words in _calls(page) if (fault := _fault(words))]


def _calls(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield what stands after ``tprof`` in the blocks of a shell and in the code spans of a page."""
    for block in blocks_of(page):
        if block.language not in SHELLS:
            continue
        for line in _joined(block.code).splitlines():
            if block.language == "console" and not line.startswith("$ "):
                continue
            if call := CALL.search(line):
                yield block.place, _words(call["words"])
    for number, line in enumerate(page.read_text("utf-8").splitlines(), start=1):
        for span in SPAN.findall(line):
            if call := CALL.search(span):
                yield f"{page.name}:{number}", _words(call["words"])


def _joined(code: str) -> str:
    return re.sub(r"\\\n\s*", " ", code)


def _words(text: str) -> list[str]:
    """Return the words of a command up to what the shell does with it."""
    text = END.split(f"{text} ", maxsplit=1)[0]
    while True:
        try:
            return shlex.split(text, comments=True)
        except ValueError:  # a quote that begins before the command ends in it
            text = text[: max(text.rfind('"'), text.rfind("'"))]


@functools.cache
def _commands() -> dict[str, Any]:
    return dict(make_app().commands)


def _fault(words: list[str]) -> str | None:
    """Return why tprof would refuse these words; options may stand without their values, as prose names them."""
    if words[0].startswith("-"):
        return None if words[0] in OF_TPROF_ITSELF else "there is no such option"
    command = _commands().get(words[0])
    if command is None:
        return "there is no such command"
    options = {name: option for option in command.params for name in (*option.opts, *option.secondary_opts)}
    rest = iter(word.strip("[]") for word in words[1:])
    for word in rest:
        name = word.partition("=")[0]
        if not word.startswith("-") or word == "-":
            if command.context_settings.get("allow_interspersed_args") is False:
                return None  # the rest belongs to the program
        elif name in ENDS_OPTIONS:
            return None
        elif name not in options:
            return f"there is no option {name}"
        elif not options[name].is_flag and "=" not in word:
            next(rest, None)
    return None
