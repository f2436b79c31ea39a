"""What is fuzzed: each target takes any bytes, and may do nothing with them but return or refuse them by one sentence.

A target raises for whatever else happens: an exception that is not tprof's own, a sentence of several lines, or a
directory that is left half-written.
"""

from __future__ import annotations

import functools
import json
import shutil
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from compressed import changed, changes
from patches import patched
from support import finished_sessions, stacks, traces
from support.file_readers import READERS, Reader, outcome

import tprof
from tprof.cli.run_start import options_of_run
from tprof.configuration import CHOSEN_FILE, configured
from tprof.errors import TprofError
from tprof.sensors.contract import Machine
from tprof.sensors.meter import Meter
from tprof.trace.archive import Unpacker, pack
from tprof.trace.cluster import TABLE, load_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

GOLDEN = Path(__file__).parents[1] / "golden"
CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True)
class Target:
    """Something that takes bytes.

    Attributes
    ----------
    take : takes them; may leave files in the given empty folder
    seeds : what is right for it, of which the search makes others
    """

    take: Callable[[bytes, Path], None]
    seeds: Callable[[Path], Iterable[bytes]]


def sentence_of(read: Callable[[], object]) -> str | None:
    """Return the sentence by which something is refused, None if it is not. Raises what is no error of tprof's."""
    try:
        read()
    except TprofError as error:
        said = str(error)
        assert "\n" not in said, said
        assert len(said) < 2000, said
        return said
    return None


def _reader(reader: Reader) -> Target:
    def take(data: bytes, folder: Path) -> None:
        path = folder / reader.file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        outcome(reader, path)

    def seeds(_: Path) -> Iterable[bytes]:
        return [reader.right()] if reader.plain is not None or reader.table is not None else []

    return Target(take, seeds)


@functools.cache
def whole_session() -> dict[str, bytes]:
    """Return the files of a session in which every kind of file occurs, by name."""
    with tempfile.TemporaryDirectory() as place:
        path = traces.copy(GOLDEN / "format-1.4", Path(place) / "s.tprof")
        functions = [stacks.function(0, "f"), stacks.call(0, 0), stacks.samples([10**9, 10**9], [0, 0], tid=0)]
        stacks.write(path, np.concatenate(functions))
        (path / "decisions").mkdir()
        (path / "decisions" / "00000000.jsonl").write_text('{"t_ns": 1, "kind": "set", "policy": "edp", "cpus": [0]}\n')
        return traces.contents(path)


def _put(session: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (session / name).parent.mkdir(parents=True, exist_ok=True)
        (session / name).write_bytes(content)
    return session


def _trace(data: bytes, folder: Path) -> None:
    traces.read_or_refuse(_put(folder / "s.tprof", patched(data, whole_session())))


def _compressed(data: bytes, folder: Path) -> None:
    traces.read_or_refuse(_put(folder / "s.tprof", changed(data)))


def _compressed_profile(data: bytes, folder: Path) -> None:
    """Take a profile too, which is ten times the work: a target of its own, so that the other one comes to try more."""
    _profile_of(_put(folder / "s.tprof", changed(data)))


def _profile(data: bytes, folder: Path) -> None:
    _profile_of(_put(folder / "s.tprof", patched(data, whole_session())))


def _profile_of(session: Path) -> None:
    sentence_of(lambda: json.dumps(tprof.load(session).profile("cputime").info, allow_nan=False))


def _patches(_: Path) -> Iterable[bytes]:
    names = sorted(whole_session())
    for number in range(len(names)):
        for offset in (24, 64, 72, 4096, 4104, 4120):
            yield struct.pack("<HHQ", number, offset, 1)


def _part(name: str) -> Target:
    """Return a target that puts the bytes in the place of a text file of a session."""

    def take(data: bytes, folder: Path) -> None:
        traces.read_or_refuse(_put(folder / "s.tprof", {**whole_session(), name: data}))

    return Target(take, lambda _: [whole_session()[name]])


def _job(data: bytes, folder: Path) -> None:
    _put(folder / "job" / "hosts" / "a", whole_session())
    (folder / "job" / TABLE).write_bytes(data)
    sentence_of(lambda: load_job(folder / "job"))


def _hosts(_: Path) -> Iterable[bytes]:
    clock = {"offset_ns": 5, "offset_uncertainty_ns": 2, "offset_by": "pings"}
    rows = [{"name": "a", "directory": "a", **clock, "missing": None}, {"name": "b10", "missing": "it ended"}]
    yield json.dumps({"format": [1, 5], "engine": "mpi", "expected": ["a", "b"], "hosts": rows}).encode()


def _archive(data: bytes, folder: Path) -> None:
    session = folder / "s.tprof"

    def unpack() -> None:
        with Unpacker(session, most_bytes=1 << 24) as unpacker:
            unpacker.feed(data)
            unpacker.close()

    said = sentence_of(unpack)
    assert session.exists() == (said is None)
    assert {one.name for one in folder.iterdir()} <= {session.name}


def _settings(data: bytes, folder: Path) -> None:
    path = folder / "pyproject.toml"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CHOSEN_FILE, str(path))
        sentence_of(lambda: configured("run", options_of_run()))


def _meter(data: bytes, folder: Path) -> None:
    path = folder / "meter"
    path.touch()
    meter = Meter(str(path))

    def read() -> None:
        reader = meter.open(Machine(Path("/")), ())
        try:
            path.write_bytes(data)
            times = [reading.t_ns for reading in reader.read()]
            assert times == sorted(set(times))
        finally:
            reader.close()

    sentence_of(read)


def _finished(kind: str) -> Target:
    """Return a target that changes a recording that has ended, as far as its bytes are checked."""

    def take(data: bytes, folder: Path) -> None:
        whole = finished_sessions.finished(kind)
        files = patched(data, whole.files)
        for name, content in whole.files.items():
            if len(files[name]) == len(content) and not finished_sessions.has_checksum(name):
                files[name] = content
        finished_sessions.check(_put(folder / "s.tprof", files), whole)

    def seeds(_: Path) -> Iterable[bytes]:
        return [struct.pack("<HHQ", number, 50, 1) for number in range(len(finished_sessions.finished(kind).files))]

    return Target(take, seeds)


TARGETS: dict[str, Target] = {
    **{name.replace(" ", "-"): _reader(reader) for name, reader in READERS.items() if name != "compressed table"},
    "trace": Target(_trace, _patches),
    "profile": Target(_profile, _patches),
    "compressed": Target(_compressed, changes),
    "compressed-profile": Target(_compressed_profile, changes),
    **{f"finished-{kind}": _finished(kind) for kind in finished_sessions.KINDS},
    "manifest": _part("manifest.json"),
    "tasks": _part("tasks/00000000.jsonl"),
    "decisions": _part("decisions/00000000.jsonl"),
    "gpu": _part("gpu/00000000.jsonl"),
    "job": Target(_job, _hosts),
    "archive": Target(_archive, lambda folder: [b"".join(pack(traces.write(folder / "s.tprof")))]),
    "pyproject": Target(_settings, lambda _: [b'[tool.tprof]\nmodel = "cputime"\n[tool.tprof.run]\ntask = ["m:*"]\n']),
    "meter": Target(_meter, lambda _: [b"seconds,watts\n0.5,12.5\n1.5,13\n"]),
}
"""The targets by name. A compressed table is left to the archive: a search finds no second valid stream."""


def emptied(folder: Path) -> Path:
    """Remove what is in the folder."""
    for one in folder.iterdir():
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one)
        else:
            one.unlink()
    return folder
