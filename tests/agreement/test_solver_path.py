"""The points that a solve evaluated, against brute force."""

import numpy as np
import pytest
from helpers import oracle
from helpers.problems import random_problem
from numpy.testing import assert_allclose, assert_array_equal

from pa_select import posterior_agreement
from pa_select.agreement.inputs.problem import check_problem
from pa_select.agreement.pairs.paired_scores import concatenate
from pa_select.agreement.solved_problems import solve_pairs


def noisy(n, n_classes=4, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    a = 3 * rng.normal(size=(n, n_classes))
    return a.astype(dtype), (a + rng.normal(size=a.shape)).astype(dtype)


def on_a_grid(a, b, prior, weight=None):
    """Return the kernel at 0, at inf and on a dense grid between."""
    grid = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 400), [np.inf]])
    return oracle.kernel(a, b, grid, prior=prior, weight=weight)


@pytest.mark.parametrize("prior", ["uniform", "marginal", [0.4, 0.3, 0.2, 0.1]])
def test_points_lie_on_the_kernel_and_the_best_one_is_the_result(prior):
    a, b = noisy(200)
    weight = np.random.default_rng(1).integers(0, 3, 200).astype(float)
    result = posterior_agreement(a, b, prior=prior, sample_weight=weight, return_path=True)
    path = result.path
    expected = oracle.kernel(a, b, path.beta, prior=prior, weight=weight)
    assert_allclose(path.kernel, expected, atol=1e-9)
    assert_array_equal(path.error, 0)
    best = path.kernel.argmax()
    assert path.kernel[best] == pytest.approx(result.score, abs=1e-12)
    # The inverse temperature that is reported is a last short step from the best point.
    assert path.beta[best] == pytest.approx(result.beta, rel=1e-3)
    # The last evaluation has the terms of the pairs.
    assert len(path.beta) == result.n_evaluations - 1


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
@pytest.mark.parametrize("seed", range(15))
def test_bounds_after_each_round_hold(prior, seed):
    a, b, weight = random_problem(np.random.default_rng(seed))
    problem = check_problem(a, b, weight, prior)
    rounds = []
    (result,) = solve_pairs(
        concatenate([problem]),
        problem.prior,
        problem.weight.sum(keepdims=True),
        1e-6,
        report=lambda value, upper, points: rounds.append([value[0], upper[0]]),
    )
    score, upper = np.reshape(rounds, (-1, 2)).T
    assert (upper >= on_a_grid(a, b, prior, weight).max() - 1e-9).all()
    assert (score <= result.upper_bound + 1e-9).all()
    assert (np.diff(upper) <= 1e-12).all()
    if rounds:
        assert score[-1] == pytest.approx(result.score, abs=1e-12)
        assert max(upper[-1], result.score) == pytest.approx(result.upper_bound, abs=1e-12)


def test_points_in_single_precision_say_by_how_much_they_may_be_wrong():
    a, b = noisy(30_000, 10, dtype=np.float32)
    result = posterior_agreement(a, b, return_path=True)
    path = result.path
    true = oracle.kernel(a, b, path.beta)
    assert (path.error > 0).any()
    assert (np.abs(path.kernel - true) <= path.error + 1e-9).all()
    exact = path.error == 0
    assert path.kernel[exact].max() == pytest.approx(result.score, abs=1e-12)


def test_each_of_many_problems_has_its_own_points():
    problems = [noisy(n, k, seed=n) for n, k in ((60, 3), (40, 5), (90, 3))]
    together = posterior_agreement(*zip(*problems, strict=True), return_path=True)
    for (a, b), result in zip(problems, together, strict=True):
        path = result.path
        assert len(path.beta) == result.n_evaluations - 1
        assert_allclose(path.kernel, oracle.kernel(a, b, path.beta), atol=1e-9)
        assert path.kernel.max() == pytest.approx(result.score, abs=1e-12)


def test_a_limit_that_nothing_can_exceed_needs_no_points():
    a, _ = noisy(50)
    result = posterior_agreement(a, a, return_path=True)
    assert result.beta == np.inf
    assert result.path.beta.shape == (0,)
    assert repr(result.path) == "SolverPath(0 points)"


def test_a_problem_that_is_not_certified_keeps_its_points():
    rows, columns = [[0, 0, -1, -1]], [[0, -1, 0, -1]]  # the same at every temperature
    options = {"tol": 1e-12, "error_score": np.nan, "return_path": True}
    with pytest.warns(UserWarning, match="could not be certified"):
        result = posterior_agreement(rows, columns, **options)
    assert result.failure is not None
    assert len(result.path.beta) > 1000
    assert_allclose(result.path.kernel, oracle.kernel(rows, columns, result.path.beta), atol=1e-9)
