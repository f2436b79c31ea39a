"""What the guests are made of: Debian's packages, installed or unpacked."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

CACHE = Path(
    os.environ.get("TPROF_LAB") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "tprof-lab").expanduser()
)


def pool_library() -> Path:
    """Return where the library with a pool is compiled to, named by its source: other checkouts may have theirs."""
    digest = hashlib.sha256((Path(__file__).with_name("pool.c")).read_bytes()).hexdigest()
    return CACHE / f"pool-{digest[:12]}.so"


class LaboratoryError(Exception):
    """The laboratory cannot be started here; one sentence."""


def output(*command: str, cwd: str | None = None) -> str:
    """Return what a command writes. Raises LaboratoryError if it fails."""
    environment = os.environ | {
        "DEBIAN_FRONTEND": "noninteractive", "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"
    }  # fmt: skip
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LaboratoryError(f"{shlex.join(command)} failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def release_of(kernel: Path) -> str:
    """Return the name of the one release in an unpacked kernel's folder."""
    (folder,) = (kernel / "lib/modules").iterdir()
    return folder.name


def unpack(package: str, place: Path) -> None:
    """Download a package, and unpack its files into a folder; nothing is installed. Raises LaboratoryError."""
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as directory:
        output("apt-get", "download", "-qq", package, cwd=directory)
        (file,) = Path(directory).glob("*.deb")
        output("dpkg", "-x", str(file), str(place))


def unpack_kernel(package: str, place: Path) -> str:
    """Unpack the kernel that a package such as linux-image-amd64 stands for; return its release.

    Raises
    ------
    LaboratoryError
        Where apt knows no such package, or cannot have it.
    """
    words = output("apt-cache", "depends", package).split()
    images = [word for word in words if word.startswith("linux-image-") and word != package]
    if not images:
        raise LaboratoryError(f"apt knows no {package}: the laboratory needs Debian")
    unpack(images[0], place)
    output("depmod", "-b", str(place), release_of(place))
    return release_of(place)
