"""The list of commands, and how their help reads."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tprof import log
from tprof.configuration import configured
from tprof.distribution import NAME, version
from tprof.errors import UsageError

from .configured_options import options_of
from .options import Verbose

if TYPE_CHECKING:
    from .run_start import Launch

PANELS = {
    "Record": {
        "run": "Profile a script, a module or a text; its source, arguments, output and exit status stay as they are.",
        "merge": "Put sessions of several hosts into one job.",
        "compress": "Compress a session's samples and readings; every command reads it as before.",
        "doctor": "Show what a recording on this machine would read, what keeps it from more, and the command that "
        "grants it.",
        "sensors": "Show the sensors of this machine, what each covers, and its watts now.",
        "config": "Show which options pyproject.toml or variables set here, and where.",
    },
    "Look": {
        "top": "Watch a recording while it runs: watts, joules of tasks, threads and what they run.",
        "summary": "Print where the joules went, task by task.",
        "report": "Write a report that works without a network.",
        "compare": "Print what changed from A to B, worst first.",
        "check": "Exit with 1 if a task takes more than a baseline allows.",
        "export": "Write a session for other tools.",
    },
    "Measure": {
        "bench": "Profile benchmark programs, or run the paper's suite.",
        "sweep": "Run a program or benchmark over processor frequencies, numbers of workers and repeats; write one "
        "table.",
        "calibrate": "Fit a power model to this machine, or to a table of counters and power.",
        "roofline": "Draw the roofline of energy of this machine, or of a known one, and place a session's tasks "
        "under it.",
    },
    "Predict": {
        "advise": "Advise on the frequency or power limit and the number of workers for each task and the program.",
        "scaling": "Calculate time and energy of a parallel algorithm from a machine's constants.",
    },
}
"""How each command's help begins, in the order of the list: printing it imports no command."""
COMMANDS = tuple(name for commands in PANELS.values() for name in commands)
HELP_WIDTH = 120
_SETTINGS: Any = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,  # importing what rich needs for help takes longer than all else does
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": HELP_WIDTH},
}


_OPTION = re.compile(r"-[-A-Za-z]")


class Start(BaseException):
    """Takes a program out of the command line, which would catch its exceptions and appear in its tracebacks."""

    def __init__(self, launch: Launch) -> None:
        """Take what is to be run."""
        self.launch = launch


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


def _refuse_option_as_value(param: Any, value: Any) -> None:
    """Raise UsageError if an option took the option after it for its value, be that one of the command's or not."""
    if param.param_type_name != "option" or param.is_flag:
        return
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, str | Path) and _OPTION.match(str(one)):
            name = max(param.opts, key=len)
            raise UsageError(f"{name} needs {param.metavar} after it, and got {one}, which is an option itself")


class _Command(TyperCommand):
    """A command whose help names values in words, and whose defaults may be configured."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _shown(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # not for completion and help
            options = options_of(self)
            try:
                found = configured(self.name or "", options.values())
            except UsageError:
                if "--best-effort" not in args:
                    raise
                found = {}  # what starts the program raises it again
            ctx.default_map = {name: found[one.key].value for name, one in options.items() if one.key in found}
        rest = super().parse_args(ctx, args)
        for param in self.params:
            _refuse_option_as_value(param, ctx.params.get(param.name))
        return rest

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        return ["[OPTIONS]", *map(_usage_of, arguments)]


class _Commands(Mapping[str, Any]):
    """The commands by name, each made when it is asked for: that imports its module and reads its parameters."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        if name not in self._made:
            alone = typer.Typer(add_completion=False, **_SETTINGS)
            importlib.import_module(f".{name}", __package__).register(alone)
            alone.registered_commands[0].cls = _Command
            self._made[name] = typer.main.get_command(alone)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _Group(TyperGroup):
    """The command `tprof` itself, likewise."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Commands()

    def get_params(self, ctx: Any) -> list[Any]:
        return _shown(super().get_params(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        del ctx
        for panel, commands in PANELS.items():
            with formatter.section(panel):
                formatter.write_dl(list(commands.items()))


def make_app() -> Any:
    """Return the command line, which imports a command when that is called.

    It is click's: typer's own would set sys.excepthook when it is called, which programs see.
    """
    app = typer.Typer(
        cls=_Group,
        no_args_is_help=True,
        help="Which task of a parallel Python program took which joules.",
        **_SETTINGS,
    )
    app.callback()(_options)
    return typer.main.get_command(app)
