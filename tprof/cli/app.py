"""The list of commands, and the one place where an error becomes a printed line and an exit status."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tprof.errors import TprofError, UsageError

USAGE_STATUS = 2
ERROR_STATUS = 1


def _print_version(asked: bool) -> None:  # noqa: FBT001 - as typer calls it
    if asked:
        import tprof

        print(f"tprof {tprof.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[  # noqa: FBT002 - acts when it is parsed
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command that was typed."""
    from . import advise, bench, calibrate, doctor, export, report, roofline, run, scaling, summary, sweep, validate

    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        help="Which task of a parallel Python program took which joules.",
    )
    app.callback()(_options)
    run.register(app)
    for module in (summary, report, export, bench, sweep, advise, calibrate, validate, roofline, scaling, doctor):
        module.register(app)
    try:
        app()
    except TprofError as error:
        from .tables import clean

        print(f"tprof: {clean(error)}", file=sys.stderr)
        sys.exit(USAGE_STATUS if isinstance(error, UsageError) else ERROR_STATUS)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe went away: nobody is left to tell
        sys.exit(ERROR_STATUS)
