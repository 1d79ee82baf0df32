"""The candidates of a search."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pa_select import GuardedSelection, PASearchCV, pa_scorer, within_one_standard_error
from pa_select.plotting import PASearchDisplay

X, Y = load_wine(return_X_y=True)
MODEL = make_pipeline(StandardScaler(), LogisticRegression())
GRID = {"logisticregression__C": [1e-4, 1e-3, 0.01, 0.1, 1, 100]}


@pytest.fixture(scope="module")
def search():
    return PASearchCV(MODEL, GRID, scoring="balanced_accuracy").fit(X, Y)


def points(container):
    return np.column_stack(container.lines[0].get_data())


def test_candidates(search, ax):
    display = PASearchDisplay.from_search(search, ax=ax)
    table = search.cv_results_
    eligible = table["eligible"]
    assert 0 < eligible.sum() < 6
    both = np.column_stack([table["mean_test_score"], table["agreement"]])
    assert_array_equal(points(display.errorbars_["eligible"]), both[eligible])
    assert_array_equal(points(display.errorbars_["not eligible"]), both[~eligible])
    (bars,) = display.errorbars_["eligible"].lines[2]
    spans = [segment[1, 0] - segment[0, 0] for segment in bars.get_segments()]
    assert_allclose(spans, 2 * table["se_test_score"][eligible])
    assert_array_equal(np.ravel(display.chosen_.get_data()), both[search.best_index_])
    assert ax.get_xlabel() == "cross-validated balanced accuracy, with standard error"
    assert ax.get_ylabel() == "agreement (nats per pair)"
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    n = eligible.sum()
    assert labels == [f"eligible ({n})", f"not eligible ({6 - n})", "chosen", "guard"]
    marks = {bars.lines[0].get_marker() for bars in display.errorbars_.values()}
    assert len(marks) == 2


def test_the_threshold_is_that_of_the_guard(search, ax):
    display = PASearchDisplay.from_search(search, ax=ax)
    assert_array_equal(display.threshold_.get_xdata(), 2 * [display.threshold])
    score = search.cv_results_["mean_test_score"]
    near = np.array(
        ["within" in r and "not within" not in r for r in search.cv_results_["reason"]]
    )
    assert score[near].min() >= display.threshold > score[~near].max()


@pytest.mark.parametrize(
    ("selection", "has_threshold"),
    [
        ("score", False),
        ("agreement", False),
        ("rank_sum", False),
        (GuardedSelection(n_se=3), True),
        (within_one_standard_error("logisticregression__C"), True),
        (lambda table: 2, False),
    ],
)
def test_every_rule(selection, has_threshold, ax):
    search = PASearchCV(MODEL, GRID, selection=selection, cv=3, refit=False).fit(X, Y)
    display = PASearchDisplay.from_search(search, ax=ax)
    assert (display.threshold_ is not None) == has_threshold
    assert display.best_index == search.best_index_
    assert ax.get_xlabel().startswith("cross-validated score, ")


def test_several_metrics_views_and_no_choice(ax):
    search = PASearchCV(MODEL, GRID, scoring=["accuracy", "f1_macro"], refit="f1_macro", cv=3)
    search.fit(X, Y, views=1.1 * X)
    table = search.cv_results_
    display = PASearchDisplay.from_search(search, ax=ax)
    assert ax.get_xlabel().startswith("cross-validated f1 macro")
    assert_array_equal(display.score, table["mean_test_f1_macro"])
    assert display.threshold_ is not None
    other = PASearchDisplay.from_search(search, score="accuracy_views", ax=ax)
    assert_array_equal(other.score, table["mean_test_accuracy_views"])
    assert_array_equal(other.score_error, table["se_test_accuracy_views"])
    assert other.threshold_ is None
    search.set_params(refit=False).fit(X, Y)
    del search.best_index_
    nothing = PASearchDisplay.from_search(search, ax=ax)
    assert nothing.chosen_ is None
    assert nothing.score_name == "accuracy"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_failed_is_counted(ax):
    pipeline = make_pipeline(StandardScaler(), KNeighborsClassifier())
    search = PASearchCV(pipeline, {"kneighborsclassifier__n_neighbors": [1, 5, 9, 10_000]}, cv=3)
    display = PASearchDisplay.from_search(search.fit(X, Y), ax=ax)
    assert sum(len(points(bars)) for bars in display.errorbars_.values()) == 3
    assert "1 not drawn" in display.errorbars_["not eligible"].get_label()


def test_only_one_kind(ax):
    display = PASearchDisplay(
        score=[0.8, 0.9], score_error=[0, 0], agreement=[0.1, 0.2], eligible=[True, True]
    ).plot(ax, errorbar_kw={"alpha": 0.3})
    assert list(display.errorbars_) == ["eligible"]
    assert display.errorbars_["eligible"].lines[0].get_alpha() == 0.3
    assert display.chosen_ is display.threshold_ is None


def test_a_search_of_scikit_learn(ax):
    search = GridSearchCV(
        MODEL,
        GRID,
        scoring={"pa": pa_scorer, "accuracy": "accuracy"},
        refit=GuardedSelection("pa", "accuracy"),
    ).fit(X, Y)
    display = PASearchDisplay.from_search(search, ax=ax)
    assert_array_equal(display.agreement, search.cv_results_["mean_test_pa"])
    assert_array_equal(display.score, search.cv_results_["mean_test_accuracy"])
    assert_array_equal(display.eligible, search.refit.explain(search.cv_results_).eligible)
    assert display.threshold_ is not None


def test_errors(search, ax):
    with pytest.raises(TypeError, match="search: expected a fitted search, got Dummy"):
        PASearchDisplay.from_search(DummyClassifier(), ax=ax)
    with pytest.raises(NotFittedError):
        PASearchDisplay.from_search(PASearchCV(MODEL, GRID), ax=ax)
    with pytest.raises(ValueError, match="score: expected one of the metrics .*, got 'f1'"):
        PASearchDisplay.from_search(search, score="f1", ax=ax)
    plain = GridSearchCV(DummyClassifier(), {"strategy": ["prior"]}).fit(X, Y)
    with pytest.raises(ValueError, match="search: expected one of the metrics .*'agreement'"):
        PASearchDisplay.from_search(plain, ax=ax)
