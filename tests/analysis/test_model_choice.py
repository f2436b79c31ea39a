"""Which power model is chosen, and what is said of it."""

from types import SimpleNamespace

import pytest
from tprof.analysis.models import choose_model
from tprof.analysis.models.choice import MUCH
from tprof.analysis.models.linear import stored_model

from tprof.errors import UsageError

IPC = frozenset({"instructions", "cycles"})
COEFFICIENTS = {"a": 1.0, "b": 0.1, "c": 0.1, "C1": 5.0, "C2": 10.0}


def chosen_with(gain, asked="auto"):
    fits = {"package-0": SimpleNamespace(gain=gain)}
    return choose_model(asked, IPC).fitted(asked, fits, ["measured"])


def test_auto_fits_powers_only_where_that_is_very_strong_evidence():
    assert (MUCH, chosen_with(10.0).name, chosen_with(10.1).name) == (10.0, "ipc", "fitted")


@pytest.mark.parametrize("asked", ["auto", "fitted"])
def test_what_fitted_powers_correct_is_named(asked):
    found = chosen_with(11.0, asked)

    assert (found.name, found.base) == ("fitted", "ipc")
    assert "correcting ipc" in found.why


def test_linear_without_coefficients_is_refused():
    with pytest.raises(UsageError, match='model "linear" needs coefficients: record after "tprof calibrate"'):
        choose_model("linear", IPC)


@pytest.mark.parametrize("share", [None, 0.1])
def test_a_stored_model_has_its_own_error_if_that_was_measured(share):
    model = {"format": 1, "coefficients": COEFFICIENTS} | ({} if share is None else {"residual_share": share})

    stored, problem = stored_model(model)

    assert problem is None
    assert stored.residual_share == share
