"""Where the counts of an algorithm are known, few runs say what others do, on more cores than were run as well."""

import numpy as np
import pandas as pd
import pytest
from tprof.analysis.operating_points.advice import advise, of_task
from tprof.analysis.operating_points.algorithm import sized_algorithm
from tprof.analysis.operating_points.choice import Objective
from tprof.analysis.operating_points.draws import draw
from tprof.analysis.operating_points.measured import Measured
from tprof.analysis.operating_points.table import check
from tprof.analysis.theory.energy_scalability import ALGORITHMS, evaluate, most_efficient, normalised

from tprof.errors import UsageError

MACHINE = normalised()
HZ = np.linspace(0.4, 1.0, 7)
MORE = np.array([1, 2, 3, 4, 6, 8, 12, 16, 32, 64])


def run(name, size, hz=(0.4, 0.7, 1.0), cores=(1, 2, 4, 16), unit="Hz"):
    """Return what the paper's machine measures, and the model there."""
    hz, cores = (one.ravel() for one in np.meshgrid(hz, cores))
    model = evaluate(ALGORITHMS[name], MACHINE, size, cores, hz)
    noise = np.full(len(hz), 0.005)
    return Measured("", unit, hz, cores.astype(np.int64), model.time_s, model.energy_j, noise, noise, quality="given")


@pytest.mark.parametrize(
    ("name", "size"), [("addition", 1e4), ("addition", 1e6), ("reduction", 200), ("prefix-sums", 1e6), ("product", 1e3)]
)
def test_points_that_were_not_run_are_predicted_to_a_percent(name, size):
    truth = run(name, size, HZ, MORE[MORE <= 32])

    draws = draw(run(name, size), truth.setting, truth.workers, algorithm=sized_algorithm(name, size))

    assert draws.time_s.mean(axis=0) == pytest.approx(truth.time_s, rel=0.01)
    assert draws.energy_j.mean(axis=0) == pytest.approx(truth.energy_j, rel=0.01)
    low, high = np.percentile(draws.energy_j, (1, 99), axis=0)
    assert ((truth.energy_j >= low) & (truth.energy_j <= high)).all()


@pytest.mark.parametrize(("name", "size"), [("addition", 300), ("product", 1e3)])
def test_the_choice_by_edp_is_the_models(name, size):
    named = sized_algorithm(name, size)
    advice = of_task(run(name, size), Objective("edp"), settings=HZ, workers=MORE, algorithm=named)
    model = most_efficient(ALGORITHMS[name], MACHINE, size, cores=MORE)

    place = advice.place(advice.chosen)
    assert place["workers"] == model.cores
    assert place["setting"] == pytest.approx(np.clip(model.frequency_hz, HZ[0], HZ[-1]), abs=0.05)
    assert advice.why.startswith(f"By the counts of {name} of size {size:g}. ")


@pytest.mark.parametrize("by", ["energy", "edp", "ed2p"])
def test_no_point_of_the_grid_costs_less_than_the_choice(by):
    name, size, power = "addition", 100, {"energy": 0, "edp": 1, "ed2p": 2}[by]
    advice = of_task(run(name, size), Objective(by), settings=HZ, workers=MORE, algorithm=sized_algorithm(name, size))

    place, truth = advice.place(advice.chosen), run(name, size, HZ, MORE)
    costs = truth.energy_j * truth.time_s**power
    assert costs[truth.at(place["setting"], place["workers"])] <= 1.002 * costs.min()


@pytest.mark.parametrize(
    ("measured", "named", "said"),
    [
        (run("addition", 100, cores=[2]), ("addition", 100), "needs runs at frequencies and with several numbers of"),
        (run("addition", 100, unit="W"), ("addition", 100), "needs runs at frequencies"),
        (run("addition", 100), ("addition", 10), "addition of size 10 has work for 10 cores only, and 16 workers"),
    ],
)
def test_what_the_model_does_not_know_is_refused(measured, named, said):
    with pytest.raises(UsageError, match=said):
        of_task(measured, Objective(), algorithm=sized_algorithm(*named))


def test_an_algorithm_that_is_none_is_refused():
    with pytest.raises(UsageError, match=r"--algorithm must be one of addition, .*, got 'sort'"):
        sized_algorithm("sort", 10)
    with pytest.raises(UsageError, match="--size must be 1 or more, got 0"):
        sized_algorithm("addition", 0)


@pytest.mark.parametrize("size", [1e300, 1e17, float("inf")])
def test_a_size_whose_counts_no_float_holds_is_refused(size):
    with pytest.raises(UsageError, match=r"--size must be at most 9\.0e\+15, got .*; beyond it counts are not exact"):
        sized_algorithm("addition", size)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_the_largest_size_that_is_taken_gives_figures(name):
    advice = of_task(run(name, 1e6), Objective("edp"), algorithm=sized_algorithm(name, 2.0**53))

    assert advice.chosen is not None
    assert np.isfinite(advice.draws.time_s).all()
    assert np.isfinite(advice.draws.energy_j).all()


def test_the_program_is_meant_where_no_task_is_named():
    rows = pd.DataFrame({"task": "a", "setting": [1e9, 2e9], "setting_unit": "Hz", "time_s": [2.0, 1], "energy_j": 1.0})

    with pytest.raises(UsageError, match="the table has no task '' with an energy; it has 'a'"):
        advise(check(rows, where="rows"), algorithm=sized_algorithm("addition", 100))
