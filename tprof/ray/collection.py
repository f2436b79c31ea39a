"""Ends a job on all nodes, and brings home the parts that lie on the disks of other nodes.

A node sends its part as pieces of about a megabyte, through Ray's own objects, and makes the next ones only when the
driver has taken what came before, so memory is bounded on both sides. Nodes do so one after the other.
"""

from __future__ import annotations

import errno
import os
import selectors
import shutil
import socket
import time
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof import _core
from tprof.errors import TprofError
from tprof.session import hosts
from tprof.trace.archive import Unpacker, pack
from tprof.trace.clock_offset import offset_by_pings, offset_by_wall_clock
from tprof.trace.cluster import HostPart, write_hosts
from tprof.trace.directory import HOSTS

from .driver import job_at
from .job import VARIABLE, Board, Job, NodePart
from .worker import ID_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

PIECES_AHEAD = 4
PINGS = 8
ANSWER_S = 120.0
"""Longest wait for an answer: a worker may have to start on a busy node."""
FIRST_ANSWER_S = 10.0
"""Wait for the first answers of all nodes together; then those that cannot be reached are given up."""
PROBE_S = 2.0
MOST_PROBES = 64


def collect(path: str | os.PathLike[str]) -> Path:
    """End the recording of a job of Ray, and bring home what other nodes recorded.

    Tasks that still run are recorded until now. A node that has died, or does not answer, is named in the profile's
    warnings; its part stays on its disk.

    Parameters
    ----------
    path
        As it was given to `runtime_env`.

    Returns
    -------
    Path
        The job, for `tprof.load`.

    Raises
    ------
    UsageError
        If this process did not begin a job there, or has collected it.
    TprofError
        If the recording of this host does not end.
    """
    import ray

    job = job_at(Path(path).absolute())
    own = hosts.part_of(job.path)
    brought = _bring_all(ray, job, own) if ray.is_initialized() else {}
    hosts.leave()
    hosts.stop(own, expects_members=True)
    brought[own.name] = HostPart(own.name, own, offset_by_wall_clock(own))
    job.marker.unlink(missing_ok=True)
    write_hosts(job.path, list(brought.values()), engine="ray", expected=sorted(brought))
    return job.path


class Collector:
    """What an actor does on a node that is collected."""

    def now_ns(self) -> int:
        """Return the time of this host's clock."""
        return _core.now_ns()

    def end(self, part: str) -> None:
        """End the recording of the node's host."""
        hosts.stop(Path(part), expects_members=True)

    def pieces(self, part: str) -> Iterator[bytes]:
        """Yield a part; not by `yield from`, since Ray sends values into generators."""
        for piece in pack(Path(part)):  # noqa: UP028 - see above
            yield piece

    def remove(self, part: str) -> None:
        """Remove a part that came home, and its directory, from the node's disk."""
        shutil.rmtree(Path(part).parent.parent)


def _bring_all(ray: Any, job: Job, own: Path) -> dict[str, HostPart]:
    """End the recording on all other hosts at the same time, then bring their parts home one after the other."""
    board = Board(job)
    board.end()
    announced = {part.key: part for part in board.parts() if part.path != os.fspath(own)}
    present = {key: part for key, part in announced.items() if part.problem is None}
    hosts_with_parts = {part.host for part in present.values()}
    brought = {
        part.host: HostPart(part.host, None, None, part.problem)
        for part in announced.values()
        if part.problem is not None and part.host not in hosts_with_parts
    }
    nodes = {str(node["NodeID"]): node for node in ray.nodes() if node["Alive"]}
    parts = [part for _, part in sorted(present.items())]
    collections = [_Collection(ray, job, part) for part in parts if part.node_id in nodes]
    for one in collections:
        one.begin_end()
    silent = _silent(ray, collections, nodes)
    gone = [part for part in parts if part.node_id not in nodes] + [one.part for one in silent]
    for part in gone:
        name = _free_name(job, part, brought)
        brought[name] = HostPart(name, job.path / HOSTS / name if part.is_home else None, None, _why_gone(part))
    for one in collections:
        if one in silent:
            one.give_up()
            continue
        found = one.bring(_free_name(job, one.part, brought))
        brought[found.name] = found
    if gone:
        names = ", ".join(f"{part.host} ({part.node_id[:ID_CHARACTERS]})" for part in gone)
        warnings.warn(f"nodes of Ray are gone, and were not collected: {names}", RuntimeWarning, stacklevel=3)
    return brought


def _silent(ray: Any, collections: Sequence[_Collection], nodes: Mapping[str, Any]) -> list[_Collection]:
    """Return those whose nodes are gone although Ray has not noticed it yet: they neither answer nor can be reached.

    A node that can be reached may take longer, since a worker has to start there.
    """
    by_answer = {one.first: one for one in collections}
    if not by_answer:
        return []
    _, waiting = ray.wait(list(by_answer), num_returns=len(by_answer), timeout=FIRST_ANSWER_S)
    late = [by_answer[answer] for answer in waiting]
    places = [
        (str(node["NodeManagerAddress"]), int(node["NodeManagerPort"]))
        for node in (nodes[one.part.node_id] for one in late)
    ]
    reached: set[tuple[str, int]] = set()
    for at in range(0, len(places), MOST_PROBES):
        reached |= reachable(places[at : at + MOST_PROBES])
    return [one for one, place in zip(late, places, strict=True) if place not in reached]


def reachable(places: Collection[tuple[str, int]], *, wait_s: float = PROBE_S) -> set[tuple[str, int]]:
    """Return the addresses and ports that accept a connection within the time, all asked at once.

    Without threads, since the program may be at its end, where Python begins none.
    """
    reached = set()
    with selectors.DefaultSelector() as selector, ExitStack() as stack:
        for place in places:
            probe = _probe(place, stack)
            if probe is not None:
                selector.register(probe, selectors.EVENT_WRITE, place)
        until_s = time.monotonic() + wait_s
        while selector.get_map() and (left_s := until_s - time.monotonic()) > 0:
            for key, _ in selector.select(left_s):
                selector.unregister(key.fileobj)
                probe = key.fileobj if isinstance(key.fileobj, socket.socket) else None
                if probe is not None and probe.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    reached.add(key.data)
    return reached


def _probe(place: tuple[str, int], stack: ExitStack) -> socket.socket | None:
    """Return a socket that begins to connect, closed with the stack; None if there is no way there."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)[0]
        probe = stack.enter_context(socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol))
        begun = probe.connect_ex(address)
    except OSError:
        return None
    return probe if begun in (0, errno.EINPROGRESS) else None


def _why_gone(part: NodePart) -> str:
    where = "" if part.is_home else f"; what it recorded is in {part.path} there"
    return f"node {part.node_id} is gone{where}"


def _free_name(job: Job, part: NodePart, taken: Mapping[str, HostPart]) -> str:
    """Return the name of a part at home: two hosts may have one name."""
    name, number = part.host, 1
    while not part.is_home and (name in taken or os.path.lexists(job.path / HOSTS / name)):
        number += 1
        name = f"{part.host}-{number}"
    return name


class _Collection:
    """The collection of one node's part."""

    def __init__(self, ray: Any, job: Job, part: NodePart) -> None:
        """Start an actor on the node, which is not recorded itself."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        where = NodeAffinitySchedulingStrategy(part.node_id, soft=False)
        unrecorded = {"env_vars": {VARIABLE: ""}}
        options = {"num_cpus": 0, "scheduling_strategy": where, "runtime_env": unrecorded}
        self.part = part
        self._ray, self._job = ray, job
        self._actor = ray.remote(Collector).options(**options).remote()
        self.first: Any = self._actor.now_ns.remote()
        self._ended: Any = None

    def begin_end(self) -> None:
        """Let the recording of the node's host end; `bring` waits for that."""
        self._ended = self._actor.end.remote(self.part.path)

    def give_up(self) -> None:
        """Leave the part on the node."""
        self._ray.kill(self._actor)

    def bring(self, name: str) -> HostPart:
        """Bring the part home under this name; what prevents that is said in what is returned."""
        target = self._job.path / HOSTS / name
        place = target if self.part.is_home else None
        try:
            offset = offset_by_pings(self._pings())
            self._answer(self._ended)
            missing = None if self.part.is_home else self._fetch(target)
        except (self._ray.exceptions.RayError, TprofError, OSError) as error:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            where = "" if self.part.is_home else f"; what it recorded is in {self.part.path} there"
            return HostPart(name, place, None, f"node {self.part.node_id} could not be collected: {reason}{where}")
        finally:
            self._ray.kill(self._actor)
        return HostPart(name, target, offset, missing)

    def _pings(self) -> list[tuple[int, int, int]]:
        """Exchange pings; the first ones also wait until the actor runs."""
        pings = []
        for _ in range(PINGS):
            sent_ns = _core.now_ns()
            host_ns = self._answer(self._actor.now_ns.remote())
            pings.append((sent_ns, host_ns, _core.now_ns()))
        return pings

    def _answer(self, reference: Any) -> Any:
        return self._ray.get(reference, timeout=ANSWER_S)

    def _fetch(self, target: Path) -> str | None:
        """Bring the files; returns what is missing of them."""
        flow = {"num_returns": "streaming", "_generator_backpressure_num_objects": PIECES_AHEAD}
        pieces = self._actor.pieces.options(**flow).remote(self.part.path)
        missing = None
        with Unpacker(target) as unpacker:
            try:
                for piece in pieces:
                    unpacker.feed(self._answer(piece))
            except self._ray.exceptions.RayError as error:
                missing = f"node {self.part.node_id} ended while it was collected: {type(error).__name__}"
            unpacker.close(keep_partial=missing is not None)
        if missing is None:
            self._answer(self._actor.remove.remote(self.part.path))
        return missing
