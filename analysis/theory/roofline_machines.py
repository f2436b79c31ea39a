"""The machines of the paper's tables II to IV by name, and machines from JSON and TOML files."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError, UsageError
from tprof.trace.plain_values import shown

from . import machine_files
from .roofline import Machine

if TYPE_CHECKING:
    from pathlib import Path

PROCESSORS = {
    "gtx580": "NVIDIA GeForce GTX 580",
    "i7-950": "Intel(R) Core(TM) i7 CPU 950 @ 3.07GHz",
    "fermi": "an NVIDIA Fermi GPU",
}
"""Descriptions of `MACHINES`, with the processors' own names."""
FMM_CACHE_J = 187e-12
"""Joules a byte of the GTX 580's L1 and L2 together, found from its fast multipole method (section V-C)."""

MACHINES = {
    "gtx580": Machine(
        "gtx580", 1 / 192.4e9, 1 / 1581.06e9, 1 / 197.63e9, 513e-12, 99.7e-12, 212e-12, 122.0, 244.0,
        (("L1/L2", FMM_CACHE_J),),
    ),
    "i7-950": Machine("i7-950", 1 / 25.6e9, 1 / 106.56e9, 1 / 53.28e9, 795e-12, 371e-12, 670e-12, 122.0),
    "fermi": Machine("fermi", 1 / 144e9, None, 1 / 515e9, 360e-12, None, 25e-12),
}  # fmt: skip
"""Tables III and IV (GTX 580 with its rating of 244 W, Core i7-950), and table II (a Fermi GPU, constant power 0).

The i7-950 has no cap here: its 130 W are the chip's alone, and the coefficients are of chip, board and memory.
"""


def find_machine(name: str, files: tuple[Path, ...] = ()) -> Machine:
    """Return a machine by its name.

    Parameters
    ----------
    name
        Of `MACHINES`, or of one of the files without its ending.
    files
        Of machines that were kept.

    Raises
    ------
    UsageError
        If nothing is called so.
    """
    if name in MACHINES:
        return MACHINES[name]
    kept = {path.stem: path for path in files}
    if name in kept:
        return read_machine(kept[name])
    known = ", ".join((*MACHINES, *sorted(kept)))
    raise UsageError(f"machine must be one of {known}, or a file that ends in .json or .toml; got {name!r}")


def read_machine(path: Path) -> Machine:
    """Read a machine: keys are the fields of `Machine`, `caches` a table of joules a byte. Raises UsageError."""
    return machine_files.read_machine(path, _made)


def processor_of(path: Path) -> str | None:
    """Return the processor on which a stored machine was measured; None if its file does not have it."""
    fit = machine_files.read_table(path).get("fit")
    processor = fit.get("processor") if isinstance(fit, dict) else None
    return processor if isinstance(processor, str) else None


def write_machine(machine: Machine, path: Path, fit: dict[str, Any] | None = None) -> None:
    """Write a machine as JSON, with its fit. Raises TprofError if writing fails."""
    values = asdict(machine) | {"caches": dict(machine.caches)} | ({"fit": fit} if fit else {})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values, indent=1, allow_nan=False) + "\n", "utf-8")
    except OSError as error:
        raise TprofError(f"cannot write the machine to {path}: {error.strerror}; name another file") from error


def _made(name: str, values: dict[str, Any]) -> Machine:
    known = {field.name for field in fields(Machine)}
    unknown = sorted(set(values) - known - {"fit"})
    if unknown:
        raise UsageError(f"unknown key {shown(unknown[0])}: keys are {', '.join(sorted(known))}")
    if values.get("tau_mem_s") is None:
        raise UsageError("it lacks tau_mem_s, seconds a byte: for 25.6 GB/s that is 3.90625e-11")
    caches = values.get("caches")
    if caches is not None and not isinstance(caches, dict):
        raise UsageError(f"caches must be an object of levels and joules a byte, got {shown(caches)}")
    given = {key: value for key, value in values.items() if key in known and value is not None}
    given |= {
        "name": str(values.get("name") or name),
        "caches": tuple((str(level), value) for level, value in (caches or {}).items()),
    }
    given.setdefault("precision", "double" if "tau_double_s" in given else "single")
    return Machine(**given)
