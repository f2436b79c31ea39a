"""A guest with an arm64 processor: Debian's kernel with its own driver of PMUv3, whose counters qemu emulates.

qemu counts cycles; instructions only with `icount`, one each nanosecond. There is no sensor of energy and no cpufreq.
Run as a program, in the guest, it records tasks of a known number of instructions, and says what `tprof doctor` finds.
"""

from __future__ import annotations

import json
import shutil
import sys
import sysconfig
from itertools import repeat
from pathlib import Path

from boot import pack, start
from debian import CACHE, LaboratoryError, output, unpack, unpack_kernel

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

COMMAND = "PYTHONPATH=/opt/site:/opt/lab python3.11 /opt/lab/arm64.py"


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
    unpack_kernel("linux-image-arm64:arm64", ARM / "kernel")
    unpack("libpython3.11-dev:arm64", ARM / "headers")
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
    for name in ("arm64.py", "boot.py", "debian.py"):
        shutil.copy(HERE / name, ARM / "root/opt/lab")
    pack(ARM, ARM / "root/bin/busybox", ("virtio_pci", "pci_host_generic"))


def run(share: Path) -> int:
    """Run the guest, with one processor that executes an instruction each nanosecond; it leaves its files in `share`.

    Raises
    ------
    LaboratoryError
        If it did not come to its end.
    """
    machine = (
        "qemu-system-aarch64", "-machine", "virt,gic-version=3", "-accel", "tcg,thread=single,tb-size=512",
        "-icount", "shift=0,sleep=off", "-smp", "1", "-cpu", "max,pauth-impdef=on,lpa2=off", "-m", "2G",
    )  # fmt: skip
    return start(ARM, machine, "console=ttyAMA0", COMMAND, root=ARM / "root", share=share)


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
