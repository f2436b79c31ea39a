"""How a guest begins and ends: the archive that it starts from, qemu, and the files that it leaves."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from debian import LaboratoryError, output, release_of

if TYPE_CHECKING:
    from collections.abc import Sequence

GUEST_S = int(os.environ.get("TPROF_LAB_S", "1800"))
"""Longest run of one guest, unless the environment says another."""

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
MAIN = """#!/bin/bash
export HOME=/root LANG=C.UTF-8
{{ {command}; }} > /run/lab/output 2>&1 < /dev/null
echo $? > /run/lab/status
dmesg > /run/lab/dmesg
sync
echo o > /proc/sysrq-trigger
sleep 60
"""


def pack(place: Path, busybox: Path, modules: Sequence[str]) -> None:
    """Write `initrd.gz` beside a kernel: busybox, modules, and those for a folder of this machine under a RAM disk."""
    kernel = place / "kernel"
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory)
        for name in ("bin", "modules", "proc", "sys", "dev", "lower", "upper", "root"):
            (tree / name).mkdir()
        shutil.copy(busybox, tree / "bin/busybox")
        order: list[str] = []
        for name in (*modules, "9pnet_virtio", "9p", "overlay"):
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
    (place / "initrd.gz").write_bytes(gzip.compress(done.stdout, 1))


def start(place: Path, machine: Sequence[str], arguments: str, command: str, *, root: Path, share: Path) -> int:
    """Run a command in a guest, and return its status.

    The guest sees `root` as its files, read-only under a RAM disk, and `share` as /run/lab, where it leaves what the
    command wrote as `output`.

    Parameters
    ----------
    place
        The folder with its `kernel` and its `initrd.gz`.
    machine, arguments
        qemu's program with the machine's options, and the kernel's arguments.

    Raises
    ------
    LaboratoryError
        If the guest did not come to its end.
    """
    (share / "main").write_text(MAIN.format(command=command))
    (share / "main").chmod(0o755)
    qemu = [
        "setpriv", "--pdeathsig", "KILL", *machine,
        "-display", "none", "-no-reboot", "-nodefaults", "-serial", f"file:{share / 'console'}",
        "-kernel", str(place / "kernel/boot" / f"vmlinuz-{release_of(place / 'kernel')}"),
        "-initrd", str(place / "initrd.gz"), "-append", f"quiet panic=-1 mitigations=off nokaslr {arguments}",
        "-fsdev", f"local,id=root,path={root},security_model=none,readonly=on,multidevs=remap",
        "-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
        "-fsdev", f"local,id=share,path={share},security_model=none",
        "-device", "virtio-9p-pci,fsdev=share,mount_tag=share",
    ]  # fmt: skip
    try:
        done = subprocess.run(qemu, capture_output=True, text=True, timeout=GUEST_S, check=False)
    except subprocess.TimeoutExpired:
        raise LaboratoryError(f"the guest did not end within {GUEST_S} s: its console is {share / 'console'}") from None
    if not (share / "status").exists():
        raise LaboratoryError(f"the guest did not end by itself: {done.stderr.strip() or share / 'console'}")
    return int((share / "status").read_text())
