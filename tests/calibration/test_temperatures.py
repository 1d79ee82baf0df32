"""Inverse temperatures from labels and from partners, against plain formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp

from pa_select.calibration.temperatures import (
    HalvesAgreement,
    halves_agreement,
    labels_beta,
    ratio_of,
)


def best_beta(mean_log_likelihood):
    """Where a function of the inverse temperature is largest, by a fine grid and refinement."""
    grid = np.geomspace(1e-3, 1e3, 80)
    best = grid[np.argmax([mean_log_likelihood(beta) for beta in grid])]
    found = minimize_scalar(
        lambda x: -mean_log_likelihood(np.exp(x)),
        bounds=(np.log(best) - 0.2, np.log(best) + 0.2),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return np.exp(found.x)


def likelihood(scores, columns, weight):
    """Weighted log-likelihood of columns with one more row, which is an error."""
    top = scores.argmax(1)
    others = np.where(np.arange(scores.shape[1]) == top[:, None], -np.inf, scores)

    def value(beta):
        p = log_softmax(beta * scores, axis=1)[np.arange(len(scores)), columns]
        error = logsumexp(beta * others, axis=1) - logsumexp(beta * scores, axis=1)
        n = weight.sum()
        return weight @ p / n + (weight[weight > 0].mean() / n) * (weight @ error / n)

    return value


def rows_of(seed, n=60, k=3, noise=1.0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 2, (n, k))
    labels = (truth + rng.gumbel(size=(n, k))).argmax(1)
    first, second = (truth + rng.normal(0, noise, (n, k)) for _ in range(2))
    return first, second, labels, rng.uniform(0.5, 2, n)


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("seed", [0, 1])
def test_temperature_of_labels_against_the_formula(k, seed):
    scores, _, labels, weight = rows_of(seed, k=k)
    found = labels_beta(scores, labels, np.arange(len(scores)), weight)
    assert found == pytest.approx(best_beta(likelihood(scores, labels, weight)), rel=1e-3)


@pytest.mark.parametrize("k", [2, 4])
def test_temperature_of_a_partner_against_the_formula(k):
    first, second, _, weight = rows_of(3, k=k)
    found = halves_agreement(first, second, np.arange(len(first)), weight, "hard")
    both = [
        likelihood(first, second.argmax(1), weight),
        likelihood(second, first.argmax(1), weight),
    ]
    expected = best_beta(lambda beta: both[0](beta) + both[1](beta))
    assert found.beta == pytest.approx(expected, rel=1e-3)
    agree = first.argmax(1) == second.argmax(1)
    assert found.agreement_rate == pytest.approx(np.average(agree, weights=weight))
    assert 0 < found.score < np.log(k)
    assert found.n_rows == len(first)


def test_soft_partner_is_the_agreement_but_for_the_row_of_error():
    from pa_select import posterior_agreement

    first, second, _, _ = rows_of(4, n=3000)
    found = halves_agreement(first, second, np.arange(3000), np.ones(3000), "soft")
    plain = posterior_agreement(first, second)
    assert found.beta == pytest.approx(plain.beta, rel=0.01)
    assert found.score == pytest.approx(plain.score, abs=1e-3)


def test_rows_without_an_error_have_a_finite_temperature():
    scores = np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]] * 20)
    sure = labels_beta(scores, scores.argmax(1), np.arange(60), np.ones(60))
    surer = labels_beta(
        np.tile(scores, (50, 1)), np.tile(scores.argmax(1), 50), np.arange(3000), np.ones(3000)
    )
    # The more rows without an error, the surer, but never infinitely.
    assert 1 < sure < surer < np.inf


def test_a_row_that_is_there_several_times_counts_once():
    first, second, labels, weight = rows_of(5)
    rows = np.arange(len(first))
    once = halves_agreement(first, second, rows, weight, "hard")
    thrice = halves_agreement(
        np.tile(first, (3, 1)), np.tile(second, (3, 1)), np.tile(rows, 3), weight, "hard"
    )
    assert thrice.beta == pytest.approx(once.beta, rel=1e-4)
    assert thrice.agreement_rate == pytest.approx(once.agreement_rate)
    assert thrice.n_rows == once.n_rows
    assert labels_beta(
        np.tile(first, (3, 1)), np.tile(labels, 3), np.tile(rows, 3), weight
    ) == pytest.approx(labels_beta(first, labels, rows, weight), rel=1e-4)


@settings(deadline=None, max_examples=10)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(2, 5),
    scale=st.floats(0.01, 100),
    partner=st.sampled_from(["hard", "soft"]),
)
def test_what_does_not_change_the_ratio(seed, k, scale, partner):
    first, second, _, weight = rows_of(seed, k=k)
    rng = np.random.default_rng(seed)
    order, classes = rng.permutation(len(first)), rng.permutation(k)
    rows = np.arange(len(first))
    found = halves_agreement(first, second, rows, weight, partner)
    moved = [
        scale * (x + rng.normal(size=(len(x), 1)))[order][:, classes] for x in (first, second)
    ]
    again = halves_agreement(*moved, rows, 7 * weight[order], partner)
    swapped = halves_agreement(second, first, rows, weight, partner)
    for other, by in [(again, scale), (swapped, 1)]:
        # A maximum that is certified to 1e-5 nats is known less exactly where it is flat.
        assert other.beta * by == pytest.approx(found.beta, rel=0.05)
        assert other.score == pytest.approx(found.score, abs=1e-4)
        assert other.agreement_rate == pytest.approx(found.agreement_rate)


def test_scores_that_say_nothing_keep_their_temperature():
    assert labels_beta(np.zeros((30, 3)), np.arange(30) % 3, np.arange(30), np.ones(30)) == 1


def test_a_ratio_that_cannot_be_computed():
    known = HalvesAgreement(2.0, 0.5, 0.9, 100)
    nothing = HalvesAgreement(0.0, 0.0, 0.3, 100)
    assert ratio_of(known._replace(beta=1.0), known, "X") == 0.5
    with pytest.warns(UserWarning, match="not corrected"):
        assert ratio_of(known, nothing, "X") == 1.0
    with pytest.warns(UserWarning, match="equally probable"):
        assert ratio_of(nothing, known, "X") == 0.0
