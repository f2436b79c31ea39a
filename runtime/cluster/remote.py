"""What dask's workers run: a call of a task, on copies of the arrays that it writes.

Each worker process has a thread runtime of its own for the calls, so that tasks may spawn tasks, wait and use groups
as everywhere. It ends with the runtime of the program.
"""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import numpy as np
from tprof.runtime.runtime import Runtime

from tprof.errors import TprofError
from tprof.sensors.choose import sysroot
from tprof.sensors.topology import boot_id, host_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from tprof.runtime.policy import Policy
    from tprof.runtime.policy.power_limiter import PowerLimiter
    from tprof.runtime.policy.shared_cap import HostPower

_PLAIN = (int, float, complex, bool, str, bytes, type(None))
_NOT_PICKLED = (TypeError, ValueError, AttributeError, NotImplementedError, RecursionError, pickle.PicklingError)


class Source(NamedTuple):
    """Where the value of an argument comes from.

    Attributes
    ----------
    input : which of the call's inputs; -1: the task writes all of the array, and gets one without content.
    place : its place among the arrays that another task wrote; None: the input itself.
    takes_result : whether it is what another task returned.
    is_written : whether the task writes it, and so needs a copy of its own.
    form : shape, strides and dtype of an array without content.
    """

    input: int = -1
    place: int | None = None
    takes_result: bool = False
    is_written: bool = False
    form: tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]] | None = None

    def value(self, inputs: tuple[Any, ...]) -> Any:
        """Return the array, or the result of another task."""
        if self.form is not None:
            return _empty(*self.form)
        value = inputs[self.input]
        if self.takes_result:
            return result_of(value)
        if self.place is not None:
            value = arrays_of(value)[self.place]
        return np.copy(value, order="K") if self.is_written else value


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a task; opaque to dask, which would look for its own tasks in tuples.

    Attributes
    ----------
    runtime : identity of the program's runtime.
    library_threads : how many threads BLAS and OpenMP may use in a task; None: any number.
    function : the task.
    args, kwargs : the arguments; None in place of what `places` has.
    sources : of arrays and results.
    places : the index of the source for each argument, or item of a list, by its place.
    """

    runtime: str
    library_threads: int | None
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    sources: tuple[Source, ...]
    places: dict[tuple[int | str, ...], int]

    def check_sendable(self, name: str) -> None:
        """Raise TypeError if the task or an argument cannot be pickled, which dask would only say of all together."""
        try:
            _pickle(self.function)
        except _NOT_PICKLED as error:
            raise TypeError(
                f"task {name} cannot be sent to a worker ({error}): workers import it by its module and name, so "
                "decorate it where it is defined"
            ) from error
        arguments: list[tuple[int | str, Any]] = [*enumerate(self.args), *self.kwargs.items()]
        for at, value in arguments:
            try:
                if type(value) not in _PLAIN:
                    _pickle(value)
            except _NOT_PICKLED as error:
                which = at if isinstance(at, str) else f"argument {at + 1}"
                raise TypeError(f"{which} of {name} cannot be sent to a worker: {error}") from error


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, content: bytes) -> int:
        """Return the length."""
        return len(content)


def _pickle(value: object) -> None:
    """Pickle as dask would, without copying the content of arrays."""
    cloudpickle.Pickler(_Nowhere(), 5, buffer_callback=_keep_out).dump(value)


def _keep_out(_: object) -> None:
    """Leave a buffer out of the pickle."""


def execute(call: Call, *inputs: Any) -> tuple[Any, ...] | list[Any]:
    """Call the task; returns its result and the arrays that it wrote, or a list of the arrays if the result is None."""
    values = [source.value(inputs) for source in call.sources]
    arguments: dict[int | str, Any] = dict(enumerate(call.args))
    arguments.update(call.kwargs)
    for path, source in call.places.items():
        _put(arguments, path, values[source])
    args = [arguments.pop(at) for at in range(len(call.args))]
    kwargs = {str(name): value for name, value in arguments.items()}
    result = _runtime_of(call).submit(call.function, *args, **kwargs).result()
    written = [value for value, source in zip(values, call.sources, strict=True) if source.is_written]
    return written if result is None else (result, *written)


def arrays_of(outcome: tuple[Any, ...] | list[Any]) -> tuple[Any, ...] | list[Any]:
    """Return the arrays in what `execute` returned."""
    return outcome if isinstance(outcome, list) else outcome[1:]


def result_of(outcome: tuple[Any, ...] | list[Any]) -> Any:
    """Return the result in what `execute` returned."""
    return None if isinstance(outcome, list) else outcome[0]


def array_of(outcome: tuple[Any, ...] | list[Any], place: int) -> Any:
    """Return one of the arrays in what `execute` returned."""
    return arrays_of(outcome)[place]


def nothing(*_: object) -> None:
    """Stand for the ends of tasks, where only these matter."""


def close(runtime: str) -> None:
    """End this process's thread runtime for the calls of a program's runtime."""
    with _lock:
        _closed.add(runtime)
        local = _runtimes.pop(runtime, None)
    if local is not None:
        local.__exit__(None, None, None)


def host_of_worker() -> str:
    """Return the name and the boot identity of this process's host."""
    return f"{host_name(sysroot())} {boot_id(sysroot())}"


def open_with_policy(runtime: str, library_threads: int | None, policy: Policy) -> TprofError | None:
    """Begin this process's thread runtime with a policy on the host's frequencies; returns why it could not."""
    try:
        _open(runtime, library_threads, policy)
    except TprofError as error:
        return error
    return None


def host_power(runtime: str) -> HostPower | None:
    """Return what the limiter of this host's cap knows; None without one."""
    with _lock:
        local = _runtimes.get(runtime)
    limiter = None if local is None else local.limiter
    return None if limiter is None else limiter.state()


def keep_cap(runtime: str, parts_w: dict[str, float], dask_worker: Any) -> None:
    """Keep this host's part of a cap from now on; dask passes the worker."""
    with _lock:
        local = _runtimes.get(runtime)
    limiter = None if local is None else local.limiter
    if limiter is not None:
        limiter.keep(parts_w[dask_worker.address])


class _LocalRuntime(Runtime):
    """Runs the calls of one program's runtime; calls of tasks elsewhere in this process stay plain calls."""

    takes_calls = False

    @property
    def limiter(self) -> PowerLimiter | None:
        """What keeps this host's part of a cap."""
        return None if self._operator is None else self._operator.limiter


_lock = threading.Lock()
_runtimes: dict[str, _LocalRuntime] = {}
_closed: set[str] = set()


def _runtime_of(call: Call) -> _LocalRuntime:
    with _lock:
        local = _runtimes.get(call.runtime)
    return _open(call.runtime, call.library_threads, None) if local is None else local


def _open(runtime: str, library_threads: int | None, policy: Policy | None) -> _LocalRuntime:
    with _lock:
        if runtime in _closed:
            raise RuntimeError("the program's runtime has ended")
        local = _runtimes.get(runtime)
        if local is None:
            local = _LocalRuntime(_threads(), pin=False, library_threads=library_threads, policy=policy)
            _runtimes[runtime] = local.__enter__()
    return local


def _threads() -> int:
    from distributed import Worker, get_worker  # noqa: PLC0415 - loaded in every worker

    try:
        return int(get_worker().state.nthreads)
    except ValueError:  # outside a task
        return max(int(worker.state.nthreads) for worker in Worker._instances)  # noqa: SLF001 - dask's own list


def _put(arguments: dict[int | str, Any], path: tuple[int | str, ...], value: Any) -> None:
    """Put a value in its place; lists were copied with the call."""
    target: Any = arguments
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value


def _empty(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array whose dimensions have the order in memory that these strides have."""
    order = sorted(range(len(shape)), key=lambda at: -abs(strides[at]))
    packed: NDArray[Any] = np.empty([shape[at] for at in order], dtype)
    return packed.transpose(np.argsort(order)) if order else packed
