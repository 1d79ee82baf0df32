"""What searches say of a site that nobody has seen: columns and pages."""

import re
from html import unescape

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from pa_select import PASearchCV, new_site_interval
from pa_select.model_selection.columns import new_site_columns
from pa_select.model_selection.summary import in_digits

X, y = load_wine(return_X_y=True)
SITES = np.random.default_rng(0).choice(list("abcde"), len(y), p=[0.4, 0.2, 0.2, 0.15, 0.05])
NAMES = ("new_site_low", "new_site_high")
pytestmark = pytest.mark.filterwarnings("ignore:(paired|The chosen candidate|The least)")


def trees(**options):
    tree = DecisionTreeClassifier(random_state=0)
    return PASearchCV(tree, {"max_depth": [1, 2, 4]}, **{"cv": LeaveOneGroupOut()} | options)


@pytest.fixture(scope="module")
def search():
    return trees().fit(X, y, environments=SITES)


def interval_by_hand(table, candidate, metric="score", sites="abcde", bounds=(0, 1)):
    start = f"mean_test_{metric}_environment_"
    scores = [table[f"{start}{site}"][candidate] for site in sites]
    sizes = [np.count_nonzero(site == SITES) for site in sites]
    return new_site_interval(scores, sizes if bounds == (0, 1) else None, bounds=bounds)


def text_of(page):
    return unescape(re.sub("<[^>]+>", "", page))


def test_columns_are_the_interval_of_the_held_out_sites(search):
    table = search.cv_results_
    for candidate in range(3):
        found = [table[name][candidate] for name in NAMES]
        assert found == pytest.approx(interval_by_hand(table, candidate))


def test_columns_of_several_metrics_have_their_names():
    scoring = ["accuracy", "neg_log_loss", "matthews_corrcoef"]
    search = trees(scoring=scoring, refit="accuracy")
    table = search.fit(X, y, environments=SITES).cv_results_
    assert NAMES[0] not in table
    for metric, bounds in zip(scoring, [(0, 1), (-np.inf, 0), (0, 1)], strict=True):
        found = [table[f"{name}_{metric}"][2] for name in NAMES]
        assert found == pytest.approx(interval_by_hand(table, 2, metric, bounds=bounds)), metric


@pytest.mark.parametrize("n_splits", [2, 3])
def test_folds_of_whole_sites_say_it_too(n_splits):
    search = trees(cv=GroupKFold(n_splits)).fit(X, y, environments=SITES, groups=SITES)
    found = [search.cv_results_[name][1] for name in NAMES]
    assert found == pytest.approx(interval_by_hand(search.cv_results_, 1))


@pytest.mark.parametrize(
    ("cv", "sites"), [(3, SITES), (LeaveOneGroupOut(), np.isin(SITES, ["a", "b"]))]
)
def test_nothing_is_said_of_sites_that_were_seen_or_are_two(cv, sites):
    search = trees(cv=cv).fit(X, y, environments=sites)
    assert [name for name in search.cv_results_ if name.startswith("new_site")] == []
    assert not [name for name in search.summary() if name.startswith("new_site")]
    assert "At a new site" not in text_of(search.report())


def test_sites_of_one_row_count_little_and_those_without_a_score_are_left_out():
    scores = np.array([[0.8, 0.7], [0.9, 0.85], [0.85, 0.8], [0.9, 0.9], [0.0, 1.0]])
    few, many = (
        new_site_columns("score", scores, np.array([90, 80, 99, 85, last]), of_regressors=False)
        for last in (1.0, 90.0)
    )
    assert (few["new_site_low"] > many["new_site_low"] + 0.1).all()
    scores = np.array([[0.8, 0.7], [0.9, np.nan], [0.85, 0.8], [np.nan, np.nan]])
    sizes = np.array([50, 60, 70, 80.0])
    table = new_site_columns("auc", scores, sizes, of_regressors=False)
    expected = new_site_interval(scores[:3, 0], sizes[:3])
    assert (table["new_site_low_auc"][0], table["new_site_high_auc"][0]) == pytest.approx(expected)
    assert np.isnan([table["new_site_low_auc"][1], table["new_site_high_auc"][1]]).all()
    assert new_site_columns("auc", scores[1:], sizes[1:], of_regressors=False) == {}


@pytest.mark.parametrize(
    ("scores", "of_regressors", "bounds"),
    [
        ([0.2, 0.9, 0.5], False, (0, 1)),
        ([-0.2, 0.9, 0.5], False, (-1, 1)),
        ([-0.2, -0.9, -1.5], False, (-np.inf, 0)),
        ([2.0, 3.0, -1.5], False, (-np.inf, np.inf)),
        ([0.2, 0.9, 0.5], True, (-np.inf, 1)),
        ([-20.0, -9.0, -15.0], True, (-np.inf, 0)),
    ],
)
def test_bounds_are_guessed_from_the_scores(scores, of_regressors, bounds):
    sizes = np.full(3, 1e9)
    values = np.array(scores)[:, None]
    found = new_site_columns("score", values, sizes, of_regressors=of_regressors)
    expected = new_site_interval(scores, bounds=bounds)
    assert [found[name][0] for name in NAMES] == pytest.approx(expected, rel=1e-5)


def test_page_summary_and_picture_say_it(search):
    low, high = (search.cv_results_[name][search.best_index_] for name in NAMES)
    text = text_of(search.report())
    low_digits, high_digits = (in_digits(end, (high - low) / 3.92) for end in (low, high))
    assert f"like these it is probably {low_digits} to {high_digits} (95 % i" in text
    summary = search.summary()
    for name in NAMES:
        assert summary[name].tolist() == search.cv_results_[name][summary["index"]].tolist()


def pairs_of(rows, n_sites, noise):
    rng = np.random.default_rng(0)
    scale = rows.std(axis=0)
    return {
        f"site{i}": (rows, rows + noise * (1 + i) * scale * rng.normal(size=rows.shape))
        for i in range(n_sites)
    }


@pytest.mark.parametrize("n_sites", [2, 3])
def test_pairs_of_three_sites_say_it(n_sites):
    model = make_pipeline(StandardScaler(), LogisticRegression())
    search = PASearchCV(model, {"logisticregression__C": [0.01, 1]})
    paired = pairs_of(X[1::2], n_sites, 0.4)
    search.fit(X[::2], y[::2], paired=paired)
    table = search.cv_results_
    assert ("At a new site" in text_of(search.report())) == (n_sites == 3)
    if n_sites == 2:
        assert NAMES[0] not in table
        return
    scores = [table[f"expected_score_site{i}"][1] for i in range(3)]
    expected = new_site_interval(scores, [len(X[1::2])] * 3)
    assert [table[name][1] for name in NAMES] == pytest.approx(expected)


def test_pairs_of_regressors_say_it():
    X, y = load_diabetes(return_X_y=True)
    search = PASearchCV(Ridge(), {"alpha": [0.01, 1]}, scoring="neg_mean_absolute_error")
    search.fit(X[::2], y[::2], paired=pairs_of(X[1::2], 4, 0.2))
    table = search.cv_results_
    scores = [table[f"expected_score_site{i}"][0] for i in range(4)]
    expected = new_site_interval(scores, bounds=(-np.inf, 0))
    assert [table[name][0] for name in NAMES] == pytest.approx(expected)
