"""`tprof config`: which options are set by a file or by variables, and where."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tprof.configuration import CHOSEN_FILE, check_sections, configured, find_file, variable_of
from tprof.errors import UsageError

from .options import AsJson
from .render import clean, dump

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tprof.configuration import Option


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("config")(config)


def config(
    command: Annotated[str | None, typer.Argument(help="Of this command only.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="List what can be set: keys of [tool.tprof], variables and types.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show which options pyproject.toml or variables set here, and where. Example: tprof config run."""
    options = options_of_commands(command)
    check_sections(_all_commands())
    if everything:
        rows = [row for name in options for row in _possible(name, options[name])]
    else:
        rows = [row for name in options for row in _set(name, options[name])]
    file = find_file()
    if as_json:
        dump({"file": None if file is None else os.fspath(file), "settings": rows})
        return
    if not everything:
        print(f"file: {_named(file)}")
    for row in rows:
        print("  ".join(clean(value) for value in row.values()))
    if not rows:
        print("no option is set by a file or a variable: all have their defaults")


def _named(file: os.PathLike[str] | None) -> str:
    if file is None:
        return f"no pyproject.toml with [tool.tprof] from here up to the repository ({CHOSEN_FILE} can name one)"
    return clean(os.fspath(file))


def _all_commands() -> tuple[str, ...]:
    """Return the names of the tables below [tool.tprof]."""
    from tprof.notebook.options import COMMAND

    from .app import COMMANDS

    return (*COMMANDS, COMMAND)


def options_of_commands(command: str | None) -> dict[str, dict[str, Option]]:
    """Return the options of a command, or of all, by the names of the commands. Raises UsageError."""
    from tprof.notebook.options import COMMAND, OPTIONS

    from .app import make_app
    from .configured_options import all_options

    if command is not None and command not in _all_commands():
        raise UsageError(f"there is no command {clean(command)}: name one of {', '.join(_all_commands())}")
    found = all_options(make_app().commands) | {COMMAND: {one.key: one for one in OPTIONS}}
    return found if command is None else {command: found[command]}


def _set(command: str, options: dict[str, Option]) -> Iterator[dict[str, Any]]:
    for key, setting in configured(command, options.values()).items():
        yield {"command": command, "option": key, "value": setting.value, "source": setting.source}


def _possible(command: str, options: dict[str, Option]) -> Iterator[dict[str, Any]]:
    for one in options.values():
        key = "not in a file" if one.by_user_only else f"tool.tprof.{command}.{one.key}"
        dashes = "-" if len(one.key) == 1 else "--"
        yield {"option": f"{command} {dashes}{one.key}", "type": str(one.kind), "key": key,
               "variable": variable_of(one.key, command)}  # fmt: skip
