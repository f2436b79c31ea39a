"""Spans of OpenTelemetry as tasks: each span is an instance of the task of its name.

A span uses energy while it is the current one of a thread: while it is attached, and the thread is in a context in
which it is. The core checks this after each attach and detach, and where a thread enters a context and leaves it, as
event loops do for each step of a coroutine (csrc/binding_spans.c). A span that is never attached is not recorded.
"""

from __future__ import annotations

import warnings
from functools import wraps
from typing import TYPE_CHECKING, Any, Self

from opentelemetry import context as context_api
from opentelemetry.context.context import Context, _RuntimeContext
from opentelemetry.sdk.trace import Span, SpanProcessor
from opentelemetry.trace import INVALID_SPAN, StatusCode, set_span_in_context

from tprof import _core
from tprof.errors import UsageError
from tprof.session.process_state import this_process

from .energy import MOST_NAMES, span_energy
from .service import Labelling

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Token

    from opentelemetry.metrics import Meter

OTHERS = "<other spans>"

# Of a span: its instance, and whether it gets attributes with its energy, if that is estimated.
_ATTRIBUTE, _ATTRIBUTES = "_tprof_span", "_tprof_attributes"
_numbers: dict[str, int] = {}
_labelling = Labelling()


class SpanTasks(SpanProcessor):
    """Makes the spans of a provider tasks, by their names.

    ``provider.add_span_processor(tprof.otel.SpanTasks())``. Sampled spans that start while a recording runs are
    instances. It does nothing without a recording. Adding it twice changes nothing.

    Parameters
    ----------
    attributes
        Give each span that ends an estimate of its energy: ``tprof.energy_j``, ``tprof.cpu_s`` and
        ``tprof.energy_quality``. Child spans are left out, as nested tasks are. There is none before the process has
        used 0.1 s of CPU time.
    meter
        Where to create the metrics of `tprof.metrics.observe`.

    Examples
    --------
    >>> import tempfile, tprof, tprof.otel
    >>> from opentelemetry.sdk.trace import TracerProvider
    >>> provider = TracerProvider()
    >>> provider.add_span_processor(tprof.otel.SpanTasks())
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with tprof.record(directory + "/a.tprof", energy="estimate") as recording:
    ...         with provider.get_tracer("example").start_as_current_span("work"):
    ...             total = sum(range(1000))
    ...     recording.profile().summary().index.tolist()
    ['work']
    """

    def __init__(self, *, attributes: bool = True, meter: Meter | None = None) -> None:
        """Begin to follow OpenTelemetry's context in this process. Raises UsageError if it is not contextvars'."""
        _follow_contexts()
        self._attributes = attributes
        if meter is not None:
            from tprof.metrics import observe  # noqa: PLC0415 - NumPy, only if it is asked for

            observe(meter)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the interface's
        """Make a span an instance, while a recording runs."""
        _mark(span)
        if self._attributes and _core.generation():
            span_energy.begin()
            setattr(span, _ATTRIBUTES, True)


def follow_all_spans() -> None:
    """Make the spans of all providers tasks, as `tprof run --spans` does. Raises UsageError as `SpanTasks` does."""
    _follow_contexts()
    start = Span.start
    if hasattr(start, "__wrapped__"):
        return

    @wraps(start)
    def start_and_mark(self: Span, *args: Any, **options: Any) -> None:
        start(self, *args, **options)
        _mark(self)

    _replace("start", start_and_mark)


class _FollowedContext(_core.SpanContext, _RuntimeContext):
    """OpenTelemetry's context in this process, with a look at the current span after each change."""

    def __init__(self, followed: _RuntimeContext) -> None:
        self.get_current = followed.get_current  # type: ignore[method-assign]

    def __new__(cls, followed: _RuntimeContext) -> Self:
        return super().__new__(cls, followed.attach, followed.detach)

    def get_current(self) -> Context:
        """Return the current context; the instance has the followed one's method."""
        raise NotImplementedError


def _follow_contexts() -> None:
    context_api.get_current()  # before 1.21 it is loaded at the first use
    runtime = context_api._RUNTIME_CONTEXT  # noqa: SLF001 - what OTEL_PYTHON_CONTEXT sets has no other name
    if isinstance(runtime, _FollowedContext):
        return
    token: Token[Context] = runtime.attach(Context())
    runtime.detach(token)
    variable = getattr(token, "var", None)
    if variable is None:
        raise UsageError(
            f"tprof cannot follow spans in OpenTelemetry's context {type(runtime).__name__}: "
            "unset OTEL_PYTHON_CONTEXT, so that it is contextvars'"
        )
    (key,) = set_span_in_context(INVALID_SPAN, Context())
    try:
        follows_contexts = _core.follow_spans(variable, key, _ATTRIBUTE)
    except RuntimeError as error:
        raise UsageError(f"tprof cannot follow spans: {error}") from None
    if not follows_contexts:
        warnings.warn(
            "tprof does not know how this Python enters contexts: spans count as running while their coroutines wait",
            RuntimeWarning,
            stacklevel=3,
        )
    _replace("end", _ending(Span.end))
    _replace("update_name", _renaming(Span.update_name))
    context_api._RUNTIME_CONTEXT = _FollowedContext(runtime)  # noqa: SLF001 - see above


def _replace(name: str, method: Callable[..., None]) -> None:
    setattr(Span, name, method)


def _mark(span: Span) -> None:
    if _core.generation() and _ATTRIBUTE not in vars(span):
        setattr(span, _ATTRIBUTE, _core.Span(_number_of(span.name)))
        _labelling.label(span)
        if this_process.shows_metrics:
            span_energy.begin()
            setattr(span, _ATTRIBUTES, False)


def _number_of(name: str) -> int:
    number = _numbers.get(name)
    if number is None:
        shown = name if len(_numbers) < MOST_NAMES else OTHERS
        number = _numbers.get(shown)
        if number is None:
            number = _numbers.setdefault(shown, this_process.tasks.define(str(shown), file=None, line=None, code=None))
    return number


def _ending(end: Callable[..., None]) -> Callable[..., None]:
    @wraps(end)
    def end_instance(self: Span, *args: Any, **options: Any) -> None:
        instance: _core.Span | None = getattr(self, _ATTRIBUTE, None)
        if instance is not None and self.is_recording():
            instance.finish(self.status.status_code is StatusCode.ERROR)
            attributes: bool | None = getattr(self, _ATTRIBUTES, None)
            if attributes is not None:
                span_energy.end(self, instance, attributes=attributes)
        end(self, *args, **options)

    return end_instance


def _renaming(update_name: Callable[..., None]) -> Callable[..., None]:
    @wraps(update_name)
    def rename_instance(self: Span, *args: Any, **options: Any) -> None:
        update_name(self, *args, **options)
        instance: _core.Span | None = getattr(self, _ATTRIBUTE, None)
        if instance is not None:
            instance.rename(_number_of(self.name))

    return rename_instance
