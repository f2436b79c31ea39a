"""Operating points of a cluster: one policy on each host, and one cap on the power that hosts share.

On each host the first worker process holds the frequency, for all its processors. A policy such as `edp` decides there
by itself. Of a cap each host gets a part (`policy.shared_cap`), which the program's process divides again each second.
"""

from __future__ import annotations

import dataclasses
import threading
import warnings
from typing import TYPE_CHECKING, Any

from tprof.analysis.operating_points.goals import PowerCap
from tprof.runtime.policy.policy import CapPolicy
from tprof.runtime.policy.shared_cap import share_cap

from tprof.errors import SensorError, TprofError

from . import remote

if TYPE_CHECKING:
    from tprof.runtime.policy import Policy
    from tprof.runtime.policy.shared_cap import HostPower

PERIOD_S = 1.0


class HostPolicies:
    """Policies of the hosts of a cluster, from `start` to `stop`.

    Parameters
    ----------
    client
        The `distributed.Client`.
    identity, library_threads
        Of the program's runtime.
    policy
        For each host; a cap is for all together.

    Attributes
    ----------
    caps_w : watts that each host may draw, by its name, if there is a cap.
    """

    def __init__(self, client: Any, identity: str, library_threads: int | None, policy: Policy) -> None:
        """Begin without policies."""
        self.caps_w: dict[str, float] = {}
        self._client, self._identity, self._library_threads = client, identity, library_threads
        self._policy = policy
        self._hosts: dict[str, str] = {}
        self._busy_s: dict[str, float] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Let the first worker of each host set its frequencies.

        Raises
        ------
        SensorError
            If a host's cannot be set, or it has no sensor for the policy.
        """
        # By address, so that the first worker of a host is the same in each run.
        found = sorted(self._client.run(remote.host_of_worker).items())
        self._hosts = {host: address for address, host in reversed(found)}
        watts = self._policy.goal.watts if isinstance(self._policy, CapPolicy) else None
        policy = self._policy
        if isinstance(policy, CapPolicy) and watts is not None:
            policy = dataclasses.replace(policy, goal=PowerCap(watts / len(self._hosts)))
        options = {"workers": list(self._hosts.values())}
        answers = self._client.run(remote.open_with_policy, self._identity, self._library_threads, policy, **options)
        for host, address in self._hosts.items():
            if isinstance(answers[address], TprofError):
                raise SensorError(f"host {host.partition(' ')[0]}: {answers[address]}")
        if watts is not None:
            self.caps_w = dict.fromkeys(self._names(), watts / len(self._hosts))
            self._thread = threading.Thread(target=self._divide_cap, args=(watts,), name="tprof-cap", daemon=True)
            self._thread.start()

    def _names(self) -> list[str]:
        return [host.partition(" ")[0] for host in self._hosts]

    def _divide_cap(self, watts: float) -> None:
        """Divide the cap again and again: the main function of the thread."""
        while not self._ended.wait(PERIOD_S):
            try:
                self._divide_once(watts)
            except Exception as error:  # noqa: BLE001 - of dask, whose cluster may be ending; the parts stay as they are
                if not self._ended.is_set():
                    message = f"the cap on the cluster's power is divided no more: {error}; its parts stay as they are"
                    warnings.warn(message, RuntimeWarning, stacklevel=2)
                return

    def _divide_once(self, watts: float) -> None:
        addresses = list(self._hosts.values())
        answers = self._client.run(remote.host_power, self._identity, workers=addresses, on_error="ignore")
        states: list[HostPower | None] = [answers.get(address) for address in addresses]
        busy = [
            state is not None and state.busy_s > self._busy_s.get(address, 0.0)
            for address, state in zip(addresses, states, strict=True)
        ]
        parts_w = share_cap(watts, states, busy)
        parts = dict(zip(addresses, parts_w, strict=True))
        self._client.run(remote.keep_cap, self._identity, parts, workers=addresses, on_error="ignore")
        self._busy_s = {
            address: state.busy_s for address, state in zip(addresses, states, strict=True) if state is not None
        }
        self.caps_w = dict(zip(self._names(), parts_w, strict=True))

    def stop(self) -> None:
        """Divide no more; the policies end with the workers' runtimes."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
