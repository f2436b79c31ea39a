"""Finds other distributions with a package `tprof`, and the owner of the files that are there now."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

from tprof.distribution import NAME

PACKAGE = "tprof"


@dataclass(frozen=True)
class Conflict:
    """Another distribution with a package `tprof`.

    Attributes
    ----------
    name : of the distribution.
    version : of the distribution.
    folder : its package.
    files : the files that it installs there, by name.
    replaced : paths of files that both distributions install with different content, and that are now the other's.
    overwritten : paths of such files that are now this distribution's.
    """

    name: str
    version: str
    folder: Path
    files: tuple[str, ...]
    replaced: tuple[Path, ...]
    overwritten: tuple[Path, ...]

    def describe(self) -> str:
        """Return a clause on the place of its files and those that were replaced."""
        found = f"{self.name} {self.version}, another distribution with the import name {PACKAGE}, "
        if self.replaced:
            return f"{found}replaced files of {NAME}: {_names(self.replaced)}"
        if self.overwritten:
            return f"{found}lost files to {NAME}, which lie in the same folder: {_names(self.overwritten)}"
        return f"{found}is installed in {self.folder} too: the order of sys.path decides which is imported"


def find_conflicts() -> tuple[Conflict, ...]:
    """Read the metadata of all installed distributions, which takes some milliseconds for each hundred of them."""
    own = _own_files()
    found: dict[Path, Conflict] = {}
    for other in distributions():
        name = other.metadata["Name"] or ""
        if _normal(name) != NAME and _may_have_package(other):
            conflict = _conflict(name, other, own)
            if conflict.files:
                found.setdefault(conflict.folder / name, conflict)
    return tuple(found.values())


def explain_damage() -> str:
    """Return a sentence on what replaced this package's `__init__`, and the command that repairs it."""
    conflicts = find_conflicts()
    if not conflicts:
        return f"the __init__.py of {NAME} is missing or changed: run pip install --force-reinstall {NAME}"
    sentences = " and ".join(conflict.describe() for conflict in conflicts)
    return f"{sentences}; keep one of them, for example by {mending_command(conflicts)}"


def mending_command(conflicts: tuple[Conflict, ...]) -> str:
    """Return the command that leaves this distribution alone in the environment.

    Both are uninstalled first: an uninstallation of one takes the files of both away.
    """
    others = " ".join(conflict.name for conflict in conflicts)
    return f"pip uninstall -y {others} {NAME} && pip install {NAME}"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _may_have_package(other: Distribution) -> bool:
    """Search the text of its metadata: parsing every distribution's list of files takes a second."""
    record = other.read_text("RECORD") or ""
    return record.startswith(f"{PACKAGE}/") or f"\n{PACKAGE}/" in record


def _own_files() -> dict[Path, str]:
    """Return the path and digest of each file that this distribution installed."""
    try:
        own = distribution(NAME)
    except PackageNotFoundError:
        return {}
    return _digests(own)


def _digests(found: Distribution) -> dict[Path, str]:
    return {_place(found, path): path.hash.value for path in found.files or () if path.hash is not None}


def _conflict(name: str, other: Distribution, own: dict[Path, str]) -> Conflict:
    shared = [place for place, digest in _digests(other).items() if own.get(place, digest) != digest]
    replaced = tuple(place for place in shared if not _is_unchanged(place, own[place]))
    return Conflict(
        name,
        other.version,
        _place(other, PACKAGE),
        tuple(
            str(path.relative_to(PACKAGE))
            for path in other.files or ()
            if path.parts[0] == PACKAGE and path.suffix != ".pyc"
        ),
        replaced,
        tuple(place for place in shared if place not in replaced),
    )


def _place(found: Distribution, path: object) -> Path:
    return Path(str(found.locate_file(str(path)))).resolve()


def _is_unchanged(path: Path, digest: str) -> bool:
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return urlsafe_b64encode(sha256(data).digest()).rstrip(b"=").decode() == digest


def _names(paths: tuple[Path, ...]) -> str:
    return ", ".join(map(str, paths))
