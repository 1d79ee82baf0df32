"""PACommittee: its members and votes, the three doors to it, and scikit-learn's conventions."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import sklearn
from helpers.recorder import Recorder
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier, is_regressor
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, log_loss, r2_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    PredefinedSplit,
    RandomizedSearchCV,
    RepeatedStratifiedKFold,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import check_estimator

from pa_select import PACommittee, PAScorer, PASearchCV, candidate_posterior
from pa_select.model_selection.committee_vote import towards_best
from pa_select.scores import class_scores
from pa_select.scores.calibration import doubting_calibration
from pa_select.utils.sklearn_private import SUPPORTS_CALLBACKS, NotesOfFits

X, Y = load_wine(return_X_y=True)
Z, PAIRS = (X - X.mean(axis=0)) / X.std(axis=0), np.arange(len(Y)) % 3 == 0
X_T, Y_T = load_diabetes(return_X_y=True)
FIT, TEST = np.arange(len(Y)) % 2 == 0, np.arange(len(Y)) % 2 == 1
CV = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
MODEL, GRID = make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.01, 0.1, 1, 10]}


def grid_search(model=MODEL, grid=GRID, **params):
    return GridSearchCV(model, grid, **{"cv": CV, **params})


@pytest.fixture(scope="module")
def fitted():
    return PACommittee(grid_search()).fit(X[FIT], Y[FIT])


def test_a_saved_committee_predicts_without_torch(fitted, tmp_path):
    path = tmp_path / "committee"
    path.write_bytes(pickle.dumps(fitted))
    code = f"""
import pickle, sys
from sklearn.datasets import load_wine
pickle.load(open({str(path)!r}, "rb")).predict_proba(load_wine().data)
sys.exit("torch" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_doors_agree(fitted):
    search = grid_search().fit(X[FIT], Y[FIT])
    table = candidate_posterior(search, splits=CV.split(X[FIT], Y[FIT]))
    ours = PASearchCV(MODEL, GRID, cv=CV, refit="committee").fit(X[FIT], Y[FIT])
    inside, around = (
        PACommittee(PASearchCV(MODEL, GRID, cv=CV, refit=refit)).fit(X[FIT], Y[FIT])
        for refit in (True, "committee")
    )
    for posterior in (x.posterior_ for x in (fitted, ours, inside, around)):
        np.testing.assert_allclose(posterior.weights, table.weights, atol=1e-12)
        assert posterior.score == pytest.approx(table.score, abs=1e-12)
    for other in (ours, ours.best_estimator_, inside, around):
        np.testing.assert_allclose(
            other.predict_proba(X), fitted.predict_proba(X), rtol=1e-6, atol=1e-9
        )
    assert ours.n_fits_ == 4 * 6 + len(fitted.estimators_)
    assert ours.best_params_ == search.best_params_
    assert around.metric_ == "score"
    assert around.search_.best_estimator_.metric is None


def test_the_doors_agree_on_classes_that_are_easy():
    easy, grid = X + 1e3 * Y[:, None], {"n_neighbors": [1, 3, 5]}
    one = PACommittee(grid_search(KNeighborsClassifier(), grid)).fit(easy, Y)
    other = PASearchCV(KNeighborsClassifier(), grid, cv=CV, refit="committee")
    other.fit(easy, Y)
    assert np.isfinite(one.betas_).all()
    np.testing.assert_allclose(one.betas_, other.best_estimator_.betas_, rtol=1e-9)
    np.testing.assert_allclose(one.predict_proba(easy), other.predict_proba(easy), atol=1e-12)


def test_members_are_the_candidates_with_a_tenth_of_the_largest_weight(fitted):
    weights = fitted.posterior_.weights
    kept = np.flatnonzero(weights >= 0.1 * weights.max())
    np.testing.assert_array_equal(fitted.candidates_, kept)
    assert len(kept) > 1
    positive = int((weights > 0).sum())
    np.testing.assert_allclose(fitted.weights_, weights[kept] / weights[kept].sum())
    for model, candidate in zip(fitted.estimators_, kept, strict=True):
        assert model.get_params()["svc__C"] == GRID["svc__C"][candidate]
    every = PACommittee(grid_search(), min_weight=0).fit(X[FIT], Y[FIT])
    assert len(every.estimators_) == positive
    best = PACommittee(grid_search(), min_weight=1).fit(X[FIT], Y[FIT])
    assert best.candidates_.tolist() == [weights.argmax()]


def test_they_vote_by_calibrated_probabilities(fitted):
    total = 0
    members = fitted.estimators_, fitted.weights_, fitted.betas_, fitted.biases_
    for model, weight, beta, bias in zip(*members, strict=True):
        out_of_fold = [
            class_scores(clone(model).fit(X[FIT][train], Y[FIT][train]), X[FIT][test])[0]
            for train, test in CV.split(X[FIT], Y[FIT])
        ]
        y = np.concatenate([Y[FIT][test] for _, test in CV.split(X[FIT], Y[FIT])])
        scores = np.concatenate(out_of_fold)
        losses = [log_loss(y, softmax(beta * x * scores + bias, axis=1)) for x in (0.9, 1, 1.1)]
        assert np.argmin(losses) == 1
        losses = [log_loss(y, softmax(beta * scores + bias * x, axis=1)) for x in (0, 1, 3)]
        assert np.argmin(losses) == 1
        total += weight * softmax(beta * class_scores(model, X[TEST])[0] + bias, axis=1)
    np.testing.assert_allclose(fitted.predict_proba(X[TEST]), total, atol=1e-12)
    np.testing.assert_array_equal(fitted.predict(X[TEST]), fitted.classes_[total.argmax(1)])
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X[TEST])), total)


def test_fold_models_are_those_of_the_search():
    committee = PACommittee(grid_search(), members="folds").fit(X[FIT], Y[FIT])
    splits = list(CV.split(X[FIT], Y[FIT]))
    n = len(committee.estimators_)
    assert n == len(committee.candidates_) == len(committee.weights_) == len(committee.betas_)
    assert n == 6 * len(set(committee.candidates_))
    assert committee.n_fits_ == 0
    assert committee.weights_.sum() == pytest.approx(1)
    model, (train, _) = committee.estimators_[1], splits[1]
    same = clone(model).fit(X[FIT][train], Y[FIT][train])
    np.testing.assert_array_equal(model.decision_function(X), same.decision_function(X))
    ours = PASearchCV(MODEL, GRID, cv=CV, refit=PACommittee(members="folds"))
    votes = ours.fit(X[FIT], Y[FIT]).predict_proba(X)
    np.testing.assert_allclose(votes, committee.predict_proba(X), rtol=1e-6, atol=1e-9)


def two_scores(estimator, X, y):
    return {"right": estimator.score(X, y), "wrong": estimator.score(X, y) - 1}


TREE, DEPTHS = DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3, 5]}
FOREST = RandomForestClassifier(random_state=0)
WEIGHT = {"sample_weight": 1.0 + np.arange(len(Y)) % 3}


@pytest.mark.parametrize("members", ["refit", "folds"])
@pytest.mark.parametrize(
    ("search", "params"),
    [
        (GridSearchCV(TREE, DEPTHS), WEIGHT),
        (GridSearchCV(TREE, DEPTHS, cv=CV, n_jobs=2), {}),
        (GridSearchCV(TREE, DEPTHS, scoring=["f1_macro", "accuracy"], refit="accuracy"), WEIGHT),
        (GridSearchCV(TREE, DEPTHS, scoring=two_scores, refit="wrong", n_jobs=2), {}),
        (GridSearchCV(TREE, {"max_depth": [1, -1, 3]}, scoring="f1_macro"), {}),
        (RandomizedSearchCV(TREE, DEPTHS, n_iter=3, random_state=0), {}),
        (HalvingGridSearchCV(FOREST, DEPTHS, resource="n_estimators", max_resources=8), {}),
    ],
    ids=["weights", "parallel", "metrics", "function", "failing", "randomized", "halving"],
)
@pytest.mark.filterwarnings("ignore:.*fits failed", "ignore:One or more of the test scores")
def test_no_model_of_a_split_is_fitted_twice(search, params, members, monkeypatch):
    noisy = X + np.random.default_rng(0).normal(0, X.std(axis=0), X.shape)
    seen = PACommittee(search, members=members).fit(noisy, Y, **params)
    plain = clone(search).fit(noisy, Y, **params)
    assert seen.n_fits_ == (len(seen.estimators_) if members == "refit" else 0)
    assert repr(seen.search_.scorer_) == repr(plain.scorer_)
    assert vars(seen.search_).keys() - {"_checked_cv_orig"} <= vars(plain).keys()
    for name, values in plain.cv_results_.items():
        if name.startswith(("split", "mean_test", "rank")):
            np.testing.assert_array_equal(seen.search_.cv_results_[name], values)
    # As if the scorer had seen nothing, and each member were fitted to each split once more.
    monkeypatch.setattr(NotesOfFits, "of", lambda self, candidate: [])
    again = PACommittee(search, members=members).fit(noisy, Y, **params)
    assert again.n_fits_ == len(seen.estimators_) * (
        1 if members == "folds" else 1 + seen.search_.n_splits_
    )
    np.testing.assert_array_equal(again.predict_proba(X), seen.predict_proba(X))


def test_members_that_the_scorer_did_not_see_are_fitted_to_the_splits():
    # A halving search scores parts of the folds; a function cannot be written to a file.
    halving = HalvingGridSearchCV(TREE, DEPTHS, cv=3, random_state=0)
    committee = PACommittee(halving).fit(X, Y)
    assert committee.n_fits_ == 4 * len(committee.estimators_)
    local = make_pipeline(FunctionTransformer(lambda rows: rows), TREE)
    search = GridSearchCV(local, {"decisiontreeclassifier__max_depth": [1, 3]}, cv=3)
    committee = PACommittee(search, members="folds").fit(X, Y)
    assert committee.n_fits_ == len(committee.estimators_) > 0
    assert committee.score(X, Y) > 0.9


def test_dissent_is_the_weight_of_members_that_predict_another_class(fitted):
    noisy = X + np.random.default_rng(0).normal(0, 2 * X.std(axis=0), X.shape)
    dissent, predicted = fitted.dissent(noisy), fitted.predict(noisy)
    by_hand = [
        sum(
            weight
            for model, weight in zip(fitted.estimators_, fitted.weights_, strict=True)
            if model.predict(row[None])[0] != label
        )
        for row, label in zip(noisy, predicted, strict=True)
    ]
    np.testing.assert_allclose(dissent, by_hand, atol=1e-12)
    assert 0 < dissent.mean() < 0.5
    assert not hasattr(PACommittee(GridSearchCV(Ridge(), {})), "dissent")


@pytest.mark.parametrize("n_folds", [2, 3, 5])
def test_its_own_score_is_cross_fitted(n_folds):
    """Weights and calibrations are made of the folds without a row of the one that is scored."""
    rows, y = Z[FIT] + np.random.default_rng(0).normal(0, 1.5, (89, 13)), Y[FIT]
    model, grid = KNeighborsClassifier(), {"n_neighbors": [1, 3, 5, 9, 15, 25]}
    cv = RepeatedStratifiedKFold(n_splits=n_folds, n_repeats=2, random_state=0)
    search = PASearchCV(model, grid, cv=cv, refit="committee").fit(rows, y)
    splits = list(cv.split(rows, y))
    tests = [test for _, test in splits]
    every = [KNeighborsClassifier(n) for n in grid["n_neighbors"]]
    logs = np.array(
        [
            [class_scores(clone(one).fit(rows[a], y[a]), rows[b])[0] for a, b in splits]
            for one in every
        ],
        dtype=object,
    )
    table = search.cv_results_
    right = np.array([table[f"split{i}_test_score"] * len(test) for i, test in enumerate(tests)])
    scores = []
    for judged, test in enumerate(tests):
        others = [i for i, other in enumerate(tests) if not np.isin(other, test).any()]
        first, second = np.triu_indices(len(others), 1)
        pairs = right[others][first], right[others][second]
        weights = candidate_posterior(*pairs).weights if len(first) else table["weight"]
        weights = np.where(weights >= 0.1 * weights.max(), weights, 0)
        kept = np.concatenate(tests)
        apart = ~np.isin(kept, test)
        votes = 0
        for one in np.flatnonzero(weights):
            given = np.concatenate(list(logs[one]))[apart], y[kept[apart]]
            beta, bias = doubting_calibration(*given, alone=np.count_nonzero(weights) == 1)
            votes += weights[one] * softmax(beta * logs[one][judged] + bias, axis=1)
        scores.append(np.mean(votes.argmax(axis=1) == y[test]))
    assert search.committee_score_ == pytest.approx(np.mean(scores))


def test_a_score_of_chance_is_not_promised_more():
    """Labels that nothing explains: the rows that choose the members do not judge them."""
    rng, found = np.random.default_rng(0), []
    grid = {"max_depth": [1, 2, 3, 5, None], "max_features": [2, None]}
    for _ in range(12):
        rows, y = rng.normal(size=(60, 6)), rng.permutation(60) % 2
        search = PASearchCV(DecisionTreeClassifier(random_state=0), grid, refit="committee")
        found.append(search.fit(rows, y).committee_score_)
    assert np.mean(found) - 0.5 < 2 * np.std(found) / np.sqrt(12)


class Voter(ClassifierMixin, BaseEstimator):
    """A classifier with nothing but predict."""

    def __init__(self, depth=1):
        self.depth = depth

    def fit(self, X, y):
        self._tree = DecisionTreeClassifier(max_depth=self.depth, random_state=0).fit(X, y)
        self.classes_ = self._tree.classes_
        return self

    def predict(self, X):
        return self._tree.predict(X)


@pytest.mark.filterwarnings("ignore:Class scores could not")
def test_members_without_class_scores_vote_by_their_class():
    committee = PACommittee(grid_search(Voter(), {"depth": [1, 2, 3]})).fit(X[FIT], Y[FIT])
    assert np.isnan(committee.betas_).all()
    assert not hasattr(committee, "predict_proba")
    votes = sum(
        weight * (model.predict(X)[:, None] == np.arange(3))
        for model, weight in zip(committee.estimators_, committee.weights_, strict=True)
    )
    np.testing.assert_array_equal(committee.predict(X), votes.argmax(axis=1))
    search = PASearchCV(Voter(), {"depth": [1, 2, 3]}, cv=CV, refit="committee")
    search.fit(X[FIT], Y[FIT])
    np.testing.assert_array_equal(search.predict(X), committee.predict(X))
    assert np.isnan(search.committee_score_)


REGRESSORS = {
    "model": [Ridge(), KNeighborsRegressor(), DecisionTreeRegressor(random_state=0)],
    "scale": [StandardScaler()],
}


def regression_search():
    model = Pipeline([("scale", "passthrough"), ("model", Ridge())])
    return GridSearchCV(model, REGRESSORS, cv=KFold(5), scoring="neg_root_mean_squared_error")


@pytest.mark.parametrize("members", ["refit", "folds"])
def test_regressors_vote_by_their_mean(members):
    committee = PACommittee(regression_search(), members=members).fit(X_T[:100], Y_T[:100])
    assert is_regressor(committee)
    assert not hasattr(committee, "betas_")
    assert not hasattr(committee, "predict_proba")
    mean = sum(
        weight * model.predict(X_T[100:])
        for model, weight in zip(committee.estimators_, committee.weights_, strict=True)
    )
    np.testing.assert_allclose(committee.predict(X_T[100:]), mean)
    assert committee.score(X_T[100:], Y_T[100:]) == pytest.approx(
        -np.sqrt(np.mean((mean - Y_T[100:]) ** 2))
    )
    Y2 = np.column_stack([Y_T, -Y_T])
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1, 10]})
    of_two = PACommittee(search, members=members).fit(X_T, Y2)
    assert of_two.predict(X_T).shape == Y2.shape
    assert of_two.score(X_T, Y2) == pytest.approx(r2_score(Y2, of_two.predict(X_T)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("members", ["refit", "folds"])
def test_regressors_move_weight_to_the_best_one(members, weighted):
    rows, y = X_T[:90], Y_T[:90]
    given = {"sample_weight": np.arange(90) % 3} if weighted else {}
    model, folds = DecisionTreeRegressor(random_state=0), KFold(5)
    search = GridSearchCV(model, {"max_depth": [1, 2, 3, 5]}, cv=folds)
    committee = PACommittee(search, members=members).fit(rows, y, **given)
    kept = np.unique(committee.candidates_)
    before = committee.posterior_.weights[kept] / committee.posterior_.weights[kept].sum()
    after = np.array([committee.weights_[committee.candidates_ == one].sum() for one in kept])
    best = kept.tolist().index(committee.search_.best_index_)
    # One part of all weights has moved.
    moved = 1 - after / before
    part = np.delete(moved, best)[0]
    assert 0 < part < 1
    np.testing.assert_allclose(np.delete(moved, best), part)
    assert after.sum() == pytest.approx(1)
    assert committee.n_fits_ == (0 if members == "folds" else len(kept))
    # It is the one with the least squared error of held-out rows.
    weight = given.get("sample_weight", np.ones(90))
    predicted = np.empty((len(kept), 90))
    for train, test in folds.split(rows):
        fitted = {name: x[train] for name, x in given.items()}
        for position, one in enumerate(kept):
            one = clone(model).set_params(**committee.search_.cv_results_["params"][one])
            one.fit(rows[train], y[train], **fitted)
            predicted[position, test] = one.predict(rows[test])
    errors = {
        a: weight @ ((1 - a) * (before @ predicted) + a * predicted[best] - y) ** 2
        for a in np.clip([part - 0.01, part, part + 0.01, 0, 1], 0, 1).tolist()
    }
    assert min(errors, key=errors.__getitem__) == part


def test_how_far_weight_moves():
    y, shares = np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.3, 0.2])
    # The best one has no error; the mean has none; all predict alike; a row has no weight.
    np.testing.assert_allclose(towards_best(shares, 1, np.array([y + 1, y, y - 1]), y), [0, 1, 0])
    mean = np.array([y + 1, y - 1, y - 1])
    np.testing.assert_allclose(towards_best(np.array([0.5, 0.3, 0.2]), 0, mean, y), shares)
    np.testing.assert_array_equal(towards_best(shares, 1, np.array([y, y, y]), y + 1), shares)
    one_bad = np.array([y + 1, y + [0, 0, 9], y + 1])
    moved = towards_best(shares, 1, one_bad, y, np.array([1.0, 1.0, 0.0]))
    for unit in (1e-200, 1e200):
        in_unit = towards_best(shares, 1, unit * one_bad, unit * y)
        np.testing.assert_allclose(in_unit, towards_best(shares, 1, one_bad, y))
    np.testing.assert_allclose(moved, [0, 1, 0], atol=1e-12)
    assert 0 < towards_best(shares, 1, one_bad, y)[0]
    both = np.stack([mean, -mean], axis=2)
    np.testing.assert_allclose(towards_best(shares, 0, both, np.stack([y, -y], axis=1)), shares)


def test_the_best_regressor_is_a_member_and_one_alone_needs_no_more_fits():
    noise = np.random.default_rng(0).normal(0, 1, 100)
    search = GridSearchCV(Ridge(), {"alpha": [1e-3, 1e9]}, cv=KFold(5))
    alone = PACommittee(search).fit(X_T[:100], X_T[:100, 0] + 1e-6 * noise)
    assert (alone.candidates_.tolist(), alone.n_fits_) == ([0], 1)
    for min_weight in (0.1, 1):
        committee = PACommittee(regression_search(), min_weight=min_weight)
        committee.fit(X_T[:100], Y_T[:100])
        assert committee.search_.best_index_ in committee.candidates_
        assert committee.weights_.sum() == pytest.approx(1)


def test_the_doors_agree_for_regressors():
    search = GridSearchCV(Ridge(), {"alpha": [0.01, 0.1, 0.3, 1, 10]}).fit(X_T, Y_T)
    found = PACommittee(search).fit(X_T, Y_T).posterior_
    table = candidate_posterior(search, splits=KFold(5).split(X_T))
    np.testing.assert_allclose(found.weights, table.weights, atol=1e-12)
    assert found.n_pairs == 10
    assert 0 < np.delete(table.weights, table.weights.argmax()).max() < 1


def test_a_committee_is_one_more_model_at_the_other_site():
    drifted = 1.5 * Z + np.random.default_rng(0).normal(0, 0.8, Z.shape)
    grid = {"n_neighbors": [1, 3, 9, 21]}
    rows, labels, given = Z[~PAIRS], Y[~PAIRS], {"paired": (Z[PAIRS], drifted[PAIRS])}
    search = PASearchCV(KNeighborsClassifier(), grid, refit="committee")
    search.fit(rows, labels, **given)
    low, high = search.expected_interval_
    assert low < search.expected_score_ < high
    truth = search.best_adapted_.score(drifted[PAIRS], Y[PAIRS])
    assert search.expected_score_ == pytest.approx(truth, abs=0.1)
    assert 0 < search.expected_score_se_ < 0.1
    # A committee of one candidate is that candidate.
    one = PASearchCV(KNeighborsClassifier(), {}, refit="committee")
    one.fit(rows, labels, **given)
    alone = PASearchCV(KNeighborsClassifier(), {}).fit(rows, labels, **given)
    np.testing.assert_array_equal(one.best_adapted_.predict(Z), alone.best_adapted_.predict(Z))
    assert one.committee_score_ == pytest.approx(alone.best_score_)
    for name in ("expected_score_", "expected_score_se_", "expected_interval_"):
        assert getattr(one, name) == pytest.approx(getattr(alone, name), rel=1e-12), name
    # A temperature changes probabilities, and no predicted class.
    one.set_params(scoring="neg_log_loss").fit(rows, labels, **given)
    assert one.expected_score_ != one.cv_results_["expected_score"][0]


def test_the_committee_of_a_search_has_the_attributes_of_a_fitted_one():
    own = PACommittee(GridSearchCV(GaussianNB(), {})).fit(X, Y)
    search = PASearchCV(GaussianNB(), {}, refit="committee").fit(
        X, Y, environments=np.arange(len(Y)) % 3
    )
    within, around = search.best_estimator_, PACommittee(clone(search)).fit(X, Y)
    attributes = [{x for x in vars(one) if x.endswith("_")} for one in (own, within, around)]
    assert attributes[0] == attributes[1] == attributes[2]
    assert within.search_ is None
    assert within.warnings_ == search.warnings_
    assert around.warnings_ == around.search_.warnings_


@pytest.mark.parametrize("several", [False, True])
def test_members_are_adapted_as_they_are_judged(several):
    drifted = 3 * Z + np.random.default_rng(0).normal(0, 0.3, Z.shape) + 2
    given = Z[PAIRS], drifted[PAIRS]
    if several:
        given = {"p": given, "q": (Z[PAIRS][:30], Z[PAIRS][:30] + 0.01)}
    model, grid = KNeighborsClassifier(), {"n_neighbors": [1, 3, 9]}
    search = PASearchCV(model, grid, refit="committee", adapter="ridge")
    search.fit(Z[~PAIRS], Y[~PAIRS], paired=given)
    there = search.best_adapted_["p"] if several else search.best_adapted_
    column = "adapted_p" if several else "adapted"
    for model, candidate in zip(there.estimators_, there.candidates_, strict=True):
        assert hasattr(model, "steps") == search.cv_results_[column][candidate]
    assert there.score(drifted[PAIRS], Y[PAIRS]) > 0.9
    assert search.best_estimator_.estimators_[0] is not there.estimators_[0]
    assert search.expected_score_ == pytest.approx(there.score(drifted[PAIRS], Y[PAIRS]), abs=0.1)


def test_regressors_with_pairs():
    rng = np.random.default_rng(0)
    shifted = X_T + rng.normal(0, 0.02, X_T.shape)
    options = {"scoring": "neg_root_mean_squared_error", "refit": "committee"}
    search = PASearchCV(Ridge(), {"alpha": [0.01, 0.1, 1, 100]}, **options)
    search.fit(X_T[50:250], Y_T[50:250], paired=(X_T[:50], shifted[:50]))
    truth = -np.sqrt(np.mean((search.best_adapted_.predict(shifted[250:]) - Y_T[250:]) ** 2))
    assert search.expected_score_ == pytest.approx(truth, rel=0.2)
    assert search.posterior_.weights[3] < 0.01


def both_metrics(estimator, X, y):
    right = estimator.predict(X) == y
    return {"accuracy": right.mean(), "errors": -np.sum(~right)}


@pytest.mark.parametrize("scoring", [["accuracy", "neg_log_loss"], both_metrics])
def test_several_metrics(scoring):
    model, grid = KNeighborsClassifier(), {"n_neighbors": [1, 9]}
    other = "errors" if scoring is both_metrics else "neg_log_loss"
    search = grid_search(model, grid, scoring=scoring, refit=other)
    committee = PACommittee(search).fit(X[FIT], Y[FIT])
    assert committee.metric_ == other
    by_other = candidate_posterior(committee.search_, other, splits=CV.split(X[FIT], Y[FIT]))
    np.testing.assert_array_equal(committee.posterior_.weights, by_other.weights)
    worth = -np.sum(committee.predict(X) != Y)
    if other == "neg_log_loss":
        worth = -log_loss(Y, committee.predict_proba(X))
    assert committee.score(X, Y) == pytest.approx(worth)
    options = PACommittee(metric="accuracy")
    ours = PASearchCV(model, grid, cv=CV, scoring=scoring, refit=options)
    for named in (committee.set_params(metric="accuracy"), ours):
        assert named.fit(X[FIT], Y[FIT]).score(X, Y) == accuracy_score(Y, named.predict(X))
    assert 0.5 < ours.committee_score_ <= 1


@pytest.mark.parametrize(
    "search",
    [
        HalvingGridSearchCV(MODEL, GRID, cv=3, random_state=0, factor=2),
        RandomizedSearchCV(MODEL, GRID, n_iter=3, random_state=0),
        grid_search(cv=KFold(4, shuffle=True)),  # other folds at each call
        grid_search(refit=False),
        grid_search(refit=lambda results: 2),
    ],
    ids=["halving", "randomized", "unseeded", "refit=False", "rule"],
)
def test_any_search(search):
    committee = PACommittee(search).fit(X[FIT], Y[FIT])
    assert committee.score(X[TEST], Y[TEST]) > 0.9
    assert type(committee.search_) is type(search)


def test_groups_and_weights_reach_search_and_members():
    groups = np.arange(FIT.sum()) % 6
    weight = np.where(np.arange(FIT.sum()) % 5 == 0, 3.0, 1.0)
    search = GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 1e-3, 0.1]}, cv=GroupKFold(3))
    committee = PACommittee(search).fit(X[FIT], Y[FIT], groups=groups, sample_weight=weight)
    for model in committee.estimators_:
        same = clone(model).fit(X[FIT], Y[FIT], sample_weight=weight)
        np.testing.assert_array_equal(model.predict_proba(X), same.predict_proba(X))
    by_hand = candidate_posterior(
        clone(search).fit(X[FIT], Y[FIT], groups=groups, sample_weight=weight),
        splits=GroupKFold(3).split(X[FIT], Y[FIT], groups),
    )
    np.testing.assert_array_equal(committee.posterior_.weights, by_hand.weights)


@pytest.mark.parametrize("of_ours", [False, True])
@pytest.mark.parametrize("noise", [0.0, 2.0], ids=["without errors", "with errors"])
def test_rows_without_weight_have_no_say_in_temperatures(of_ours, noise):
    rows = Z[FIT] + noise * np.random.default_rng(0).normal(size=(89, 13))
    model, weight = GaussianNB(), 1.0 * (np.arange(89) % 3 > 0)
    splits = list(CV.split(rows, Y[FIT]))
    search = (PASearchCV if of_ours else GridSearchCV)(model, {}, cv=splits)
    committee = PACommittee(search).fit(rows, Y[FIT], sample_weight=weight)
    scores, tested = [], []
    for train, test in splits:
        fitted = clone(model).fit(rows[train], Y[FIT][train], sample_weight=weight[train])
        tested += [kept := test[weight[test] > 0]]
        scores += [class_scores(fitted, rows[kept])[0]]
    y = Y[FIT][np.concatenate(tested)]
    expected, _ = doubting_calibration(np.concatenate(scores), y, alone=True)
    assert committee.betas_ == pytest.approx([expected], rel=1e-6)


def test_metadata_routing():
    weight = np.where(np.arange(FIT.sum()) % 5 == 0, 3.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = GaussianNB().set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=False)
        search = GridSearchCV(model, {"var_smoothing": [1e-9, 0.1]}, cv=GroupKFold(3))
        committee = PACommittee(search)
        committee.fit(X[FIT], Y[FIT], sample_weight=weight, groups=np.arange(FIT.sum()) % 6)
        same = clone(committee.estimators_[0]).fit(X[FIT], Y[FIT], sample_weight=weight)
        np.testing.assert_array_equal(
            committee.estimators_[0].predict_proba(X), same.predict_proba(X)
        )
        outer = cross_val_score(committee, X, Y, cv=2, params={"groups": np.arange(len(Y)) % 6})
        assert outer.min() > 0.8
        scorer = PAScorer().set_score_request(environments=True, sample_weight=False)
        search = GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 0.1]}, scoring=scorer)
        committee = PACommittee(search).fit(X, Y, environments=np.arange(len(Y)) % 2)
    assert np.isfinite(committee.search_.cv_results_["mean_test_score"]).all()


def test_clone_pickle_names_progress_and_parallel_fits(fitted, capfd):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    parallel = clone(fitted).set_params(n_jobs=2, verbose=1).fit(X[FIT], Y[FIT])
    assert "fits" in capfd.readouterr().err
    np.testing.assert_array_equal(parallel.predict_proba(X), fitted.predict_proba(X))
    assert parallel.get_params()["search__estimator__svc__C"] == 1.0
    text = np.array(["a", "b", "c"])
    words = clone(fitted).fit(X[FIT], text[Y[FIT]])
    np.testing.assert_array_equal(words.predict(X), text[fitted.predict(X)])
    assert is_classifier(fitted)
    assert cross_val_score(clone(fitted), X, Y, cv=2).min() > 0.9


def test_torch_modules_and_nets():
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")
    rows = Z.astype("float32")
    torch.manual_seed(0)
    modules = [torch.nn.Linear(13, 3), torch.nn.Linear(13, 3)]
    votes = PACommittee.from_models(modules, rows[FIT], Y[FIT]).predict_proba(rows)
    assert votes.shape == (178, 3)
    options = {"criterion": torch.nn.CrossEntropyLoss, "max_epochs": 15, "lr": 0.1, "verbose": 0}
    net = skorch.NeuralNetClassifier(lambda: torch.nn.Linear(13, 3), train_split=None, **options)
    search = GridSearchCV(net, {"lr": [1e-4, 0.1, 0.3]}, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        committee = PACommittee(search, members="folds").fit(rows[FIT], Y[FIT])
    assert committee.score(rows[TEST], Y[TEST]) > 0.85
    assert len(committee.estimators_) % 3 == 0


TWO_METRICS = {"scoring": ["accuracy", "recall_macro"]}
OVERLAPPING = [(np.r_[:60], np.r_[60:178])]
ONE_SPLIT = PredefinedSplit(np.arange(len(Y)) % 2 - 1)


@pytest.mark.usefixtures("no_fit")
@pytest.mark.filterwarnings("ignore:cv tests no row")
@pytest.mark.parametrize(
    ("made", "message"),
    [
        (PACommittee(None), r"search: expected a search such as .* got NoneType"),
        (PACommittee(grid_search(), members="all"), "members"),
        (PACommittee(PASearchCV(MODEL, GRID), metric="f1"), "metric: .*'score'.*'f1'"),
        (PACommittee(grid_search(), metric="f1"), "metric: .*'score'.*'f1'"),
        (PACommittee(PASearchCV(MODEL, GRID, cv=OVERLAPPING)), "cv: expected at least two test f"),
        (PACommittee(grid_search(cv=ONE_SPLIT)), "got 1 fold without"),
        (PASearchCV(MODEL, GRID, cv=ONE_SPLIT, refit="committee"), r"cv: .* got 1 fold without"),
        (PASearchCV(MODEL, GRID, **TWO_METRICS, refit=PACommittee(metric="f1")), "metric: .*'f1'"),
        (PASearchCV(MODEL, GRID, refit=PACommittee(grid_search())), "refit: expected a PACommitt"),
    ],
)
def test_bad_input_is_refused_before_any_fit(made, message):
    with pytest.raises((TypeError, ValueError), match=message):
        made.fit(X, Y)


def test_classifiers_that_know_more_classes():
    frozen = Pipeline([("model", FrozenEstimator(GaussianNB().fit(X, Y)))])
    rows = Y != 1  # the class in the middle is not among the labels
    for search in (GridSearchCV(frozen, {}, cv=3), PASearchCV(frozen, {}, cv=3)):
        committee = PACommittee(search).fit(X[rows], Y[rows])
        assert committee.classes_.tolist() == [0, 1, 2]
        np.testing.assert_array_equal(committee.predict(X), frozen.predict(X))


def test_a_scorer_that_looks_at_the_features_has_no_committee_score():
    def scorer(estimator, X, y):
        return np.average(estimator.predict(X) == y, weights=X[:, 12])

    search = PASearchCV(MODEL, GRID, cv=CV, scoring=scorer, refit="committee")
    with pytest.warns(UserWarning, match="scoring: expected a scorer of predictions"):
        search.fit(X[FIT], Y[FIT])
    assert np.isnan(search.committee_score_)
    assert search.score(X[TEST], Y[TEST]) > 0.8


@pytest.mark.skipif(not SUPPORTS_CALLBACKS, reason="callbacks are new in scikit-learn 1.9")
@pytest.mark.parametrize("of_ours", [False, True])
def test_callbacks_see_the_refits(of_ours):
    recorder = Recorder()
    cv = KFold(3, shuffle=True, random_state=0)
    if of_ours:
        fitted = PASearchCV(MODEL, GRID, cv=cv, pairing="split-half", refit="committee")
        fitted.set_callbacks(recorder).fit(X[FIT], Y[FIT])
        n = fitted.best_estimator_.n_fits_
    else:
        fitted = PACommittee(grid_search(cv=cv)).set_callbacks(recorder).fit(X[FIT], Y[FIT])
        n = fitted.n_fits_
    assert recorder.begun.count("refit-members") == 1
    assert recorder.begun.count("refit") == n > 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "grid"),
    [(GaussianNB(), {"var_smoothing": [1e-9, 0.1]}), (Ridge(), {"alpha": [0.1, 10]})],
)
def test_estimator_checks(model, grid):
    search = GridSearchCV(model, grid, cv=2, error_score="raise")
    found = check_estimator(PACommittee(search), on_fail=None, on_skip=None)
    failed = {check["check_name"] for check in found if check["status"] == "failed"}
    # scikit-learn lists this one for GridSearchCV, too: what y may be is up to the estimator.
    assert failed <= {"check_supervised_y_2d"}
    assert len(found) > 50


def own_score(estimator, X, y):
    return estimator.score(X, y)


def test_a_scorer_may_call_score():
    models = [GaussianNB().fit(X[FIT], Y[FIT]), SVC().fit(X[FIT], Y[FIT])]
    around = PACommittee(grid_search(scoring=own_score))
    ours = PASearchCV(MODEL, GRID, cv=CV, scoring=own_score, refit="committee")
    trained = PACommittee.from_models(models, X[FIT], Y[FIT], scoring=own_score)
    for committee in (around.fit(X[FIT], Y[FIT]), ours.fit(X[FIT], Y[FIT]), trained):
        right = accuracy_score(Y[TEST], committee.predict(X[TEST]))
        assert committee.score(X[TEST], Y[TEST]) == right
    of_numbers = PACommittee(GridSearchCV(Ridge(), {"alpha": [0.1, 1]}, scoring=own_score))
    committee = of_numbers.fit(X_T, Y_T)
    assert committee.score(X_T, Y_T) == r2_score(Y_T, committee.predict(X_T))
