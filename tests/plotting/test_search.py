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


def labels_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def outside(display, both):
    """How many points the axes do not show."""
    (left, right), (low, high) = display.ax_.get_xlim(), display.ax_.get_ylim()
    x, y = both.T
    return int(((x < left) | (x > right) | (y < low) | (y > high)).sum())


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
    n = eligible.sum()
    best = np.argmax(table["mean_test_score"])
    assert best != search.best_index_
    values = [params["logisticregression__C"] for params in table["params"]]
    assert labels_of(ax) == [
        f"eligible ({n})",
        f"not eligible ({6 - n})",
        "guard",
        f"outside the axes ({outside(display, both)})",
        f"chosen: C={values[search.best_index_]:g}",
        f"best balanced accuracy: C={values[best]:g}",
        "larger disc: more weight",
    ]
    marks = {bars.lines[0].get_marker() for bars in display.errorbars_.values()}
    assert len(marks) == 2


def test_the_worst_environment_in_words(ax):
    rule = GuardedSelection(score="score_worst_environment")
    search = PASearchCV(MODEL, FEW, scoring="accuracy", refit=rule)
    environments = np.arange(len(Y)) % 2
    display = PASearchDisplay.from_result(search.fit(X, Y, environments=environments), ax=ax)
    assert display.score_name == "accuracy in the worst environment"
    assert_array_equal(display.score, search.cv_results_["mean_test_score_worst_environment"])


def test_with_pairs_the_expected_score_is_drawn(ax):
    twice = X[::3], X[::3] + np.random.default_rng(0).normal(0, 0.6, (60, 13)) * X.std(0)
    rest = np.arange(len(Y)) % 3 > 0
    search = PASearchCV(
        MODEL, FEW, scoring=["balanced_accuracy", "accuracy"], refit="accuracy", cv=3
    )
    search.fit(X[rest], Y[rest], paired=twice)
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
    search = GridSearchCV(
        MODEL,
        GRID,
        scoring={"pa": pa_scorer, "accuracy": "accuracy"},
        refit=GuardedSelection("pa", "accuracy"),
        cv=3,
    ).fit(X, Y)
    display = PASearchDisplay.from_result(search, ax=ax)
    assert_array_equal(display.value, search.cv_results_["mean_test_pa"])
    assert_array_equal(display.score, search.cv_results_["mean_test_accuracy"])
    assert_array_equal(display.eligible, search.refit.eligible(search.cv_results_))
    assert display.threshold_ is not None
    splits = [search.cv_results_[f"split{i}_test_pa"] for i in range(3)]
    assert_allclose(display.value_error, np.std(splits, axis=0, ddof=1) / np.sqrt(3))
    chosen = search.cv_results_["params"][search.best_index_]["logisticregression__C"]
    assert display.chosen_.get_label() == f"chosen: C={chosen:g}"


def crowd(n=20, **given):
    """Many good candidates and, last, a terrible one."""
    rng = np.random.default_rng(0)
    score, value = 0.9 + 0.01 * rng.random(n), 1 + 0.1 * rng.random(n)
    given |= {"value_error": np.full(n + 1, 0.02), "names": [f"number {i}" for i in range(n + 1)]}
    return made(np.append(score, 0.1), np.append(value, -30), **given)


def test_the_choice_of_the_score_is_marked_and_named(ax):
    score, value, given = [0.9, 0.95, 0.94], [0.5, 0.6, 0.7], {"names": ["tree", "SVC", "LR"]}
    display = made(score, value, best_index=2, score_name="accuracy", **given).plot(ax)
    assert_allclose(np.ravel(display.score_choice_.get_data()), [0.95, 0.6])
    assert display.score_choice_.get_label() == "best accuracy: SVC"
    assert display.chosen_.get_label() == "chosen: LR"
    assert display.score_choice_.get_marker() != display.chosen_.get_marker()
    assert made(score, value, best_index=1, **given).plot(ax).score_choice_ is None
    # Nor where the chosen candidate's score is as high, but for rounding.
    score[2] = 0.95 - 1e-12
    assert made(score, value, best_index=2).plot(ax).score_choice_ is None


def test_the_area_of_a_disc_is_the_weight(search, ax):
    display = PASearchDisplay.from_result(search, ax=ax)
    table = search.cv_results_
    both = np.column_stack([table["mean_test_score"], table["agreement"]])
    assert_array_equal(display.weights_.get_offsets(), both)
    area = display.weights_.get_sizes()
    assert len(np.unique(table["weight"])) > 1
    assert_allclose(area / area.sum(), table["weight"])
    # Behind the marks, which are at the same place.
    assert display.weights_.get_zorder() < min(
        bar.zorder for bar in ax.lines if len(bar.get_xdata())
    )


@pytest.mark.parametrize("guarded", [False, True])
def test_a_terrible_candidate_does_not_squash_the_others(guarded, ax):
    eligible = np.append(np.ones(20, dtype=bool), not guarded)
    display = crowd(eligible=eligible, best_index=3, threshold=0.895 if guarded else np.nan)
    display.plot(ax)
    both = np.column_stack([display.score, display.value])
    assert outside(display, both) == 1
    (low, high), good = ax.get_ylim(), both[:-1, 1]
    assert (good.max() - good.min()) / (high - low) > 1 / 3
    # It is where the axes end in its direction, and in the legend.
    assert_allclose(np.ravel(display.outside_.get_data()), [ax.get_xlim()[0], low])
    assert "outside the axes (1)" in labels_of(ax)
    ax.autoscale()
    assert outside(display, both) == 0
