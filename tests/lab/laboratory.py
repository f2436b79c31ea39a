"""Runs scenarios in the laboratory: a guest whose processor has RAPL, counters and cpufreq, and whose truth is known.

README.md says what of it is real.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import arm64
from boot import pack, start
from debian import CACHE, LaboratoryError, output, pool_library, unpack_kernel

if TYPE_CHECKING:
    from report import Report

HERE = Path(__file__).resolve().parent
SCENARIOS = tomllib.loads((HERE / "scenarios.toml").read_text())
PACKAGES = ("qemu-system-x86", "busybox-static", "kmod", "gcc", "make")
# Without AVX2 (`-avx2` below): NumPy's argsort by these instructions gives a wrong order under the translator.
MACHINE = {"cpu": "Skylake-Server,-hypervisor", "sockets": 1, "cpus": 2, "counted_time": False}
"""qemu's model of the processor, its numbers, and whether its time is that of its instructions."""
COUNTED_TIME = ("-accel", "tcg,thread=single,tb-size=512", "-icount", "shift=0,sleep=off", "-rtc", "clock=vm")
"""Of one processor: an instruction takes a nanosecond, whatever else this machine does."""
DRIVERS = ("intel_rapl_msr", "rapl", "cpufreq_userspace", "cpufreq_powersave", "cpufreq_ondemand")
COMMAND = """export PATH={path} TPROF_LAB={cache}
cd {directory}
insmod {module}/lab.ko {parameters} && for name in {drivers}; do
  modprobe -d {cache}/kernel -S "$(uname -r)" "$name"; done && {command}"""


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
    install = ("apt-get", "install", "-qq", "-y", "--no-install-recommends")
    output("apt-get", "update", "-qq")
    output(*install, *PACKAGES)
    release = unpack_kernel("linux-image-amd64", CACHE / "kernel")
    output(*install, f"linux-headers-{release}")
    (CACHE / "release").write_text(release)


def fetch_pyrapl() -> None:
    """Install pyRAPL for the scenario `beside` alone, which compares with it. Raises LaboratoryError."""
    if not (CACHE / "beside" / "pyRAPL").is_dir():
        output(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(CACHE / "beside"), "pyRAPL")


def module() -> Path:
    """Return the folder of the compiled module, named by its sources: other checkouts may run theirs meanwhile."""
    files = sorted((HERE / "module").iterdir())
    digest = hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in files))
    return CACHE / f"module-{(CACHE / 'release').read_text()}-{digest.hexdigest()[:12]}"


def build() -> None:
    """Compile the module and the library with a pool, and pack the guest's first programs.

    Raises
    ------
    LaboratoryError
        With what the compiler wrote.
    """
    if not module().exists():
        with tempfile.TemporaryDirectory(dir=CACHE) as directory:
            folder = shutil.copytree(HERE / "module", Path(directory) / "module")
            build_folder = f"/lib/modules/{(CACHE / 'release').read_text()}/build"
            output("make", "-C", build_folder, f"M={folder}", "modules")
            folder.rename(module())
    library = pool_library()
    if not library.exists():
        made = library.with_suffix(f".{os.getpid()}")
        output("gcc", "-O1", "-shared", "-fPIC", "-pthread", str(HERE / "pool.c"), "-o", str(made))
        made.rename(library)
    if not (CACHE / "initrd.gz").exists():
        pack(CACHE, Path("/bin/busybox"), ("virtio_pci",))


def run(
    command: str, share: Path, parameters: dict[str, object] | None = None, machine: dict[str, object] | None = None
) -> int:
    """Run a command in a guest on this machine's files, with the laboratory's module loaded; return its status.

    Raises
    ------
    LaboratoryError
        If the guest did not come to its end.
    """
    machine = MACHINE | (machine or {})
    cores = int(machine["cpus"]) // int(machine["sockets"])
    options = [
        "qemu-system-x86_64", "-machine", "q35", "-m", "4G",
        "-cpu", f"{machine['cpu']},-avx2", "-smp", f"{machine['cpus']},sockets={machine['sockets']},cores={cores}",
        *(COUNTED_TIME if machine["counted_time"] else ("-accel", "tcg,thread=multi,tb-size=512")),
    ]  # fmt: skip
    command = COMMAND.format(
        path=f"{os.environ['PATH']}:/usr/sbin:/sbin", directory=shlex.quote(str(Path.cwd())),
        cache=shlex.quote(str(CACHE)), drivers=" ".join(DRIVERS), command=command,
        module=shlex.quote(str(module())),
        parameters=" ".join(f"{name}={value}" for name, value in (parameters or {}).items()),
    )  # fmt: skip
    arguments = "console=ttyS0 tsc=reliable clocksource=tsc"
    return start(CACHE, options, arguments, command, root=Path("/"), share=share)


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
    arm64.run(share)
    return True


def _driver(scenario: dict[str, object]) -> str:
    """Return the kernel's driver that a scenario is about."""
    if scenario.get("guest") == "arm64":
        return "armv8_pmuv3"
    if scenario["program"] in ("kills", "sweep", "policy", "slowed"):
        return "cpufreq"
    return {"powercap": "intel_rapl_msr", "perf": "rapl", "none": "perf's core"}.get(scenario.get("sensor"), "all")


def _reports(names: list[str], keep: Path | None) -> dict[str, Report]:
    """Run scenarios and compare their figures with the truth."""
    from compare import compare  # noqa: PLC0415 - it imports tprof's analysis, which --list and --fetch do not need

    reports: dict[str, Report] = {}
    for group in _together(names):
        with tempfile.TemporaryDirectory(dir=CACHE) as directory:
            share = Path(directory)
            (share / "scenarios.json").write_text(json.dumps({name: SCENARIOS[name] for name in group}))
            first = SCENARIOS[group[0]]
            if first.get("guest") == "arm64" and not _run_arm64(share):
                continue
            command = shlex.join([sys.executable, str(HERE / "guest.py")])
            try:
                status = 0 if "guest" in first else run(command, share, first.get("load"), first.get("machine"))
            finally:
                if keep:
                    shutil.copytree(share, keep, dirs_exist_ok=True)
            if status:
                print((share / "output").read_text(), file=sys.stderr)
            reports |= {name: compare(name, SCENARIOS[name], share / name) for name in group}
    return reports


def _run_scenarios(names: list[str], keep: Path | None, *, table: bool) -> int:
    """Run scenarios, those beyond their bounds once more; return 1 if one is beyond them both times, else 0.

    Readings come when they come, so that a figure is beyond a bound now and then; a fault of tprof is in each run.
    """
    reports = _reports(names, keep)
    failed = [name for name, report in reports.items() if not report.good]
    if failed:
        print(f"beyond their bounds, so they are run once more: {', '.join(failed)}")
        reports |= _reports(failed, keep)
        failed = [name for name in failed if not reports[name].good]
    if table:
        print("\n| scenario | driver | nearest to its bound | tprof | truth | bound | |\n|---|---|---|---|---|---|---|")
        print(*(report.row(name, _driver(SCENARIOS[name])) for name, report in reports.items()), "", sep="\n")
    print(f"{len(reports) - len(failed)} of {len(reports)} scenarios within their bounds")
    if failed:
        print(f"beyond them twice: {', '.join(failed)}")
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
    parser.add_argument("--table", action="store_true", help="print a table of all, as in README.md")
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
        return _run_scenarios(names, options.keep, table=options.table)
    except LaboratoryError as error:
        print(f"no laboratory here: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
