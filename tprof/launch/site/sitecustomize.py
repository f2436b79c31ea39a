"""Python imports this at the start of children of ``tprof run``; it then imports the sitecustomize that it hides."""

import os
import sys
from importlib.machinery import PathFinder

_HERE = os.path.realpath(f"{__file__}/..")


def _import_hidden() -> None:
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


# A child searches where it would by itself. Its own children find this folder by the environment.
sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") != _HERE]
if "TPROF_TASKS" in os.environ:
    try:
        from tprof.launch.descendants import install_from_environment
    except ImportError:
        pass  # another environment's Python, where tprof is not installed: nothing to record there
    else:
        install_from_environment()
_import_hidden()
