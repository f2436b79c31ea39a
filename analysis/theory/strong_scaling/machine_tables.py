"""The machines of the paper's tables by name, and machines read from a file of TOML or JSON."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tprof.analysis.theory import machine_files

from .distributed_machine import Level, Machine, TwoLevelMachine

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

DEFAULT = "jaketown"


@dataclass(frozen=True)
class Processor:
    """A row of table II: the cost of a flop from its peak and its thermal design power.

    Attributes
    ----------
    name, title : as the registry and the paper call it.
    tdp_w : thermal design power.
    peak_gflops : flops of single precision, 10⁹ a second, all units together.
    """

    name: str
    title: str
    tdp_w: float
    peak_gflops: float

    @property
    def gamma_t(self) -> float:
        """Seconds per flop at peak."""
        return 1e-9 / self.peak_gflops

    @property
    def gamma_e(self) -> float:
        """Joules per flop, the whole design power charged to flops at peak."""
        return self.tdp_w * self.gamma_t

    @property
    def gflops_per_w(self) -> float:
        """Flops per joule at peak, 10⁹."""
        return self.peak_gflops / self.tdp_w


@cache
def processors() -> dict[str, Processor]:
    """Return the rows of table II by name."""
    return {
        name: Processor(
            name,
            row["title"],
            row["tdp_w"],
            sum(cores * lanes * flops * ghz for cores, lanes, flops, ghz in row["units"]),
        )
        for name, row in _tables()["processor"].items()
    }


@cache
def machines() -> dict[str, Machine]:
    """Return every machine there is a name for: table I, and table II's processors on table I's links and memory."""
    named = {name: _one_level(name, row) for name, row in _tables()["machine"].items()}
    base = named[DEFAULT]
    for name, processor in processors().items():
        named[name] = dataclasses.replace(
            base,
            name=name,
            gamma_t=processor.gamma_t,
            gamma_e=processor.gamma_e,
            source=f"flops: table II, {processor.title}; links and memory: table I as printed",
        )
    return named


def find_machine(text: str) -> Machine | TwoLevelMachine:
    """Return the machine of that name, or the one in the file of that name. Raises UsageError if there is neither."""
    named: Mapping[str, Machine | TwoLevelMachine] = machines()
    return machine_files.find_machine("machine", text, named, _made)


def read_machine(path: str | os.PathLike[str]) -> Machine | TwoLevelMachine:
    """Read a machine: the fields of `Machine`, or those of `TwoLevelMachine` with tables `node` and `core`.

    Raises
    ------
    UsageError
        If the file cannot be read, or a constant is missing, unknown, no number, or out of range.
    """
    return machine_files.read_machine(path, _made)


def _made(stem: str, values: dict[str, Any]) -> Machine | TwoLevelMachine:
    name = str(values.pop("name", stem))
    if "node" not in values and "core" not in values:
        return _one_level(name, values)
    node, core = (Level(**machine_files.numbers_for(Level, values.pop(key, {}), table=key)) for key in ("node", "core"))
    return TwoLevelMachine(name=name, node=node, core=core, **_constants(values, TwoLevelMachine, ("node", "core")))


def _one_level(name: str, values: Mapping[str, Any]) -> Machine:
    return Machine(name=name, **_constants(values, Machine, ()))


def _constants(values: Mapping[str, Any], kind: type, levels: tuple[str, ...]) -> dict[str, Any]:
    numbers = {key: value for key, value in values.items() if key != "source"}
    found = machine_files.numbers_for(kind, numbers, apart=("name", "source", *levels))
    return {**found, "source": str(values.get("source", ""))}


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "machines.toml").read_text("utf-8"))
