"""What would grant access, written once: the commands, and what they expose."""

from __future__ import annotations

import errno

SIDE_CHANNEL = (
    "energy readings are a side channel (CVE-2020-8694): give them to a group or a capability, never to everybody"
)
POWERCAP_GROUP = (
    "sudo groupadd -f power && sudo usermod -aG power $USER && "
    'echo \'SUBSYSTEM=="powercap", ACTION=="add", RUN+="/bin/sh -c \\\'chgrp power /sys%p/energy_uj; '
    "chmod 0440 /sys%p/energy_uj\\'\"' | sudo tee /etc/udev/rules.d/70-powercap.rules && "
    "sudo udevadm control --reload && sudo udevadm trigger --action=add --subsystem-match=powercap"
)
PERF_PARANOID = "sudo sysctl kernel.perf_event_paranoid=0"
PERF_COUNTERS = "sudo sysctl kernel.perf_event_paranoid=2"

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


def explain_perf_error(number: int) -> str:
    """Return in a clause why perf_event_open failed with this errno."""
    return _PERF_ERRORS.get(number, f"perf_event_open failed with errno {number}")


def mirrored_die(package: int | None) -> str:
    """Return in a clause why a die of an AMD socket is not counted."""
    return f"on this processor each die shows the counter of package {package}"
