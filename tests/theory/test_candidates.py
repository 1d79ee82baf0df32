"""What the page on theory claims of the posterior over candidates."""

import numpy as np
import pytest

from pa_select import candidate_posterior, pa_kernel


def parts(seed, n_pairs=8, n_candidates=6, noise=1.0):
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=n_candidates)
    return quality + noise * rng.normal(size=(2, n_pairs, n_candidates))


@pytest.mark.parametrize("seed", range(10))
def test_parts_with_a_positive_covariance_agree(seed):
    a, b = parts(seed, noise=3.0)
    covariance = np.mean((a - a.mean(1, keepdims=True)) * (b - b.mean(1, keepdims=True)))
    if covariance < 0:  # of the other sign if one side is turned around
        b, covariance = -b, -covariance
    beta = 1e-3
    assert pa_kernel(a, b, beta, prior="uniform") == pytest.approx(covariance * beta**2, rel=0.1)
    assert candidate_posterior(a, b).score > 0


@pytest.mark.parametrize("n_best", [1, 2, 5])
@pytest.mark.parametrize("seed", range(5))
def test_if_all_parts_name_the_same_winners_the_maximum_is_at_infinity(seed, n_best):
    a, b = parts(seed)
    a[:, :n_best] = b[:, :n_best] = max(a.max(), b.max()) + 0.01  # the others are close behind
    found = candidate_posterior(a, b)
    assert found.beta == np.inf
    assert np.exp(found.score) == pytest.approx(6 / n_best)  # told apart
    assert found.n_effective == pytest.approx(n_best)  # remain
    np.testing.assert_array_equal(found.weights, (np.arange(6) < n_best) / n_best)


@pytest.mark.parametrize("seed", range(5))
def test_a_grid_that_is_written_twice_has_the_same_agreement(seed):
    a, b = parts(seed)
    once, twice = candidate_posterior(a, b), candidate_posterior(np.tile(a, 2), np.tile(b, 2))
    assert twice.score == pytest.approx(once.score, abs=1e-6)
    np.testing.assert_allclose(twice.weights, np.tile(once.weights / 2, 2), rtol=0.01)
    assert twice.n_effective == pytest.approx(2 * once.n_effective, rel=0.02)
