"""tprof: the energy of every task of a parallel Python program.

General layout: this package records (`task`, `recording`, `membership`, the sensors, the native core) and
reads and writes traces (`trace`). `tprof.analysis` makes profiles of traces; it is imported at first use,
since importing pandas takes longer than many programs run.

PYTEST_DONT_REWRITE: pytest rewrites the packages that bring it a plugin, and would warn where a recorded run of tests
has imported this one before.
"""

from __future__ import annotations

import os as _os

from tprof import distribution as _distribution

try:
    from tprof import _core as _core
except ImportError:
    from importlib.util import find_spec as _find_spec

    if _find_spec("tprof._core") is not None:
        raise
    _message = "tprof was imported from its source folder, which has no compiled core: install it, or leave the folder"
    raise ImportError(_message) from None

from tprof.errors import BudgetExceededError, SensorError, TprofError, TraceError, UsageError
from tprof.lazy_names import lazy_names as _lazy_names
from tprof.session.process_state import SESSION as _SESSION
from tprof.task import region, task

TYPE_CHECKING = False  # `typing` takes longer to import than all of this package does
if TYPE_CHECKING:
    from tprof.budgets import Budget, budget
    from tprof.comparison import compare
    from tprof.cuda import gpu
    from tprof.session.labels import label
    from tprof.session.recording import Recording, record
    from tprof.trace import ClusterTrace, Trace, load, write_trace

__all__ = [
    "Budget",
    "BudgetExceededError",
    "ClusterTrace",
    "Recording",
    "SensorError",
    "TprofError",
    "Trace",
    "TraceError",
    "UsageError",
    "budget",
    "compare",
    "gpu",
    "label",
    "load",
    "record",
    "region",
    "task",
    "write_trace",
]

_load = _lazy_names(
    __name__,
    {
        "Budget": "budgets",
        "budget": "budgets",
        "compare": "comparison",
        "gpu": "cuda",
        "label": "session.labels",
        "Recording": "session.recording",
        "record": "session.recording",
        "ClusterTrace": "trace",
        "Trace": "trace",
        "load": "trace",
        "write_trace": "trace",
        "load_ipython_extension": "notebook",
        "unload_ipython_extension": "notebook",
    },
)


def __getattr__(name: str) -> object:
    """Load names for recording and reading at first use: a program that only has tasks starts sooner."""
    return _distribution.version() if name == "__version__" else _load(name)


def __dir__() -> list[str]:
    return sorted(__all__)


if _SESSION in _os.environ:
    from tprof.session.children import join_from_environment as _join

    _join()
