"""Exact properties of the quantity, on random problems."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pa_select import pa_kernel, posterior_agreement


@st.composite
def problems(draw, most_pairs=8, most_classes=5):
    n, k = draw(st.integers(1, most_pairs)), draw(st.integers(2, most_classes))
    # Few distinct values, so that ties and perfect agreement occur.
    values = st.one_of(
        st.integers(-3, 3).map(float), st.floats(-20, 20, allow_subnormal=False, width=32)
    )
    a = draw(arrays(np.float64, (n, k), elements=values))
    b = draw(arrays(np.float64, (n, k), elements=values))
    if draw(st.booleans()):
        b = a + 0.1 * b
    return a, b


def solve(a, b, prior="uniform", **kwargs):
    tol = 1e-9 if prior == "uniform" else 1e-3
    return posterior_agreement(a, b, prior=prior, tol=tol, **kwargs)


def score(a, b, prior="uniform", **kwargs):
    return solve(a, b, prior, **kwargs).score


@settings(max_examples=60)
@given(problem=problems(), seed=st.integers(0, 1000))
def test_what_does_not_change_the_score(problem, seed):
    check_invariances("uniform", problem, seed)


@pytest.mark.slow
@settings(max_examples=15)
@given(problem=problems(), seed=st.integers(0, 1000))
def test_what_does_not_change_the_score_with_the_marginal_prior(problem, seed):
    check_invariances("marginal", problem, seed)


def check_invariances(prior, problem, seed):
    a, b = problem
    rng = np.random.default_rng(seed)
    n, k = a.shape
    reference = solve(a, b, prior)
    # Another maximum may be found that is higher by less than the bounds exclude.
    expected = pytest.approx(reference.score, abs=2e-9 if prior == "uniform" else 1e-4)
    rows, classes = rng.permutation(n), rng.permutation(k)
    assert score(b, a, prior) == expected
    assert score(a[rows], b[rows], prior) == expected
    assert score(a[:, classes], b[:, classes], prior) == expected
    # Powers of two and small integers: exact in floating point, but for tiny differences, so
    # that no tie is broken or made.
    shift = 8 * rng.integers(-4, 5, (n, 1))
    if (a + shift - shift == a).all():
        room = 1e-6 if prior == "uniform" else 1e-4
        assert score(a + shift, b, prior) == pytest.approx(reference.score, abs=room)
    assert score(a / 4, b / 4, prior) == expected
    if 0 < reference.beta < np.inf and prior == "uniform":
        value = pa_kernel(a / 4, b / 4, 4 * reference.beta, prior=prior)
        assert value == pytest.approx(reference.score, abs=1e-12)


@settings(max_examples=60)
@given(problem=problems())
def test_range_and_certificate(problem):
    a, b = problem
    result = posterior_agreement(a, b)
    assert 0 <= result.score <= np.log(a.shape[1]) + 1e-12
    assert 0 <= result.gap <= 1e-6
    assert result.upper_bound - result.score == result.gap
    assert -len(a) * np.log(a.shape[1]) - 1e-9 <= result.log_kernel <= 1e-12
    assert result.terms.mean() == pytest.approx(result.score, abs=1e-12)
    assert pa_kernel(a, b, result.beta) == pytest.approx(result.score, abs=1e-12)
    assert pa_kernel(a, b, 0) == pytest.approx(0, abs=1e-12)


@settings(max_examples=60)
@given(problem=problems(), data=st.data())
def test_repeated_pairs_are_integer_weights(problem, data):
    a, b = problem
    counts = data.draw(arrays(int, len(a), elements=st.integers(0, 4)).filter(np.any))
    weighted = posterior_agreement(a, b, sample_weight=counts, tol=1e-9)
    repeated = posterior_agreement(*(np.repeat(x, counts, axis=0) for x in (a, b)), tol=1e-9)
    assert weighted.score == pytest.approx(repeated.score, abs=2e-9)
    assert weighted.log_kernel == pytest.approx(repeated.log_kernel, abs=1e-7)
    assert weighted.agreement_rate == pytest.approx(repeated.agreement_rate)
    assert weighted.n_pairs == np.count_nonzero(counts)
    assert len(weighted.terms) == len(a)
    fractional = posterior_agreement(a, b, sample_weight=counts / 7, tol=1e-9)
    assert fractional.score == pytest.approx(weighted.score, abs=1e-12)
