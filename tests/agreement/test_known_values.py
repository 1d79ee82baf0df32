"""Values known in closed form or published with their mistakes."""

from itertools import product

import numpy as np
import pytest
from helpers.problems import two_modes

from pa_select import pa_kernel, posterior_agreement


def one_hot_pairs(n, n_classes, n_agree, margin=1.0):
    labels = np.arange(n) % n_classes
    other = np.where(np.arange(n) < n_agree, labels, (labels + 1) % n_classes)
    return margin * np.eye(n_classes)[labels], margin * np.eye(n_classes)[other]


def channel_capacity(q, k):
    """Capacity of the symmetric channel on k letters with error rate 1 - q."""
    if q <= 1 / k:
        return 0.0
    rest = 0.0 if q == 1 else (1 - q) * np.log((1 - q) / (k - 1))
    return np.log(k) + q * np.log(q) + rest


@pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
@pytest.mark.parametrize("n_agree", [0, 1, 100, 333, 334, 499, 501, 700, 900, 990, 999, 1000])
def test_hard_labels_reach_the_capacity_of_the_symmetric_channel(n_classes, n_agree):
    a, b = one_hot_pairs(1000, n_classes, n_agree, margin=3.7)
    result = posterior_agreement(a, b)
    q = n_agree / 1000
    assert result.score == pytest.approx(channel_capacity(q, n_classes), abs=1e-9)
    # As the thesis reports it, in Table 4.1 for two classes.
    overlap = 1000 * (channel_capacity(q, n_classes) - np.log(n_classes))
    assert result.log_kernel == pytest.approx(overlap, abs=1e-6)
    assert result.agreement_rate == pytest.approx(q, abs=1e-12)
    if q == 1:
        assert result.beta == np.inf
    elif q <= 1 / n_classes:
        assert result.beta == 0
    else:
        # An agreeing pair's posteriors overlap by q at the maximum.
        p = np.exp(3.7 * result.beta)
        overlap = (p * p + n_classes - 1) / (p + n_classes - 1) ** 2
        assert overlap == pytest.approx(q, abs=1e-6)


@pytest.mark.filterwarnings("ignore:scores_a and scores_b:UserWarning")  # nearly one class
def test_constant_classifier_scores_zero_with_the_marginal_prior():
    constant = np.tile([[2.0, 1.0, 0.0]], (50, 1))
    uniform = posterior_agreement(constant, constant)
    assert (uniform.score, uniform.beta) == (pytest.approx(np.log(3)), np.inf)
    result = posterior_agreement(constant, constant, prior="marginal")
    assert result.score == pytest.approx(0, abs=1e-12)


@pytest.mark.filterwarnings("ignore:scores_a and scores_b:UserWarning")  # nearly one class
def test_both_modes_of_the_kernel_and_the_global_one():
    a, b = two_modes()
    near = np.linspace(0.2, 0.27, 701)
    low = pa_kernel(a, b, near) - np.log(2)
    # Both modes to the digits that arithmetic of 15 decimal places gives.
    assert near[low.argmax()] == pytest.approx(0.231882, abs=1e-4)
    assert 1170 * low.max() == pytest.approx(-608.714601, abs=1e-5)
    assert 0 < low.argmax() < 700  # a local maximum, not an end of the range
    result = posterior_agreement(a, b)
    assert result.beta == pytest.approx(20.2134697, abs=1e-6)
    assert result.log_kernel == pytest.approx(-498.053637, abs=1e-5)
    assert result.gap <= 1e-6


@pytest.mark.filterwarnings("ignore:scores_a and scores_b:UserWarning")
@pytest.mark.parametrize("q", [0.6, 0.73, 0.9, 0.97])
@pytest.mark.parametrize("k", [2, 5, 30])
def test_the_place_of_a_maximum_has_as_many_digits_as_its_value(q, k):
    # Scores that are one-hot times 1: pairs that agree overlap by (x^2 + K - 1) / (x + K - 1)^2 at
    # x = exp(beta), and at the maximum by q, the share of pairs that agree.
    a = np.eye(k)[np.zeros(100, dtype=int)]
    b = np.eye(k)[(np.arange(100) >= round(100 * q)).astype(int)]
    roots = np.roots([1 - q, -2 * q * (k - 1), (k - 1) - q * (k - 1) ** 2])
    assert posterior_agreement(a, b).beta == pytest.approx(np.log(roots.max()), rel=1e-10)


def gibbs_of_labelings(scores, beta):
    """Return the Gibbs distribution over all labelings of the rows: exp(beta * their scores)."""
    n, k = scores.shape
    confidence = [scores[range(n), labeling].sum() for labeling in product(range(k), repeat=n)]
    weight = np.exp(beta * np.array(confidence))
    return weight / weight.sum()


def test_kernel_of_labelings_is_the_sum_of_the_pairs():
    first, noise = np.random.default_rng(0).normal(size=(2, 4, 3))
    second = first + noise
    overlap = (gibbs_of_labelings(first, 1.5) * gibbs_of_labelings(second, 1.5)).sum()
    assert np.log(3**4 * overlap) == pytest.approx(4 * pa_kernel(first, second, 1.5))


@pytest.mark.filterwarnings("ignore:scores_a and scores_b:UserWarning")
@pytest.mark.parametrize("prior", ["marginal", [0.9, 0.1]])
def test_limit_of_agreeing_pairs_is_the_maximum_only_with_the_uniform_prior(prior):
    scores = [[1, 0.9], [1, -5]]  # the same class twice, at two levels of confidence
    uniform = posterior_agreement(scores, scores)
    assert uniform.score == pytest.approx(np.log(2))
    assert uniform.beta == np.inf
    other = posterior_agreement(scores, scores, prior=prior)
    limit = 0 if prior == "marginal" else -np.log(prior[0])
    assert other.score > limit + 0.1
    assert np.isfinite(other.beta)
