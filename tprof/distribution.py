"""Which distribution installs this package, and the refusal to run in a package that another one overwrote.

The package index has another `tprof`, a targeting profiler, which also installs a folder and a command `tprof`.
Installers let the later of two distributions overwrite the files of the earlier one, and no metadata forbids it.
"""

import sys

NAME = "tprof-energy"
"""What `pip install` takes; the package that is imported is `tprof`."""


def version() -> str:
    """Return the version that is installed."""
    from importlib.metadata import version as version_of  # noqa: PLC0415 - takes longer than `import tprof`

    return version_of(NAME)


def is_whole() -> bool:
    """Tell whether the package that was imported has this distribution's `__init__`, which imports this module."""
    return hasattr(sys.modules["tprof"], "_distribution")


def refuse_damage() -> None:
    """Raise ImportError if another distribution's `__init__` took the place of this one's, or it is missing.

    A module that everything leads to calls this when it is imported, so a whole package pays for one comparison only.
    """
    if not is_whole():
        from tprof.conflicts import explain_damage  # noqa: PLC0415 - reads the metadata of every distribution

        raise ImportError(explain_damage())
