"""Expected scores at another site."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from pa_select import PASearchCV, expected_score
from pa_select.plotting import ExpectedScoreDisplay

GRID = {"C": [1e-3, 1e-2, 1.0, 100.0]}
NAMES = ["C=0.001", "C=0.01", "C=1", "C=100"]


def problem():
    X, y = make_classification(300, 6, n_informative=4, n_redundant=0, random_state=0)
    rng = np.random.default_rng(0)
    a, X = X[:40], X[40:]
    return X, y[40:], a, a + 0.8 * rng.normal(size=a.shape), 2 * a[:, ::-1] + 1


X, Y, A, NOISY, TURNED = problem()


def searched(paired, **params):
    search = PASearchCV(LogisticRegression(), GRID, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return search.fit(X, Y, paired=paired)


@pytest.fixture(scope="module")
def search():
    return searched((A, NOISY))


@pytest.fixture(scope="module")
def adapted():
    return searched({"noisy": (A, NOISY), "turned": (A, TURNED)}, adapter="ridge")


def names_of(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


def test_candidates_of_a_search(search, ax):
    display = ExpectedScoreDisplay.from_result(search, ax=ax)
    table = search.cv_results_
    order = np.argsort(table["expected_score"], kind="stable")
    assert_array_equal(display.candidates_, order)
    assert names_of(ax) == [NAMES[i] for i in order]
    bars = display.errorbars_["expected"]
    assert_array_equal(bars.lines[0].get_xdata(), table["expected_score"][order])
    assert_array_equal(bars.lines[0].get_ydata(), range(4))
    lengths = [np.ptp(segment[:, 0]) for segment in bars.lines[2][0].get_segments()]
    assert_allclose(lengths, 2 * table["expected_score_se"][order])
    limits = np.array([segment[:, 0] for segment in display.intervals_.get_segments()])
    assert_array_equal(limits[:, 0], table["expected_score_low"][order])
    assert_array_equal(limits[:, 1], table["expected_score_high"][order])
    assert_array_equal(display.claimed_.get_xdata(), table["mean_test_score"][order])
    (row,) = np.flatnonzero(order == search.best_index_)
    assert display.chosen_.get_ydata() == row
    assert display.chosen_.get_xdata() == search.expected_score_
    assert display.true_ is None
    assert ax.get_xlabel() == "expected accuracy at the other site"


def test_error_bars_end_where_the_interval_ends(ax):
    bounds = {"low": [0.0, 0.5], "high": [0.1, 1.0]}
    display = ExpectedScoreDisplay(score=[0.02, 0.98], standard_error=[0.05, 0.05], **bounds)
    (bars,) = display.plot(ax).errorbars_["expected"].lines[2]
    ends = [segment[:, 0] for segment in bars.get_segments()]
    assert_allclose(ends, [[0, 0.07], [0.93, 1]])


def test_the_worst_site_or_a_named_one(adapted, ax):
    worst = ExpectedScoreDisplay.from_result(adapted, ax=ax)
    assert ax.get_xlabel() == "expected accuracy at the worst site"
    assert_array_equal(worst.score, adapted.cv_results_["expected_score"])
    one = ExpectedScoreDisplay.from_result(adapted, site="turned", ax=ax)
    assert ax.get_xlabel() == "expected accuracy at turned"
    table = adapted.cv_results_
    assert_array_equal(one.score, table["expected_score_turned"])
    assert_array_equal(one.low, table["expected_score_low_turned"])
    assert_array_equal(one.adapted, table["adapted_turned"])
    named = ExpectedScoreDisplay.from_result(searched({"b": (A, NOISY)}))
    assert named.ax_.get_xlabel() == "expected accuracy at b"


def test_true_scores(search, ax):
    truth = np.array([0.5, 0.6, 0.7, 0.8])
    for given in (truth, truth.tolist(), dict(zip(NAMES, truth, strict=True))):
        display = ExpectedScoreDisplay.from_result(search, true_scores=given, ax=ax)
        assert_array_equal(display.true_.get_xdata(), truth[display.candidates_])
    some = ExpectedScoreDisplay.from_result(search, true_scores={NAMES[0]: 0.5}, ax=ax)
    assert np.isfinite(some.true_.get_xdata()).sum() == 1


def test_scores_of_trained_classifiers(ax):
    models = {
        name: LogisticRegression(C=c).fit(X[:150], Y[:150]) for name, c in [("a", 1), ("b", 1e-3)]
    }
    scores = expected_score(models, A, NOISY, X[150:], Y[150:])
    display = ExpectedScoreDisplay.from_result(scores, true_scores={"b": 0.7}, ax=ax)
    assert sorted(names_of(ax)) == ["a", "b"]
    assert display.chosen_ is None
    first = list(display.candidates_).index(0)
    assert display.claimed_.get_xdata()[first] == scores["a"].validation_score
    alone = ExpectedScoreDisplay.from_result(scores["a"], true_scores=0.8, ax=ax)
    assert alone.true_.get_xdata() == 0.8


def test_at_most_so_many_rows_and_the_chosen_one_among_them(ax):
    for n, rows in ((40, [3, *range(11, 40)]), (30, range(30))):
        given = {"score": np.arange(n) / n, "standard_error": np.full(n, 0.1), "best_index": 3}
        assert_array_equal(ExpectedScoreDisplay(**given).plot(ax).candidates_, rows)
