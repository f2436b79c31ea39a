"""Python imports this at the start of children of ``tprof run``; it then imports the sitecustomize that it hides."""

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def _import_hidden() -> None:
    path = [entry for entry in sys.path if Path(entry or ".").resolve() != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if "TPROF_TASKS" in os.environ:
    try:
        from tprof.launch.hook import install_from_environment
    except ImportError:
        pass  # another environment's Python, where tprof is not installed: nothing to record there
    else:
        install_from_environment()
_import_hidden()
