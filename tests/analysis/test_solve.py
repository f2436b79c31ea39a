"""The error that a fit claims is that of its powers, also where quanta go with their neighbours."""

import numpy as np
import pytest
from tprof.analysis.models.fitted.least_squares import Noise, Prior, solve


def errors_and_claims(shared, rounds=60, rows=300):
    """Fit one power of 1 W to seconds whose noise, in part `shared`, is also that of the next."""
    random = np.random.default_rng(0)
    nothing, linked = np.zeros(rows), np.zeros(rows - 1, bool)
    found = []
    for _ in range(rounds):
        noise = random.normal(0.0, 0.1, rows + 1)
        energy_j = 1.0 + noise[1:] + shared * noise[:-1]
        solution = solve(
            np.ones((rows, 1)), energy_j, Noise(nothing, nothing, linked, np.ones(rows)),
            Prior(np.array([1.0]), np.array([1.0])), np.array([True]),
        )  # fmt: skip
        found.append((solution.power[0] - 1.0, np.sqrt(solution.covariance[0, 0])))
    errors, claims = np.array(found).T
    return errors.std(), np.median(claims)


@pytest.mark.parametrize(("shared", "least", "most"), [(0.0, 0.9, 1.2), (1.0, 0.8, 1.1)])
def test_a_claimed_error_is_the_real_one_whether_quanta_share_noise_or_not(shared, least, most):
    real, claimed = errors_and_claims(shared)

    assert least < claimed / real < most
