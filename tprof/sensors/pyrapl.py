"""pyRAPL, a reader of RAPL in Python, for who has its figures already: `energy="pyrapl"`.

It reads the same files as tprof's sensor `powercap`, through Python and so less often. It does not know where its
counts wrap, so the range is taken from powercap. It reads /sys of the machine itself, wherever `TPROF_SYSROOT` leads.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import SensorError

from .advice import INSTALL_PYRAPL, POWERCAP_GROUP
from .contract import Accuracy, Domain, Found, LeftOut, Machine, Omission, Quality, Reading, Sensor, Unavailable
from .powercap import UNIT_J, UPDATE_S, Powercap

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

SELF = Path("/")
PERIOD_S = 0.02
"""Four domains each 10 ms took 2 % of a core, most of it to wake a thread of Python."""


class Pyrapl(Sensor):
    """The packages of RAPL, and their DRAM."""

    name = "pyrapl"
    covers = "packages and DRAM of Intel processors, by the package pyRAPL"
    extra = "pyrapl"

    def find(self, machine: Machine) -> Found | Unavailable:
        """Return the domains that pyRAPL can open."""
        if machine.root != SELF:
            return Unavailable(f"pyRAPL reads /sys of this machine itself, not of {machine.root}")
        try:
            library = _load()
        except SensorError as error:
            return Unavailable(str(error), (INSTALL_PYRAPL,))
        ranges = _ranges(machine)
        domains: list[Domain] = []
        left_out: list[LeftOut] = []
        for scope in ("package", "dram"):
            try:
                apis = _open(library, scope)
            except PermissionError as error:
                return Unavailable(f"cannot read {error.filename}: permission denied", (POWERCAP_GROUP,))
            except SensorError as error:
                left_out.append(LeftOut(scope, str(error), Omission.ABSENT))
                continue
            domains += [_domain(scope, package, ranges) for package, count in enumerate(apis.energy()) if count >= 0]
            _close(apis)
        if not any(domain.scope == "package" for domain in domains):
            return Unavailable(left_out[0].why if left_out else "pyRAPL finds no package")
        return Found(tuple(domains), tuple(left_out))

    def open(self, machine: Machine, domains: tuple[Domain, ...]) -> PyraplReader:
        """Open pyRAPL's files."""
        del machine
        return PyraplReader(_load(), domains)


class PyraplReader:
    """The open files of pyRAPL."""

    def __init__(self, library: ModuleType, domains: tuple[Domain, ...]) -> None:
        """Open those of these domains' scopes. Raises SensorError."""
        self.period_s = PERIOD_S
        self._domains = domains
        self._apis: dict[str, Any] = {}
        try:
            for scope in dict.fromkeys(domain.scope for domain in domains):
                self._apis[scope] = _open(library, scope)
        except OSError as error:
            self.close()
            raise SensorError(f"cannot read {error.filename}: {(error.strerror or str(error)).lower()}") from error

    def read(self) -> list[Reading]:
        """Return the counts of all domains; a text that is no number is a failed read."""
        counts: dict[str, tuple[float, ...]] = {}
        for scope, api in self._apis.items():
            try:
                counts[scope] = api.energy()
            except ValueError:
                counts[scope] = ()
        return [Reading(domain.name, _count(counts[domain.scope], domain.package)) for domain in self._domains]

    def close(self) -> None:
        """Close the files."""
        for api in self._apis.values():
            _close(api)
        self._apis.clear()


def _count(counts: tuple[float, ...], package: int | None) -> int | None:
    if package is None or package >= len(counts) or counts[package] < 0:
        return None
    return int(counts[package])


def _domain(scope: str, package: int, ranges: dict[str, int | None]) -> Domain:
    name = f"{scope}-{package}"
    accuracy = Accuracy(update_s=UPDATE_S, resolution=UNIT_J)
    return Domain(name, scope, package, "pyrapl", Quality.MEASURED, UNIT_J, modulus=ranges.get(name), accuracy=accuracy)


def _ranges(machine: Machine) -> dict[str, int | None]:
    """Return where the counts wrap, by domain, as far as powercap says it."""
    found = Powercap().find(machine)
    return {} if isinstance(found, Unavailable) else {domain.name: domain.modulus for domain in found.domains}


def _open(library: ModuleType, scope: str) -> Any:
    """Open pyRAPL's files of a scope. Raises SensorError with what it says, PermissionError as it is."""
    kind = library.PkgAPI if scope == "package" else library.DramAPI
    try:
        return kind()
    except PermissionError:
        raise
    except (library.PyRAPLException, OSError, ValueError, IndexError) as error:
        says = " ".join(part for part in (type(error).__name__, str(error)) if part)
        raise SensorError(f"pyRAPL finds no {scope} here: {says}") from error


def _close(api: Any) -> None:
    """Close the files of one of pyRAPL's objects, which has no method for it."""
    for file in getattr(api, "_sys_files", ()):
        file.close()


def _load() -> ModuleType:
    """Import pyRAPL. Raises SensorError."""
    try:
        with _unheard():
            import pyRAPL  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise SensorError("the package pyRAPL is not installed") from error
    module: ModuleType = pyRAPL
    return module


@contextmanager
def _unheard() -> Iterator[None]:
    """Drop pyRAPL's warnings on pymongo and pandas: the first would set up the program's logging."""
    handler, before = logging.NullHandler(), logging.root.manager.disable
    logging.root.addHandler(handler)
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
        logging.root.removeHandler(handler)
