"""`tprof bench --list`: what each program works on, and how many instances that makes; nothing is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def show_list(names: Sequence[str], measurements: Mapping[str, str], size: str | None, *, as_json: bool) -> None:
    """Print the programs and measurements that are named, or all; with a size only its inputs. Raises UsageError."""
    from tprof.benchmarks import PROGRAMS
    from tprof.benchmarks.outcome import SIZES, check_size

    from .tables import dump

    if size is not None:
        check_size(size)
    sizes = SIZES if size is None else (size,)
    programs = {name: _program(name, sizes) for name in PROGRAMS if not names or name in names}
    if as_json:
        dump(programs)
        return
    for name, program in programs.items():
        print(f"{name}: {program['description']}")
        for one in sizes:
            instances = ", ".join(f"{count:,} {task}" for task, count in program["instances"][one].items())
            print(f"  --size {one}: {program['inputs'][one]}; tasks: {instances}")
    for name, what in measurements.items():
        if not names or name in names:
            print(f"{name}: {what}")


def _program(name: str, sizes: Sequence[str]) -> dict[str, Any]:
    from tprof.benchmarks import PROGRAMS

    program = PROGRAMS[name]
    return {
        "description": program.description,
        "inputs": {size: program.inputs[size] for size in sizes},
        "instances": {size: program.instances(size) for size in sizes},
    }
