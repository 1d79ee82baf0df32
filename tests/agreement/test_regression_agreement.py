"""Agreement of regressors: quadrature, a fine grid of classes, and mutual information."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from pa_select import regression_agreement


def draw(n, correlation, seed=0):
    cov = [[1, correlation], [correlation, 1]]
    return np.random.default_rng(seed).multivariate_normal([0, 0], cov, n).T


def density(h, mean, width):
    return np.exp(-(((h - mean) / width) ** 2) / 2) / (np.sqrt(2 * np.pi) * width)


def overlaps_by_quadrature(a, b, beta, weight=None):
    """The log overlaps of two normal posteriors over the marginal one, from their definition."""
    both, weight = np.concatenate([a, b]), np.ones(len(a)) if weight is None else weight
    twice = np.concatenate([weight, weight])
    mean = np.average(both, weights=twice)
    variance, v = np.average((both - mean) ** 2, weights=twice), 1 / beta
    total = np.sqrt(variance + v)

    def overlap(x, y):
        middle, width = (x + y) / 2, np.sqrt(v)
        inside = quad(
            lambda h: density(h, x, width) * density(h, y, width) / density(h, mean, total),
            *(middle - 12 * width, middle + 12 * width),
        )
        return inside[0]

    return np.log([overlap(x, y) for x, y in zip(a, b, strict=True)])


@pytest.mark.parametrize("weighted", [False, True])
def test_the_maximum_is_that_of_quadrature(weighted):
    a, b = draw(12, 0.8)
    a, b = 3 * a + 50, 3 * b + 50.5
    weight = np.arange(12) % 3 if weighted else None
    found = regression_agreement(a, b, sample_weight=weight)
    best = minimize_scalar(
        lambda log_beta: (
            -np.average(overlaps_by_quadrature(a, b, np.exp(log_beta), weight), weights=weight)
        ),
        bounds=(np.log(found.beta) - 3, np.log(found.beta) + 3),
        method="bounded",
    )
    assert found.score == pytest.approx(-best.fun, abs=1e-7)
    assert np.log(found.beta) == pytest.approx(best.x, abs=1e-3)
    assert np.average(found.terms, weights=weight) == pytest.approx(found.score)
    by_pair = overlaps_by_quadrature(a, b, found.beta, weight)
    np.testing.assert_allclose(found.terms, by_pair, atol=1e-8)


@settings(max_examples=30, deadline=None)
@given(
    st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.booleans(), st.integers(0, 1000), st.booleans()
)
def test_neither_units_nor_order_matter(offset, unit, mirrored, seed, swapped):
    a, b = draw(15, 0.6, seed)
    found = regression_agreement(a, b)
    order, unit = np.random.default_rng(seed).permutation(15), -unit if mirrored else unit
    sides = [offset + unit * x[order] for x in (a, b)]
    again = regression_agreement(*sides[:: -1 if swapped else 1])
    assert again.score == pytest.approx(found.score, rel=1e-7, abs=1e-9)
    assert again.beta * unit**2 == pytest.approx(found.beta, rel=1e-7, abs=1e-9)
    assert again.correlation == pytest.approx(found.correlation, abs=1e-9)
    np.testing.assert_allclose(again.terms, found.terms[order], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("far", [0.5, 1e300])
def test_pairs_of_weight_0_count_for_nothing(far):
    a, b = draw(12, 0.7, seed=5)
    weight = [1] * 12 + [0]
    found = regression_agreement(np.append(a, -far), np.append(b, far), sample_weight=weight)
    without = regression_agreement(a, b)
    for name in ("score", "beta", "correlation", "standard_error", "n_pairs"):
        assert getattr(found, name) == pytest.approx(getattr(without, name), rel=1e-9)
    np.testing.assert_allclose(found.terms[:12], without.terms)
    assert np.isfinite(found.terms).all()
    # Pairs that agree, but for one that does not count.
    same = regression_agreement(np.append(a, 0), np.append(a, far), sample_weight=weight)
    assert same.score == np.inf


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e200, 1e-300, 1.7e307, 1e-140])
def test_numbers_may_be_large_or_small(unit):
    a, b = draw(30, 0.8, seed=6)
    found, plain = regression_agreement(unit * a, unit * b), regression_agreement(a, b)
    for name in ("score", "correlation", "standard_error"):
        assert getattr(found, name) == pytest.approx(getattr(plain, name), rel=1e-6)
    np.testing.assert_allclose(found.terms, plain.terms, rtol=1e-6, atol=1e-6)


def test_the_standard_error_is_the_spread_of_repetitions():
    found = [regression_agreement(*draw(60, 0.8, seed)) for seed in range(800)]
    scores = np.array([one.score for one in found])
    errors = np.array([one.standard_error for one in found])
    assert errors.mean() == pytest.approx(scores.std(), rel=0.1)


def test_the_ends():
    a, b = draw(20, 0.8, seed=4)
    same = regression_agreement(a, a)
    assert same.score == same.beta == np.inf
    assert same.correlation == 1
    for first, second in ((np.full(20, 7.0), np.full(20, 7.0)), (a, -a)):
        none = regression_agreement(first, second)
        assert none.score == none.beta == none.standard_error == 0
        assert not none.terms.any()
    # Of a single pair only the distance is known.
    assert regression_agreement([1.0], [1.5]).score == 0
    # A common offset is a difference, too.
    assert regression_agreement(a, b + 1).score < regression_agreement(a, b).score
