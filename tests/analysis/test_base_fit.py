"""What threads did becomes equations, and their fit says how uncertain static power is and what single powers gain."""

import dataclasses

import numpy as np
import pytest
from support.measured_quanta import consecutive
from tprof.analysis.models.fitted.absent_tasks import with_absent
from tprof.analysis.models.fitted.averaging import Prior
from tprof.analysis.models.fitted.base_fit import Belief, Equations, fit_base, gain_over_one_power, prior_of
from tprof.analysis.models.fitted.equations import Rows, Work
from tprof.analysis.models.fitted.powers import fit_powers

ROWS = 300


def one_core(shares, watts, *, static_w=5.0, hidden_w=0.0, noise_j=1e-5):
    """Return quanta of 10 ms, what one core ran in each and CPU seconds without samples.

    In each quantum the core runs each task for a share of it, (ROWS, tasks + 1), the last one between tasks.
    """
    draw = np.random.default_rng(1)
    ran_s = shares * 0.01
    hidden_s = draw.uniform(0, 0.005, ROWS) if hidden_w else np.zeros(ROWS)
    energy_j = static_w * 0.01 + ran_s @ watts + hidden_w * hidden_s + draw.normal(0, noise_j, ROWS)
    t_ns = np.round(np.concatenate(([0.0], np.cumsum(ran_s.ravel()))) * 1e9).astype(np.int64)
    count = shares.shape[1]
    task = np.tile(np.arange(count, dtype=np.int32), ROWS)
    work = Work(t_ns, np.diff(t_ns) * 1e-9, task, np.zeros(len(task), np.int32), np.zeros(len(task), np.float32))
    return consecutive([10.0] * ROWS, [0.05] * (ROWS - 1), energy_j), work, hidden_s


def mixed(tasks):
    """Return random shares of so many tasks, and none of the time between them."""
    return np.column_stack([np.random.default_rng(2).dirichlet(np.full(tasks, 2.0), ROWS), np.zeros(ROWS)])


def gain(shares, watts, **options):
    quanta, work, hidden_s = one_core(shares, watts, **options)
    tasks = shares.shape[1] - 1
    rows = Rows.of(quanta, hidden_s, tasks + 3)
    equations = Equations.of(rows, [work], tasks, 0.0)
    prior = prior_of(rows, [work], tasks, Belief(5.0))
    found = gain_over_one_power(equations, prior, fit_base(equations, prior, None, scaled=True))
    return found / np.log(len(rows))


@pytest.mark.parametrize("tasks", [2, 3, 6])
def test_each_power_beyond_one_must_gain_the_logarithm_of_the_rows(tasks):
    """With one power in truth further ones gain next to nothing."""
    assert gain(mixed(tasks), np.full(tasks + 1, 8.0)) == pytest.approx(-(tasks - 1), abs=0.2)


def test_what_runs_between_tasks_and_without_samples_counts_as_a_power_too():
    """Each costs one more where it runs at all."""
    shares = np.random.default_rng(3).dirichlet(np.full(3, 2.0), ROWS)

    assert gain(shares, np.full(3, 8.0)) == pytest.approx(-2, abs=0.2)
    assert gain(mixed(2), np.full(3, 8.0), hidden_w=8.0) == pytest.approx(-2, abs=0.2)
    assert gain(shares, np.full(3, 8.0), hidden_w=8.0) == pytest.approx(-3, abs=0.2)


def test_powers_that_differ_gain_and_a_single_task_has_none():
    assert gain(mixed(3), np.array([4.0, 8.0, 12.0, 8.0])) > 10
    assert gain(mixed(1), np.full(2, 8.0)) == -np.inf
    without = np.column_stack([np.ones(ROWS), np.zeros(ROWS), np.zeros(ROWS)])
    assert gain(without, np.full(3, 8.0)) == -np.inf


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_static_power_that_the_quanta_do_not_tell_is_as_uncertain_as_what_was_believed(share):
    """A core that is always busy with one task shows the sum of both powers only."""
    quanta, work, hidden_s = one_core(mixed(1), np.array([8.0, 8.0]))

    found = fit_powers(quanta, [work], hidden_s, names=["work"], belief=Belief(5.0, share))

    assert found.level_w == pytest.approx(5.0, rel=0.02)
    assert found.static_error_w == pytest.approx(5.0 * share, rel=0.1)


def test_a_task_that_did_not_run_is_resolved_as_its_prior_says_and_those_beside_it_as_the_fit_does():
    quanta, work, hidden_s = one_core(mixed(2), np.array([8.0, 12.0, 8.0]))
    fit = fit_powers(quanta, [work], hidden_s, names=["one", "two"], belief=Belief(5.0))
    fit = dataclasses.replace(fit, unresolved=np.array([False, True]), together=((0, 1),))

    found = with_absent(fit, np.array([0, 2]), 3, Prior(np.full(3, 7.0), np.full(3, 3.0)))

    assert found.unresolved.tolist() == [False, False, True]
    assert found.together == ((0, 2),)
    assert found.power[:3].tolist() == [fit.power[0], 7.0, fit.power[1]]
    assert found.covariance[1].tolist() == [0.0, 9.0, 0.0]
    assert (found.covariance[np.ix_([0, 2], [0, 2])] == fit.covariance).all()


def test_static_power_that_idle_quanta_tell_is_certain():
    quanta, work, hidden_s = one_core(mixed(1), np.array([8.0, 8.0]))
    idle = np.arange(ROWS) % 3 == 0
    modelled = np.where(np.repeat(idle, 2), 0.0, work.modelled)
    energy_j = np.where(idle, 0.05, quanta.energy_j)
    quanta = consecutive([10.0] * ROWS, [0.05] * (ROWS - 1), energy_j)
    work = Work(work.t_ns, modelled, work.task, work.core, work.log_length)

    found = fit_powers(quanta, [work], hidden_s, names=["work"], belief=Belief(None))

    assert found.level_w == pytest.approx(5.0, abs=0.05)
    assert 0 < found.static_error_w < 0.1
    assert abs(found.level_w - 5.0) < 4 * found.static_error_w
