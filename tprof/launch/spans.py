"""`tprof run --spans`: makes the spans of OpenTelemetry tasks in a program that does not name tprof."""

from __future__ import annotations

import importlib.abc
import sys
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError

if TYPE_CHECKING:
    import types
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec

_SDK = "opentelemetry.sdk.trace"


class _AfterImport(importlib.abc.MetaPathFinder):
    """Delegates to the other finders, and follows spans as soon as the SDK has been imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the SDK with a loader that follows spans; None for any other module."""
        if name != _SDK:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _follow_after(spec.loader)
                return spec
        return None


def follow_spans() -> None:
    """Make spans tasks, now or as soon as the program imports OpenTelemetry's SDK."""
    if _SDK in sys.modules:
        _follow()
    else:
        sys.meta_path.insert(0, _AfterImport())


def _follow_after(loader: Any) -> None:
    execute = loader.exec_module

    def execute_and_follow(module: types.ModuleType) -> None:
        execute(module)
        _follow()

    loader.exec_module = execute_and_follow


def _follow() -> None:
    try:
        from tprof.otel import follow_all_spans

        follow_all_spans()
    except (TprofError, ImportError) as error:
        print(f"tprof: {error}; spans are not recorded", file=sys.stderr)
