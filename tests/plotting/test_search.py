"""The candidates of a search."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pa_select import PASearchCV, pa_scorer
from pa_select.model_selection import GuardedSelection
from pa_select.plotting import PASearchDisplay

X, Y = load_wine(return_X_y=True)
MODEL = make_pipeline(StandardScaler(), LogisticRegression())
GRID = {"logisticregression__C": [1e-4, 1e-3, 0.01, 0.1, 1, 100]}
FEW = {"logisticregression__C": [1e-4, 0.01, 1]}


@pytest.fixture(scope="module")
def search():
    return PASearchCV(MODEL, GRID, scoring="balanced_accuracy").fit(X, Y)


def points(container):
    return np.column_stack(container.lines[0].get_data())


def lengths(bars):
    return [np.abs(segment[1] - segment[0]).max() for segment in bars.get_segments()]


def made(score, value, **given):
    """A display of some candidates, all eligible if nothing else is given."""
    n = len(score)
    given = {"eligible": np.ones(n, dtype=bool), "score_error": np.full(n, 0.005)} | given
    return PASearchDisplay(score=score, value=value, **given)


def test_candidates(search, ax):
    display = PASearchDisplay.from_result(search, ax=ax)
    table = search.cv_results_
    eligible = table["eligible"]
    assert 0 < eligible.sum() < 6
    both = np.column_stack([table["mean_test_score"], table["agreement"]])
    assert_array_equal(points(display.errorbars_["eligible"]), both[eligible])
    assert_array_equal(points(display.errorbars_["not eligible"]), both[~eligible])
    across, up = display.errorbars_["eligible"].lines[2]
    assert_allclose(lengths(across), 2 * table["se_test_score"][eligible])
    assert_allclose(lengths(up), 2 * table["agreement_se"][eligible])
    assert (table["agreement_se"][eligible] > 0).all()
    assert_array_equal(np.ravel(display.chosen_.get_data()), both[search.best_index_])
    assert ax.get_xlabel() == "cross-validated balanced accuracy, with standard error"
    assert ax.get_ylabel() == "agreement (nats per pair),\nwith standard error"


def test_with_pairs_the_expected_score_is_drawn(ax):
    twice = X[::3], X[::3] + np.random.default_rng(0).normal(0, 0.6, (60, 13)) * X.std(0)
    rest = np.arange(len(Y)) % 3 > 0
    options = {"scoring": ["balanced_accuracy", "accuracy"], "refit": "accuracy", "cv": 3}
    search = PASearchCV(MODEL, FEW, **options).fit(X[rest], Y[rest], paired=twice)
    table = search.cv_results_
    display = PASearchDisplay.from_result(search, ax=ax)
    assert ax.get_ylabel() == "expected accuracy at the other site,\nwith standard error"
    assert ax.get_xlabel() == "cross-validated accuracy, with standard error"
    both = np.column_stack([table["mean_test_accuracy"], table["expected_accuracy"]])
    eligible = table["eligible"]
    assert_array_equal(points(display.errorbars_["eligible"]), both[eligible])
    _, up = display.errorbars_["eligible"].lines[2]
    assert_allclose(lengths(up), 2 * table["expected_accuracy_se"][eligible])
    assert_array_equal(np.ravel(display.chosen_.get_data()), both[search.best_index_])
    assert both[search.best_index_, 1] == both[eligible, 1].max()
    # Where the agreement decided it is drawn.
    search.set_params(refit="agreement").fit(X[rest], Y[rest], paired=twice)
    PASearchDisplay.from_result(search, ax=ax)
    assert ax.get_ylabel().startswith("agreement (nats per pair)")


def test_several_metrics_views_and_no_choice(ax):
    search = PASearchCV(MODEL, FEW, scoring=["accuracy", "f1_macro"], refit="f1_macro", cv=3)
    search.fit(X, Y, views=1.1 * X)
    table = search.cv_results_
    display = PASearchDisplay.from_result(search, ax=ax)
    # With views the score on their rows is the guard.
    assert ax.get_xlabel().startswith("cross-validated f1 macro on the views, ")
    assert_array_equal(display.score, table["mean_test_f1_macro_views"])
    assert display.threshold_ is not None
    search.set_params(refit=False).fit(X, Y)
    nothing = PASearchDisplay.from_result(search, ax=ax)
    assert nothing.chosen_ is None
    assert nothing.score_name == "accuracy"


def test_a_search_of_scikit_learn(ax):
    scoring, rule = {"pa": pa_scorer, "accuracy": "accuracy"}, GuardedSelection("pa", "accuracy")
    search = GridSearchCV(MODEL, GRID, scoring=scoring, refit=rule, cv=3).fit(X, Y)
    display = PASearchDisplay.from_result(search, ax=ax)
    assert_array_equal(display.value, search.cv_results_["mean_test_pa"])
    assert_array_equal(display.score, search.cv_results_["mean_test_accuracy"])
    assert_array_equal(display.eligible, search.refit.eligible(search.cv_results_))
    accuracy = np.array([search.cv_results_[f"split{i}_test_accuracy"] for i in range(3)])
    best = search.cv_results_["mean_test_accuracy"].argmax()
    error = np.std(accuracy[:, best], ddof=1) / np.sqrt(3)
    assert_allclose(display.threshold, accuracy.mean(0)[best] - error)
    assert display.threshold_ is not None
    splits = [search.cv_results_[f"split{i}_test_pa"] for i in range(3)]
    assert_allclose(display.value_error, np.std(splits, axis=0, ddof=1) / np.sqrt(3))
    chosen = search.cv_results_["params"][search.best_index_]["logisticregression__C"]
    assert display.chosen_.get_label() == f"chosen: C={chosen:g}"


def test_the_choice_of_the_score_is_marked_and_named(ax):
    score, value, given = [0.9, 0.95, 0.94], [0.5, 0.6, 0.7], {"names": ["tree", "SVC", "LR"]}
    display = made(score, value, best_index=2, score_name="accuracy", **given).plot(ax)
    assert_allclose(np.ravel(display.score_choice_.get_data()), [0.95, 0.6])
    assert display.score_choice_.get_label() == "best accuracy: SVC"
    assert display.chosen_.get_label() == "chosen: LR"
    assert made(score, value, best_index=1, **given).plot(ax).score_choice_ is None


def test_the_area_of_a_disc_is_the_weight(search, ax):
    display = PASearchDisplay.from_result(search, ax=ax)
    table = search.cv_results_
    both = np.column_stack([table["mean_test_score"], table["agreement"]])
    assert_array_equal(display.weights_.get_offsets(), both)
    area = display.weights_.get_sizes()
    assert len(np.unique(table["weight"])) > 1
    assert_allclose(area / area.sum(), table["weight"])


def test_another_column_that_decides_is_named(ax):
    for name, words in (("agreement_uniform", "agreement (nats per pair)"), ("beta", "beta")):
        search = PASearchCV(MODEL, FEW, refit=GuardedSelection(name, "score")).fit(X, Y)
        assert PASearchDisplay.from_result(search, ax=ax).value_name == words
