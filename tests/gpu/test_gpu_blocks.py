"""What `tprof.gpu` marks, on a fake of the libraries' events: kernels count for the task that launched them."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from support.fake_cuda import PCI, UUID, FakeCuPy, FakeDevice, FakeNumba, FakeTorch

import tprof

KERNEL_S = 0.02
NEAR_NS = 2_000_000


@pytest.fixture
def device():
    return FakeDevice()


@pytest.fixture
def torch(device, monkeypatch):
    return FakeTorch(device, monkeypatch)


@tprof.task(gpu=True)
def launch(torch, name, seconds=KERNEL_S):
    torch.launch(seconds, name)


@tprof.task(gpu=True)
def around(torch):
    torch.launch(KERNEL_S, "around")
    launch(torch, "inside")
    torch.launch(KERNEL_S, "around")


@tprof.task
def in_block(torch):
    with tprof.gpu():
        torch.launch(KERNEL_S, "in_block")


@tprof.task
def nothing():
    pass


def record(path, **options):
    return tprof.record(path, energy="none", counters="none", **options)


def segments(path):
    """Return name of the task, begin and end of each segment, by begin."""
    trace = tprof.load(path)
    names = [*(entry.name for entry in trace.tasks), None]
    found = [
        (names[min(int(task), len(trace.tasks))], int(begin), int(end))
        for part in trace.gpu.segments
        for task, begin, end in zip(part.task, part.begin_ns, part.end_ns, strict=True)
    ]
    return sorted(found, key=lambda one: one[1])


def assert_as_they_ran(path, device, names=None):
    """Compare the segments, those of one task next to each other joined, with the kernels that ran."""
    found, ran = segments(path), sorted(device.runs)
    names = names or {}
    assert [name for name, _, _ in found] == [names.get(name, name) for _, _, name in ran]
    for (_, begin, end), (ran_from, ran_to, _) in zip(found, ran, strict=True):
        assert begin <= ran_from + NEAR_NS
        assert abs(end - ran_to) < NEAR_NS


def test_asynchronous_kernels_count_for_the_task_that_launched_them(torch, device, tmp_path):
    with record(tmp_path / "t.tprof"):
        for name in ("a", "b", "c"):
            launch(torch, name)  # returns at once: three kernels wait in line
        in_block(torch)
        nothing()

    found = segments(tmp_path / "t.tprof")
    assert [name for name, _, _ in found] == ["launch", "launch", "launch", "in_block"]
    assert_as_they_ran(tmp_path / "t.tprof", device, dict.fromkeys("abc", "launch"))
    part = tprof.load(tmp_path / "t.tprof").gpu.segments[0]
    assert len(set(part.instance.tolist())) == 4
    assert part.device == (f"GPU-{UUID}", PCI)


def test_a_task_inside_takes_its_kernels_out_of_the_one_around_it(torch, device, tmp_path):
    with record(tmp_path / "t.tprof"):
        around(torch)

    assert_as_they_ran(tmp_path / "t.tprof", device, {"inside": "launch"})


def test_a_task_that_is_not_marked_counts_for_the_block_around_it(torch, tmp_path):
    @tprof.task
    def plain():
        torch.launch(KERNEL_S)

    with record(tmp_path / "t.tprof"), tprof.gpu():
        plain()

    assert [name for name, _, _ in segments(tmp_path / "t.tprof")] == [None]


def test_a_method_of_an_object_becomes_a_task_from_outside(torch, device, tmp_path):
    model = SimpleNamespace(forward=lambda name: torch.launch(KERNEL_S, name))
    model.forward = tprof.task(gpu=True, name="forward")(model.forward)
    with record(tmp_path / "t.tprof"):
        model.forward("forward")

    assert_as_they_ran(tmp_path / "t.tprof", device)


def test_the_first_work_on_a_gpu_counts_too(torch, device, tmp_path):
    """Before it there is no stream on which an event could stand."""
    torch.begun = False
    with record(tmp_path / "t.tprof"):
        launch(torch, "first")

    assert_as_they_ran(tmp_path / "t.tprof", device, {"first": "launch"})


def test_cuda_is_not_begun_for_the_sake_of_marks(torch, tmp_path):
    torch.begun = False
    with record(tmp_path / "t.tprof"), tprof.gpu():
        nothing()

    assert not torch.begun
    assert not tprof.load(tmp_path / "t.tprof").gpu


def test_streams_can_be_given(torch, device, tmp_path):
    side = torch.cuda.Stream()
    with record(tmp_path / "t.tprof"), tprof.region("both"), tprof.gpu(torch.cuda.current_stream(), side):
        torch.launch(KERNEL_S, "both")
        torch.launch(2 * KERNEL_S, "both", side)

    assert_as_they_ran(tmp_path / "t.tprof", device)
    assert len({stream for part in tprof.load(tmp_path / "t.tprof").gpu.segments for stream in part.stream}) == 2


def test_what_is_no_stream_is_refused(torch, tmp_path):
    assert torch
    with (
        record(tmp_path / "t.tprof"),
        pytest.raises(tprof.UsageError, match=r"takes streams of torch\.cuda, .* got 7"),
        tprof.gpu(7),
    ):
        pass


def test_a_block_is_entered_once_at_a_time(torch, tmp_path):
    assert torch
    block = tprof.gpu()
    with record(tmp_path / "t.tprof"), block, pytest.raises(tprof.UsageError, match="is open already"):
        block.__enter__()


@pytest.mark.parametrize("library", [FakeCuPy, FakeNumba])
def test_other_libraries_have_the_same_marks(library, device, monkeypatch, tmp_path):
    library(device, monkeypatch)
    with record(tmp_path / "t.tprof"), tprof.region("work"), tprof.gpu():
        device.launch(0, KERNEL_S, "work")

    assert_as_they_ran(tmp_path / "t.tprof", device)
    assert [part.device[0] for part in tprof.load(tmp_path / "t.tprof").gpu.segments] == [f"GPU-{UUID}"]


def test_two_libraries_on_one_stream_mark_it_once(torch, device, monkeypatch, tmp_path):
    FakeCuPy(device, monkeypatch)
    with record(tmp_path / "t.tprof"):
        in_block(torch)

    assert_as_they_ran(tmp_path / "t.tprof", device)
    assert tprof.load(tmp_path / "t.tprof").gpu.notes[0].used == ("torch", "cupy")


def test_a_stream_that_is_captured_into_a_graph_is_left_alone(torch, device, tmp_path):
    device.is_capturing = True
    device.error = AssertionError("an event would end the capture")
    with record(tmp_path / "t.tprof"):
        launch(torch, "captured")
        device.error, device.is_capturing = None, False

    note = tprof.load(tmp_path / "t.tprof").gpu.notes[0]
    assert (note.captured, note.problem) == (2, None)
    assert segments(tmp_path / "t.tprof") == []


def test_an_error_of_cuda_stays_the_programs_own(torch, device, tmp_path):
    with record(tmp_path / "t.tprof"):
        launch(torch, "good", 0.0)
        device.error = RuntimeError("CUDA error: device-side assert triggered")
        launch(torch, "bad")
        device.error = None

    note = tprof.load(tmp_path / "t.tprof").gpu.notes[0]
    assert note.problem == "RuntimeError: CUDA error: device-side assert triggered"


def test_a_library_that_raises_when_it_is_asked_is_left_alone(torch, tmp_path):
    """As one that is half imported, or replaced by a mock."""
    torch.cuda.is_initialized = None
    with record(tmp_path / "t.tprof"):
        in_block(torch)
        launch(torch, "more")

    trace = tprof.load(tmp_path / "t.tprof")
    assert trace.gpu.notes[0].problem == "TypeError: 'NoneType' object is not callable"
    assert len(trace.profile().tasks) == 2


def test_work_that_does_not_end_is_cut_off_at_the_end(torch, monkeypatch, tmp_path):
    monkeypatch.setattr("tprof.cuda.marks.LAST_S", 0.05)
    with record(tmp_path / "t.tprof"):
        launch(torch, "endless", 3600)

    trace = tprof.load(tmp_path / "t.tprof")
    assert [name for name, _, _ in segments(tmp_path / "t.tprof")] == ["launch"]
    assert trace.gpu.notes[0].lost == 1


def test_a_device_that_never_answers_gives_no_marks(torch, device, monkeypatch, tmp_path):
    monkeypatch.setattr("tprof.cuda.marks.LAST_S", 0.05)
    device.is_stuck = True
    with record(tmp_path / "t.tprof"):
        launch(torch, "mute")

    assert tprof.load(tmp_path / "t.tprof").gpu.notes[0].lost == 2


def test_threads_on_one_stream_are_noted(torch, tmp_path):
    both = threading.Barrier(2)

    @tprof.task
    def together():
        with tprof.gpu():
            both.wait()
            torch.launch(0.001)
            both.wait()

    with record(tmp_path / "t.tprof"):
        threads = [threading.Thread(target=together) for _ in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    assert tprof.load(tmp_path / "t.tprof").gpu.notes[0].overlapped


def test_threads_on_streams_of_their_own_are_kept_apart(torch, device, tmp_path):
    @tprof.task
    def alone(name):
        with torch.on(torch.cuda.Stream()), tprof.gpu():
            torch.launch(KERNEL_S, name)

    with record(tmp_path / "t.tprof"):
        threads = [threading.Thread(target=alone, args=("alone",)) for _ in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    assert_as_they_ran(tmp_path / "t.tprof", device)
    assert not tprof.load(tmp_path / "t.tprof").gpu.notes[0].overlapped


def test_many_instances_reuse_few_events(torch, tmp_path):
    made = []
    event = torch.cuda.Event
    torch.cuda.Event = lambda **options: made.append(event(**options)) or made[-1]
    with record(tmp_path / "t.tprof"):
        for _ in range(2000):
            launch(torch, "short", 0.0)

    assert len(segments(tmp_path / "t.tprof")) >= 1990  # one that took no time at all has no segment
    assert len(made) < 100


def test_the_file_holds_what_is_done_while_the_program_runs(torch, monkeypatch, tmp_path):
    monkeypatch.setattr("tprof.cuda.marks.FLUSH_NS", 0)
    with record(tmp_path / "t.tprof"):
        launch(torch, "first", 0.0)
        launch(torch, "second", 0.0)
        running = tprof.load(tmp_path / "t.tprof")

    assert sum(len(part.instance) for part in running.gpu.segments) >= 1


def test_a_forked_child_has_marks_of_its_own(torch, device, tmp_path):
    """The parent's events must not be asked there, nor its segments written twice."""
    with record(tmp_path / "t.tprof"):
        launch(torch, "before", 3 * KERNEL_S)
        child = multiprocessing.get_context("fork").Process(target=launch, args=(torch, "child"))
        child.start()
        child.join()
        launch(torch, "after")

    trace = tprof.load(tmp_path / "t.tprof")
    assert child.exitcode == 0
    assert sorted((part.process, len(part.instance)) for part in trace.gpu.segments) == [(0, 2), (1, 1)]
    assert [name for _, _, name in device.runs] == ["before", "after"]
    assert len(trace.gpu.notes) == 2
    assert len({int(one) for part in trace.gpu.segments for one in part.instance}) == 3


def test_a_child_that_exits_leaves_its_parents_marks_alone(torch, monkeypatch, tmp_path):
    at_exit = []
    registry = SimpleNamespace(register=at_exit.append, unregister=at_exit.remove)
    monkeypatch.setattr("tprof.cuda.marks.atexit", registry)
    with record(tmp_path / "t.tprof"):
        launch(torch, "parents", KERNEL_S)
        child = os.fork()
        if child == 0:
            for function in at_exit:
                function()
            os._exit(0)
        os.waitpid(child, 0)

    trace = tprof.load(tmp_path / "t.tprof")
    assert [len(part.instance) for part in trace.gpu.segments] == [1]
    assert len(trace.gpu.notes) == 1
    assert at_exit == []


def test_without_a_recording_nothing_is_marked(torch):
    torch.cuda.Event = None

    launch(torch, "unrecorded")
    in_block(torch)


def test_a_task_of_the_gpu_is_pickled_like_any_other():
    assert pickle.loads(pickle.dumps(launch)) is launch  # noqa: S301 - its own


def test_a_coroutine_or_generator_is_refused():
    with pytest.raises(TypeError, match=r"gpu=True goes on a plain function"):

        @tprof.task(gpu=True)
        async def later():
            pass


def test_hostile_lines_are_left_out(torch, tmp_path):
    with record(tmp_path / "t.tprof"):
        launch(torch, "good")
    bad = (
        "[]", "7", "{", '{"segments": 3}', '{"segments": [[1, 2, 3, 4]], "device": [], "number": 0}',
        '{"segments": [[1, 2, 3, 4, -1]], "device": [], "number": 0}',
        '{"segments": [[1, 2, 3, 4, 18446744073709551616]], "device": [], "number": 0}',
        '{"segments": [], "device": [7], "number": 0}', '{"used": 3}',
        '{"segments": [[18446744073709551615, 18446744073709551615, 1, 4294967296, 1]], "device": [], "number": 0}',
    )  # fmt: skip
    with (tmp_path / "t.tprof/gpu/00000000.jsonl").open("a") as file:
        file.write("\n".join(bad) + "\n")
    users = (
        '{"domain": "gpu-0", "since_ns": 5, "t_ns": 4, "processes": []}',
        '{"domain": "gpu-0", "since_ns": 1, "t_ns": 4, "processes": [[1, 2]]}',
        '{"domain": "gpu-0", "since_ns": 1, "t_ns": 4, "processes": [[1, 0.5], [2, null]]}',
    )
    (tmp_path / "t.tprof/gpu/processes.jsonl").write_text("\n".join(users) + "\n")

    trace = tprof.load(tmp_path / "t.tprof")

    assert "00000000.jsonl: 9 lines on GPUs are damaged, and left out" in trace.notes
    assert "processes.jsonl: 2 lines on GPUs are damaged, and left out" in trace.notes
    (users,) = trace.gpu.users
    assert (users.processes.tolist(), users.pid.tolist()) == ([2], [1, 2])
    np.testing.assert_array_equal(users.part, [0.5, np.nan])
    assert all((part.begin_ns >= 0).all() and (part.end_ns >= part.begin_ns).all() for part in trace.gpu.segments)
    assert np.isfinite(trace.profile().tasks["duration_s"]).all()


@pytest.mark.parametrize("name", ["torch", "numba.cuda"])
def test_a_real_library_that_has_used_no_gpu_has_not_begun(name, tmp_path):
    """In a process of its own: what it loads would change what other tests find imported."""
    pytest.importorskip(name.partition(".")[0], reason="the library is not installed")
    program = (
        f"import {name}\nfrom tprof.cuda.libraries import imported\nimport tprof\n"
        "print([one.name for one in imported()], [one.has_begun() for one in imported()])\n"
        f"with tprof.record({str(tmp_path / 't.tprof')!r}, energy='none', counters='none'), tprof.gpu():\n    pass\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)

    assert (done.stdout.strip(), done.returncode) == (f"['{name.partition('.')[0]}'] [False]", 0), done.stderr
