"""The interval of an accuracy at another site: exact coverage, width, and groups of rows."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest, t
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import balanced_accuracy_score, get_scorer, make_scorer, zero_one_loss
from sklearn.model_selection import KFold

from pa_select import PASearchCV, expected_score
from pa_select.scores.precomputed import RecordedClassifier
from pa_select.two_sites.classification import Classification
from pa_select.two_sites.score_of_units import (
    LabelledRows,
    accuracy_interval,
    effective_number,
    error_of_score,
    widening,
)

N_LABELLED, N_PAIRS = (20, 40, 100, 300), (2, 5, 10, 20, 40, 100, 300)
RATES = np.unique(np.r_[0.002, 0.005, np.arange(51) / 50, 0.995, 0.998].round(3))


def plain_accuracy(y, predicted, sample_weight=None):
    return np.average(y == predicted, weights=sample_weight)


def with_added_successes(accuracy, n_labelled, disagreement, n_pairs):
    """The interval of 1.96 standard errors, with two successes and two failures added."""
    variance = 0.0
    for rate, n in ((accuracy, n_labelled), (disagreement, n_pairs)):
        added = (rate * n + 2) / (n + 4)
        variance = variance + added * (1 - added) / (n + 4)
    reach = disagreement + 1.96 * np.sqrt(variance)
    return np.maximum(accuracy - reach, 0), np.minimum(accuracy + reach, 1)


def coverage_and_width(interval, n, m):
    """The smallest probability that the interval holds the truth, and its mean width.

    The accuracy at a and the disagreement have the `RATES`, and the accuracy at b is the one
    minus or plus the other, which is the worst that the disagreement allows.
    """
    right, differ = np.arange(n + 1)[:, None], np.arange(m + 1)
    low, high = interval(right / n, n, differ / m, m)
    of_right, of_differ = binom.pmf(right, n, RATES), binom.pmf(differ[:, None], m, RATES)
    below = (RATES[:, None] - RATES).round(6)
    above = (RATES[:, None] + RATES).round(6)
    smallest = 1.0
    for truth in np.unique(below[below >= 0]):
        holds = (low <= truth + 1e-9) & (truth - 1e-9 <= high)
        coverage = of_right.T @ holds @ of_differ
        smallest = min(smallest, coverage[(below == truth) | (above == truth)].min())
    width = of_right.T @ (high - low) @ of_differ
    return smallest, width[below >= 0].mean()


@pytest.mark.parametrize("n_labelled", N_LABELLED)
def test_it_holds_the_truth_in_every_case_that_the_disagreement_allows(n_labelled):
    for n_pairs in N_PAIRS:
        coverage, width = coverage_and_width(accuracy_interval, n_labelled, n_pairs)
        assert coverage >= 0.945, n_pairs
        if n_pairs >= 100:
            _, approximate = coverage_and_width(with_added_successes, n_labelled, n_pairs)
            assert width <= 1.1 * approximate


def test_the_limits_of_each_rate_are_those_of_clopper_and_pearson():
    # With pairs beyond number that all agree, only the rows are uncertain.
    for right, n in ((0, 7), (3, 11), (95, 100), (40, 40)):
        low, high = accuracy_interval(right / n, n, 0.0, 1e12)
        exact = binomtest(right, n).proportion_ci(0.95, "exact")
        assert low == pytest.approx(exact.low, abs=1e-9)
        assert high == pytest.approx(exact.high, abs=1e-9)


def test_how_many_independent_rows_groups_are_worth():
    rng = np.random.default_rng(0)
    right = rng.random(400) < 0.8
    assert effective_number(right, np.arange(400), 400) == pytest.approx(399)
    each = np.repeat(np.arange(400), 5)
    assert effective_number(right[each], each, 2000) == pytest.approx(
        399 / widening(400, 2000) ** 2
    )
    # Groups whose rows are independent cost nothing but chance.
    found = [effective_number(rng.random(400) < 0.8, np.arange(400) // 4, 400) for _ in range(200)]
    assert np.mean(found) == pytest.approx(375, abs=20)
    assert effective_number(np.ones(400, dtype=bool), np.arange(400) // 4, 400) == 100
    # Five groups of equal accuracy, in which rows differ, however rounding says that they vary.
    equal = effective_number(np.tile(right[:70], 5), np.repeat(np.arange(5), 70), 350)
    assert equal == pytest.approx(350 / widening(5, 350) ** 2)


def test_one_group_is_no_sample_of_groups():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=300) > 0).astype(int)
    a, b = X[:60], X[:60] + 0.1 * rng.normal(size=(60, 2))
    X, y, one = X[60:], y[60:], np.zeros(240)
    model = LogisticRegression().fit(X[:100], y[:100])
    message = "groups: expected rows of at least two groups, got rows of one group"
    for scoring in ("accuracy", "f1", lambda *given, **more: 0.5):
        with pytest.raises(ValueError, match=message):
            expected_score(model, a, b, X[100:], y[100:], groups=one[100:], scoring=scoring)
    line = LinearRegression().fit(X[:100], y[:100])
    with pytest.raises(ValueError, match=message):
        expected_score(line, a, b, X[100:], y[100:], groups=one[100:])
    search = PASearchCV(LogisticRegression(), {"C": [1.0]}, cv=list(KFold(3).split(X)))
    with pytest.raises(ValueError, match=message):
        search.fit(X, y, paired=(a, b), groups=one)


def grouped(n_groups, rng):
    """Rows whose accuracy is 0.7 in the mean, and varies from group to group."""
    groups = np.repeat(np.arange(n_groups), 30)
    y = np.tile([0, 1], len(groups) // 2)
    right = rng.random(len(y)) < rng.beta(7, 3, n_groups)[groups]
    return RecordedClassifier(np.array([0, 1]), np.eye(2)[y], np.where(right, y, 1 - y)), y, groups


@pytest.mark.parametrize("n_groups", [3, 5, 10])
def test_few_groups_that_differ_are_covered(n_groups):
    rng = np.random.default_rng(n_groups)
    held, scorer = [], get_scorer("accuracy")
    for _ in range(600):
        model, y, groups = grouped(n_groups, rng)
        right = model.predicted == y
        n, score = effective_number(right, groups, len(y)), right.mean()
        low, high = accuracy_interval(score, n, 0.0, 1e12)
        labelled = LabelledRows(y, [np.arange(len(y))], groups)
        error = error_of_score(Classification(), scorer, score, labelled, [model])
        held.append([low <= 0.7 <= high, abs(score - 0.7) <= 1.96 * error])
        pairs = [[model], [model]]  # whose predictions are the same
        found = Classification().interval(scorer, score, labelled, lambda m=model: [m], *pairs)
        assert found == pytest.approx(accuracy_interval(score, n, 0.0, len(y)))
    assert np.mean(held, axis=0).min() >= 0.925


@pytest.mark.parametrize("n_groups", [5, 20])
def test_errors_of_all_metrics_widen_for_few_groups(n_groups):
    model, y, groups = grouped(n_groups, np.random.default_rng(0))
    right = model.predicted == y
    by_group = right.reshape(n_groups, 30).mean(1)
    spread = by_group.std(ddof=1) / np.sqrt(n_groups)
    expected = spread * t.ppf(0.975, n_groups - 1) / t.ppf(0.975, len(y) - 1)
    for metric in (zero_one_loss, plain_accuracy):
        scorer = make_scorer(metric)
        score, labelled = metric(y, model.predicted), LabelledRows(y, [np.arange(len(y))], groups)
        error = error_of_score(Classification(), scorer, score, labelled, [model])
        assert error == pytest.approx(expected)


def test_only_a_share_that_is_not_adjusted_is_at_least_0():
    scorers = [
        make_scorer(balanced_accuracy_score, adjusted=adjusted) for adjusted in (False, True)
    ]
    assert [Classification().in_range(scorer, -0.2) for scorer in scorers] == [0, -0.2]
    assert [Classification().in_range(scorer, 1.2) for scorer in scorers] == [1, 1]
