"""The parts of the guests: Debian's packages, unpacked kernels, and the archive that begins a guest."""

from __future__ import annotations

import gzip
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CACHE = Path(
    os.environ.get("TPROF_LAB") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "tprof-lab").expanduser()
)

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r name; do insmod /modules/$name; done < /order
options=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o $options,cache=loose,ro root /lower || poweroff -f
mount -t tmpfs -o size=60% tmpfs /upper
mkdir -p /upper/up /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/up,workdir=/upper/work overlay /root || poweroff -f
mkdir -p /root/run/lab
mount -t 9p -o $options,cache=none share /root/run/lab || poweroff -f
for name in proc sys dev; do mount --move /$name /root/$name; done
mkdir -p /root/dev/pts /root/dev/shm
mount -t devpts devpts /root/dev/pts
mount -t tmpfs tmpfs /root/dev/shm
ip link set lo up 2> /dev/null
exec switch_root /root /run/lab/main
"""


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


def pack(archive: Path, busybox: Path, kernel: Path, modules: Sequence[str]) -> None:
    """Write an archive with busybox and the modules for this machine's own files (9p) under a RAM disk (overlay)."""
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory)
        for name in ("bin", "modules", "proc", "sys", "dev", "lower", "upper", "root"):
            (tree / name).mkdir()
        shutil.copy(busybox, tree / "bin/busybox")
        order: list[str] = []
        for name in modules:
            needed = output("modprobe", "-d", str(kernel), "-S", release_of(kernel), "--show-depends", name)
            order += [line.split()[1] for line in needed.splitlines() if line.startswith("insmod")]
        order = list(dict.fromkeys(order))
        for path in order:
            shutil.copy(path, tree / "modules")
        (tree / "order").write_text("".join(f"{Path(path).name}\n" for path in order))
        (tree / "init").write_text(INIT)
        (tree / "init").chmod(0o755)
        names = "\n".join(str(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
        done = subprocess.run(
            ["/bin/busybox", "cpio", "-o", "-H", "newc"],
            cwd=tree,
            input=names.encode(),
            capture_output=True,
            check=True,
        )
    archive.write_bytes(gzip.compress(done.stdout, 1))
