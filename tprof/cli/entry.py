"""The command `tprof`, and the one place where an error becomes a line and an exit status."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import contextmanager, nullcontext
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from tprof.distribution import refuse_damage
from tprof.errors import TprofError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .run_start import Launch

USAGE_STATUS = 2
ERROR_STATUS = 1
_UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""What writing fails with; errors of all files but the standard output are TprofError."""


def main() -> None:
    """Run the command that was typed."""
    try:
        refuse_damage()
    except ImportError as error:
        sys.exit(f"tprof: {error}")
    start: Callable[[], None] | None = None
    with errors_as_lines():
        launch = _launch_of(sys.argv[1:])
        if launch is not None:
            start = _prepare(launch)
    if start is not None:
        start()


@contextmanager
def errors_as_lines() -> Iterator[None]:
    """Print what a command raises for its user as one line, and end with its status."""
    try:
        yield
    except TprofError as error:
        from .render import clean

        print(f"tprof: {clean(error)}", file=sys.stderr)
        sys.exit(USAGE_STATUS if isinstance(error, UsageError) else ERROR_STATUS)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe has gone, so a message would fail too
        sys.exit(ERROR_STATUS)
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        print(f"tprof: cannot write to standard output: {error.strerror}", file=sys.stderr)
        # What is left to be written would fail again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ERROR_STATUS)
    except MemoryError:
        print(
            "tprof: not enough memory: end other programs, or look at a part of the recording (--between)",
            file=sys.stderr,
        )
        sys.exit(ERROR_STATUS)


def _prepare(launch: Launch) -> Callable[[], None]:
    if launch.live:
        from .run_live import prepare_live

        try:
            return prepare_live(sys.argv[2:])
        except UsageError as error:
            if not launch.best_effort:
                raise
            print(f"tprof: {error}; the program runs without the view", file=sys.stderr)
    from .run_start import prepare

    return prepare(launch)


def _launch_of(words: list[str]) -> Launch | None:
    """Return what `tprof run` is to run; None after any other command, which has run by then."""
    if words[:1] == ["run"]:
        from .run_start import read_launch

        launch = read_launch(words[1:])
        if launch is not None:
            return launch
    from .app import Start, make_app

    if sys.stdout is None:
        # It was closed, so nobody reads it; what a command writes to files is wanted.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for the life of the process
    try:
        with _every_character_printed(), _no_arrow() if words[:1] != ["export"] else nullcontext():
            make_app()()
    except Start as asked:
        return asked.launch
    finally:
        # An error is told here, not when Python ends.
        sys.stdout.flush()
    return None


@contextmanager
def _every_character_printed() -> Iterator[None]:
    """Let the standard output escape what its encoding lacks, as standard error does; a program finds it unchanged."""
    out = sys.stdout
    if not isinstance(out, TextIOWrapper):
        yield
        return
    errors = out.errors
    out.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        out.reconfigure(errors=errors)


@contextmanager
def _no_arrow() -> Iterator[None]:
    """Let pandas not load pyarrow, where it is installed, for its strings: a fifth of what a summary takes."""
    hides = not {"pandas", "pyarrow"} & sys.modules.keys()
    if hides:
        sys.modules["pyarrow"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hides:
            del sys.modules["pyarrow"]
