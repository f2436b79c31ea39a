"""`tprof bench --all`: the paper's programs one after the other, and one report of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tprof.benchmarks.repeats import Order


def run_suite(order: Order, *, quiet: bool) -> dict[str, Any]:
    """Run the suite as ordered, write its files, and return what `--json` prints."""
    from tprof.benchmarks.machine import describe_machine
    from tprof.benchmarks.repeats import run
    from tprof.benchmarks.suite import FILES, SUITE, Suite, members, tables, write_suite

    from .bench_programs import Progress
    from .tables import show_tables

    names = members(SUITE)
    files = [order.folder / name for name in FILES]
    order.check([*(path for name in names for path in order.sessions(name)), *files])
    progress = Progress(names, order.repeats)
    machine = describe_machine()
    suite = Suite(tuple(run(name, order, progress) for name in names), machine)
    write_suite(suite, order.folder)
    if not quiet:
        show_tables(tables(suite), sys.stdout)
        for path in files:
            print(path)
    return {"files": [str(path) for path in files], **suite.as_plain()}
