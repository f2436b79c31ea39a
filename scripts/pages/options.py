"""Writes the table of all options into docs/configuration.md, from the declarations of the commands.

PYTHONPATH=scripts .venv/bin/python -P -m pages.options    after a change of a command's options
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tprof.cli.config import options_of_commands
from tprof.configuration import GENERAL, variable_of

from .blocks import ROOT

if TYPE_CHECKING:
    from tprof.configuration import Option

PAGE = ROOT / "docs" / "configuration.md"
BEGIN = "<!-- options -->\n"


def table() -> str:
    """Return the table of all options in Markdown."""
    rows = ["| option | key in `[tool.tprof]` | variable | value |", "|---|---|---|---|"]
    rows += [f"| of several commands | `{key}` | `{variable_of(key)}` | as there |" for key in GENERAL]
    for command, options in options_of_commands(None).items():
        rows += [_row(command, one) for one in options.values()]
    return "\n".join(rows) + "\n"


def _row(command: str, option: Option) -> str:
    dashes = "-" if len(option.key) == 1 else "--"
    name = f"{command} {dashes}{option.key}" if command != "notebook" else f"%%tprof --{option.key}"
    key = "–" if option.by_user_only else f"`{command}.{option.key}`"
    value = ", ".join(option.choices) or option.kind
    return f"| `{name}` | {key} | `{variable_of(option.key, command)}` | {value} |"


def updated(page: str) -> str:
    """Return the page with the present table."""
    before, mark, _ = page.partition(BEGIN)
    return f"{before}{mark}\n{table()}"


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text("utf-8")), "utf-8")
