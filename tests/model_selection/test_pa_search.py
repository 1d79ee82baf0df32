"""What PASearchCV compares, against loops that do the same by hand."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from helpers.oracle import pooled_kernel, pooled_maximum
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from pa_select import PASearchCV
from pa_select.model_selection import GuardedSelection
from pa_select.two_sites.score_of_units import error_of_rate
from pa_select.utils.p_values import p_value

X, Y = load_wine(return_X_y=True)
X = X[:, :4]
MODEL = make_pipeline(StandardScaler(), LogisticRegression())
GRID = {"logisticregression__C": [0.001, 0.1, 10]}
RANDOM = ShuffleSplit(4, test_size=0.3, random_state=0)
TESTED = [test for _, test in RANDOM.split(X)]
REPEATED = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)


def fitted(splits, C=0.1, weight=None):
    model = clone(MODEL).set_params(logisticregression__C=C)
    params = {} if weight is None else {"logisticregression__sample_weight": weight}
    return [
        clone(model).fit(X[train], Y[train], **{k: v[train] for k, v in params.items()})
        for train, _ in splits
    ]


def check(search, sides, candidate=1):
    """Compare with pairs (model_a, scores_a, model_b, scores_b) pooled by hand."""
    model_a, a, model_b, b = (np.concatenate(parts) for parts in zip(*sides, strict=True))
    results = search.cv_results_
    score, beta = results["agreement"][candidate], results["beta"][candidate]
    assert pooled_kernel(a, b, model_a, model_b, beta) == pytest.approx(score, abs=1e-9)
    assert pooled_maximum(a, b, model_a, model_b) <= score + 1e-6
    assert results["n_pairs"][candidate] == len(a)


def side(number, model, rows):
    return np.full(len(rows), number), model.decision_function(rows)


class Remembering(GaussianNB):
    """Naive Bayes that keeps the last column of its training rows."""

    seen = []

    def fit(self, X, y):
        self.seen.append(X[:, -1])
        return super().fit(X, y)


def test_split_half_compares_models_of_halves_that_divide_no_group():
    groups = np.arange(len(Y)) // 4
    Remembering.seen.clear()
    search = PASearchCV(Remembering(), {}, pairing="split-half", cv=3, refit=False)
    search.fit(np.column_stack([X, groups]), Y, groups=groups)
    assert search.n_splits_ == len(Remembering.seen) == 6
    assert search.cv_results_["n_pairs"].tolist() == [len(Y)]
    for one, other in zip(Remembering.seen[::2], Remembering.seen[1::2], strict=True):
        assert not np.isin(one, other).any()


def test_the_chosen_candidate_is_fitted_with_the_weights():
    weight = 1.0 + np.arange(len(Y))
    search = PASearchCV(GaussianNB(), {}, cv=2, refit="score").fit(X, Y, sample_weight=weight)
    expected = GaussianNB().fit(X, Y, weight).theta_
    np.testing.assert_allclose(search.best_estimator_.theta_, expected)


def test_repeated_compares_rows_tested_by_two_models():
    search = PASearchCV(MODEL, GRID, cv=REPEATED).fit(X, Y)
    splits = list(REPEATED.split(X, Y))
    models, sides = fitted(splits), []
    for s, t in product(range(3), range(3, 6)):
        rows = np.intersect1d(splits[s][1], splits[t][1])
        sides.append(side(s, models[s], X[rows]) + side(t, models[t], X[rows]))
    check(search, sides)
    # The fits double as the estimate of the score.
    scores = [
        model.score(X[test], Y[test]) for model, (_, test) in zip(models, splits, strict=True)
    ]
    table = search.cv_results_
    np.testing.assert_allclose([table[f"split{i}_test_score"][1] for i in range(6)], scores)
    assert search.n_splits_ == 6
    assert search.best_score_ == table["mean_test_score"][search.best_index_]
    # Two models test each row, which counts once.
    by_rows = error_of_rate(np.mean(scores), len(Y))
    assert table["se_test_score"][1] == pytest.approx(by_rows, rel=1e-3)


@pytest.mark.slow
def test_the_default_is_two_repetitions_of_five_folds():
    search = PASearchCV(MODEL, GRID).fit(X, Y)
    assert (search.n_splits_, search.n_fits_) == (10, 31)
    assert search.pairing_ == "repeated"
    assert set(search.cv_results_["n_pairs"]) == {len(Y)}
    again = PASearchCV(MODEL, GRID).fit(X, Y)
    np.testing.assert_array_equal(again.agreement_terms_, search.agreement_terms_)
    other = PASearchCV(MODEL, GRID, random_state=1).fit(X, Y)
    assert not np.array_equal(other.agreement_terms_, search.agreement_terms_)
    three = PASearchCV(MODEL, GRID, cv=3).fit(X, Y)
    assert three.n_splits_ == 6


@pytest.mark.filterwarnings("ignore:The chosen candidate may:UserWarning")
@pytest.mark.parametrize(
    ("cv", "n_splits", "n_pairs"),
    [
        ([StratifiedKFold(3), StratifiedKFold(4, shuffle=True, random_state=0)], 7, 178),
        (KFold(3), 6, 178),  # shuffled the second time
        (RepeatedStratifiedKFold(n_splits=2, n_repeats=3, random_state=0), 6, 3 * 178),
        (list(RepeatedStratifiedKFold(n_splits=2, n_repeats=2).split(X, Y)), 4, 178),
        (RANDOM, 4, sum(len(np.intersect1d(*two)) for two in combinations(TESTED, 2))),
    ],
)
def test_splitters_that_test_rows_twice(cv, n_splits, n_pairs):
    search = PASearchCV(MODEL, GRID, cv=cv, refit="score").fit(X, Y)
    assert search.n_splits_ == n_splits
    assert set(search.cv_results_["n_pairs"]) == {n_pairs}
    assert np.isfinite(search.cv_results_["agreement"]).all()


def test_groups_stay_together():
    groups = np.arange(len(Y)) // 4
    search = PASearchCV(MODEL, GRID).fit(X, Y, groups=groups)
    assert search.n_splits_ == 10
    for split in range(5):
        rows = search._pairs.object_a[search._pairs.model_a == split]
        held_out = np.unique(groups[rows])
        assert len(rows) == np.isin(groups, held_out).sum() > 0
    for given in ({}, {"groups": groups}):
        halves = PASearchCV(MODEL, GRID, pairing="split-half", cv=3).fit(X, Y, **given)
        assert halves.n_splits_ == 6
        assert set(halves.cv_results_["n_pairs"]) == {len(Y)}
    cv = [GroupKFold(3), GroupKFold(3, shuffle=True, random_state=0)]
    assert PASearchCV(MODEL, GRID, cv=cv).fit(X, Y, groups=groups).n_splits_ == 6


@pytest.mark.filterwarnings("ignore:(No candidate|The least populated class)")  # few rows
def test_splits_that_test_no_row_twice_are_halved_with_a_warning():
    folds = PredefinedSplit(np.arange(len(Y)) % 3)
    # The same splits twice, or in time, give no second model either.
    same = [StratifiedKFold(3), StratifiedKFold(3)]
    for cv, n_splits in ((folds, 6), (same, 12), (TimeSeriesSplit(3), 6)):
        order = np.argsort(np.arange(len(Y)) % 59, kind="stable")  # all classes everywhere
        with pytest.warns(UserWarning, match="cv tests no row by two models") as caught:
            search = PASearchCV(MODEL, GRID, cv=cv).fit(X[order], Y[order])
        assert caught[0].filename == __file__
        assert search.pairing_ == "split-half"
        assert search.n_splits_ == n_splits


# -- views ---------------------------------------------------------------------------------


def drift(X):
    return X * np.linspace(0.9, 1.2, X.shape[1])


def test_views_compare_a_row_with_itself_elsewhere():
    search = PASearchCV(MODEL, GRID, cv=3).fit(X, Y, views=drift)
    reference = GridSearchCV(MODEL, GRID, cv=3).fit(X, Y)
    table = search.cv_results_
    np.testing.assert_allclose(table["mean_test_score"], reference.cv_results_["mean_test_score"])
    splits = list(StratifiedKFold(3).split(X, Y))
    models = fitted(splits)
    tested = [(s, models[s], test) for s, (_, test) in enumerate(splits)]
    check(search, [side(s, m, X[test]) + side(s, m, drift(X)[test]) for s, m, test in tested])
    # The control that uses the labels.
    on_views = [model.score(drift(X)[test], Y[test]) for _, model, test in tested]
    assert table["mean_test_score_views"][1] == pytest.approx(np.mean(on_views))
    assert table["rank_test_score_views"].min() == 1


def test_views_may_be_arrays_frames_transformers_or_several():
    one = {"logisticregression__C": [0.1]}
    expected = PASearchCV(MODEL, one, cv=3).fit(X, Y, views=drift).cv_results_["agreement"]
    frame = pd.DataFrame(X).add_prefix("x")
    shuffled = frame.sample(frac=1, random_state=0)
    for data, views in [
        (X, drift(X)),
        (X, [drift]),
        (X, FunctionTransformer(drift)),
        (frame, drift(frame)),
        (frame, drift(X)),  # takes the frame's column names
        (X, drift(frame)),
        (frame, drift(shuffled)),  # aligned by the index
    ]:
        found = PASearchCV(MODEL, one, cv=3).fit(data, Y, views=views).cv_results_
        np.testing.assert_allclose(found["agreement"], expected)
    two = PASearchCV(MODEL, one, cv=3).fit(X, Y, views=[drift, lambda X: 0.9 * X])
    assert set(two.cv_results_["n_pairs"]) == {2 * len(Y)}


def test_the_guard_looks_at_the_score_on_the_views():
    search = PASearchCV(MODEL, GRID).fit(X, Y, views=drift)
    table = search.cv_results_
    score, error = table["mean_test_score_views"], table["se_test_score_views"]
    near = score >= score.max() - 2 * error[score.argmax()]
    above_chance = score > table["chance_test_score"] + 2 * error
    np.testing.assert_array_equal(table["eligible"], near & above_chance)
    assert search.best_index_ == np.where(table["eligible"], table["agreement"], -1).argmax()
    # A rule of the user's guards by the score on the rows.
    own = PASearchCV(MODEL, GRID, refit=GuardedSelection(n_se=4)).fit(X, Y, views=drift)
    table = own.cv_results_
    score, error = table["mean_test_score"], table["se_test_score"]
    near = score >= score.max() - 4 * error[score.argmax()]
    above_chance = score > table["chance_test_score"] + 2 * error
    np.testing.assert_array_equal(table["eligible"], near & above_chance)


# -- environments ---------------------------------------------------------------------------


def test_environments_compare_rows_of_one_class():
    environments = np.array(["x", "y", "z"])[np.arange(len(Y)) % 3]
    folds = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, Y))
    search = PASearchCV(MODEL, GRID, cv=folds).fit(X, Y, environments=environments)
    table = search.cv_results_
    pairs = search._pairs
    assert (environments[pairs.object_a] != environments[pairs.object_b]).all()
    np.testing.assert_array_equal(Y[pairs.object_a], Y[pairs.object_b])
    np.testing.assert_array_equal(pairs.model_a, pairs.model_b)
    # A Series is aligned by its index, as views are; other indexes go by position.
    frame = pd.DataFrame(X).add_prefix("x")
    named = pd.Series([*environments, "w"], name="site").sample(frac=1, random_state=0)
    ids = frame.set_axis([f"id {row}" for row in frame.index])
    for rows, given in ((frame, named), (ids, pd.Series(environments))):
        aligned = PASearchCV(MODEL, {"logisticregression__C": [0.1]}, cv=folds)
        aligned.fit(rows, pd.Series(Y), environments=given)
        np.testing.assert_allclose(aligned.cv_results_["agreement"], table["agreement"][1])
    with pytest.raises(ValueError, match=r"environments: expected shape \(178,\), got \(179,\)"):
        PASearchCV(MODEL, GRID).fit(frame, Y, environments=named.sort_index())
    # Per environment and worst, from the splits.
    means = np.array([table[f"mean_test_score_environment_{e}"] for e in "xyz"])
    np.testing.assert_allclose(table["mean_test_score_worst_environment"], means.min(0))
    np.testing.assert_array_equal(
        table["worst_environment_score"], np.array(list("xyz"))[means.argmin(0)]
    )
    train, rows = folds[0]
    model = clone(MODEL).set_params(logisticregression__C=0.1)
    mine = rows[environments[rows] == "x"]
    score = model.fit(X[train], Y[train]).score(X[mine], Y[mine])
    assert table["split0_test_score_environment_x"][1] == pytest.approx(score)


def test_sorted_environments_are_spread_over_the_default_folds():
    environments = np.sort(np.arange(len(Y)) % 2)
    search = PASearchCV(Remembering(), {}, refit=lambda table: 0)
    Remembering.seen.clear()
    search.fit(
        np.column_stack([X, environments]), np.arange(len(Y)) % 3, environments=environments
    )
    for column in Remembering.seen[:5]:
        assert np.bincount(column.astype(int)) == pytest.approx([71, 71], abs=2)


def test_held_out_environments_are_compared_across_models():
    environments = np.arange(len(Y)) % 3
    search = PASearchCV(MODEL, GRID, cv=LeaveOneGroupOut()).fit(
        X, Y, environments=environments, groups=environments
    )
    pairs = search._pairs
    # The model of split s has not seen environment s.
    np.testing.assert_array_equal(environments[pairs.object_a], pairs.model_a)
    np.testing.assert_array_equal(environments[pairs.object_b], pairs.model_b)
    assert (pairs.model_a != pairs.model_b).all()
    table = search.cv_results_
    np.testing.assert_allclose(table["mean_test_score_environment_1"], table["split1_test_score"])
    assert np.isnan(table["split0_test_score_environment_1"]).all()
    assert np.isfinite(table["mean_test_score_worst_environment"]).all()


def test_years_are_predicted_from_the_years_before():
    year = np.arange(len(Y)) % 4 + 2020
    cv = [(np.flatnonzero(year < k), np.flatnonzero(year == k)) for k in (2021, 2022, 2023)]
    search = PASearchCV(MODEL, GRID, cv=cv).fit(X, Y, environments=year)
    pairs, table = search._pairs, search.cv_results_
    np.testing.assert_array_equal(year[pairs.object_a], 2021 + pairs.model_a)
    assert (pairs.model_a != pairs.model_b).all()
    assert np.isnan(table["mean_test_score_environment_2020"]).all()
    years = [f"mean_test_score_environment_{k}" for k in (2021, 2022, 2023)]
    worst = np.min([table[name] for name in years], axis=0)
    np.testing.assert_allclose(table["mean_test_score_worst_environment"], worst)


# -- objects -----------------------------------------------------------------------------


class Neighbours:
    """Each test row with the next one of its fold."""

    def pairs(self, splits, X, y, *, environments=None, groups=None):
        assert environments is None
        assert groups is None
        for s, (_, test) in enumerate(splits):
            yield s, test[:-1], s, test[1:]


def test_a_pairing_of_ones_own():
    search = PASearchCV(MODEL, GRID, pairing=Neighbours(), cv=3).fit(X, Y)
    splits = list(StratifiedKFold(3).split(X, Y))
    models = fitted(splits)
    tested = [(s, models[s], X[test]) for s, (_, test) in enumerate(splits)]
    check(search, [side(s, m, rows[:-1]) + side(s, m, rows[1:]) for s, m, rows in tested])


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([(0, range(2), 0, [0])], "pairing: expected as many rows on both sides, got 2 and 1"),
        ([(0, [0], 1, [0])], "that the model of split 1 was not fitted to, got row 0"),
    ],
)
def test_wrong_pairs_are_refused(items, message, monkeypatch):
    monkeypatch.setattr(Neighbours, "pairs", lambda *_, **__: items)
    with pytest.raises((TypeError, ValueError), match=message):
        PASearchCV(MODEL, GRID, pairing=Neighbours(), cv=3).fit(X, Y)


# -- the table --------------------------------------------------------------------------


def test_weights_weight_fits_scores_and_pairs():
    weight = np.random.default_rng(0).integers(0, 3, len(Y)).astype(float)
    model = LinearDiscriminantAnalysis()  # takes no weights: only score and pairs have them
    with pytest.raises(TypeError, match="sample_weight"):
        PASearchCV(model, {"tol": [1e-4]}, error_score="raise").fit(X, Y, sample_weight=weight)
    search = PASearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-2]}).fit(
        X, Y, sample_weight=weight
    )
    terms, pairs = search.agreement_terms_, search._pairs
    np.testing.assert_allclose(pairs.weight, weight[pairs.object_a])
    used = pairs.weight > 0
    expected = np.average(terms[:, used], axis=1, weights=pairs.weight[used])
    np.testing.assert_allclose(search.cv_results_["agreement"], expected, atol=1e-8)
    assert search.cv_results_["n_pairs"][0] == used.sum()


def test_two_candidates_are_compared_on_their_pairs():
    search = PASearchCV(MODEL, GRID, cv=RepeatedStratifiedKFold(n_splits=3, n_repeats=3)).fit(X, Y)
    found = search.compare(1, 2)
    table = search.cv_results_
    assert found.difference == pytest.approx(table["agreement"][1] - table["agreement"][2])
    # The mean of each row's three pairs: rows are independent, pairs of a row are not.
    terms = search.agreement_terms_[1] - search.agreement_terms_[2]
    by_row = np.bincount(search._pairs.object_a, terms) / 3
    error = by_row.std(ddof=1) / np.sqrt(len(Y))
    assert found.standard_error == pytest.approx(error, rel=1e-6)
    expected = p_value(by_row.mean(), error, len(Y), np.abs(by_row).max())
    assert found.p_value == pytest.approx(expected, rel=1e-6)
    assert search.compare(2, 2)[:4] == (0, 0, 1, 1)


def test_the_uniform_prior_is_reported_beside_the_marginal_one():
    marginal = PASearchCV(MODEL, GRID).fit(X, Y).cv_results_
    uniform = PASearchCV(MODEL, GRID, prior="uniform").fit(X, Y).cv_results_
    np.testing.assert_allclose(uniform["agreement"], marginal["agreement_uniform"])
    assert (uniform["gap"] <= 1e-6).all()
    balanced = PASearchCV(MODEL, GRID, prior=[1 / 3] * 3).fit(X, Y).cv_results_
    np.testing.assert_allclose(balanced["agreement"], uniform["agreement"], atol=1e-6)


def test_few_groups_that_are_always_divided_alike_are_divided_otherwise():
    groups = np.arange(len(Y)) % 6
    search = PASearchCV(MODEL, GRID, cv=3).fit(X, Y, groups=groups)
    assert search.pairing_ == "repeated"
    assert search.n_splits_ == 6


@pytest.mark.parametrize(
    ("chosen", "error"), [(-1, IndexError), (99, IndexError), (1.0, TypeError), (None, TypeError)]
)
def test_a_function_that_returns_no_candidate_is_refused_as_in_grid_search(chosen, error):
    with pytest.raises(error, match="best_index_"):
        PASearchCV(MODEL, GRID, cv=3, refit=lambda table: chosen).fit(X, Y)


def test_a_committee_has_the_same_methods_before_and_after_the_fit():
    search = PASearchCV(SVC(), {"C": [1, 10]}, cv=3, refit="committee")
    stack = StackingClassifier([("search", search), ("bayes", GaussianNB())], cv=2)
    assert stack.fit(X, Y).predict(X).shape == Y.shape
    for one in (search, clone(search).fit(X, Y)):
        assert hasattr(one, "predict_proba")
        assert not hasattr(one, "decision_function")
    assert hasattr(search.set_params(refit=True), "decision_function")
