"""Confidence intervals and p-values of few pairs, and of pairs that nearly all agree."""

import numpy as np
import pytest
from helpers.small_samples import coverage, size_of_test, truth
from hypothesis import given, settings
from hypothesis import strategies as st

from pa_select import compare_agreement, confidence_interval, posterior_agreement
from pa_select.agreement.confidence_interval import _bias_of_marginal_prior
from pa_select.agreement.inputs.problem import Problem
from pa_select.utils.p_values import p_value


def draw(seed=0, n=40, k=3, noise=1.0):
    rng = np.random.default_rng(seed)
    scores = 3 * rng.normal(size=(n, k))
    return scores, scores + noise * rng.normal(size=(n, k))


@pytest.mark.parametrize("kind", ["middling", "nearly perfect, contradictions"])
def test_intervals_of_20_pairs_hold_the_truth(kind):
    exact = truth(2, kind, "uniform", 20_000).score
    now, with_normal_errors = coverage(exact, 20, 2, kind, "uniform", 150)
    # Three standard errors of 150 samples below 0.95; the normal interval has less than 0.85.
    assert now >= 0.9 > 0.87 > with_normal_errors


@pytest.mark.parametrize(("k", "kind"), [(2, "middling"), (2, "nearly perfect, contradictions")])
def test_a_true_null_is_rarely_rejected(k, kind):
    now, with_normal_errors = size_of_test(20, k, kind, "uniform", 150)
    assert now <= 0.1 < with_normal_errors


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
def test_where_all_pairs_agree_the_lower_limit_is_below_the_score(prior):
    labels = np.eye(3)[np.arange(30) % 3]
    lows = []
    for n in (6, 12, 30):
        result = posterior_agreement(labels[:n], labels[:n], prior=prior)
        assert result.standard_error == pytest.approx(0, abs=1e-12)
        low, high = confidence_interval(result)
        assert 0 <= low < result.score - 0.1
        assert high == pytest.approx(np.log(3))
        lows.append(low)
    assert lows == sorted(lows)


def test_where_beta_is_zero_the_upper_limit_is_above_the_score():
    a = np.eye(2)[np.arange(20) % 2]
    result = posterior_agreement(a, np.where(np.arange(20)[:, None] < 10, a, 1 - a))
    assert (result.beta, result.score, result.standard_error) == (0, 0, 0)
    low, high = confidence_interval(result)
    assert low == 0
    assert 0.05 < high < np.log(2)


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["uniform", "marginal"]))
def test_what_the_interval_does_not_depend_on(seed, prior):
    rng = np.random.default_rng(seed)
    a, b = draw(seed, n=12)

    def interval(first, second, groups=None, **arguments):
        result = posterior_agreement(first, second, prior=prior, certify=False, **arguments)
        return pytest.approx(confidence_interval(result, groups=groups), abs=1e-3)

    expected = confidence_interval(posterior_agreement(a, b, prior=prior, certify=False))
    rows, classes = rng.permutation(12), rng.permutation(3)
    assert expected == interval(a[rows], b[rows])
    assert expected == interval(a[:, classes], b[:, classes])
    assert expected == interval(b, a)
    assert expected == interval(8 * a, 8 * b)
    assert expected == interval(a, b, sample_weight=np.full(12, 7.0))
    # Pairs of weight 0 do not count, and a group that repeats a pair is one pair.
    weight = np.repeat([1.0, 0.0], [12, 5])
    assert expected == interval(np.r_[a, a[:5]], np.r_[b, -b[:5]], sample_weight=weight)
    assert expected == interval(np.r_[a, a], np.r_[b, b], groups=np.tile(np.arange(12), 2))


def test_levels_and_sizes():
    result = posterior_agreement(*draw())
    wide, narrow = confidence_interval(result, 0.99), confidence_interval(result, 0.8)
    assert 0 < wide[0] < narrow[0] < result.score < narrow[1] < wide[1] < np.log(3)
    # With many pairs it is the interval of the standard error.
    large = posterior_agreement(*draw(n=5000))
    np.testing.assert_allclose(
        confidence_interval(large),
        large.score + 1.96 * large.standard_error * np.array([-1, 1]),
        atol=0.25 * large.standard_error,
    )
    # A prior of one's own has another largest agreement.
    labels = np.eye(2)[np.zeros(30, dtype=int)]
    rare = posterior_agreement(labels, labels, prior=[0.1, 0.9])
    assert confidence_interval(rare)[1] == pytest.approx(np.log(10))


def test_the_bias_of_hard_decisions_is_that_of_an_entropy():
    labels = np.eye(4)[np.arange(40) % 4]
    problem = Problem(*(posterior_agreement(labels, labels).source[:3]), "marginal")
    share = np.full(40, 1 / 40)
    assert _bias_of_marginal_prior(problem, share, np.inf) == pytest.approx(-3 / 2)
    assert _bias_of_marginal_prior(problem, share, 0.0) == pytest.approx(0, abs=1e-12)


def test_few_pairs_have_wide_intervals_and_one_has_none():
    a, b = draw()
    five = posterior_agreement(a[:5], b[:5])
    low, high = confidence_interval(five)
    assert low < five.score < high
    assert high - low > 2 * five.standard_error
    one = posterior_agreement(a[:1], b[:1])
    assert np.isnan(confidence_interval(one)).all()
    assert np.isnan(compare_agreement(one, one).p_value)
    assert compare_agreement(posterior_agreement(a, a), posterior_agreement(b, b)).p_value == 1


def test_a_difference_that_is_rounding_is_none():
    labels = np.eye(3)[np.arange(30) % 3]
    first = posterior_agreement(labels, labels)
    for rounding in (0.0, 2e-16, -3e-14):
        second = posterior_agreement(labels, labels)
        second.terms[:] = first.terms + rounding
        assert compare_agreement(first, second).p_value == 1
    second.terms[:] = first.terms - 0.01
    assert 0 < compare_agreement(first, second).p_value < 1e-6
    assert p_value(0.1, 0.0, 3, 0.1) > 0.05
    assert np.isnan(p_value(0.1, np.nan, 3, 0.1))
    assert np.isnan(p_value(0.1, 0.0, 1, 0.1))


def test_one_pair_alone_shows_no_difference():
    # Whatever its size: the t-test without correction has p-values of 0.33, 0.07 with more.
    assert p_value(0.05, 0.05, 20, 1.0) > 0.5
    assert p_value(1.0, 0.1, 20, 1.5) < 1e-6
    # Without rare differences it is close to Student's t.
    assert p_value(0.2, 0.1, 20, 0.6) == pytest.approx(0.06, abs=0.015)


@pytest.mark.parametrize(("k", "n"), [(2, 100), (10, 50)])
def test_intervals_of_pairs_of_which_many_disagree_are_hardly_wider_than_the_normal_ones(k, n):
    rng = np.random.default_rng(0)
    widths = []
    for _ in range(10):
        a = 3 * rng.normal(size=(n, k))
        result = posterior_agreement(a, a + 3 * rng.normal(size=a.shape))
        low, high = confidence_interval(result)
        widths.append((high - low) / (2 * 1.96 * result.standard_error))
    assert 1 < np.mean(widths) < 1.3
