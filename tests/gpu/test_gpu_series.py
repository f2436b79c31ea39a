"""`scripts/bench validate --gpu`, on a fake GPU; where there is none it says so in a sentence."""

import sys
from statistics import median
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pytest
from support.command_line import bench as run_bench
from support.fake_cuda import BUSY_W, IDLE_W, FakeDevice, FakeTorch, counting
from support.fake_nvml import FakeGpu, FakeNvml

from benchmarks.validation import gpu_series
from benchmarks.validation.validation_text import gpu_series as table_of
from tprof.errors import UsageError


class FakeWork:
    """Products that take a millisecond."""

    def __init__(self, torch, device) -> None:
        self.torch, self.device, self.size = torch, device, 0

    def prepare(self, size):
        self.size = size

    def multiply(self):
        self.torch.launch(0.001 * self.size, str(self.size))

    def wait(self):
        event = self.torch.cuda.Event(enable_timing=True)
        event.record(self.torch.cuda.current_stream())
        while not event.query():
            pass


@pytest.fixture
def gpu(monkeypatch):
    """Put a GPU into the place of NVML's and PyTorch's."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    device = FakeDevice()
    FakeNvml(counting(device)).install(monkeypatch)
    return FakeWork(FakeTorch(device, monkeypatch), device)


class ZeusMonitor:
    """In the place of Zeus': each window has seven joules."""

    asked: ClassVar[list[object]] = []

    def __init__(self, gpu_indices, sync_execution_with) -> None:
        self.asked[:] = [(gpu_indices, sync_execution_with)]

    def begin_window(self, name):
        self.asked.append(name)

    def end_window(self, name):
        self.asked.append(name)
        return SimpleNamespace(total_energy=7.0)


def test_windows_are_compared_with_the_counter_read_by_hand_and_with_zeus(gpu, monkeypatch):
    for name in ("zeus", "zeus.monitor"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["zeus.monitor"].ZeusMonitor = ZeusMonitor

    rows = gpu_series.measure(gpu, sizes=(1, 2, 3), seconds=0.3, idle_s=0.3, progress=lambda *_: None)

    assert [(row["size"], row["zeus_j"]) for row in rows] == [(1, 7.0), (2, 7.0), (3, 7.0)]
    assert ZeusMonitor.asked == [([0], "torch"), "1", "1", "2", "2", "3", "3"]
    # A busy machine reads late now and then.
    assert median(row["tprof_j"] / row["by_hand_j"] for row in rows) == pytest.approx(1, rel=0.2)
    assert median(row["above_idle_j"] + IDLE_W * row["seconds"] - row["by_hand_j"] for row in rows) == pytest.approx(
        0, abs=0.2 * median(row["by_hand_j"] for row in rows)
    )
    assert median(row["tasks_j"] / row["seconds"] for row in rows) <= (BUSY_W - IDLE_W) * 1.2
    assert "Expected: within 2 %" in table_of(rows).note


def test_without_zeus_its_column_is_empty(monkeypatch):
    monkeypatch.setattr(gpu_series, "find_spec", lambda _: None)

    assert gpu_series._Zeus("torch", 0).end("1") is None  # noqa: SLF001 - the one part that does without


@pytest.mark.parametrize(
    ("gpus", "words"),
    [((FakeGpu("GPU-old", energy_mj=None),), "needs a GPU with a count of energy"), ((), "pip install torch")],
)
def test_what_cannot_be_measured_is_refused(gpu, monkeypatch, gpus, words):
    """A GPU of before Volta; and a GPU, but no library to work on it."""
    if gpus:
        FakeNvml(*gpus).install(monkeypatch)
    monkeypatch.setattr(gpu_series, "find_spec", lambda _: None)

    with pytest.raises(UsageError, match=words):
        gpu_series.measure(gpu if gpus else None, sizes=(1,), progress=lambda *_: None)


def test_without_a_gpu_it_says_so_in_a_sentence(tmp_path):
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        pass
    else:
        pynvml.nvmlShutdown()
        pytest.skip("this machine has an NVIDIA driver")

    done = run_bench("validate", "--gpu", cwd=tmp_path)

    assert done.returncode == 2
    assert "scripts/bench validate --gpu needs an NVIDIA GPU, and none can be used here: cannot read" in done.stderr
    assert "Traceback" not in done.stderr
