"""Comparisons of agreements, and standard errors of groups of pairs."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from pa_select import compare_agreement, pa_kernel, posterior_agreement


def draw(seed=0, n=150, k=4, noise=1.0):
    rng = np.random.default_rng(seed)
    y = rng.choice(k, n, p=[0.5, 0.3, 0.1, 0.1])
    scores = 2 * np.eye(k)[y] + rng.normal(size=(n, k))
    return y, scores, scores + noise * rng.normal(size=(n, k))


def test_comparison_of_classifiers_on_the_same_pairs():
    _, a, b = draw()
    _, _, noisier = draw(noise=2.0)
    steady, shaky = posterior_agreement(a, b), posterior_agreement(a, noisier)
    found = compare_agreement(steady, shaky)
    terms = steady.terms - shaky.terms
    assert found.difference == pytest.approx(steady.score - shaky.score)
    assert found.standard_error == pytest.approx(terms.std(ddof=1) / np.sqrt(len(terms)))
    # Student's t, with one pair that speaks against the difference.
    excess = np.abs(terms).max() - np.sqrt(np.mean(terms**2))
    against = np.r_[terms, -np.sign(terms.mean()) * excess]
    mean, error = against.mean(), against.std(ddof=1) / np.sqrt(len(against))
    assert found.p_value == pytest.approx(2 * student.sf(abs(mean) / error, len(terms) - 1))
    assert found.p_value > 2 * norm.sf(abs(found.difference) / found.standard_error)
    assert found.p_adjusted == found.p_value
    # Half the pairs have an error that is larger by the root of two.
    half = slice(None, None, 2)
    of_half = [posterior_agreement(a[half], x[half]) for x in (b, noisier)]
    assert compare_agreement(*of_half).standard_error > 1.2 * found.standard_error
    # Pairs in groups of five are not independent.
    clustered = compare_agreement(steady, shaky, groups=np.arange(len(a)) // 5)
    assert clustered.standard_error != found.standard_error
    same = compare_agreement(steady, steady)
    assert (same.difference, same.standard_error, same.p_value) == (0, 0, 1)


def test_many_comparisons_are_adjusted_by_holm():
    _, a, b = draw()
    reference = posterior_agreement(a, b)
    others = [posterior_agreement(a, draw(noise=noise)[2]) for noise in (1.02, 1.5)]
    found = compare_agreement(reference, others)
    p = sorted(x.p_value for x in found)
    adjusted = sorted(x.p_adjusted for x in found)
    assert adjusted == pytest.approx([min(2 * p[0], 1), max(min(2 * p[0], 1), p[1])])


def test_results_keep_their_scores():
    _, a, b = draw()
    again = pickle.loads(pickle.dumps(posterior_agreement(a, b)))
    assert pa_kernel(again.source.a, again.source.b, again.beta) == pytest.approx(again.score)


def without_scores(result):
    return replace(result, source=None)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: compare_agreement(without_scores(r), r), "result_a: .* one without scores"),
        (lambda r: compare_agreement(r, without_scores(r)), "result_b: .* one without scores"),
        (
            lambda r: compare_agreement(r, posterior_agreement(*draw(n=20)[1:])),
            "result_b: expected the pairs and weights of result_a, 150 pairs, got 20",
        ),
        (
            lambda r: compare_agreement(r, posterior_agreement(*draw()[1:], prior="marginal")),
            "result_b: expected the prior of result_a, 'uniform', got 'marginal'",
        ),
        (lambda r: compare_agreement(0.5, r), "result_a: expected a result .* got float"),
    ],
)
def test_bad_input(call, message):
    result = posterior_agreement(*draw()[1:])
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        call(result)


def test_standard_error_of_groups_of_pairs():
    # Every pair three times, as rows of one group: the error is that of the pairs once.
    _, a, b = draw()
    once = posterior_agreement(a, b)
    groups = [f"patient {i}" for i in range(len(a))] * 3
    a, b = np.tile(a, (3, 1)), np.tile(b, (3, 1))
    clustered = posterior_agreement(a, b, groups=groups)
    assert clustered.score == pytest.approx(once.score, abs=1e-9)
    assert clustered.standard_error == pytest.approx(once.standard_error, rel=1e-6)
    assert posterior_agreement(a, b).standard_error < 0.6 * once.standard_error
    batch = posterior_agreement([a, a], [b, b], groups=groups)
    assert [r.standard_error for r in batch] == pytest.approx([once.standard_error] * 2, rel=1e-6)
    with pytest.raises(ValueError, match=r"groups: expected shape \(\d+,\), got"):
        posterior_agreement(a, b, groups=groups[:-1])
