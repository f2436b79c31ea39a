"""Traces of Perfetto that tprof did not write, and damaged ones."""

import random

import pytest
from support import command_line, traces

import tprof
from tprof.importing import Request, import_file

proto = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
MS = 1_000_000


def foreign():
    """A trace as an SDK writes it, on CLOCK_BOOTTIME, with power rails."""
    trace = proto.Trace()
    clocks = trace.packet.add().clock_snapshot
    for clock, value in ((6, 10_000 * MS), (3, 4_000 * MS), (1, 10**18)):
        clocks.clocks.add(clock_id=clock, timestamp=value)
    described = trace.packet.add().track_descriptor
    described.uuid, described.thread.pid, described.thread.tid, described.thread.thread_name = 77, 5, 6, "worker"
    names = trace.packet.add(trusted_packet_sequence_id=2, sequence_flags=1)
    names.interned_data.event_names.add(iid=1, name="decode")
    for at_ms, kind in ((0, 1), (10, 1), (30, 2), (40, 2)):
        packet = trace.packet.add(timestamp=(10_000 + at_ms) * MS, trusted_packet_sequence_id=2)
        packet.track_event.type, packet.track_event.track_uuid = kind, 77
        if kind == 1:
            packet.track_event.name_iid = 1
    for at_ms, energy in ((0, 0), (20, 1_000_000), (40, 4_000_000)):
        packet = trace.packet.add(timestamp=(10_000 + at_ms) * MS)
        packet.power_rails.rail_descriptor.add(index=3, rail_name="VDD_CPU")
        packet.power_rails.energy_data.add(index=3, energy=energy)
    return trace


def test_rails_and_slices_of_another_tracer_make_a_session(tmp_path):
    (tmp_path / "t.pftrace").write_bytes(foreign().SerializeToString())

    done = command_line.tprof("import", "t.pftrace", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    trace = tprof.load(tmp_path / "t.tprof")
    profile = trace.profile("cputime")
    assert profile.summary().loc["decode", ["instances", "energy_j"]].tolist() == [2, pytest.approx(4.0)]
    assert profile.tasks["duration_s"].tolist() == pytest.approx([0.04, 0.02])
    assert trace.start_ns == 4_000 * MS
    assert trace.manifest["clock"]["wall_start_ns"] == 10**18
    assert profile.accounts.index.tolist() == ["rail-VDD_CPU"]


def test_damage_is_one_sentence_or_a_session_and_never_half_of_one(tmp_path):
    whole = foreign().SerializeToString()
    tprof.load(traces.write(tmp_path / "s.tprof")).profile().to_perfetto(tmp_path / "own.pftrace")
    own = (tmp_path / "own.pftrace").read_bytes()
    chance = random.Random(5)  # noqa: S311 - the same damage in each run
    contents = [whole[:cut] for cut in range(1, len(whole), 37)] + [own[: len(own) // 2], own[:-1]]
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        contents.append(bytes(damaged))
    refused = 0

    for number, content in enumerate(contents):
        (tmp_path / "t.pftrace").write_bytes(content)
        session = tmp_path / f"{number}.tprof"
        sentence = None
        try:
            import_file(Request(tmp_path / "t.pftrace", session, energy="none"))
            tprof.load(session).profile()
        except tprof.TprofError as error:
            sentence = str(error)
            refused += 1
        assert sentence is None or (sentence.count("\n") == 0 and not session.exists())

    assert 0 < refused < len(contents)
    assert not list(tmp_path.glob(".*"))
