"""Modules in the place of torch, cupy and numba.cuda, over one GPU whose joules are known.

The GPU runs what a test launches, in order, by the clock of the host; its own clock has another zero.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from .fake_nvml import FakeGpu

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

UUID = "11111111-2222-3333-4444-555555555555"
PCI = "00000000:c1:00.0"
ZERO_NS = 123_456_789_000
"""Of the device's clock, less than the host's."""
IDLE_W, BUSY_W = 50.0, 350.0


class FakeDevice:
    """A GPU: streams that run kernels, each when those before it on the stream have ended.

    Attributes
    ----------
    runs : (begin, end, name) of each kernel, by the host's clock.
    error : raised by what is recorded or asked; None: nothing.
    is_stuck : whether no event is ever done.
    """

    def __init__(self) -> None:
        self.runs: list[tuple[int, int, str]] = []
        self.free_ns: dict[int, int] = {}
        self.streams = 0
        self.error: Exception | None = None
        self.is_stuck = self.is_capturing = False
        self.begun_ns = time.monotonic_ns()
        self._lock = threading.Lock()

    def next_ns(self, stream: int) -> int:
        """Return when the stream comes to what is put on it now."""
        return max(time.monotonic_ns(), self.free_ns.get(stream, 0))

    def launch(self, stream: int, seconds: float, name: str) -> None:
        """Put a kernel on a stream; returns at once."""
        with self._lock:
            begin_ns = self.next_ns(stream)
            self.free_ns[stream] = begin_ns + round(seconds * 1e9)
            self.runs.append((begin_ns, self.free_ns[stream], name))

    def busy_ns(self, until_ns: int, name: str | None = None) -> int:
        """Return how long kernels ran until a time; those of the streams of a test do not overlap."""
        return sum(max(min(end, until_ns) - begin, 0) for begin, end, one in self.runs if name in {None, one})

    def energy_mj(self, now_ns: int) -> int:
        """Return the count."""
        return int(((now_ns - self.begun_ns) * IDLE_W + self.busy_ns(now_ns) * (BUSY_W - IDLE_W)) * 1e-6)

    def check(self) -> None:
        """Raise the error, if there is one."""
        if self.error is not None:
            raise self.error


class CountingGpu(FakeGpu):
    """The device as NVML shows it; its count is updated every 10 ms."""

    device: FakeDevice

    @property
    def energy_mj(self) -> int:
        """The count at the last update."""
        return self.device.energy_mj(time.monotonic_ns() // 10_000_000 * 10_000_000)

    @energy_mj.setter
    def energy_mj(self, value: int | None) -> None:
        """The class above sets one."""


def counting(device: FakeDevice) -> CountingGpu:
    """Return the device as NVML shows it."""
    gpu = CountingGpu(f"GPU-{UUID}")
    gpu.device = device
    return gpu


class _Event:
    def __init__(self, device: FakeDevice) -> None:
        self.device, self.t_ns = device, 0

    def put(self, stream: int) -> None:
        self.device.check()
        self.t_ns = self.device.next_ns(stream)

    def is_done(self) -> bool:
        self.device.check()
        return not self.device.is_stuck and time.monotonic_ns() >= self.t_ns

    def ms_until(self, other: _Event) -> float:
        assert self.is_done()
        assert other.is_done()
        return ((other.t_ns - ZERO_NS) - (self.t_ns - ZERO_NS)) * 1e-6


class FakeTorch(ModuleType):
    """The module `torch`, as far as tprof uses it, and `launch` for tests."""

    def __init__(self, device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__("torch")
        self.device, self.begun = device, True
        self._current = threading.local()
        outer = self

        class Stream:
            def __init__(self, device: int = 0, priority: int = 0) -> None:
                del priority
                outer.device.streams += 1
                self.device, self.cuda_stream = SimpleNamespace(index=device), outer.device.streams

        class Event(_Event):
            def __init__(self, *, enable_timing: bool = False) -> None:
                assert enable_timing
                super().__init__(outer.device)

            def record(self, stream: Stream) -> None:
                self.put(stream.cuda_stream)

            def query(self) -> bool:
                return self.is_done()

            def elapsed_time(self, end: Event) -> float:
                return self.ms_until(end)

        default = Stream()
        default.cuda_stream = 0
        self._default = default
        self.cuda = SimpleNamespace(
            Stream=Stream,
            Event=Event,
            current_stream=lambda: getattr(self._current, "stream", default),
            is_initialized=lambda: self.begun,
            is_current_stream_capturing=lambda: device.is_capturing,
            get_device_properties=lambda _: SimpleNamespace(
                uuid=UUID, pci_domain_id=0, pci_bus_id=0xC1, pci_device_id=0
            ),
        )
        monkeypatch.setitem(sys.modules, "torch", self)

    @contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        """Let the calling thread launch on a stream."""
        self._current.stream = stream
        yield
        self._current.stream = self._default

    def launch(self, seconds: float, name: str = "kernel", stream: Any = None) -> None:
        """Launch a kernel; this begins with CUDA."""
        self.begun = True
        self.device.launch((stream or self.cuda.current_stream()).cuda_stream, seconds, name)


class FakeCuPy(ModuleType):
    """The module `cupy`, as far as tprof uses it."""

    def __init__(self, device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__("cupy")
        outer = device

        class Stream:
            def __init__(self, *, non_blocking: bool = False) -> None:
                outer.streams += 1
                self.ptr, self.device_id = outer.streams if non_blocking else 0, -1

            def is_capturing(self) -> bool:
                return outer.is_capturing

        class Event(_Event):
            def __init__(self) -> None:
                super().__init__(outer)

            def record(self, stream: Stream) -> None:
                self.put(stream.ptr)

            @property
            def done(self) -> bool:
                return self.is_done()

        class Device:
            def __init__(self, number: int) -> None:
                assert number == 0

            def __enter__(self) -> None:
                """Choose it."""

            def __exit__(self, *_: object) -> None:
                """Choose the one before."""

        self.cuda = SimpleNamespace(
            Stream=Stream,
            Event=Event,
            Device=Device,
            get_current_stream=Stream,
            get_elapsed_time=lambda begin, end: begin.ms_until(end),
            runtime=SimpleNamespace(
                getDevice=lambda: 0,
                getDeviceProperties=lambda _: {
                    "uuid": bytes.fromhex(UUID.replace("-", "")),
                    "pciDomainID": 0,
                    "pciBusID": 0xC1,
                    "pciDeviceID": 0,
                },
            ),
        )
        monkeypatch.setitem(sys.modules, "cupy", self)


class _Gpus(list[Any]):
    """Numba's list of devices, whose `lst` is there once it was needed."""

    def __init__(self, gpu: Any) -> None:
        super().__init__([gpu])
        self.lst = [gpu]


class FakeNumba(ModuleType):
    """The module `numba.cuda`, as far as tprof uses it."""

    def __init__(self, device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__("numba.cuda")
        outer = device

        class Stream:
            def __init__(self, number: int) -> None:
                self.number = number

            def __int__(self) -> int:
                return self.number

        Stream.__module__ = "numba.cuda.cudadrv.driver"

        class Event(_Event):
            def __init__(self) -> None:
                super().__init__(outer)

            def record(self, stream: Stream) -> None:
                self.put(stream.number)

            def query(self) -> bool:
                return self.is_done()

        class Gpu:
            id, uuid, primary_context = 0, f"GPU-{UUID}", "one"

            def __enter__(self) -> None:
                """Choose it."""

            def __exit__(self, *_: object) -> None:
                """Choose the one before."""

        def stream() -> Stream:
            outer.streams += 1
            return Stream(outer.streams)

        self.event, self.stream, self.default_stream = Event, stream, lambda: Stream(0)
        self.event_elapsed_time = lambda begin, end: begin.ms_until(end)
        self.get_current_device, self.gpus = Gpu, _Gpus(Gpu())
        monkeypatch.setitem(sys.modules, "numba.cuda", self)
