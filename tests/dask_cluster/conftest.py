"""Other tests of the same process have tasks of their own, whose names are those of functions here."""

from pathlib import Path

import pytest

from tprof.session.process_state import this_process

_HERE = Path(__file__).parent


@pytest.fixture(autouse=True, scope="session")
def only_functions_of_this_folder():
    """Let only tasks of this folder count when a dask task gets its name."""
    tasks = this_process.tasks

    def names_function(name):
        files = [one.file for one in list(tasks._definitions.values()) if one.name == name]  # noqa: SLF001 - as it does
        return any(file is not None and Path(file).parent == _HERE for file in files)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "names_function", names_function)
        yield
