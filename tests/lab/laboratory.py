"""Runs scenarios in the laboratory: a guest whose processor has RAPL, counters and cpufreq, and whose truth is known.

README.md says what of it is real.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import arm64
from debian import CACHE, LaboratoryError, output, pack

HERE = Path(__file__).resolve().parent
SCENARIOS = tomllib.loads((HERE / "scenarios.toml").read_text())
PACKAGES = ("qemu-system-x86", "busybox-static", "kmod", "gcc", "make")
GUEST_S = int(os.environ.get("TPROF_LAB_S", "1800"))
"""Longest run of one guest, unless the environment says another."""
# Without AVX2 (`-avx2` below): NumPy's argsort by these instructions gives a wrong order under the translator.
MACHINE = {"cpu": "Skylake-Server,-hypervisor", "sockets": 1, "cpus": 2}
"""qemu's model of the processor, and its numbers, unless a scenario gives others."""
DRIVERS = ("intel_rapl_msr", "rapl", "cpufreq_userspace", "cpufreq_powersave", "cpufreq_ondemand")

MAIN = """#!/bin/bash
export PATH={path} HOME=/root LANG=C.UTF-8 TPROF_LAB={cache}
cd {directory}
{{ insmod {cache}/module/lab.ko {parameters} && for name in {drivers}; do
  modprobe -d {cache}/kernel -S "$(uname -r)" "$name"; done && {command}; }} > /run/lab/output 2>&1 < /dev/null
echo $? > /run/lab/status
dmesg > /run/lab/dmesg
sync
echo o > /proc/sysrq-trigger
sleep 60
"""


def fetch() -> None:
    """Install qemu and the kernel's headers, and unpack the kernel's image: nothing but qemu starts it.

    Raises
    ------
    LaboratoryError
        Where this is not Debian, not root, or the packages cannot be had.
    """
    if (CACHE / "release").exists() and shutil.which("qemu-system-x86_64"):
        return
    if os.geteuid() != 0:
        raise LaboratoryError("the laboratory installs Debian packages, which needs root")
    if not shutil.which("apt-get"):
        raise LaboratoryError("the laboratory is made of Debian packages, and this machine has no apt-get")
    (CACHE / "kernel").mkdir(parents=True, exist_ok=True)
    depends = output("apt-cache", "depends", "linux-image-amd64")
    images = [word for word in depends.split() if word.startswith("linux-image-") and word != "linux-image-amd64"]
    if not images:
        raise LaboratoryError("apt knows no linux-image-amd64: the laboratory needs Debian on amd64")
    release = images[0].removeprefix("linux-image-")
    output("apt-get", "install", "-qq", "-y", "--no-install-recommends", *PACKAGES, f"linux-headers-{release}")
    with tempfile.TemporaryDirectory(dir=CACHE) as directory:
        output("apt-get", "download", "-qq", images[0], cwd=directory)
        (package,) = Path(directory).glob("*.deb")
        output("dpkg", "-x", str(package), str(CACHE / "kernel"))
    output("depmod", "-b", str(CACHE / "kernel"), release)
    (CACHE / "release").write_text(release)


def fetch_pyrapl() -> None:
    """Install pyRAPL for the scenario `beside` alone, which compares with it. Raises LaboratoryError."""
    if not (CACHE / "beside" / "pyRAPL").is_dir():
        output(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(CACHE / "beside"), "pyRAPL")


def build() -> None:
    """Compile the module and the library with a pool, and pack the guest's first programs.

    Raises
    ------
    LaboratoryError
        With what the compiler wrote.
    """
    folder, files = CACHE / "module", sorted((HERE / "module").iterdir())
    if not (folder / "lab.ko").exists() or any(not _same(file, folder / file.name) for file in files):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(HERE / "module", folder)
        output("make", "-C", f"/lib/modules/{_release()}/build", f"M={folder}", "modules")
    source, library = HERE / "pool.c", CACHE / "pool.so"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        output("gcc", "-O1", "-shared", "-fPIC", "-pthread", str(source), "-o", str(library))
    if not (CACHE / "initrd.gz").exists():
        modules = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
        pack(CACHE / "initrd.gz", Path("/bin/busybox"), CACHE / "kernel", modules)


def _same(one: Path, other: Path) -> bool:
    return other.exists() and one.read_bytes() == other.read_bytes()


def run(
    command: str, share: Path, parameters: dict[str, object] | None = None, machine: dict[str, object] | None = None
) -> int:
    """Run a command in a guest, with the laboratory's module loaded; return its status.

    The guest sees this machine's files, read-only under a RAM disk, and `share` as /run/lab, where it leaves what the
    command wrote as `output`.

    Raises
    ------
    LaboratoryError
        If the guest did not come to its end.
    """
    main = MAIN.format(
        path=f"{os.environ['PATH']}:/usr/sbin:/sbin", directory=shlex.quote(str(Path.cwd())),
        cache=shlex.quote(str(CACHE)), drivers=" ".join(DRIVERS), command=command,
        parameters=" ".join(f"{name}={value}" for name, value in (parameters or {}).items()),
    )  # fmt: skip
    (share / "main").write_text(main)
    (share / "main").chmod(0o755)
    machine = MACHINE | (machine or {})
    cores = int(machine["cpus"]) // int(machine["sockets"])
    qemu = [
        "setpriv", "--pdeathsig", "KILL",
        "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi,tb-size=512", "-no-reboot", "-nodefaults",
        "-cpu", f"{machine['cpu']},-avx2", "-smp", f"{machine['cpus']},sockets={machine['sockets']},cores={cores}",
        "-m", "4G", "-display", "none",
        "-serial", f"file:{share / 'console'}", "-kernel", str(CACHE / "kernel" / "boot" / f"vmlinuz-{_release()}"),
        "-initrd", str(CACHE / "initrd.gz"),
        "-append", "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable clocksource=tsc",
        "-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
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


def _release() -> str:
    return (CACHE / "release").read_text().strip()


def _together(names: list[str]) -> list[list[str]]:
    """Return the scenarios in groups that one guest can run: of equal machines and parameters of the module."""
    groups: dict[str, list[str]] = {}
    for name in names:
        needs = [SCENARIOS[name].get(what, {}) for what in ("guest", "machine", "load")]
        groups.setdefault(json.dumps(needs, sort_keys=True), []).append(name)
    return list(groups.values())


def _run_arm64(share: Path) -> bool:
    """Run the guest of another architecture; return False where it cannot be made, with the reason printed."""
    try:
        arm64.fetch()
        arm64.build()
    except LaboratoryError as error:
        print(f"skipped, no arm64 guest here: {error}")
        return False
    arm64.start(share, GUEST_S)
    return True


def _run_scenarios(names: list[str], keep: Path | None) -> int:
    from compare import compare  # noqa: PLC0415 - it imports tprof's analysis, which --list and --fetch do not need

    failed = []
    for group in _together(names):
        with tempfile.TemporaryDirectory(dir=CACHE) as directory:
            share = Path(directory)
            (share / "scenarios.json").write_text(json.dumps({name: SCENARIOS[name] for name in group}))
            first = SCENARIOS[group[0]]
            if first.get("guest") == "arm64" and not _run_arm64(share):
                names = [name for name in names if name not in group]
                continue
            command = shlex.join([sys.executable, str(HERE / "guest.py")])
            try:
                status = 0 if "guest" in first else run(command, share, first.get("load"), first.get("machine"))
            finally:
                if keep:
                    shutil.copytree(share, keep, dirs_exist_ok=True)
            if status:
                print((share / "output").read_text(), file=sys.stderr)
            failed += [name for name in group if not compare(name, SCENARIOS[name], share / name)]
    print(f"{len(names) - len(failed)} of {len(names)} scenarios within their bounds")
    if failed:
        print(f"beyond them: {', '.join(failed)}")
    return bool(failed)


def main() -> int:
    """Run the command line, and return its status: 0, 1 (a figure is beyond its bound), or 3 (no laboratory here)."""
    sys.stdout.reconfigure(line_buffering=True)
    parser = argparse.ArgumentParser(prog="scripts/lab", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios; by default the short ones")
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    parser.add_argument("--all", action="store_true", help="run all of them")
    parser.add_argument("--fetch", action="store_true", help="only install and build what they need")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="copy recordings and truths there")
    parser.add_argument("--shell", metavar="COMMAND", help="run a command line in the guest instead (of NAME)")
    options = parser.parse_args()
    if options.list:
        for name, scenario in SCENARIOS.items():
            print(f"{name:22} {'short' if scenario.get('short') else '     '}  {scenario['about']}")
        return 0
    unknown = [name for name in options.names if name not in SCENARIOS]
    if unknown:
        parser.error(f"there is no scenario {unknown[0]}: scripts/lab --list names them")
    try:
        fetch()
        build()
        if options.fetch:
            return 0
        if options.shell:
            with tempfile.TemporaryDirectory(dir=CACHE) as directory:
                like = SCENARIOS[options.names[0]] if options.names else {}
                status = run(options.shell, Path(directory), like.get("load"), like.get("machine"))
                print((Path(directory) / "output").read_text(), end="")
                return status
        short = [name for name, scenario in SCENARIOS.items() if scenario.get("short")]
        names = list(SCENARIOS) if options.all else options.names or short
        if "beside" in names:
            fetch_pyrapl()
        return _run_scenarios(names, options.keep)
    except LaboratoryError as error:
        print(f"no laboratory here: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
