"""What makes a program a script: ``python -m tprof.benchmarks.programs.NAME --size small --workers 2``."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

from tprof.benchmarks.catalogue import usable_cpus
from tprof.benchmarks.outcome import SIZES, check_workers

from tprof.errors import TprofError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tprof.benchmarks.outcome import Outcome


def main(run: Callable[[str, int, AbstractContextManager[object]], Outcome], description: str | None) -> None:
    """Run the program as the command line asks and print its outcome."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--size", choices=SIZES, default="small", help="default: %(default)s")
    parser.add_argument("--workers", type=int, default=usable_cpus(), help="threads; default: %(default)s")
    arguments = parser.parse_args()
    try:
        check_workers(arguments.workers)
        sys.stdout.write(run(arguments.size, arguments.workers, nullcontext()).sentence() + "\n")
    except TprofError as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        sys.exit(2 if isinstance(error, UsageError) else 1)
