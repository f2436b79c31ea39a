"""The list of commands, and how their help reads."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tprof import log
from tprof.configuration import configured
from tprof.distribution import NAME, version

from .configured_options import options_of
from .options import Verbose

COMMANDS = (
    "run", "top", "merge", "compress", "summary", "report", "compare", "check", "export", "bench", "sweep",
    "advise", "calibrate", "validate", "roofline", "scaling", "doctor", "sensors", "config",
)  # fmt: skip
"""Their modules have the same names; the help lists them in this order."""


def _print_version(asked: bool) -> None:  # noqa: FBT001 - as typer calls it
    if asked:
        print(f"{NAME} {version()}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    verbose: Verbose = False,
) -> None:
    del version  # printed by its callback
    if verbose:
        log.print_from("debug")


def _shown(params: list[Any]) -> list[Any]:
    """Name what parameters take as Python's argparse does: flags nothing, options a word, arguments themselves.

    typer shows each type as Python writes it, `<bool>` and `<list[str]>` too. It has no setting against that for
    arguments and for --help, which it makes itself, so parameters are changed once they are made.
    """
    for param in params:
        if param.param_type_name == "argument":
            param.metavar = param.metavar or param.name.upper()
            param.display_type_rich = lambda ctx: ""  # noqa: ARG005 - as typer calls it
        elif param.is_flag:
            param.metavar = ""
        elif param.metavar is None:
            param.metavar = max(param.opts, key=len).lstrip("-").replace("-", "_").upper()
    return params


def _usage_of(argument: Any) -> str:
    name: str = argument.metavar
    return name if argument.required or name.startswith("[") else f"[{name}]"


class _Command(TyperCommand):
    """A command whose help names values in words, and whose defaults may be configured."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _shown(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # not for completion and help
            options = options_of(self)
            found = configured(self.name or "", options.values())
            ctx.default_map = {name: found[one.key].value for name, one in options.items() if one.key in found}
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        return ["[OPTIONS]", *map(_usage_of, arguments)]


class _Group(TyperGroup):
    """The command `tprof` itself, likewise."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _shown(super().get_params(ctx))


def _as_paragraphs(text: str) -> str:
    """Return help without line breaks inside paragraphs, which typer would keep at every width; lists keep theirs."""
    paragraphs = (paragraph.rstrip() for paragraph in text.split("\n\n"))
    return "\n\n".join(one if one.startswith("- ") else one.replace("\n", " ") for one in paragraphs)


def make_app(word: str | None = None) -> typer.Typer:
    """Return the command line with the command that a word names, or with all commands if it names none.

    Of each command that typer is given it reads all parameters first, which takes as long as a short command itself.
    """
    app = typer.Typer(
        cls=_Group,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        help="Which task of a parallel Python program took which joules.",
    )
    app.callback()(_options)
    for name in (word,) if word in COMMANDS else COMMANDS:
        importlib.import_module(f".{name}", __package__).register(app)
    for command in app.registered_commands:
        command.cls = _Command
        command.help = command.help and _as_paragraphs(command.help)
    return app
