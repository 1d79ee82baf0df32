"""What is accepted, and how what is not is refused."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import oracle
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier

from pa_select import PASearchCV, class_scores, expected_score, pa_kernel, posterior_agreement

RNG = np.random.default_rng(0)
A = np.round(RNG.normal(size=(40, 3)) * 8).clip(-20, 20)
B = np.round(A + RNG.normal(size=(40, 3)) * 4).clip(-20, 20)
REFERENCE = posterior_agreement(A, B)


def with_value(x, row, column, value):
    x = x.astype(np.float64).copy()
    x[row, column] = value
    return x


WRONG = [
    # scores_a, scores_b, keywords, error, what the message says
    (with_value(A, 7, 1, np.nan), B, {}, ValueError, r"scores_a: .*got nan in row 7, column 1"),
    (A, with_value(B, 3, 2, np.inf), {}, ValueError, r"scores_b: .*got inf in row 3, column 2"),
    (A, with_value(B, 3, 2, 1e200), {}, ValueError, r"scores_b: .*beyond 1e100 in row 3"),
    (with_value(A, 5, [0, 1, 2], -np.inf), B, {}, ValueError, r"scores_a: .*only -inf in row 5"),
    (A, B[:-1], {}, ValueError, r"scores_b: .*\(40, 3\), got \(39, 3\)"),
    (A[:, :1], B[:, :1], {}, ValueError, r"scores_a: .*at least 2 classes, got shape \(40, 1\)"),
    (A[:, 0], B[:, 0], {}, ValueError, r"scores_a: .*got shape \(40,\).*column_stack"),
    (A[:0], B[:0], {}, ValueError, r"scores_a: expected at least one row"),
    (A + 1j, B, {}, TypeError, r"scores_a: expected real numbers, got .*complex128"),
    (A.astype(object), B, {}, TypeError, r"scores_a: expected real numbers, got objects"),
    (sparse.csr_matrix(A), B, {}, TypeError, r"scores_a: expected a dense array.*toarray"),
    (pd.DataFrame(A, columns=list("uvw")), pd.DataFrame(B, columns=list("vuw")), {}, ValueError,
     r"scores_b: expected the columns .*\['u', 'v', 'w'\], got \['v', 'u', 'w'\]"),
    (pd.DataFrame(A), pd.DataFrame(B)[::-1], {}, ValueError,
     "scores_b: expected the rows of scores_a in the same order"),
    ([A, A], [B], {}, ValueError, r"scores_b: expected as many problems as scores_a, 2, got 1"),
    ([A, A], B, {}, ValueError, r"scores_b: expected many problems"),
    ([A, with_value(A, 2, 0, np.nan)], [B, B], {}, ValueError,
     r"scores_a\[1\]: .*got nan in row 2, column 0"),
    (A, B, {"sample_weight": np.ones(39)}, ValueError, r"sample_weight: .*\(40,\), got \(39,\)"),
    (A, B, {"sample_weight": -np.ones(40)}, ValueError, r"sample_weight: .*got -1.0 in row 0"),
    (A, B, {"sample_weight": np.zeros(40)}, ValueError, r"sample_weight: .*positive .*got 0"),
    ([A, A[:9]], [B, B[:9]], {"sample_weight": np.ones(40)}, ValueError,
     r"sample_weight: expected one array for each problem"),
    (A, B, {"prior": "flat"}, ValueError, r"prior: expected 'uniform', 'marginal' .*got 'flat'"),
    (A, B, {"prior": [0.5, 0.5]}, ValueError, r"prior: .*3 classes.*got shape \(2,\)"),
    (A, B, {"prior": [0.5, 0.4, 0.2]}, ValueError, r"prior: .*sum to 1, got 1.1"),
    (A, B, {"prior": [1.5, -0.5, 0]}, ValueError, r"prior: .*positive .*got -0.5 for class 1"),
    (A, B, {"prior": [1, 1e-309, 1e-9]}, ValueError, r"prior: .*at least 1e-100, got 1e-309"),
    (A, B, {"sample_weight": np.full(40, 1e308)}, ValueError, r"sample_weight: .*finite sum"),
    (A, B, {"tol": 0}, ValueError, r"tol: expected at least 1e-12"),
    (A, B, {"device": "quantum"}, ValueError, r"device: expected None, 'auto'.*got 'quantum'"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "keywords", "error", "message"), WRONG)
def test_wrong_input_is_named(a, b, keywords, error, message):
    with pytest.raises(error, match=message):
        posterior_agreement(a, b, **keywords)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there():
    with pytest.raises(ValueError, match=r"device: got 'cuda', but torch finds no CUDA device"):
        posterior_agreement(A, B, device="cuda")
    score = posterior_agreement(A, B, device="auto").score
    assert score == pytest.approx(REFERENCE.score, abs=1e-9)


@pytest.mark.parametrize("beta", [-1, [1, np.nan], -np.inf])
def test_wrong_beta_is_named(beta):
    with pytest.raises(ValueError, match=r"beta: expected inverse temperatures in \[0, inf\]"):
        pa_kernel(A, B, beta)


@pytest.mark.parametrize("prior", [[0.1, 0.9], "uniform", "marginal"], ids=str)
def test_scores_of_any_size_are_certified_alike(prior):
    a, b = np.array([[2.0, 0], [30, 0], [0, 1]]), np.array([[2.0, 0], [0, 30], [0, 3]])
    weight = [3, 0.1, 1]
    expected = posterior_agreement(a, b, prior=prior, sample_weight=weight)
    for size in 10.0 ** np.array([-290, -170, -110, -80, 77, 80, 98]):
        result = posterior_agreement(size * a, size * b, prior=prior, sample_weight=weight)
        assert result.score == pytest.approx(expected.score, abs=1e-9)
        assert size * result.beta == pytest.approx(expected.beta, rel=1e-5)
        assert prior == "marginal" or result.gap <= 1e-6


@pytest.mark.parametrize(("large", "small"), [(1, 1e-290), (1e99, 1e-150), (1e99, 1e-290)])
@pytest.mark.parametrize("n_small", [10, 30])
def test_few_large_margins_among_tiny_ones(large, small, n_small):
    a = np.repeat([large, small], [10, n_small])[:, None] * [1.0, 0.0]
    b = a.copy()
    b[:2] = b[:2, ::-1]
    result = posterior_agreement(a, b)
    attained = pa_kernel(a, b, np.geomspace(0.01 / large, 100 / large, 2000)).max()
    assert attained > 0.04
    assert result.score >= attained - 1e-9
    assert 0 <= result.gap <= 1e-6


def test_one_pair_and_many_classes():
    result = posterior_agreement([[3.0, 1, 0]], [[3.0, 2, 0]])
    assert (result.score, result.beta) == (pytest.approx(np.log(3)), np.inf)
    assert np.isnan(result.standard_error)
    a = np.random.default_rng(0).normal(size=(5, 5000))
    assert posterior_agreement(a, a + 0.1).score == pytest.approx(np.log(5000))


def test_minus_infinity_is_probability_zero():
    # Zero in the same places: the class never counts, also not as beta falls to 0.
    a = np.array([[1.0, 0, -np.inf], [0, 1, -np.inf]])
    with_zeros = posterior_agreement(a, a[::-1])
    assert pa_kernel(a, a[::-1], 0) == pytest.approx(0)
    assert with_zeros.score == pytest.approx(np.log(3 / 2), abs=1e-9)
    assert 0 < with_zeros.beta < 1e-300
    assert pa_kernel(a, a[::-1], with_zeros.beta) == pytest.approx(with_zeros.score)
    # Disjoint posteriors: only beta = 0 is left, whatever the other pairs.
    disjoint = [[0, -np.inf], [5, 0]], [[-np.inf, 0], [5, 0]]
    result = posterior_agreement(*disjoint)
    assert (result.score, result.beta, result.gap) == (0, 0, 0)
    assert pa_kernel([[0, -np.inf]], [[-np.inf, 0]], 1e-9) == -np.inf
    # A pair of weight 0 has no say.
    ignored = posterior_agreement(*disjoint, sample_weight=[0, 1])
    assert (ignored.score, ignored.beta) == (pytest.approx(np.log(2)), np.inf)


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
@pytest.mark.parametrize("seed", range(15))
def test_zero_posteriors_against_brute_force(prior, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 6, 4)) * 3
    a[rng.random(a.shape) < 0.2] = -np.inf
    b[rng.random(b.shape) < 0.2] = -np.inf
    a[:, 0] = b[:, 0] = -1
    result = posterior_agreement(a, b, prior=prior)
    best, _ = oracle.maximum(a, b, prior=prior, n_points=300)
    assert best - 1e-6 <= result.score
    assert best <= result.upper_bound + 1e-9
    at = oracle.kernel(a, b, result.beta, prior=prior)
    assert at == pytest.approx(result.score, abs=1e-9)


def test_repr_says_the_largest_possible_score():
    a, b = 3 * np.eye(2), np.array([[3.0, 0.0], [1.0, 2.0]])
    # All pairs may be of the class with the smallest prior.
    for prior, most in (("uniform", 2), ("marginal", 2), ([0.25, 0.75], 4)):
        largest = f"score=.* nats per pair .*; largest possible {np.log(most):.6g}"
        assert re.search(largest, repr(posterior_agreement(a, b, prior=prior)))
        certain = posterior_agreement(50 * a[:1], 50 * a[:1], prior=prior)
        assert certain.score <= np.log(most) + 1e-5
    with pytest.raises(AttributeError):
        REFERENCE.score = 1.0


def test_several_labels_of_a_row_are_refused_with_a_way_out():
    X = RNG.normal(size=(60, 4))
    Y = (X[:, :3] > 0).astype(int)
    model = MultiOutputClassifier(LogisticRegression()).fit(X, Y)
    with pytest.raises(TypeError, match="one binary problem for each label"):
        class_scores(model, X)
    with pytest.raises(ValueError, match="y: .* one binary problem for each label"):
        PASearchCV(model, {}).fit(X, Y, views=X + 0.1)
    with pytest.raises(ValueError, match="y_val: .* one binary problem for each label"):
        expected_score(model, X[:30], X[:30] + 0.1, X[30:], Y[30:])
