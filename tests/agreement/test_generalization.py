"""The generalisation error and the divergence of the theory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import softmax

from pa_select import posterior_agreement

PRIORS = ["uniform", "marginal", [0.2, 0.5, 0.3]]


def by_hand(a, b, weight, prior, beta):
    """Error and divergence, with a loop over pairs."""
    k = a.shape[1]
    p, q = softmax(beta * a, axis=1), softmax(beta * b, axis=1)
    share = weight / weight.sum()
    mean = sum(share[i] * (p[i] + q[i]) / 2 for i in range(len(a)))
    fixed = np.full(k, 1 / k) if isinstance(prior, str) else np.array(prior)
    used = mean if prior == "marginal" else fixed
    error = sum(share[i] * (p[i] * np.log(used / q[i])).sum() for i in range(len(a)))
    return error, (mean * np.log(mean / fixed)).sum()


@pytest.mark.parametrize("prior", PRIORS, ids=str)
@settings(max_examples=20)
@given(seed=st.integers(0, 2**20), spread=st.floats(0.1, 3))
def test_against_loops_and_the_bound_of_the_theory(prior, seed, spread):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(12, 3))
    b = a + spread * rng.normal(size=a.shape)
    weight = rng.random(12) * (rng.random(12) > 0.2)
    weight[0] = 1
    result = posterior_agreement(a, b, prior=prior, sample_weight=weight, certify=False)
    found = result.generalization()
    assert found.error >= -result.score - 1e-9
    assert 0 <= found.divergence <= np.log(5)
    if np.isfinite(result.beta):
        assert_allclose(found, by_hand(a, b, weight, prior, result.beta), atol=1e-9)


def test_the_error_can_be_negative():
    # The same certain posteriors of balanced classes.
    result = posterior_agreement(np.eye(4), np.eye(4))
    assert result.beta == np.inf
    assert_allclose(result.generalization(), [-np.log(4), 0], atol=1e-12)


def test_what_is_impossible_in_the_second_sample_costs_infinitely_much():
    a, b = np.zeros((2, 2)), np.array([[0, -np.inf], [0, 0]])
    assert posterior_agreement(a, b).generalization().error == np.inf
    # And nothing if the first sample does not hold it possible either.
    assert np.isfinite(posterior_agreement(b, b).generalization().error)


def test_a_result_without_scores_says_so():
    with pytest.warns(UserWarning, match="no agreement"):
        failed = posterior_agreement([[np.nan, 1]], [[0, 1]], error_score=np.nan)
    with pytest.raises(ValueError, match="expected an agreement, got a failure"):
        failed.generalization()
