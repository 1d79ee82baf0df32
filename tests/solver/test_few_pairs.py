"""The solver in numpy finds what the solver in torch finds, and what brute force finds."""

import numpy as np
import pytest
from helpers import oracle

from pa_select import candidate_posterior, posterior_agreement
from pa_select.scores import candidate_posterior as of_parts
from pa_select.solver.few_pairs import maximum_of_few


def problem(seed):
    rng = np.random.default_rng(seed)
    n_pairs, n_classes = int(rng.integers(1, 40)), int(rng.integers(2, 20))
    common = rng.choice([0, 1, 3]) * rng.normal(size=n_classes)
    size = rng.choice([0.1, 1, 5])
    a, b = (common + size * rng.normal(size=(n_pairs, n_classes)) for _ in range(2))
    if seed % 2:
        a, b = np.round(a), np.round(b)  # ties
    return tuple(x - x.max(axis=1, keepdims=True) for x in (a, b))


@pytest.mark.parametrize("seed", range(30))
def test_it_agrees_with_the_solver_of_many_pairs_and_with_brute_force(seed):
    a, b = problem(seed)
    found, other = maximum_of_few(a, b, 1e-8), posterior_agreement(a, b, tol=1e-8)
    assert found.value[0] == pytest.approx(other.score, abs=1e-12)
    assert found.beta[0] == pytest.approx(other.beta, rel=1e-6)
    assert not found.exhausted
    assert -1e-12 <= found.upper_bound[0] - found.value[0] <= 1e-8
    betas = np.append(0, np.geomspace(1e-3, 1e3, 500))
    assert oracle.kernel(a, b, betas).max() <= found.upper_bound[0] + 1e-12


@pytest.mark.parametrize("unit", [1e-200, 1e-30, 1e30, 1e200])
def test_any_unit(unit):
    a, b = problem(0)
    usual, scaled = (maximum_of_few(factor * a, factor * b, 1e-6) for factor in (1.0, unit))
    assert scaled.value[0] == pytest.approx(usual.value[0], abs=1e-12)
    assert unit * scaled.beta[0] == pytest.approx(usual.beta[0], rel=1e-6)


def test_weights_do_not_depend_on_which_solver_is_used(monkeypatch):
    right, more = np.random.default_rng(0).integers(0, 20, (2, 45, 12)) + np.arange(12) * 1.0
    few = candidate_posterior(right, more)
    monkeypatch.setattr(of_parts, "_FEW_SCORES", 0)
    many = candidate_posterior(right, more)
    np.testing.assert_allclose(few.weights, many.weights, rtol=1e-6)
    assert (few.score, few.beta) == pytest.approx((many.score, many.beta), rel=1e-6)
