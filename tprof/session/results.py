"""What a recording gives after its block: the profile, a plot, a copy of the session under a name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tprof.errors import TprofError, UsageError

from .process_state import this_process

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from tprof.analysis import Profile


class Results:
    """The part of a recording that reads its session.

    Attributes
    ----------
    path : of the session directory
    notes : sentences for the user
    is_temporary : whether the session is removed at the end of this process
    _pid : of the process that began it; 0 before
    """

    path: Path
    notes: list[str]
    is_temporary: bool
    _pid: int

    def profile(self, model: str = "auto", **options: Any) -> Profile:
        """Attribute the joules to the tasks; of a recording that kept sums without single instances.

        Parameters
        ----------
        model
            ``"auto"`` or the name of a power model.
        **options
            As for `tprof.analysis.build_profile`.
        """
        from tprof.trace import load_one  # noqa: PLC0415 - the door to analysis

        self._refuse_while_running("take its profile")
        return load_one(self.path).profile(model, **options)

    def plot(self, model: str = "auto") -> Figure:
        """Return a plotly figure of the joules of tasks and of the power over time; see `Profile.plot`."""
        return self.profile(model).plot()

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Keep the whole session under a name, which is its `path` from now on; a named one is copied.

        Profiles that were made before stay usable until the process ends.

        Parameters
        ----------
        path
            The session directory to make.
        overwrite
            Replace an existing session.

        Raises
        ------
        UsageError
            If the recording still runs, or the path is taken.
        TprofError
            If it cannot be written.
        """
        from .temporary import copy_session  # noqa: PLC0415 - kept off `import tprof`

        self._refuse_while_running("save it")
        target = Path(path).absolute()
        try:
            copy_session(self.path, target, overwrite=overwrite)
        except OSError as error:
            raise TprofError(f"cannot save {self.path} to {target}: {error.strerror or error}") from error
        self.path, self.is_temporary = target, False
        return target

    def __repr__(self) -> str:
        """Describe the recording in one line."""
        name = "without a name" if self.is_temporary and not self._pid else os.fspath(self.path)
        return f"<Recording {name}: {self.state}>"

    @property
    def state(self) -> str:
        """Whether it runs, and how long its session stays."""
        member = this_process.membership
        if member is not None and member.plan.directory == self.path:
            return "running"
        if not self._pid:
            return "not begun"
        if not os.path.isdir(self.path):
            return "removed"
        return "ended, kept until this process ends" if self.is_temporary else "ended"

    def _repr_html_(self) -> str:
        from tprof.analysis.display import recording_html  # noqa: PLC0415 - the door to analysis

        return recording_html(self.path, self.state, self.notes)

    def _refuse_while_running(self, what: str) -> None:
        if this_process.membership is not None:
            raise UsageError(f"the recording {self.path} still runs: {what} after the with-block")
