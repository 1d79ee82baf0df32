"""What the thesis reads from posteriors, by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import entr, softmax

from pa_select import posterior_agreement
from papers.posteriors import confidence, decompose, entropy_change, generalization


def draw(seed=0, n=150, k=4, noise=1.0):
    rng = np.random.default_rng(seed)
    y = rng.choice(k, n, p=[0.5, 0.3, 0.1, 0.1])
    scores = 2 * np.eye(k)[y] + rng.normal(size=(n, k))
    return y, scores, scores + noise * rng.normal(size=(n, k))


def groups_of(y, a, b):
    top_a, top_b = a.argmax(1), b.argmax(1)
    return {
        "agree_right": (top_a == top_b) & (top_a == y),
        "agree_wrong": (top_a == top_b) & (top_a != y),
        "disagree": top_a != top_b,
    }


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
def test_the_decomposition_is_exact(prior):
    y, a, b = draw()
    weight = np.random.default_rng(1).integers(0, 4, len(a)).astype(float)
    result = posterior_agreement(a, b, prior=prior, sample_weight=weight)
    groups = groups_of(y, a, b)
    parts = decompose(result, y)
    assert list(parts) == list(groups)
    for name, here in groups.items():
        assert parts[name].n_pairs == np.count_nonzero(weight[here])
        total = sum(w * t for w, t in zip(weight[here], result.terms[here], strict=True))
        assert parts[name].total == pytest.approx(total)
    assert sum(p.total for p in parts.values()) == pytest.approx(weight.sum() * result.score)
    assert sum(p.share for p in parts.values()) == pytest.approx(1)
    assert np.isfinite(parts["agree_right"].approximate) == (prior == "uniform")
    without = decompose(result)
    agree = parts["agree_right"].total + parts["agree_wrong"].total
    assert without["agree"].total == pytest.approx(agree)


def test_the_thesis_approximation_by_its_own_formula():
    # Two classes, all rows right and equally certain, a fifth of them flipped.
    a = np.tile([2.0, 0.0], (100, 1))
    b = a.copy()
    b[:20] = [0.0, 2.0]
    result = posterior_agreement(a, b)
    assert result.score == pytest.approx(np.log(2) + 0.8 * np.log(0.8) + 0.2 * np.log(0.2))
    parts = decompose(result, np.zeros(100, dtype=int))
    delta = 1 / (1 + np.exp(2 * result.beta))
    agree = 100 * 0.8 * (np.log(1 - 2 * delta) + np.log(2))
    assert parts["agree_right"].approximate == pytest.approx(agree)
    assert parts["disagree"].approximate == pytest.approx(100 * 0.2 * (np.log(delta) + np.log(2)))
    assert parts["agree_wrong"].approximate == parts["agree_wrong"].total == 0
    assert [part.n_by_rates for part in parts.values()] == pytest.approx([80, 0, 20])
    assert parts["agree_right"].doubt == pytest.approx(delta)
    assert parts["disagree"].doubt == pytest.approx(delta)
    assert np.isnan(parts["agree_wrong"].doubt)


def test_certain_posteriors_decompose():
    labels = np.eye(3)[[0, 1, 2, 0]]
    result = posterior_agreement(labels, labels)
    assert result.beta == np.inf
    part = decompose(result, [0, 1, 2, 2])["agree_right"]
    assert part.total == pytest.approx(3 * np.log(3))
    assert part.approximate == pytest.approx(3 * np.log(3))


def test_confidence_of_groups():
    y, a, b = draw()
    result = posterior_agreement(a, b, sample_weight=np.arange(len(a)) % 3)
    weight = result.source.weight
    for beta in (None, 0, 1.0, np.inf):
        at = result.beta if beta is None else beta
        found = confidence(result, y, beta=beta)
        assert list(found) == list(decompose(result, y))
        p, q = (softmax(min(at, 1e9) * x, axis=1) for x in (a, b))
        top_a, top_b = a.argmax(1), b.argmax(1)
        rows = np.arange(len(a))
        masks = groups_of(y, a, b) | {"right": top_a == y, "wrong": top_a != y}
        masks["misled"] = (top_a == y) & (top_b != y)
        found |= confidence(result, y, beta=beta, misled=True)
        assert found.keys() == masks.keys()
        for name, here in masks.items():
            w = np.where(here, weight, 0)
            group = found[name]
            assert group.n_pairs == (w > 0).sum()
            per_pair = p[rows, top_a], q[rows, top_b], q[rows, top_a], entr(p).sum(1)
            of_group = group.first, group.second, group.kept, group.entropy
            assert of_group == pytest.approx(np.average(per_pair, axis=1, weights=w), abs=1e-12)
    assert np.isnan(confidence(posterior_agreement(a, a))["disagree"].first)


@pytest.mark.parametrize("weighted", [False, True])
def test_entropy_change_is_that_of_the_correct_rows(weighted):
    y, a, b = draw()
    weight = np.random.default_rng(1).integers(0, 3, len(a)) if weighted else None
    result = posterior_agreement(a, b, sample_weight=weight)
    w = np.ones(len(a)) if weight is None else weight.astype(float)
    for labels, rows in ((y, a.argmax(1) == y), (None, np.ones(len(a), dtype=bool))):
        found = entropy_change(result, labels)
        used = rows & (w > 0)
        before, after = (softmax(beta * a[used], axis=1) for beta in (1.0, result.beta))
        of_rows = np.average(entr(after).sum(1) - entr(before).sum(1), weights=w[used])
        averages = [np.average(p, 0, w[used]) for p in (before, after)]
        assert found.n_rows == used.sum()
        assert found.of_rows == pytest.approx(of_rows, abs=1e-12)
        assert found.of_average == pytest.approx(np.diff(entr(averages).sum(1))[0], abs=1e-12)
    nothing = entropy_change(result, (a.argmax(1) + 1) % a.shape[1])
    assert nothing.n_rows == 0
    assert np.isnan(nothing[1:]).all()


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
    found = generalization(result)
    assert found.error >= -result.score - 1e-9
    assert 0 <= found.divergence <= np.log(5)
    if np.isfinite(result.beta):
        assert_allclose(found, by_hand(a, b, weight, prior, result.beta), atol=1e-9)


def test_the_error_can_be_negative():
    # The same certain posteriors of balanced classes.
    result = posterior_agreement(np.eye(4), np.eye(4))
    assert result.beta == np.inf
    assert_allclose(generalization(result), [-np.log(4), 0], atol=1e-12)


def test_what_is_impossible_in_the_second_sample_costs_infinitely_much():
    a, b = np.zeros((2, 2)), np.array([[0, -np.inf], [0, 0]])
    assert generalization(posterior_agreement(a, b)).error == np.inf
    # And nothing if the first sample does not hold it possible either.
    assert np.isfinite(generalization(posterior_agreement(b, b)).error)
