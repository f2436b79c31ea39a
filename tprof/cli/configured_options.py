"""What a command's options take in a pyproject.toml and in variables, from their declarations."""

from __future__ import annotations

import typing
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.configuration import GENERAL, Kind, Option

from . import options as shared

if TYPE_CHECKING:
    from collections.abc import Mapping

_KINDS = {bool: Kind.FLAG, int: Kind.COUNT, float: Kind.NUMBER, str: Kind.TEXT, Path: Kind.TEXT}
_REMOVING = frozenset({"overwrite", "move"})
_FILES = ("FILE", "DIR", "SESSION", "MODULE", "JOB", "PORT")
_GENERAL: dict[str, Any] = {
    "energy": shared.Energy, "counters": shared.Counters, "model": shared.Model, "parallel": shared.Parallel,
}  # fmt: skip
assert set(_GENERAL) == set(GENERAL)  # noqa: S101
_UNCONFIGURED = frozenset({"help", "version", "live"})


def options_of(command: Any) -> dict[str, Option]:
    """Return the options of a command, by the names of its parameters."""
    types = typing.get_type_hints(getattr(command.callback, "__wrapped__", command.callback), include_extras=False)
    found = {}
    for param in command.params:
        key = max(param.opts, key=len).lstrip("-")
        if param.param_type_name != "option" or param.name not in types or key in _UNCONFIGURED:
            continue
        kind = _type_of(types[param.name])
        found[param.name] = Option(
            key,
            Kind.LIST if param.multiple else _KINDS.get(kind, Kind.TEXT),
            is_general=_is_general(key, param.help),
            choices=tuple(str(one.value) for one in kind) if issubclass(kind, Enum) else (),
            by_user_only=key in _REMOVING or kind is Path or _names_file(key, param.metavar or ""),
        )
    return found


def _names_file(key: str, metavar: str) -> bool:
    return key == "session" or any(word in metavar for word in _FILES)


def _is_general(key: str, text: str | None) -> bool:
    """Return whether this is the option that several commands share, not another one of the same name."""
    return key in _GENERAL and _GENERAL[key].__metadata__[0].help == text


def _type_of(annotation: Any) -> type:
    """Return the type of one value: of `str | None` and of `list[str] | None` it is `str`."""
    inner = [one for one in typing.get_args(annotation) if one is not type(None)]
    return _type_of(inner[0]) if inner else annotation


def all_options(commands: Mapping[str, Any]) -> dict[str, dict[str, Option]]:
    """Return the options of each command, by the names of the commands."""
    return {name: options_of(command) for name, command in commands.items()}
