"""The bootstrap, comparisons and the decomposition of an agreement."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import entr, softmax
from scipy.stats import norm
from scipy.stats import t as student

from pa_select import (
    agreement_matrix,
    bootstrap_agreement,
    compare_agreement,
    pa_kernel,
    posterior_agreement,
)


def draw(seed=0, n=150, k=4, noise=1.0):
    rng = np.random.default_rng(seed)
    y = rng.choice(k, n, p=[0.5, 0.3, 0.1, 0.1])
    scores = 2 * np.eye(k)[y] + rng.normal(size=(n, k))
    return y, scores, scores + noise * rng.normal(size=(n, k))


@pytest.mark.parametrize("prior", ["uniform", "marginal", [0.1, 0.2, 0.3, 0.4]])
def test_every_replicate_is_maximised_anew(prior):
    _, a, b = draw()
    weight = np.random.default_rng(1).integers(0, 3, len(a))
    result = posterior_agreement(a, b, prior=prior, sample_weight=weight)
    found = bootstrap_agreement(result, 20, random_state=np.random.RandomState(5))  # noqa: NPY002
    rng = np.random.RandomState(5)  # noqa: NPY002
    drawn = np.flatnonzero(weight)
    counts = np.zeros((20, len(a)))
    counts[:, drawn] = rng.multinomial(len(drawn), np.full(len(drawn), 1 / len(drawn)), 20)
    for score, count in zip(found.scores, counts, strict=True):
        rows = np.repeat(np.arange(len(a)), (count * weight).astype(int))
        expected = posterior_agreement(a[rows], b[rows], prior=prior).score
        assert score == pytest.approx(expected, abs=1e-5)
    assert repr(found).startswith("AgreementBootstrap(20 replicates, standard_error=0.")
    assert found.standard_error == found.scores.std(ddof=1)
    assert found.interval[0] < result.score < found.interval[1]


def test_groups_are_resampled_whole():
    _, a, b = draw(n=60)
    pairs = [np.repeat(x, 5, axis=0) for x in (a, b)]
    groups = np.repeat(np.arange(60), 5)
    repeated = posterior_agreement(*pairs)
    whole = bootstrap_agreement(repeated, 200, groups=groups, random_state=0)
    once = bootstrap_agreement(posterior_agreement(a, b), 200, random_state=0)
    np.testing.assert_allclose(whole.scores, once.scores, atol=1e-9)
    by_pair = bootstrap_agreement(repeated, 200, random_state=0)
    assert by_pair.standard_error < 0.7 * whole.standard_error


def test_comparison_of_classifiers_on_the_same_pairs():
    _, a, b = draw()
    _, _, noisier = draw(noise=2.0)
    steady, shaky = posterior_agreement(a, b), posterior_agreement(a, noisier)
    found = compare_agreement(steady, shaky)
    terms = steady.terms - shaky.terms
    assert found.difference == steady.score - shaky.score
    assert found.standard_error == pytest.approx(terms.std(ddof=1) / np.sqrt(len(terms)))
    # Student's t, with one pair that speaks against the difference.
    excess = np.abs(terms).max() - np.sqrt(np.mean(terms**2))
    against = np.r_[terms, -np.sign(terms.mean()) * excess]
    mean, error = against.mean(), against.std(ddof=1) / np.sqrt(len(against))
    assert found.p_value == pytest.approx(2 * student.sf(abs(mean) / error, len(terms) - 1))
    assert found.p_value > 2 * norm.sf(abs(found.difference) / found.standard_error)
    assert found.p_adjusted == found.p_value
    # The same seed draws the same replicates of both.
    one, other = (bootstrap_agreement(x, 300, random_state=0).scores for x in (steady, shaky))
    assert (one - other).std() == pytest.approx(found.standard_error, rel=0.2)
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
    parts = result.decompose(y)
    assert list(parts) == list(groups)
    for name, here in groups.items():
        assert parts[name].n_pairs == np.count_nonzero(weight[here])
        total = sum(w * t for w, t in zip(weight[here], result.terms[here], strict=True))
        assert parts[name].total == pytest.approx(total)
    assert sum(p.total for p in parts.values()) == pytest.approx(weight.sum() * result.score)
    assert sum(p.share for p in parts.values()) == pytest.approx(1)
    assert np.isfinite(parts["agree_right"].approximate) == (prior == "uniform")
    without = result.decompose()
    agree = parts["agree_right"].total + parts["agree_wrong"].total
    assert without["agree"].total == pytest.approx(agree)


def test_the_thesis_approximation_by_its_own_formula():
    # Two classes, all rows right and equally certain, a fifth of them flipped.
    a = np.tile([2.0, 0.0], (100, 1))
    b = a.copy()
    b[:20] = [0.0, 2.0]
    result = posterior_agreement(a, b)
    assert result.score == pytest.approx(np.log(2) + 0.8 * np.log(0.8) + 0.2 * np.log(0.2))
    parts = result.decompose(np.zeros(100, dtype=int))
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
    part = result.decompose([0, 1, 2, 2])["agree_right"]
    assert part.total == pytest.approx(3 * np.log(3))
    assert part.approximate == pytest.approx(3 * np.log(3))


def test_results_keep_their_scores():
    _, a, b = draw()
    again = pickle.loads(pickle.dumps(posterior_agreement(a, b)))
    assert again.decompose()["agree"].n_pairs > 0
    assert pa_kernel(again.source.a, again.source.b, again.beta) == pytest.approx(again.score)
    assert bootstrap_agreement(posterior_agreement([a], [b])[0], 3).scores.shape == (3,)
    assert not hasattr(agreement_matrix([a, b]), "source")


def without_scores(result):
    return replace(result, source=None)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: bootstrap_agreement(r, 1), "n: expected an integer of at least 2"),
        (lambda r: bootstrap_agreement(r, 1e3), "n: expected an integer .*, got 1000.0"),
        (lambda r: bootstrap_agreement(r, groups=[1]), r"groups: expected shape \(150,\), got"),
        (lambda r: bootstrap_agreement(r, groups=np.ones(150)), "groups: expected at least two"),
        (lambda r: bootstrap_agreement(r, groups=np.full(150, np.nan)), "groups: .* nan in row 0"),
        (lambda r: bootstrap_agreement(r, 9, confidence_level=95), "confidence_level: expected"),
        (lambda r: bootstrap_agreement(np.eye(3)), "result: expected a result .*, got ndarray"),
        (lambda r: compare_agreement(r.score, r), "result_a: expected a result .*, got float"),
        (lambda r: compare_agreement(r, r.score), "result_b: expected a result .*, got float"),
        (lambda r: compare_agreement(r, [r, None]), r"result_b\[1\]: .*, got NoneType"),
        (lambda r: compare_agreement(without_scores(r), r), "result_a: .* one without scores"),
        (lambda r: compare_agreement(r, without_scores(r)), "result_b: .* one without scores"),
        (
            lambda r: compare_agreement(r, posterior_agreement(*draw(n=20)[1:])),
            "result_b: expected the pairs and weights of result_a, 150 pairs, got 20",
        ),
        (lambda r: r.decompose([0, 1]), "y: expected one label for each of 150 pairs"),
        (lambda r: r.decompose(np.full(150, 4)), "y: expected the columns of the true classes"),
        (lambda r: r.decompose(["0"] * 150), "y: expected the columns .*, 0 to 3, got '0'"),
        (lambda r: r.confidence(beta=-1), "beta: expected inverse temperatures"),
        (lambda r: r.confidence(misled=True), "y: expected labels for the groups of misled=True"),
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


def test_confidence_of_groups():
    y, a, b = draw()
    result = posterior_agreement(a, b, sample_weight=np.arange(len(a)) % 3)
    weight = result.source.weight
    for beta in (None, 0, 1.0, np.inf):
        at = result.beta if beta is None else beta
        found = result.confidence(y, beta=beta)
        assert list(found) == list(result.decompose(y))
        p, q = (softmax(min(at, 1e9) * x, axis=1) for x in (a, b))
        top_a, top_b = a.argmax(1), b.argmax(1)
        rows = np.arange(len(a))
        masks = groups_of(y, a, b) | {"right": top_a == y, "wrong": top_a != y}
        masks["misled"] = (top_a == y) & (top_b != y)
        found |= result.confidence(y, beta=beta, misled=True)
        assert found.keys() == masks.keys()
        for name, here in masks.items():
            w = np.where(here, weight, 0)
            group = found[name]
            assert group.n_pairs == (w > 0).sum()
            per_pair = p[rows, top_a], q[rows, top_b], q[rows, top_a], entr(p).sum(1)
            of_group = group.first, group.second, group.kept, group.entropy
            assert of_group == pytest.approx(np.average(per_pair, axis=1, weights=w), abs=1e-12)
    assert np.isnan(posterior_agreement(a, a).confidence()["disagree"].first)


@pytest.mark.parametrize("weighted", [False, True])
def test_entropy_change_is_that_of_the_correct_rows(weighted):
    y, a, b = draw()
    weight = np.random.default_rng(1).integers(0, 3, len(a)) if weighted else None
    result = posterior_agreement(a, b, sample_weight=weight)
    w = np.ones(len(a)) if weight is None else weight.astype(float)
    for labels, rows in ((y, a.argmax(1) == y), (None, np.ones(len(a), dtype=bool))):
        found = result.entropy_change(labels)
        used = rows & (w > 0)
        before, after = (softmax(beta * a[used], axis=1) for beta in (1.0, result.beta))
        of_rows = np.average(entr(after).sum(1) - entr(before).sum(1), weights=w[used])
        averages = [np.average(p, 0, w[used]) for p in (before, after)]
        assert found.n_rows == used.sum()
        assert found.of_rows == pytest.approx(of_rows, abs=1e-12)
        assert found.of_average == pytest.approx(np.diff(entr(averages).sum(1))[0], abs=1e-12)
    nothing = result.entropy_change((a.argmax(1) + 1) % a.shape[1])
    assert nothing.n_rows == 0
    assert np.isnan(nothing[1:]).all()
