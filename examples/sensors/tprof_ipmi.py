"""The power of a server by its management controller: `ipmitool dcmi power reading`.

The controller measures at the supplies, about once a second, in whole watts (DCMI specification 1.5, section 6.6.1).
`ipmitool` is run again and again by a shell that is no child of this process, because a program that waits for any of
its children must not meet it. The shell ends when nobody reads its pipe any more.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from typing import TYPE_CHECKING

from tprof.errors import SensorError
from tprof.sensors import Accuracy, Domain, Found, Quality, Quantity, Reading, Sensor, Unavailable
from tprof.sensors.advice import Remedy

if TYPE_CHECKING:
    from tprof.sensors import Machine

TOOL = Remedy("sudo apt install ipmitool", "a program that talks to the board's management controller")
MODULE = Remedy("sudo modprobe ipmi_si ipmi_devintf")
GROUP = Remedy(
    'sudo groupadd -f ipmi && sudo usermod -aG ipmi "$USER" && sudo chgrp ipmi /dev/ipmi0 && '
    "sudo chmod 0660 /dev/ipmi0; echo log out and in again",
    "the group `ipmi` can command the management controller, which can also switch the machine off",
)
DOMAIN = "node"
PERIOD_S, UPDATE_S = 0.2, 1.0
DEVICES = ("dev/ipmi0", "dev/ipmi/0", "dev/ipmidev/0")
_WATTS = re.compile(rb"Instantaneous power reading:\s*(\d+)\s*Watts")
# Detached by a process between, which ends at once. A second passes also after a reading that fails.
_SCRIPT = "(while echo; do {tool} dcmi power reading 2>&1; sleep {seconds}; done) &"
NO_READING_S = 10.0


class Ipmi(Sensor):
    """The node as its controller measures it."""

    name = "ipmi"
    covers = "a server as a whole, by its management controller"

    def find(self, machine: Machine) -> Found | Unavailable:
        """Look for the controller's device and for ipmitool; nothing is asked of the controller."""
        devices = [machine.root / device for device in DEVICES if (machine.root / device).exists()]
        if not devices:
            return Unavailable(f"{machine.root / DEVICES[0]} does not exist", (MODULE,))
        if not os.access(devices[0], os.R_OK | os.W_OK):
            return Unavailable(f"cannot read {devices[0]}: permission denied", (GROUP,), notable=True)
        if shutil.which("ipmitool") is None:
            return Unavailable("ipmitool is not installed", (TOOL,), notable=True)
        accuracy = Accuracy(update_s=UPDATE_S, resolution=1.0, shows=Quantity.POWER, covers="the whole node")
        return Found((Domain(DOMAIN, "machine", None, self.name, Quality.MEASURED, accuracy=accuracy),))

    def open(self, machine: Machine, domains: tuple[Domain, ...]) -> IpmiReader:
        """Start the shell."""
        del machine, domains
        return IpmiReader()


class IpmiReader:
    """Reads what ipmitool has written."""

    period_s = PERIOD_S

    def __init__(self) -> None:
        """Start it. Raises SensorError and OSError."""
        tool = shutil.which("ipmitool")
        if tool is None:
            raise SensorError("ipmitool is not installed any more: install it again")
        self._pipe, end = os.pipe()
        try:
            os.set_blocking(self._pipe, False)
            script = _SCRIPT.format(tool=shlex.quote(tool), seconds=UPDATE_S)
            null = os.open(os.devnull, os.O_RDWR)
            actions = [(os.POSIX_SPAWN_DUP2, source, target) for source, target in ((null, 0), (end, 1), (null, 2))]
            shell = os.posix_spawn("/bin/sh", ["sh", "-c", script], os.environ, file_actions=actions, setsid=True)
            os.close(null)
        finally:
            os.close(end)
        os.waitpid(shell, 0)
        self._text = b""
        self._silent = 0

    def read(self) -> list[Reading]:
        """Return the readings that have come. Raises SensorError if there are none for long."""
        try:
            data = os.read(self._pipe, 1 << 16)
        except BlockingIOError:
            data = None
        if data == b"":
            raise SensorError("ipmitool was ended: it is started again")
        self._text += data or b""
        matches = list(_WATTS.finditer(self._text))
        if matches:
            self._text, self._silent = self._text[matches[-1].end() :], 0
            return [Reading(DOMAIN, float(matches[-1][1]))]
        self._silent += 1
        if self._silent * PERIOD_S < NO_READING_S:
            return []
        said = self._text.decode(errors="replace").strip().splitlines()[-1:] or ["it says nothing"]
        self._text, self._silent = b"", 0
        raise SensorError(f"ipmitool dcmi power reading gives no watts: {said[0][:200]}")

    def close(self) -> None:
        """Close the pipe, which ends the shell at its next line."""
        os.close(self._pipe)
