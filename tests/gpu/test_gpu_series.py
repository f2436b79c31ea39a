"""`tprof validate --gpu`, on a fake GPU; where there is none it says so in a sentence."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
from support.command_line import tprof as run_tprof
from support.fake_cuda import BUSY_W, IDLE_W, FakeDevice, FakeTorch, counting
from support.fake_nvml import FakeNvml
from tprof.benchmarks.validation import gpu_series
from tprof.benchmarks.validation.validation_text import gpu_series as table_of

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


def test_windows_are_compared_with_the_counter_read_by_hand(gpu):
    rows = gpu_series.measure(gpu, sizes=(1, 2), seconds=0.5, idle_s=0.3, progress=lambda *_: None)

    assert [row["size"] for row in rows] == [1, 2]
    for row in rows:
        assert row["tprof_j"] == pytest.approx(row["by_hand_j"], rel=0.1)
        assert row["above_idle_j"] == pytest.approx(row["by_hand_j"] - IDLE_W * row["seconds"], rel=0.1)
        assert row["tasks_j"] <= (BUSY_W - IDLE_W) * row["seconds"] * 1.1
        assert row["zeus_j"] is None
    assert "Expected: within 2 %" in table_of(rows).note


def test_zeus_measures_the_same_windows(gpu, monkeypatch):
    asked = []

    class ZeusMonitor:
        def __init__(self, gpu_indices, sync_execution_with) -> None:
            asked.append((gpu_indices, sync_execution_with))

        def begin_window(self, name):
            asked.append(name)

        def end_window(self, name):
            asked.append(name)
            return SimpleNamespace(total_energy=7.0)

    for name, module in (("zeus", ModuleType("zeus")), ("zeus.monitor", ModuleType("zeus.monitor"))):
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["zeus.monitor"].ZeusMonitor = ZeusMonitor

    rows = gpu_series.measure(gpu, sizes=(1,), seconds=0.2, idle_s=0.3, progress=lambda *_: None)

    assert asked == [([0], "torch"), "1", "1"]
    assert rows[0]["zeus_j"] == 7.0


def test_a_gpu_without_a_count_is_refused(gpu, monkeypatch):
    from support.fake_nvml import FakeGpu  # noqa: PLC0415 - the one test that needs another GPU

    FakeNvml(FakeGpu("GPU-old", energy_mj=None)).install(monkeypatch)

    with pytest.raises(UsageError, match="needs a GPU with a count of energy"):
        gpu_series.measure(gpu, sizes=(1,), progress=lambda *_: None)


def test_without_a_library_it_says_what_to_install(gpu, monkeypatch):
    assert gpu
    monkeypatch.setattr(gpu_series, "find_spec", lambda _: None)

    with pytest.raises(UsageError, match=r"pip install torch"):
        gpu_series.measure(progress=lambda *_: None)


def test_without_a_gpu_it_says_so_in_a_sentence(tmp_path):
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        pass
    else:
        pynvml.nvmlShutdown()
        pytest.skip("this machine has an NVIDIA driver")

    done = run_tprof("validate", "--gpu", cwd=tmp_path)

    assert done.returncode == 2
    assert "tprof validate --gpu needs an NVIDIA GPU, and there is none to use here: cannot read" in done.stderr
    assert "Traceback" not in done.stderr
