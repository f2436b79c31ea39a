"""Values for options from `[tool.tprof]` of a pyproject.toml and from variables of the environment.

A flag wins over a variable, a variable over the file, the file over the default. The options themselves are declared by
the commands; here they are only looked up, so that a new option has its key and its variable without further code.

A file in an unknown folder may have been written by anybody, so it can change figures but neither load code, nor write
or remove files, nor open connections: options that name a file or a module, or remove sessions, are not read from it,
and a sensor has no argument in it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import UsageError
from tprof.trace.plain_values import decoded, parse_toml, shown
from tprof.trace.user_files import UnreadableError, read_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

FILE = "pyproject.toml"
TABLE = "tool.tprof"
PREFIX = "TPROF_"
CHOSEN_FILE = "TPROF_CONFIG"
"""The variable with a file to read in place of the one that is searched; "none": no file."""
GENERAL = ("energy", "counters", "model", "parallel")
"""Options that mean the same in every command that has them: their keys also stand outside a command's table."""
_YES, _NO = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off", ""})


class Kind(StrEnum):
    """What an option takes; each value is how it is called in a sentence."""

    FLAG = "true or false"
    COUNT = "a whole number"
    NUMBER = "a number"
    TEXT = "a text"
    LIST = "a list of texts"


@dataclass(frozen=True)
class Option:
    """An option of a command.

    Attributes
    ----------
    key : its long name without dashes
    kind : what it takes
    is_general : whether its key may stand outside the command's table
    choices : the texts that it takes; empty: any
    by_user_only : whether a file may not set it: it names a file or a module, or lets tprof remove sessions
    """

    key: str
    kind: Kind
    is_general: bool = False
    choices: tuple[str, ...] = ()
    by_user_only: bool = False


@dataclass(frozen=True)
class Setting:
    """A value for an option, and where it is from: a file with a key, or a variable."""

    value: Any
    source: str


def variable_of(key: str, command: str | None = None) -> str:
    """Return the variable for an option of a command, or of all commands."""
    return PREFIX + "_".join(part.upper().replace("-", "_") for part in (command, key) if part)


def configured(command: str, options: Iterable[Option]) -> dict[str, Setting]:
    """Return the values that the file and the environment have for a command's options, by key.

    Raises
    ------
    UsageError
        If the file cannot be read, a key or variable is unknown, or a value has the wrong type.
    """
    known = {option.key: option for option in options}
    file = find_file()
    tables = {} if file is None else read_tables(file)
    found: dict[str, Setting] = {}
    if file is not None:
        general = {key: value for key, value in tables.items() if not isinstance(value, dict)}
        _check_keys(general, GENERAL, f"{file}: [{TABLE}]")
        own = tables.get(command, {})
        if not isinstance(own, dict):
            raise UsageError(f"{file}: {TABLE}.{command} must be a table: write [{TABLE}.{command}]")
        _check_keys(own, known, f"{file}: [{TABLE}.{command}]")
        found |= _from_table(general, known, f"{file}: {TABLE}", only_general=True)
        found |= _from_table(own, known, f"{file}: {TABLE}.{command}")
    return found | _from_environment(command, known)


def check_sections(commands: Collection[str]) -> None:
    """Raise UsageError if the file has a table for something that is no command."""
    file = find_file()
    tables = {} if file is None else read_tables(file)
    sections = {key: value for key, value in tables.items() if isinstance(value, dict)}
    _check_keys(sections, commands, f"{file}: [{TABLE}]")


def find_file() -> Path | None:
    """Return the nearest pyproject.toml with a table of tprof, from the working folder up to the repository's root.

    Neither the folder above the user's home nor those above are searched from inside it.
    """
    chosen = os.environ.get(CHOSEN_FILE)
    if chosen is not None:
        return None if chosen.lower() in ("none", "") else Path(chosen)
    try:
        here = Path.cwd()
    except OSError:
        return None  # the working folder was removed
    home = os.path.expanduser("~")  # noqa: PTH111 - Path raises if there is none
    for folder in (here, *here.parents):
        file = folder / FILE
        if _has_table(file):
            return file
        if os.path.lexists(folder / ".git") or os.fspath(folder) == home:
            return None
    return None


def _has_table(file: Path) -> bool:
    """Return whether a file can have the table, without parsing all of it: most files of projects have none."""
    try:
        content = read_bytes(file)
    except UnreadableError:
        return False
    return TABLE.encode() in content or (b"[tool]" in content and b"tprof" in content)


def read_tables(file: Path) -> dict[str, Any]:
    """Return the table of tprof in a file, keys with dashes. Raises UsageError."""
    try:
        content: Any = parse_toml(decoded(read_bytes(file)))
    except UnreadableError as error:
        raise UsageError(f"{error}; {CHOSEN_FILE}=none reads no file") from None
    except ValueError as error:
        raise UsageError(f"cannot read {file}: {error}; correct it, or read no file by {CHOSEN_FILE}=none") from None
    for name in TABLE.split("."):
        content = content.get(name, {})
        if not isinstance(content, dict):
            raise UsageError(f"{file}: {name} must be a table: write [{TABLE}]")
    return _with_dashes(content)


def _with_dashes(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key.replace("_", "-"): _with_dashes(value) if isinstance(value, dict) else value for key, value in table.items()
    }


def _check_keys(found: Iterable[str], known: Collection[str], where: str) -> None:
    for key in found:
        if key not in known:
            near = _nearest(key, known)
            raise UsageError(f"{where} has no key {shown(key)}{near}; tprof config --all lists the keys")


def _nearest(name: str, known: Collection[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - for a mistake only

    near = get_close_matches(name, known, 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _from_table(
    table: Mapping[str, Any], known: Mapping[str, Option], where: str, *, only_general: bool = False
) -> dict[str, Setting]:
    found = {}
    for key, value in table.items():
        option = known.get(key)
        if option is None or (only_general and not option.is_general):
            continue
        place = f"{where}.{key}"
        if option.by_user_only:
            raise UsageError(f"{place} cannot be set in a file, which anybody may have written: give --{key}")
        if key == "energy" and ":" in str(value):
            raise UsageError(f"{place} takes names of sensors without arguments: give {shown(value)} by --energy")
        found[key] = Setting(_checked(value, option, place), place)
    return found


def _checked(value: Any, option: Option, place: str) -> Any:
    """Return a value of a file if it has the right type. Raises UsageError."""
    kind = option.kind
    is_number = type(value) is int or (type(value) is float and kind is Kind.NUMBER)
    is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
    sound = {
        Kind.FLAG: isinstance(value, bool),
        Kind.COUNT: is_number,
        Kind.NUMBER: is_number,
        Kind.TEXT: isinstance(value, str),
        Kind.LIST: is_list or isinstance(value, str),
    }
    if not sound[kind]:
        raise UsageError(f"{place} must be {kind}, got {shown(value)}")
    _check_choice(value, option, place)
    if kind is Kind.NUMBER:
        return float(value)
    return [value] if kind is Kind.LIST and isinstance(value, str) else value


def _check_choice(value: Any, option: Option, place: str) -> None:
    if option.choices and value not in option.choices:
        raise UsageError(f"{place} must be one of {', '.join(option.choices)}, got {shown(value)}")


def _from_environment(command: str, known: Mapping[str, Option]) -> dict[str, Setting]:
    names = {variable_of(key): option for key, option in known.items() if option.is_general}
    own = {variable_of(key, command): option for key, option in known.items()}
    prefix = variable_of("", command) + "_"
    for name in os.environ:
        if name.startswith(prefix) and name not in own:
            raise UsageError(f"the variable {name} sets no option of tprof {command}{_nearest(name, own)}")
    return {
        option.key: Setting(_parsed(os.environ[name], option, name), name)
        for name, option in (names | own).items()
        if name in os.environ
    }


def _parsed(text: str, option: Option, name: str) -> Any:
    """Return the value of a variable. Raises UsageError."""
    _check_choice(text, option, f"the variable {name}")
    kind = option.kind
    lowered = text.strip().lower()
    if kind is Kind.FLAG and lowered in _YES | _NO:
        return lowered in _YES
    if kind in (Kind.TEXT, Kind.LIST):
        return text if kind is Kind.TEXT else text.split()
    try:
        return int(text) if kind is Kind.COUNT else float(text)
    except ValueError:
        raise UsageError(f"the variable {name} must be {kind}, got {shown(text)}") from None
