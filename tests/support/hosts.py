"""Several hosts on one machine: network namespaces with names of their own, each with its own sensor of known watts.

With `fake_hosts` every host has a tree for `TPROF_SYSROOT` with its name, its boot identity and a powercap counter that
grows by constant watts. Where the tests run as root, a host is a network namespace on a bridge and has its own host
name; elsewhere its processes are ordinary ones.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import fake_trees
from .pthreads import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PREFIX = "10.213"
HAS_NAMESPACES = os.geteuid() == 0 and shutil.which("ip") is not None and shutil.which("unshare") is not None
_NAMED = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"')
# Real time, where it is permitted: a counter that stands still while other processes run is no constant power.
_COUNT = """
import os, sys, time
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
except OSError:
    pass
files = [(os.open(path, os.O_WRONLY), float(watts)) for path, watts in zip(sys.argv[1::2], sys.argv[2::2])]
begin_ns = time.monotonic_ns()
print("counts", flush=True)
while os.getppid() != 1:
    for file, watts in files:
        energy_uj = 1_000_000 + int(watts * (time.monotonic_ns() - begin_ns) / 1000)
        os.pwrite(file, str(energy_uj).encode().ljust(24, b"\\n"), 0)
    time.sleep(0.001)
"""


@dataclass(frozen=True)
class FakeHost:
    """A host.

    Attributes
    ----------
    name : of the host
    watts : what its package draws; None: it has no sensor
    tree : its /sys and /proc
    address : at which other hosts and this machine reach it
    prefix : words before a command that is to run there
    """

    name: str
    watts: float | None
    tree: fake_trees.Tree
    address: str
    prefix: tuple[str, ...]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its processes."""
        return {**os.environ, "TPROF_SYSROOT": str(self.tree.root)}

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Start a command there."""
        environment = {**self.environment, **options.pop("env", {})}
        return subprocess.Popen([*self.prefix, *words], env=environment, text=True, **options)

    def python(self, source: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start a Python program given as text there."""
        return self.start(sys.executable, "-c", source, *arguments, **options)


@contextmanager
def fake_hosts(place: Path, watts: Mapping[str, float | None]) -> Iterator[dict[str, FakeHost]]:
    """Make hosts of these names and watts, whose counters run inside the block; without watts a host has no sensor."""
    with ExitStack() as stack:
        network = stack.enter_context(_bridge()) if HAS_NAMESPACES else None
        hosts = {}
        for number, (name, drawn_w) in enumerate(watts.items(), start=2):
            tree = _tree(place / f"tree-{name}", name, drawn_w)
            address, prefix = "127.0.0.1", ()
            if network is not None:
                address = f"{PREFIX}.{network}.{number}"
                prefix = stack.enter_context(_namespace(name, network, number))
            hosts[name] = FakeHost(name, drawn_w, tree, address, prefix)
        stack.enter_context(_counting([host for host in hosts.values() if host.watts is not None]))
        yield hosts


def gateway(host: FakeHost) -> str:
    """Return the address at which a host reaches this machine."""
    return host.address if host.address == "127.0.0.1" else f"{host.address.rpartition('.')[0]}.1"


def _tree(root: Path, name: str, watts: float | None) -> fake_trees.Tree:
    tree = fake_trees.machine(root, fake_trees.INTEL, {0: range(os.cpu_count() or 1)})
    tree.write("proc/sys/kernel/hostname", name)
    tree.write("proc/sys/kernel/random/boot_id", str(uuid.uuid4()))
    if watts is not None:
        tree.zone("intel-rapl:0", "package-0")
    return tree


@contextmanager
def _counting(hosts: list[FakeHost]) -> Iterator[None]:
    """Let the counters of the hosts grow."""
    words = [word for host in hosts for word in (str(host.tree.energy_of("intel-rapl:0")), str(host.watts))]
    with subprocess.Popen([sys.executable, "-c", _COUNT, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "counts\n"
            yield
        finally:
            process.kill()


@contextmanager
def _bridge() -> Iterator[int]:
    """Make a bridge that no other test run uses; returns the number of its network."""
    for network in range(1, 255):
        bridge = f"tprof-{network}"
        if _ip("link", "add", bridge, "type", "bridge", must=False):
            break
    try:
        _ip("addr", "add", f"{PREFIX}.{network}.1/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        yield network
    finally:
        _ip("link", "del", bridge)


@contextmanager
def _namespace(name: str, network: int, number: int) -> Iterator[tuple[str, ...]]:
    """Make a host's network namespace; returns the words before a command in it. All that runs in it ends with it."""
    space, outer, inner = f"tprof-{network}-{number}", f"tp{network}-{number}", f"tq{network}-{number}"
    _ip("netns", "add", space)
    try:
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner)
        _ip("link", "set", inner, "netns", space, "name", "eth0")
        _ip("link", "set", outer, "master", f"tprof-{network}", "up")
        _ip("-n", space, "addr", "add", f"{PREFIX}.{network}.{number}/24", "dev", "eth0")
        _ip("-n", space, "link", "set", "eth0", "up")
        _ip("-n", space, "link", "set", "lo", "up")
        yield ("ip", "netns", "exec", space, *_NAMED, name)
    finally:
        for pid in _ip("netns", "pids", space).split():
            subprocess.run(["kill", "-9", pid], check=False, capture_output=True)
        wait_until(lambda: not _ip("netns", "pids", space).split())
        _ip("netns", "del", space)


def _ip(*words: str, must: bool = True) -> str:
    done = subprocess.run(["ip", *words], check=must, capture_output=True, text=True, timeout=60)
    return done.stdout if must else " " * (done.returncode == 0)
