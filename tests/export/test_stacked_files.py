"""Flame graphs for another program: the file of speedscope."""

import json

import numpy as np
import pytest
from support import stacks, traces
from support.command_line import tprof as run

NESTED = {
    "t_ns": [0, 1_000_000, 2_000_000, 3_000_000],
    "instance": [1, 2, 1, 0],
    "task": [0, 1, 0, -1],
    "name": "main",
}
ENERGY = {"package-0": ([0, 1_000_000, 2_000_000, 3_000_000], [0.0, 0.001, 0.003, 0.004])}

NUMBER, TEXT = {"type": "number"}, {"type": "string"}
URL = "https://www.speedscope.app/file-format-schema.json"


def required(**properties):
    return {"type": "object", "properties": properties, "required": sorted(properties)}


def listed(items):
    return {"type": "array", "items": items}


# What speedscope's own schema (file-format-schema.json of jlfwong/speedscope) demands of a file of sampled profiles.
UNITS = ["none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"]
FRAME = {"type": "object", "properties": {"name": TEXT, "file": TEXT, "line": NUMBER, "col": NUMBER}}
SAMPLED = required(
    type={"enum": ["sampled"]},
    name=TEXT,
    unit={"enum": UNITS},
    startValue=NUMBER,
    endValue=NUMBER,
    samples=listed(listed(NUMBER)),
    weights=listed(NUMBER),
)
WHOLE = required(
    **{"$schema": {"enum": [URL]}},
    shared=required(frames=listed(FRAME | {"required": ["name"]})),
    profiles=listed(SAMPLED),
)
WHOLE["properties"] |= {"name": TEXT, "activeProfileIndex": NUMBER, "exporter": TEXT}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "nested.tprof"
    return traces.write(path, tasks=("out;er\x1b", "inner"), threads=(NESTED,), energy=ENERGY, quality="simulated")


def test_speedscope_has_a_profile_of_energy_and_one_of_time(session, tmp_path):
    finished = run("export", session, "speedscope", cwd=tmp_path)
    data = json.loads((tmp_path / "nested.speedscope.json").read_text("utf-8"))

    assert finished.returncode == 0
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    energy, time = data["profiles"]
    assert [energy["name"], energy["unit"]] == ["energy in µJ (simulated)", "none"]
    assert [time["name"], time["unit"]] == ["time", "seconds"]
    assert energy["weights"] == pytest.approx([2000.0, 2000.0])
    assert time["weights"] == pytest.approx([0.002, 0.001])
    names = [one["name"] for one in data["shared"]["frames"]]
    for profile in data["profiles"]:
        assert profile["endValue"] == pytest.approx(sum(profile["weights"]))
        assert [[names[frame] for frame in stack] for stack in profile["samples"]] == [
            ["out;er\x1b"],
            ["out;er\x1b", "inner"],
        ]


@pytest.fixture(scope="module")
def speedscope(tmp_path_factory):
    """Return the file of a session whose Python functions were sampled, with their places."""
    folder = tmp_path_factory.mktemp("speedscope")
    thread = {**NESTED, "tid": 5}
    path = traces.write(folder / "a.tprof", tasks=("outer", "inner"), threads=(thread,), energy=ENERGY)
    times_ns = list(range(100_000, 3_000_000, 200_000))
    functions = [stacks.function(0, "<module>", "/a.py:1"), stacks.function(1, "work", "/a.py:12")]
    calls = [stacks.call(0, 0), stacks.call(1, 1, 0)]
    sampled = stacks.samples(times_ns, [1] * len(times_ns), tid=5, cpu_ns=times_ns)
    stacks.write(path, np.concatenate([*functions, *calls, sampled]))
    run("export", path, "speedscope", cwd=folder)
    return json.loads((folder / "a.speedscope.json").read_text("utf-8"))


def test_a_file_is_as_speedscopes_schema_demands(speedscope):
    jsonschema = pytest.importorskip("jsonschema")
    schema = jsonschema.Draft6Validator(WHOLE)

    assert [one.message for one in schema.iter_errors(speedscope)] == []
    assert {"name": "work", "file": "/a.py", "line": 12} in speedscope["shared"]["frames"]
    first, *others = speedscope["profiles"]
    for wrong in ({"unit": "joules"}, {"endValue": None}, {"samples": [0]}, {"type": "evented"}):
        assert not schema.is_valid(speedscope | {"profiles": [first | wrong, *others]}), wrong


def test_samples_have_weights_and_frames_that_are_there(speedscope):
    frames = len(speedscope["shared"]["frames"])

    assert 0 <= speedscope["activeProfileIndex"] < len(speedscope["profiles"])
    for profile in speedscope["profiles"]:
        assert 0 < len(profile["samples"]) == len(profile["weights"])
        assert all(type(frame) is int and 0 <= frame < frames for stack in profile["samples"] for frame in stack)
        assert all(weight > 0 for weight in profile["weights"])
        assert profile["startValue"] <= profile["endValue"]


def test_a_place_that_cannot_be_written_is_named_in_one_sentence(session, tmp_path):
    finished = run("export", session, "speedscope", "-o", tmp_path / "none" / "file", cwd=tmp_path)

    assert finished.returncode == 1
    assert finished.stderr.count("\n") == 1
    assert f"cannot write {tmp_path / 'none' / 'file'}: No such file or directory; name another file" in finished.stderr
