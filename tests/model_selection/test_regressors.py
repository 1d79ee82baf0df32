"""Searches over regressors with pairs: against scorers, closed forms, and the contract."""

import pickle

import numpy as np
import pytest
from helpers.search_tables import same_tables
from scipy.stats import t
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_diabetes
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer, r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_predict

from pa_select import PARandomizedSearchCV, PASearchCV, expected_scorer, regression_agreement

RMSE, MSE, MAE = (
    f"neg_{name}"
    for name in ("root_mean_squared_error", "mean_squared_error", "mean_absolute_error")
)
GRID = {"n_components": [1, 2, 4, 8]}
pytestmark = pytest.mark.filterwarnings("ignore:The chosen candidate may:UserWarning")


def problem(noise=0.8):
    """Labelled rows, both rows of sixty objects, and rows of the other site with their targets."""
    X, y = load_diabetes(return_X_y=True)
    X = X / X.std(axis=0)
    b = X + np.random.default_rng(0).normal(scale=noise, size=X.shape)
    return X[:260], y[:260], (X[260:320], b[260:320]), (b[320:], y[320:])


X, y, paired, (rows, truth) = problem()
a, b = paired


def searched(paired, X, y, grid=GRID, **params):
    """A fitted search of PLS regressions by their root mean squared error."""
    search = PASearchCV(PLSRegression(), grid, **{"scoring": RMSE, **params})
    return search.fit(X, y, paired=paired)


def one_by_one(name, grid=GRID, **params):
    """The values of a column if each candidate is alone, and so the whole ensemble."""
    alone = [{"n_components": [n]} for n in grid["n_components"]]
    values = [searched(paired, X, y, one, **params).cv_results_[name] for one in alone]
    return np.ravel(values)


@pytest.mark.parametrize("scoring", [None, RMSE, MAE, "neg_median_absolute_error"])
@pytest.mark.parametrize("adapter", [None, "ridge"])
def test_over_one_split_it_expects_what_the_scorer_does(scoring, adapter):
    params = {"scoring": scoring, "cv": [(np.arange(160), np.arange(160, 260))]}
    found = one_by_one("expected_score", adapter=adapter, **params)
    both = []
    for of_scorer in [None, "ridge"][: 1 if adapter is None else 2]:
        params["scoring"] = expected_scorer(*paired, scoring=scoring, adapter=of_scorer)
        both.append(GridSearchCV(PLSRegression(), GRID, **params).fit(X, y).cv_results_)
    expected = np.max([table["mean_test_score"] for table in both], axis=0)
    # The seeds of both adapters' folds differ.
    np.testing.assert_allclose(found, expected, rtol=1e-9 if adapter is None else 0.05)


def test_it_chooses_as_a_search_of_scikit_learn_does_by_the_scorer():
    found = searched(paired, X, y)
    scorer = expected_scorer(*paired, scoring=RMSE)
    by_scorer = GridSearchCV(PLSRegression(), GRID, scoring=scorer).fit(X, y)
    usual = GridSearchCV(PLSRegression(), GRID, scoring=RMSE).fit(X, y)
    # The default folds and the scores on them are those of GridSearchCV.
    for name in ("mean_test_score", *(f"split{i}_test_score" for i in range(5))):
        np.testing.assert_allclose(found.cv_results_[name], usual.cv_results_[name])
    expected = by_scorer.cv_results_["mean_test_score"]
    values = one_by_one("expected_score")
    np.testing.assert_allclose(values, expected, rtol=0.01)
    assert expected.argmax() == values.argmax() != usual.best_index_
    in_truth = get_scorer(RMSE)(found, rows, truth)
    assert abs(found.expected_score_ - in_truth) < abs(usual.best_score_ - in_truth) / 2


def test_the_change_of_the_squared_error_is_that_of_calibrating_all_folds_together():
    for n_components in GRID["n_components"]:
        one = {"n_components": [n_components]}
        table, c = searched((a, b), X, y, one, scoring=MSE).cv_results_, 0
        model = PLSRegression(n_components)
        slope, offset = np.polyfit(cross_val_predict(model, X, y), y, 1)
        changes, differences = [], []
        for train, _ in KFold(5).split(X):
            at_a, at_b = (model.fit(X[train], y[train]).predict(rows) for rows in (a, b))
            mean = offset + slope * at_a
            changes.append(np.square(at_a - mean) - np.square(at_b - mean))
            differences.append(at_b - at_a)
        expected = table["mean_test_score"][c] + np.mean(changes)
        assert table["expected_score"][c] == pytest.approx(expected)
        error = np.mean(changes, axis=0).std(ddof=1) / np.sqrt(60)
        total = np.hypot(error, table["se_test_score"][c])
        assert table["expected_score_se"][c] == pytest.approx(total)
        size = np.sqrt(np.mean(np.square(differences)))
        assert table["disagreement"][c] == pytest.approx(size)
        # Without any assumption the root changes by the size of the difference at most.
        root = np.sqrt(-table["mean_test_score"][c])
        assert np.sqrt(-table["expected_score_low"][c]) > root + size
        assert np.sqrt(-table["expected_score_high"][c]) < root - size


def test_the_interval_of_the_absolute_error_is_that_of_both_norms():
    found = searched((a, b), X, y, {"n_components": [2]}, scoring=MAE)
    errors, changes = [], []
    for train, test in KFold(5).split(X):
        model = PLSRegression(2).fit(X[train], y[train])
        errors.append(np.abs(y[test] - model.predict(X[test])))
        changes.append(np.abs(model.predict(b) - model.predict(a)))

    def reach(norm, error, n, sign):
        return abs(norm * np.exp(sign * t.ppf(0.975, n - 1) * error / norm) - norm)

    n, norm, change = len(y), -found.best_score_, np.mean(changes, axis=0)
    error = np.concatenate(errors).std(ddof=1) / np.sqrt(n)
    more = reach(change.mean(), change.std(ddof=1) / np.sqrt(60), 60, 1)
    most = norm + change.mean() + np.hypot(reach(norm, error, n, 1), more)
    least = norm - change.mean() - np.hypot(reach(norm, error, n, -1), more)
    assert found.expected_interval_ == pytest.approx((-most, -least))


def test_the_contract_of_a_search_of_regressors():
    params = {"adapter": "ridge", "scoring": {"rmse": RMSE, "r2": "r2"}, "refit": "rmse"}
    plain = searched(paired, X, y, **params)
    again = searched(paired, X, y, n_jobs=2, **params)
    same_tables(plain.cv_results_, again.cv_results_)
    again = pickle.loads(pickle.dumps(plain))
    np.testing.assert_array_equal(
        again.best_adapted_.predict(paired[1]), plain.best_adapted_.predict(paired[1])
    )
    table = plain.cv_results_
    of_classifiers = {"agreement_uniform", "beta", "gap", "n_pairs"}
    assert not of_classifiers & set(table)
    numbers = {name: values for name, values in table.items() if name not in ("params", "error")}
    assert not [n for n, x in numbers.items() if x.dtype.kind == "f" and np.isnan(x).any()]
    assert {"expected_rmse_low", "expected_rmse_se", "expected_r2", "disagreement"} <= set(table)
    assert "expected_r2_low" not in table
    assert table["eligible"].all()
    assert plain.expected_score_ == table["expected_rmse"].max()
    found, error = plain.compare(0, 1), table["expected_rmse_se"]
    assert found.difference == pytest.approx(table["expected_rmse"][0] - table["expected_rmse"][1])
    assert 0 < found.standard_error < np.hypot(error[0], error[1])
    assert not plain.agreement_terms_.size
    drawn = PARandomizedSearchCV(PLSRegression(), GRID, n_iter=4, random_state=0, scoring=RMSE)
    assert drawn.fit(X, y, paired=paired).best_params_ == searched(paired, X, y).best_params_
    # What an earlier fit of classifiers left is gone.
    search = PASearchCV(LogisticRegression(max_iter=500), {"C": [1.0]})
    search.fit(X, y > 150, paired=paired)
    search.set_params(estimator=Ridge(), param_grid={"alpha": [1.0]})
    assert not search.fit(X, y, paired=paired).agreement_terms_.size


def test_the_agreement_is_the_mean_of_the_models_of_all_splits():
    X, y, (X_a, X_b), _ = problem()
    few = X_a[:20], X_a[:20] + 0.1
    splitter = KFold(3, shuffle=True, random_state=0)
    search = searched({"b": (X_a, X_b), "c": few}, X, y, cv=splitter)
    table = search.cv_results_
    for c, params in enumerate(table["params"]):
        agreements, errors = [], []
        for train, _ in splitter.split(X):
            model = clone(search.estimator).set_params(**params).fit(X[train], y[train])
            for a, b in ((X_a, X_b), few):
                one = regression_agreement(model.predict(a), model.predict(b))
                agreements += [one.score] * len(a)
                errors += [one.standard_error] * len(a)
        assert table["agreement"][c] == pytest.approx(np.mean(agreements))
        assert table["agreement_se"][c] == pytest.approx(np.mean(errors))


def test_rows_of_one_group_are_one_sample():
    alone, repeated = np.arange(len(y)), np.repeat(np.arange(len(y)), 4)

    def width(rows, groups, **params):
        search = PASearchCV(PLSRegression(), {"n_components": [2]}, scoring=RMSE, **params)
        return np.diff(
            search.fit(X[rows], y[rows], paired=paired, groups=groups).expected_interval_
        )

    folds = list(GroupKFold(5).split(repeated, groups=repeated))
    once = width(alone, None, cv=list(GroupKFold(5).split(alone, groups=alone)))
    # The default folds are those of the groups.
    assert width(repeated, repeated) == pytest.approx(width(repeated, repeated, cv=folds))
    assert width(repeated, repeated) == pytest.approx(once, rel=0.05)
    assert width(repeated, None, cv=folds) < 0.99 * width(repeated, repeated)


@pytest.mark.filterwarnings("ignore:paired.*expected rows like the labelled:UserWarning")
@pytest.mark.parametrize(
    ("scoring", "rounding"), [(MSE, 1e-6), (MAE, 0.02), ("r2", 0.02), (None, 0.02)]
)
def test_weights_are_repeated_rows(scoring, rounding):
    weight = np.random.default_rng(0).integers(1, 4, len(X))
    folds, rows = list(KFold(5).split(X)), np.repeat(np.arange(len(X)), weight)
    repeated = [tuple(np.flatnonzero(np.isin(rows, part)) for part in fold) for fold in folds]
    search = PASearchCV(Ridge(), {"alpha": [1.0]}, scoring=scoring)
    one = clone(search).set_params(cv=folds).fit(X, y, paired=paired, sample_weight=weight)
    other = clone(search).set_params(cv=repeated).fit(X[rows], y[rows], paired=paired)
    if one.best_score_ != pytest.approx(other.best_score_):
        pytest.skip("scikit-learn 1.7 does not weight the scores of a search")
    # Of weighted residuals the quantiles are rounded.
    assert one.expected_score_ == pytest.approx(other.expected_score_, rel=1e-3, abs=5e-3)
    changes = [s.expected_score_ - s.best_score_ for s in (one, other)]
    assert changes[0] == pytest.approx(changes[1], rel=rounding)
    plain = clone(search).set_params(cv=folds).fit(X, y, paired=paired)
    assert changes[0] != pytest.approx(plain.expected_score_ - plain.best_score_, rel=1e-3)


@pytest.mark.filterwarnings("ignore:paired.*expected rows like the labelled:UserWarning")
@pytest.mark.parametrize("scoring", [RMSE, MAE, "r2"])
def test_errors_count_the_weights_that_the_scores_have(scoring):
    weight = np.random.default_rng(1).choice([1, 8], len(X), p=[0.9, 0.1])
    folds, rows = list(KFold(5).split(X)), np.repeat(np.arange(len(X)), weight)
    repeated = [tuple(np.flatnonzero(np.isin(rows, part)) for part in fold) for fold in folds]
    search = PASearchCV(Ridge(), {"alpha": [0.1, 100.0]}, scoring=scoring, n_jobs=1)
    one = clone(search).set_params(cv=folds).fit(X, y, paired=paired, sample_weight=weight)
    other = clone(search).set_params(cv=repeated)
    # The copies of a row are one unit.
    other.fit(X[rows], y[rows], paired=paired, groups=rows)
    if one.best_score_ != pytest.approx(other.best_score_):
        pytest.skip("scikit-learn 1.7 does not weight the scores of a search")
    if scoring != "r2":
        assert one.expected_interval_ == pytest.approx(other.expected_interval_, rel=0.02)
    errors = [s._differences[""].between(0, 1).standard_error for s in (one, other)]
    assert errors[0] == pytest.approx(errors[1], rel=0.02)
    plain = clone(search).set_params(cv=folds).fit(X, y, paired=paired)
    assert plain._differences[""].between(0, 1).standard_error != pytest.approx(
        errors[0], rel=0.05
    )


def test_each_metric_has_the_weights_that_are_routed_to_it():
    weight = np.random.default_rng(0).exponential(size=len(X)) ** 2
    predicted = cross_val_predict(Ridge(), X, y)  # of five folds
    with config_context(enable_metadata_routing=True):
        plain, weighted = (
            get_scorer("r2").set_score_request(sample_weight=alias) for alias in (False, "of_rows")
        )
        scoring = {"plain": plain, "weighted": weighted}
        model = Ridge().set_fit_request(sample_weight=False)
        search = PASearchCV(model, {"alpha": [1.0]}, scoring=scoring, refit="plain")
        table = search.fit(X, y, paired=paired, of_rows=weight).cv_results_
    changes = {name: table[f"expected_{name}"][0] for name in scoring}
    difference = r2_score(y, predicted, sample_weight=weight) - r2_score(y, predicted)
    # What the pairs add has no weights.
    assert changes["weighted"] - changes["plain"] == pytest.approx(difference)
    assert abs(difference) > 0.01


def test_a_committee_scores_with_the_weights_of_its_members():
    weight = np.random.default_rng(0).exponential(size=len(X)) ** 2
    search = PASearchCV(Ridge(), {"alpha": [1.0]}, refit="committee", cv=5, scoring=MAE)
    search.fit(X, y, paired=paired, sample_weight=weight)
    assert search.committee_score_ == pytest.approx(search.best_score_)


class Broken(Ridge):
    """A regressor that predicts nan with one parameter."""

    def predict(self, X):
        return super().predict(X) + (np.nan if self.alpha == 2.0 else 0.0)


@pytest.mark.filterwarnings("ignore:One or more of the test scores:UserWarning")
@pytest.mark.filterwarnings("ignore:Scoring failed:UserWarning")
def test_candidates_that_fail_do_not_change_the_others():
    search = PASearchCV(Broken(), {"alpha": [1.0, 3.0]}, scoring=RMSE)
    alone = search.fit(X, y, paired=paired).cv_results_
    search.set_params(param_grid={"alpha": [1.0, 2.0, -1.0, 3.0]})
    message = "Class scores or predictions could not be computed in 5 of 20 fits"
    with pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match=message):
        table = search.fit(X, y, paired=paired).cv_results_
    assert table["eligible"].tolist() == [True, False, False, True]
    assert table["error"][1].startswith("ValueError: estimators: expected finite pred")
    assert table["error"][2].startswith("sklearn.utils._param_validation.InvalidParameterError")
    for name in ("expected_score", "expected_score_se", "expected_score_low"):
        np.testing.assert_allclose(table[name][[0, 3]], alone[name])
        assert np.isnan(table[name][[1, 2]]).all()


@pytest.mark.usefixtures("no_fit")
@pytest.mark.parametrize(
    ("params", "given", "error", "message"),
    [
        ({}, {"paired": None}, ValueError, r"estimator: expected a cl.*paired=.*, got a Ridge"),
        ({"refit": "agreement"}, {}, ValueError, "refit: expected a rule for regressors, which"),
        ({}, {"y": np.column_stack([y] * 2)}, ValueError, r"y: expected shape \(260,\)"),
        ({"cv": list(KFold(2).split(X))}, {"groups": np.zeros(260)}, ValueError,
         "groups: expected rows of at least two"),
    ],
)  # fmt: skip
def test_bad_input_is_named_before_any_regressor_is_fitted(params, given, error, message):
    data = {"y": y, "paired": paired} | given
    with pytest.raises(error, match=message):
        PASearchCV(Ridge(), {"alpha": [1.0]}, **params).fit(X, data.pop("y"), **data)


def test_a_regressor_in_a_wrapper_is_searched_too():
    wrapped = TransformedTargetRegressor(Ridge(), func=np.log1p, inverse_func=np.expm1)
    found = PASearchCV(wrapped, {"regressor__alpha": [1.0, 1e3]}, scoring=MAE)
    found.fit(X, y, paired=paired)
    assert found.expected_interval_[0] < found.expected_score_ < found.expected_interval_[1]


def test_noise_on_both_instruments_counts_twice_and_the_interval_holds():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(900, 5))
    a, b = Z + rng.normal(scale=0.3, size=(2, 900, 5))
    search = PASearchCV(Ridge(), {}, scoring="neg_root_mean_squared_error")
    search.fit(a[:200], Z[:200].sum(1), paired=(a[200:500], b[200:500]))
    truth, (low, high) = search.score(b[500:], Z[500:].sum(1)), search.expected_interval_
    assert search.expected_score_ < truth - 1.96 * search.expected_score_se_
    assert low < truth < high
