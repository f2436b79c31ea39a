"""A guest with an arm64 processor: Debian's kernel with its own driver of PMUv3, whose counters qemu emulates.

qemu counts cycles; instructions only with `icount`, one each nanosecond. There is no sensor of energy and no cpufreq.
Run as a program, in the guest, it records tasks of a known number of instructions, and says what `tprof doctor` finds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from itertools import repeat
from pathlib import Path

from debian import CACHE, LaboratoryError, output, pack, release_of

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
ARM = CACHE / "arm64"
PACKAGES = ("qemu-system-arm", "mmdebstrap", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "kmod")
USERLAND = "python3.11,bash,coreutils,util-linux,mount,busybox-static,libgomp1,libstdc++6"
PYTHON = (3, 11)
WHEELS = ("numpy", "psutil")
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
EXTENSIONS = {
    "_core": "tprof/csrc/*.c",
    "runtime/_scheduler": "runtime/csrc/*.c",
}
SHARE = Path("/run/lab")
ROUNDS = {"small": 200_000, "large": 600_000}
INSTANCES = 5

MAIN = """#!/bin/bash
export HOME=/root LANG=C.UTF-8 PYTHONPATH=/opt/site:/opt/lab
python3.11 /opt/lab/arm64.py > /run/lab/output 2>&1 < /dev/null
echo $? > /run/lab/status
sync
echo o > /proc/sysrq-trigger
sleep 60
"""


def fetch() -> None:
    """Install qemu and a cross compiler, unpack a kernel and a userland, and take tprof's dependencies as wheels.

    Raises
    ------
    LaboratoryError
        Where the packages cannot be had, or this Python is not Debian's.
    """
    if sys.version_info[:2] != PYTHON:
        raise LaboratoryError(f"the arm64 guest runs Python {PYTHON[0]}.{PYTHON[1]}, for which tprof is compiled here")
    if (ARM / "complete").exists():
        return
    ARM.mkdir(parents=True, exist_ok=True)
    output("dpkg", "--add-architecture", "arm64")
    output("apt-get", "update", "-qq")
    output("apt-get", "install", "-qq", "-y", "--no-install-recommends", *PACKAGES)
    depends = output("apt-cache", "depends", "linux-image-arm64:arm64")
    kernel = next(word for word in depends.split() if word.startswith("linux-image-6"))
    for package, place in ((kernel, "kernel"), ("libpython3.11-dev:arm64", "headers")):
        with tempfile.TemporaryDirectory(dir=ARM) as directory:
            output("apt-get", "download", "-qq", package, cwd=directory)
            (file,) = Path(directory).glob("*.deb")
            output("dpkg", "-x", str(file), str(ARM / place))
    output("depmod", "-b", str(ARM / "kernel"), release_of(ARM / "kernel"))
    bootstrap = ("--quiet", "--variant=extract", "--skip=check/qemu", "--architectures=arm64")
    output("mmdebstrap", *bootstrap, f"--include={USERLAND}", "bookworm", str(ARM / "root"))
    platforms = [f"--platform={name}" for name in PLATFORMS]
    site = str(ARM / "root/opt/site")
    pip = (sys.executable, "-m", "pip", "install", "-q", "--only-binary", ":all:", "--python-version", "3.11")
    output(*pip, *platforms, "--target", site, *WHEELS)
    (ARM / "complete").touch()


def build() -> None:
    """Compile tprof's extension modules for arm64 beside its installed files, and pack the guest's first programs."""
    site, installed = ARM / "root/opt/site", Path(sysconfig.get_path("platlib"))
    shutil.rmtree(site / "tprof", ignore_errors=True)
    shutil.copytree(installed / "tprof", site / "tprof", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for folder in installed.glob("tprof_energy-*.dist-info"):
        shutil.copytree(folder, site / folder.name, dirs_exist_ok=True)
    include = ARM / "headers/usr/include"
    flags = ("-shared", "-fPIC", "-O2", "-DNDEBUG", "-std=gnu11", "-D_GNU_SOURCE", "-fvisibility=hidden", "-pthread")
    for module, pattern in EXTENSIONS.items():
        sources = sorted(map(str, SOURCE.glob(pattern)))
        target = site / "tprof" / f"{module}.cpython-311-aarch64-linux-gnu.so"
        headers = (f"-I{include / 'python3.11'}", f"-I{include}", f"-I{Path(sources[0]).parent}")
        output("aarch64-linux-gnu-gcc", *flags, *headers, "-o", str(target), *sources, "-lm", "-ldl")
    (ARM / "root/opt/lab").mkdir(exist_ok=True)
    for name in ("arm64.py", "debian.py"):
        shutil.copy(HERE / name, ARM / "root/opt/lab")

    modules = ("virtio_pci", "pci_host_generic", "9pnet_virtio", "9p", "overlay")
    pack(ARM / "initrd.gz", ARM / "root/bin/busybox", ARM / "kernel", modules)


def start(share: Path, deadline_s: float) -> None:
    """Run the guest, with one processor that executes an instruction each nanosecond; it leaves its files in `share`.

    Raises
    ------
    LaboratoryError
        If it did not come to its end.
    """
    (share / "main").write_text(MAIN)
    (share / "main").chmod(0o755)
    qemu = [
        "setpriv", "--pdeathsig", "KILL",
        "qemu-system-aarch64", "-machine", "virt,gic-version=3", "-accel", "tcg,thread=single,tb-size=512",
        "-icount", "shift=0,sleep=off", "-smp", "1", "-cpu", "max,pauth-impdef=on,lpa2=off", "-m", "2G",
        "-display", "none", "-no-reboot", "-nodefaults", "-serial", f"file:{share / 'console'}",
        "-kernel", str(ARM / "kernel/boot" / f"vmlinuz-{release_of(ARM / 'kernel')}"),
        "-initrd", str(ARM / "initrd.gz"),
        "-append", "console=ttyAMA0 quiet panic=-1 mitigations=off nokaslr",
        "-fsdev", f"local,id=root,path={ARM / 'root'},security_model=none,readonly=on,multidevs=remap",
        "-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
        "-fsdev", f"local,id=share,path={share},security_model=none",
        "-device", "virtio-9p-pci,fsdev=share,mount_tag=share",
    ]  # fmt: skip
    try:
        done = subprocess.run(qemu, capture_output=True, text=True, timeout=deadline_s, check=False)
    except subprocess.TimeoutExpired:
        raise LaboratoryError(f"the guest did not end within {deadline_s} s: its console is {share}/console") from None
    if not (share / "status").exists():
        raise LaboratoryError(f"the guest did not end by itself: {done.stderr.strip() or share / 'console'}")


def main() -> None:
    """In the guest: record tasks of two lengths, and write what was found to the share."""
    import tprof  # noqa: PLC0415 - only the guest has it beside this file
    from tprof.doctor.counter_facts import counter_facts  # noqa: PLC0415
    from tprof.doctor.machine_facts import operating_facts  # noqa: PLC0415

    def count(rounds: int) -> bool:
        odd = False
        for _ in repeat(None, rounds):
            odd = not odd
        return odd

    tasks = {name: tprof.task(count, name=name) for name in ROUNDS}
    path = Path("/dev/shm/arm64.tprof")  # noqa: S108 - the guest's own
    with tprof.record(path, energy="none"):
        for _ in range(INSTANCES):
            for name, rounds in ROUNDS.items():
                tasks[name](rounds)
    facts = {fact.what: fact for fact in (*counter_facts(Path("/")), *operating_facts(Path("/")))}
    said = {what: [fact.state, fact.why, *(one.command for one in fact.remedies)] for what, fact in facts.items()}
    folder = SHARE / "arm64"
    folder.mkdir()
    (folder / "truth.json").write_text(json.dumps({"facts": said}))
    shutil.move(path, folder / "recording.tprof")


if __name__ == "__main__":
    main()
