"""CUDA events of the libraries that the program has imported: PyTorch, CuPy and Numba.

None is imported here, and none is made to begin with CUDA: what has not begun has no work on a GPU. PyTorch's module is
called `torch.cuda` with AMD's GPUs too.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Iterator


class Stream(NamedTuple):
    """A queue of work on a device.

    Attributes
    ----------
    device : its number in this process.
    number : CUDA's pointer; 0 is the default stream.
    handle : the library's object.
    """

    device: int
    number: int
    handle: Any


class Library(Protocol):
    """What is needed of a library; an event's times are in its device's own clock."""

    name: str

    def has_begun(self) -> bool:
        """Return whether the process has begun to use CUDA through it."""

    def current(self) -> Stream:
        """Return the stream on which the calling thread launches."""

    def stream(self, handle: Any) -> Stream | None:
        """Return the stream of one of its objects; None: it is none of its own."""

    def private(self, device: int) -> Stream:
        """Return a new stream that waits for no other."""

    def is_capturing(self, stream: Stream) -> bool:
        """Return whether work on it goes into a graph now, so that no event has a time."""

    def record(self, event: Any, stream: Stream) -> Any:
        """Record an event, a new one if it is None, behind the work that is on the stream; returns it."""

    def is_done(self, event: Any) -> bool:
        """Return whether the device has come to it."""

    def elapsed_ms(self, begin: Any, end: Any) -> float:
        """Return the time between two events that are done."""

    def device_names(self, device: int) -> tuple[str, ...]:
        """Return the device's UUID and PCI address as NVML writes them, as far as they are known."""


class Torch:
    """PyTorch."""

    name = "torch"

    def __init__(self, module: Any) -> None:
        """Take the imported module."""
        self._cuda = module.cuda

    def has_begun(self) -> bool:
        """As `Library`."""
        return bool(self._cuda.is_initialized())

    def current(self) -> Stream:
        """As `Library`."""
        return self._of(self._cuda.current_stream())

    def stream(self, handle: Any) -> Stream | None:
        """As `Library`."""
        return self._of(handle) if hasattr(handle, "cuda_stream") else None

    def _of(self, handle: Any) -> Stream:
        return Stream(int(handle.device.index), int(handle.cuda_stream), handle)

    def private(self, device: int) -> Stream:
        """As `Library`."""
        return self._of(self._cuda.Stream(device, priority=-1))  # of a pool that programs seldom use

    def is_capturing(self, stream: Stream) -> bool:
        """As `Library`: of the current stream, the only one of which PyTorch tells it."""
        # In this order: PyTorch takes ten times as long to give its current stream.
        return bool(self._cuda.is_current_stream_capturing()) and stream.number == self.current().number

    def record(self, event: Any, stream: Stream) -> Any:
        """As `Library`."""
        event = self._cuda.Event(enable_timing=True) if event is None else event
        event.record(stream.handle)
        return event

    def is_done(self, event: Any) -> bool:
        """As `Library`."""
        return bool(event.query())

    def elapsed_ms(self, begin: Any, end: Any) -> float:
        """As `Library`."""
        return float(begin.elapsed_time(end))

    def device_names(self, device: int) -> tuple[str, ...]:
        """As `Library`; older versions know neither."""
        properties = self._cuda.get_device_properties(device)
        names = (_uuid(str(properties.uuid)),) if hasattr(properties, "uuid") else ()
        if not hasattr(properties, "pci_bus_id"):
            return names
        return (*names, _pci(properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id))


class CuPy:
    """CuPy, which has begun once it is imported."""

    name = "cupy"

    def __init__(self, module: Any) -> None:
        """Take the imported module."""
        self._cuda = module.cuda

    def has_begun(self) -> bool:
        """As `Library`."""
        return True

    def current(self) -> Stream:
        """As `Library`."""
        return self._of(self._cuda.get_current_stream())

    def stream(self, handle: Any) -> Stream | None:
        """As `Library`."""
        return self._of(handle) if hasattr(handle, "ptr") else None

    def _of(self, handle: Any) -> Stream:
        device = int(getattr(handle, "device_id", -1))
        return Stream(self._cuda.runtime.getDevice() if device < 0 else device, int(handle.ptr), handle)

    def private(self, device: int) -> Stream:
        """As `Library`."""
        with self._cuda.Device(device):
            return self._of(self._cuda.Stream(non_blocking=True))

    def is_capturing(self, stream: Stream) -> bool:
        """As `Library`."""
        return hasattr(stream.handle, "is_capturing") and bool(stream.handle.is_capturing())

    def record(self, event: Any, stream: Stream) -> Any:
        """As `Library`."""
        with self._cuda.Device(stream.device):
            event = self._cuda.Event() if event is None else event
            event.record(stream.handle)
        return event

    def is_done(self, event: Any) -> bool:
        """As `Library`."""
        return bool(event.done)

    def elapsed_ms(self, begin: Any, end: Any) -> float:
        """As `Library`."""
        return float(self._cuda.get_elapsed_time(begin, end))

    def device_names(self, device: int) -> tuple[str, ...]:
        """As `Library`."""
        properties = self._cuda.runtime.getDeviceProperties(device)
        pci = _pci(properties["pciDomainID"], properties["pciBusID"], properties["pciDeviceID"])
        uuid = properties.get("uuid")
        return (_uuid(str(UUID(bytes=uuid))), pci) if isinstance(uuid, bytes) and len(uuid) == 16 else (pci,)


class Numba:
    """Numba, which knows no current stream: work goes to the default one, unless a stream is given."""

    name = "numba"

    def __init__(self, module: Any) -> None:
        """Take the imported module `numba.cuda`."""
        self._cuda = module

    def has_begun(self) -> bool:
        """As `Library`."""
        # The list of devices is made when it is first needed, and each has a context once it is used.
        gpus = getattr(self._cuda.gpus, "__dict__", {}).get("lst", ())
        return any(getattr(one, "primary_context", None) is not None for one in gpus)

    def current(self) -> Stream:
        """As `Library`."""
        return self._of(self._cuda.default_stream())

    def stream(self, handle: Any) -> Stream | None:
        """As `Library`."""
        return self._of(handle) if type(handle).__module__.startswith("numba") else None

    def _of(self, handle: Any) -> Stream:
        return Stream(int(self._cuda.get_current_device().id), int(handle), handle)

    def private(self, device: int) -> Stream:
        """As `Library`."""
        with self._cuda.gpus[device]:
            return self._of(self._cuda.stream())

    def is_capturing(self, stream: Stream) -> bool:
        """As `Library`: Numba has no graphs."""
        del stream
        return False

    def record(self, event: Any, stream: Stream) -> Any:
        """As `Library`."""
        event = self._cuda.event() if event is None else event
        event.record(stream.handle)
        return event

    def is_done(self, event: Any) -> bool:
        """As `Library`."""
        return bool(event.query())

    def elapsed_ms(self, begin: Any, end: Any) -> float:
        """As `Library`."""
        return float(self._cuda.event_elapsed_time(begin, end))

    def device_names(self, device: int) -> tuple[str, ...]:
        """As `Library`."""
        with self._cuda.gpus[device]:
            uuid = getattr(self._cuda.get_current_device(), "uuid", None)
        return () if uuid is None else (_uuid(str(uuid)),)


_KINDS: tuple[tuple[str, type[Torch | CuPy | Numba]], ...] = (("torch", Torch), ("cupy", CuPy), ("numba.cuda", Numba))
_made: dict[str, tuple[Any, Library]] = {}


def imported() -> Iterator[Library]:
    """Return the libraries that the program has imported, PyTorch first."""
    for name, kind in _KINDS:
        module = sys.modules.get(name)
        if module is None or (name != "numba.cuda" and not hasattr(module, "cuda")):
            continue
        made = _made.get(name)
        if made is None or made[0] is not module:
            made = _made[name] = (module, kind(module))
        yield made[1]


def _uuid(text: str) -> str:
    return text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"


def _pci(domain: int, bus: int, device: int) -> str:
    return f"{domain:08x}:{bus:02x}:{device:02x}.0"
