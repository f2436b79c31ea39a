"""Other tasks of a table show the shape of the processor's law and how far laws are off."""

import numpy as np
import pytest
from support.operating_points import measured
from tprof.analysis.operating_points.draws import draw
from tprof.analysis.operating_points.learned import NOTHING, Learned
from tprof.analysis.operating_points.measured import RUN_NOISE, run_noises
from tprof.analysis.operating_points.scales import Scale, levels, student

TOP = 3.6e9
HZ = np.linspace(1.2e9, TOP, 9)
ENDS = [0, len(HZ) - 1]
ONE = np.ones(len(HZ), np.int64)


def task(name, *, work, static, exponent=3.5, error=0.0, seed=0, places=None):
    """Return a task on a processor whose power rises steeply; `error` is a bump in the middle."""
    bump = 1 + error * np.sin(np.linspace(0, np.pi, len(HZ))) * np.random.default_rng(seed).choice([-1, 1])
    time_s = 1 - work + work * TOP / HZ
    power_w = 50 * (static + (1 - static) * (HZ / TOP) ** exponent) * bump
    kept = np.arange(len(HZ)) if places is None else np.array(places)
    one = measured(HZ[kept], time_s[kept], power_w[kept], noise=0.005)
    return type(one)(**{**vars(one), "task": name})


def energies(one, shown=NOTHING):
    draws = draw(one, HZ, ONE, shown=shown)
    low, high = np.percentile(draws.energy_j, (2.5, 97.5), axis=0)
    return draws.energy_j.mean(axis=0), low, high


OTHERS = [task(f"other {n}", work=0.3 + 0.1 * n, static=0.1 + 0.05 * n) for n in range(6)]


def test_tasks_that_were_run_at_more_points_show_the_processors_law_to_one_that_was_run_at_two():
    truth = task("", work=0.8, static=0.3).energy_j
    two = task("two", work=0.8, static=0.3, places=ENDS)

    alone, *_ = energies(two)
    among, low, high = energies(two, Learned(OTHERS).of(two))

    assert np.abs(among / truth - 1).max() < np.abs(alone / truth - 1).max() / 2
    assert ((low <= truth) & (truth <= high)).all()


def test_intervals_are_wider_where_laws_miss_the_other_tasks_and_narrower_where_they_do_not():
    two = task("two", work=0.8, static=0.3, places=ENDS)
    bumpy = [task(f"bumpy {n}", work=0.3 + 0.1 * n, static=0.3, error=0.15, seed=n) for n in range(6)]

    widths = []
    for shown in (NOTHING, Learned(OTHERS).of(two), Learned(bumpy).of(two)):
        _, low, high = energies(two, shown)
        widths.append(np.log(high / low)[len(HZ) // 2])

    assert widths[1] < widths[0]
    assert widths[1] < widths[2]


def test_a_task_shows_nothing_of_itself_and_nothing_of_points_at_which_it_was_not_run():
    two = task("two", work=0.8, static=0.3, places=ENDS)
    elsewhere = task("elsewhere", work=0.8, static=0.3, places=[1, 3, 5, 7])

    assert Learned([two, elsewhere]).of(two).findings == ()


def test_one_run_is_as_noisy_as_repeated_runs_of_other_tasks():
    noises = run_noises({"once": (0.0, 0), "again": (8 * 0.1**2, 8)})

    assert run_noises({"once": (0.0, 0)})["once"] == RUN_NOISE
    assert RUN_NOISE.value < noises["once"].value < 0.1
    assert noises["again"] == Scale(0.1, 8)
    assert noises["once"].freedom == RUN_NOISE.freedom


@pytest.mark.parametrize(("freedom", "wide"), [(4, 2.776), (9, 2.262), (1000, 1.962)])
def test_levels_of_a_scale_make_students_tails(freedom, wide):
    normal = np.random.default_rng(0).standard_normal((100_000, 1))

    found = np.percentile(np.abs(normal * levels(freedom)), 95)

    assert found == pytest.approx(wide, rel=0.02)
    assert student(freedom) == pytest.approx(wide, rel=0.02)
