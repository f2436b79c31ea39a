"""Remedies for missing access: the exact commands, and what each of them exposes."""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Remedy:
    """A command that gives tprof access, and its side effects.

    Attributes
    ----------
    command : the exact command line.
    exposes : what it exposes to others, or its cost; None: nothing.
    """

    command: str
    exposes: str | None = None


SIDE_CHANNEL = (
    "energy readings are a side channel (CVE-2020-8694): give them to a group or a capability, never to everybody"
)

_UDEV_RULE = (
    'SUBSYSTEM=="powercap", ACTION=="add", TEST=="energy_uj", '
    'RUN+="/bin/chgrp power /sys%p/energy_uj", RUN+="/bin/chmod 0440 /sys%p/energy_uj"'
)
POWERCAP_GROUP = Remedy(
    'sudo groupadd -f power && sudo usermod -aG power "$USER" && '
    f"echo '{_UDEV_RULE}' | sudo tee /etc/udev/rules.d/70-powercap.rules && "
    "sudo udevadm control --reload && sudo udevadm trigger --action=add --subsystem-match=powercap; "
    "echo log out and in again",
    f"the group `power` can read energy, now and after each start; {SIDE_CHANNEL}",
)
POWERCAP_DRIVER = Remedy("sudo modprobe intel_rapl_msr")
CONTAINER = Remedy(
    "docker run -v /sys:/host/sys:ro -e TPROF_SYSROOT=/host …",
    f"the container sees the host's /sys, and root in it the host's energy; {SIDE_CHANNEL}",
)
ONE_RUN = Remedy(
    "sudo setpriv --reuid=$(id -u) --regid=$(id -g) --init-groups --inh-caps=+perfmon --ambient-caps=+perfmon "
    '"$(command -v tprof)" run …',
    "that one program may count everybody's events and read energy while it runs; nothing else changes",
)
PERF_CAPABILITY = Remedy(
    'sudo setcap cap_perfmon+ep "$(readlink -f "$(command -v python3)")"',
    "whoever may run this interpreter can count everybody's events and read energy, so give it a group of its own; "
    "the loader then ignores LD_LIBRARY_PATH; `setcap -r` undoes it",
)
PERF_PARANOID = Remedy(
    "sudo sysctl kernel.perf_event_paranoid=0",
    f"every user can count all processors' events and read energy until the next start; {SIDE_CHANNEL}",
)
PERF_COUNTERS = Remedy(
    "sudo sysctl kernel.perf_event_paranoid=1",
    "every user can count the kernel's part of own programs, and no energy, until the next start",
)
CONTAINER_PERF = Remedy(
    "docker run --cap-add PERFMON …",
    f"the container may count all of the host's events and read its energy; {SIDE_CHANNEL}",
)
HWMON_GROUP = Remedy(
    'sudo groupadd -f power && sudo usermod -aG power "$USER" && '
    "sudo chgrp power /sys/class/hwmon/hwmon*/energy*_input && sudo chmod 0440 /sys/class/hwmon/hwmon*/energy*_input; "
    "echo log out and in again",
    f"the group `power` can read energy until the next start; {SIDE_CHANNEL}",
)
INSTALL_METER = Remedy('pip install "tprof-energy[meter]"')
DIALOUT = Remedy('sudo usermod -aG dialout "$USER"; echo log out and in again', "all serial lines, modems included")
INSTALL_NVML = Remedy('pip install "tprof-energy[nvml]"')
INSTALL_PYRAPL = Remedy('pip install "tprof-energy[pyrapl]"')
NVIDIA_DRIVER = Remedy("install the NVIDIA driver by the package manager of your system, then restart")
NVIDIA_MODULE = Remedy("sudo modprobe nvidia")
CONTAINER_GPUS = Remedy("docker run --gpus all …", "the container can use the GPUs, and see who else does")
GPU_GROUP = Remedy(
    'sudo usermod -aG "$(stat -c %G /dev/nvidiactl)" "$USER"; echo log out and in again',
    "whoever is in that group can use the GPUs",
)
GPU_RESET = Remedy("sudo nvidia-smi --gpu-reset", "no process may use the GPUs meanwhile")
RESTART = Remedy("sudo reboot", "everything that runs ends")
GRANT_PERF = (ONE_RUN, PERF_CAPABILITY, PERF_PARANOID)

_PERF_ERRORS = {
    errno.ENOENT: "the processor or its hypervisor offers no such event",
    errno.EACCES: "kernel.perf_event_paranoid or a missing CAP_PERFMON forbids it",
    errno.EPERM: "a seccomp filter (container) or a missing CAP_PERFMON forbids it",
    errno.ENOSYS: "this kernel or sandbox has no perf_event_open",
    errno.EMFILE: "no file descriptor is left (ulimit -n)",
    errno.EINVAL: "the kernel refuses the event, or has no counter left for it",
    errno.EOPNOTSUPP: "the processor does not support the event in this form",
    errno.ENODEV: "the processor has no such counter",
    errno.EBUSY: "another tool holds the counters exclusively",
    errno.E2BIG: "the kernel is older than the event's description",
}


NOBODY = 3
"""From this perf_event_paranoid on, some kernels (Debian's 6.1) refuse all but CAP_SYS_ADMIN, CAP_PERFMON or not."""
BELOW_NOBODY = f"sudo sysctl kernel.perf_event_paranoid={NOBODY - 1} && "


def at_level(level: int | None, remedies: tuple[Remedy, ...]) -> tuple[Remedy, ...]:
    """Return the remedies as they work under this perf_event_paranoid: above 2, a capability alone may not."""
    if level is None or level < NOBODY:
        return remedies
    return tuple(
        replace(one, command=BELOW_NOBODY + one.command) if one in (ONE_RUN, PERF_CAPABILITY) else one
        for one in remedies
    )


def explain_perf_error(number: int) -> str:
    """Return the reason for this errno of perf_event_open, as a clause."""
    return _PERF_ERRORS.get(number, f"perf_event_open failed with errno {number}")


def remedies_for_perf_error(number: int, level: int | None = None) -> tuple[Remedy, ...]:
    """Return the remedy for this errno of a processor-wide event (energy), under this perf_event_paranoid."""
    if number == errno.EPERM:
        return (CONTAINER_PERF, *GRANT_PERF)
    return at_level(level, GRANT_PERF) if number == errno.EACCES else ()


def mirrored_die(package: int | None) -> str:
    """Return the reason why a die of an AMD socket is not counted, as a clause."""
    return f"on this processor each die shows the counter of package {package}"
