"""One power model for all runs of a comparison.

Two models share the joules of the same program differently, so a change of model would look like one of the program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tprof.analysis.models.choice import NAMES

from tprof.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .run_figures import RunFigures

AUTO, ALWAYS = "auto", "cputime"
"""The choice that is made for each run, and the model by which every recording can be shared."""
NEW_BASELINE = "make a new baseline by: tprof check SESSION --save FILE"


def model_of(info: Mapping[str, Any]) -> str:
    """Return the model of a profile, with all that two models of one name may differ in; "" without joules."""
    if str(info["quality"]) == "none":
        return ""
    watts = " ".join(f"{name} {value}" for name, value in (info["coefficients"] or {}).items() if value)
    base = info["model_base"]
    further = " ".join(filter(None, [f"on {base}" if base not in (None, ALWAYS) else "", watts.replace(",", ";")]))
    return f"{info['model']} ({further})" if further else str(info["model"])


def name_of(model: str) -> str:
    """Return the name by which a model is asked for."""
    return model.split(" ", 1)[0]


def models_of(measured: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the models of some runs, each once, by how these were measured; a job may have several."""
    every = (model for one in measured for model in str(one["model"]).split(", "))
    return sorted({model for model in every if model})


def by_one_model(
    runs: Sequence[RunFigures], read_again: Callable[[int, str], RunFigures]
) -> tuple[list[RunFigures], str]:
    """Return runs that are all shared by one model, and a sentence on it if `auto` took several.

    It is the first by which all can be shared of those that `auto` took, in the order in which `auto` prefers them.

    Parameters
    ----------
    runs : as `auto` shared each
    read_again : returns the run at a place by the model of a name. Raises UsageError if that cannot share it
    """
    taken = models_of(run.circumstances for run in runs)
    if len(taken) < 2:
        return list(runs), ""
    names = [name for name in NAMES if name in {ALWAYS, *map(name_of, taken)}]
    tried = ((name, _shared_by(name, runs, read_again)) for name in names)
    name, shared = next((name, found) for name, found in tried if found is not None)
    return shared, (
        f"all joules are shared by the power model {name}, which can share those of every run: for single runs auto "
        f"takes {' or '.join(taken)}, and by unlike models joules move between tasks although the program is the same"
    )


def _shared_by(
    name: str, runs: Sequence[RunFigures], read_again: Callable[[int, str], RunFigures]
) -> list[RunFigures] | None:
    """Return the runs by a model; None if it cannot share all of them alike."""
    try:
        found = [
            run if {name_of(model) for model in models_of([run.circumstances])} == {name} else read_again(place, name)
            for place, run in enumerate(runs)
        ]
    except UsageError:
        return None
    return found if len(models_of(run.circumstances for run in found)) == 1 else None


def cannot_share(name: str, error: UsageError) -> UsageError:
    """Return the error of runs that the model of a baseline cannot share."""
    why = str(error).partition(": ")[0]
    return UsageError(
        f"no verdict: the joules of the baseline are shared by the power model {name}, which cannot share those of "
        f"this run ({why}): record as for the baseline, or {NEW_BASELINE}"
    )
