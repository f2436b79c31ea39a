"""The distribution of this package, and the check that another one has not overwritten it.

The package index has another `tprof`, a targeting profiler, which also installs a folder and a command `tprof`.
Installers let the later of two distributions overwrite the files of the earlier one, and no metadata forbids it.
"""

import sys

NAME = "tprof-energy"
"""The name for `pip install`; the imported package is `tprof`."""


def version() -> str:
    """Return the version that is installed."""
    from tprof import _core  # noqa: PLC0415 - in a damaged package it may be missing

    return _core.VERSION  # the metadata have it too, and take longer to read than all of `import tprof`


def is_whole() -> bool:
    """Return whether the imported package has this distribution's `__init__`, which imports this module."""
    return hasattr(sys.modules["tprof"], "_distribution")


def refuse_damage() -> None:
    """Raise ImportError if another distribution's `__init__` took the place of this one's, or it is missing.

    A central module calls this at its import; in an intact package it costs only one comparison.
    """
    if not is_whole():
        from tprof.conflicts import explain_damage  # noqa: PLC0415 - reads the metadata of every distribution

        raise ImportError(explain_damage())
