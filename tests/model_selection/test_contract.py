"""PASearchCV behaves as scikit-learn's own searches do."""

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array
from scipy.stats import loguniform
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    cross_val_score,
    cross_validate,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted

from pa_select import PARandomizedSearchCV, PAScorer, PASearchCV, expected_scorer

X, Y = load_iris(return_X_y=True)
GRID = {"max_depth": [1, 3, None]}
TREE = DecisionTreeClassifier(random_state=0)
CV = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)


def accuracy_of(estimator, X, y):
    return accuracy_score(y, estimator.predict(X))


def search(estimator=TREE, grid=GRID, **params):
    return PASearchCV(estimator, grid, **{"cv": CV, **params})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator",
    [
        PASearchCV(GaussianNB(), {"var_smoothing": [1e-9, 0.1]}),
        PARandomizedSearchCV(
            make_pipeline(StandardScaler(), LinearSVC()), {"linearsvc__C": [0.1, 1.0]}, n_iter=1
        ),
    ],
)
def test_estimator_checks(estimator):
    found = check_estimator(
        estimator.set_params(cv=2, error_score="raise"), on_fail=None, on_skip=None
    )
    assert not [check for check in found if check["status"] == "failed"]
    assert len(found) > 50


# Two repetitions of three folds, as a list of (train, test), and as a splitter.
SPLITS = [split for seed in (0, 1) for split in KFold(3, shuffle=True, random_state=seed).split(X)]
# Without ties, in which GridSearchCV lets the last digit decide.
DEPTHS = {"max_depth": [1, 2, 3]}


def same_as_grid_search(ours, theirs):
    """Assert that a search has the attributes and columns of GridSearchCV."""
    public = {name for name in vars(theirs) if not name.startswith("_")} - {"return_train_score"}
    assert public <= set(vars(ours))
    assert set(theirs.cv_results_) <= set(ours.cv_results_)
    for name, column in theirs.cv_results_.items():
        if "time" not in name:
            found = np.ma.asarray(ours.cv_results_[name])
            compare = "allclose" if found.dtype.kind == "f" else "array_equal"
            getattr(np.testing, f"assert_{compare}")(found, column, err_msg=name)
    for name in ("best_index_", "best_params_", "best_score_", "n_splits_", "multimetric_"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name))
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize(
    "scoring", [None, "neg_log_loss", accuracy_of, make_scorer(accuracy_score)]
)
@pytest.mark.parametrize("cv", [CV, SPLITS], ids=["splitter", "list"])
@pytest.mark.filterwarnings("ignore:The chosen candidate may be no better than chance")
def test_attributes_and_columns_are_those_of_grid_search(cv, scoring):
    ours = search(grid=DEPTHS, cv=cv, scoring=scoring, refit="score").fit(X, Y)
    theirs = GridSearchCV(TREE, DEPTHS, cv=cv, scoring=scoring).fit(X, Y)
    assert np.diff(np.sort(theirs.cv_results_["mean_test_score"])).min() > 1e-6
    same_as_grid_search(ours, theirs)
    assert ours.n_fits_ == 3 * 6 + 1
    frame = pd.DataFrame(ours.cv_results_)
    assert len(frame) == 3
    assert frame["eligible"].dtype == bool


def test_delegation_before_and_after_fit():
    unfitted = search(SVC(), {"C": [1]})
    assert hasattr(unfitted, "predict")
    assert hasattr(unfitted, "decision_function")
    assert not hasattr(unfitted, "predict_proba")
    assert not hasattr(unfitted, "classes_")
    with pytest.raises(NotFittedError):
        unfitted.predict(X)
    with pytest.raises(NotFittedError):
        unfitted.compare(0, 1)
    fitted = unfitted.fit(X, Y)
    check_is_fitted(fitted)
    assert fitted.decision_function(X).shape == (150, 3)
    assert fitted.n_features_in_ == 4
    assert list(fitted.classes_) == [0, 1, 2]
    assert fitted.refit_time_ > 0
    assert fitted.score(X, Y) == accuracy_score(Y, fitted.predict(X))


def test_tags_representation_clone_and_pickle():
    fitted = search().fit(X, Y)
    assert is_classifier(fitted)
    assert is_classifier(search())
    assert clone(fitted).get_params()["cv"] is not None
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert again.compare(0, 1) == fitted.compare(0, 1)
    np.testing.assert_array_equal(again.cv_results_["agreement"], fitted.cv_results_["agreement"])


def test_nested_in_cross_validation_and_in_a_search():
    grid = {"max_depth": [1, 3]}
    assert cross_val_score(search(grid=grid, cv=2), X, Y, cv=3).min() > 0.85
    outer = GridSearchCV(
        search(grid=grid, cv=2),
        {"refit": ["guarded", "score"], "estimator__criterion": ["gini"]},
        cv=2,
    ).fit(X, Y)
    assert isinstance(outer.best_estimator_, PASearchCV)
    model = make_pipeline(StandardScaler(), search(grid=grid, cv=2))
    repeated = RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)
    inner = search(model, {"pasearchcv__cv": [2, 3]}, cv=repeated)
    assert inner.fit(X, Y).best_score_ > 0.85


def test_metadata_routing():
    weight, environments = np.ones(150), np.arange(150) % 2
    with sklearn.config_context(enable_metadata_routing=True):
        model = LogisticRegression(max_iter=1000).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        inner = search(model, {"C": [1, 10]}, cv=GroupKFold(3))
        inner.fit(X, Y, sample_weight=weight, groups=np.arange(150) // 5)
        assert inner._pairs.weight.sum() == len(inner._pairs.weight)
        nested = PASearchCV(model, {"C": [1, 10]}).set_fit_request(environments=True)
        found = cross_validate(
            nested, X, Y, cv=2, params={"environments": environments}, return_estimator=True
        )
        assert found["estimator"][0].pairing_ == "environments"
        grouped = search(cv=GroupKFold(3))
        params = {"groups": np.arange(150) // 5}
        assert len(cross_val_score(grouped, X, Y, cv=GroupKFold(2), params=params)) == 2
        with pytest.raises(TypeError, match="unexpected argument"):
            search().fit(X, Y, nothing=1)
        # Two splitters both ask for groups.
        two = search(cv=[GroupKFold(3), GroupKFold(4)])
        assert two.fit(X, Y, groups=np.arange(150) // 5).n_splits_ == 7


def test_several_metrics():
    scoring = {"acc": "accuracy", "loss": "neg_log_loss"}
    fitted = search(scoring=scoring, refit="acc").fit(X, Y)
    assert set(fitted.scorer_) == {"acc", "loss"}
    theirs = GridSearchCV(TREE, GRID, cv=CV, scoring=scoring, refit="acc").fit(X, Y)
    for name, column in theirs.cv_results_.items():
        if "time" not in name:
            compare = "array_equal" if "param" in name else "allclose"
            getattr(np.testing, f"assert_{compare}")(fitted.cv_results_[name], column)
    table = fitted.cv_results_
    assert table["chance_test_acc"][0] == pytest.approx(1 / 3, abs=1e-3)
    assert table["chance_test_loss"][0] == pytest.approx(-np.log(3), abs=1e-3)
    views = search(scoring=scoring, refit="loss").fit(X, Y, views=lambda X: X + 0.1)
    assert "mean_test_loss_views" in views.cv_results_


def test_scorers_with_rows_of_their_own_see_those_of_the_search():
    X_a, unseen = X[::5], np.arange(150) % 5 > 0
    scoring = {"acc": "accuracy", "there": expected_scorer(X_a, X_a + 0.3)}
    scoring |= {"pa": PAScorer(views=lambda rows: rows[:, ::-1]), "large": lambda *of: of[1].max()}
    fitted = search(TREE, {}, scoring=scoring, refit="acc", cv=3).fit(X[unseen], Y[unseen])
    table = fitted.cv_results_
    chance = {name: table[f"chance_test_{name}"][0] for name in scoring}
    assert chance["acc"] == pytest.approx(chance["there"], abs=0.02)
    assert chance["pa"] == pytest.approx(0, abs=1e-6)
    assert chance["large"] == table["mean_test_large"][0] > 7
    del scoring["large"]  # scikit-learn asks each scorer whether it takes weights
    theirs = GridSearchCV(TREE, {}, scoring=scoring, refit="acc", cv=3)
    plain = theirs.fit(X[unseen], Y[unseen]).cv_results_["mean_test_there"]
    with pytest.warns(UserWarning, match="ExpectedScorer"):
        theirs.fit(X[unseen], Y[unseen], sample_weight=np.ones(unseen.sum()))
    assert theirs.cv_results_["mean_test_there"] == pytest.approx(plain)


def test_a_function_may_return_several_scores():
    def several(estimator, X, y):
        return {"a": accuracy_of(estimator, X, y), "b": 0.5}

    found = search(scoring=several, refit="a").fit(X, Y)
    assert found.best_index_ == search().fit(X, Y).best_index_
    assert set(found.cv_results_["mean_test_b"]) == {0.5}


def test_frames_sparse_rows_strings_and_other_containers():
    frame, names = pd.DataFrame(X, columns=list("abcd")), np.array(["u", "v", "w"])[Y]
    expected = search().fit(X, Y)
    fitted = search().fit(frame, pd.Series(names))
    assert list(fitted.feature_names_in_) == list("abcd")
    assert fitted.best_index_ == expected.best_index_
    codes = np.searchsorted(["u", "v", "w"], fitted.predict(frame))
    np.testing.assert_array_equal(codes, expected.predict(X))
    sparse, lists = search().fit(csr_array(X), Y), search().fit(X.tolist(), names.tolist())
    for other in (fitted, sparse, lists):
        np.testing.assert_allclose(
            other.cv_results_["agreement"], expected.cv_results_["agreement"], atol=1e-9
        )


def test_kernel_matrices():
    precomputed, linear = (
        search(SVC(kernel=kernel), {"C": [0.1, 1]}).fit(rows, Y).cv_results_["agreement"]
        for kernel, rows in (("precomputed", X @ X.T), ("linear", X))
    )
    np.testing.assert_allclose(precomputed, linear, atol=1e-6)


@pytest.mark.filterwarnings("ignore:The (chosen candidate may|least populated class):UserWarning")
def test_classes_missing_from_a_fold_and_folds_of_a_single_class():
    # Class 2 is only in the last fold, which the first models have seen, the last has not.
    order = np.argsort(Y, kind="stable")
    folds = [PredefinedSplit(np.arange(150) // 50), StratifiedKFold(3)]
    model = LogisticRegression(max_iter=1000)
    fitted = search(model, {"C": [0.1, 1]}, cv=folds, refit="score").fit(X[order], Y[order])
    assert np.isfinite(fitted.cv_results_["agreement"]).all()
    assert set(fitted.cv_results_["n_pairs"]) == {150}
    stump = search(grid={"max_depth": [1]}, refit="score").fit(X[:60], np.arange(60) == 0)
    assert np.isfinite(stump.cv_results_["agreement"]).all()
    alone = search(DummyClassifier(), {"strategy": ["prior"]}, refit="score")
    assert alone.fit(X[:60], np.zeros(60)).cv_results_["agreement"][0] == 0


class Fragile(ClassifierMixin, BaseEstimator):
    """Fails where it is told to, and counts its fits."""

    n_fits = 0

    def __init__(self, how="never"):
        self.how = how

    def fit(self, X, y):
        Fragile.n_fits += 1
        if self.how == "always" or (self.how == "sometimes" and X[0, 0] == 4.9):
            raise ValueError("too fragile")
        self.inner_ = DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X):
        if self.how == "unscored" and X[0, 0] == 5.1:
            raise ValueError("no score today")
        return np.argmax(self.inner_.predict_proba(X), axis=1)

    def predict_proba(self, X):
        if self.how == "scoreless":
            raise AttributeError("no probabilities today")
        return self.inner_.predict_proba(X)


def outcome(searched):
    """What fit does: the fitted search or its error, its warnings of failures, its fits."""
    Fragile.n_fits = 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = searched.fit(X, Y)
        except (ValueError, AttributeError) as error:
            found = error
    said = [str(w.message) for w in caught if issubclass(w.category, FitFailedWarning)]
    said += [str(w.message) for w in caught if "non-finite" in str(w.message)]
    said += [str(w.message) for w in caught if "Scoring failed" in str(w.message)]
    return found, said, Fragile.n_fits


@pytest.mark.parametrize("error_score", [np.nan, 0, "raise"])
@pytest.mark.parametrize("how", [["sometimes"], ["sometimes", "unscored"], ["always"]])
def test_failures_are_those_of_grid_search(how, error_score):
    for grid in ({"how": [*how, "never"]}, {"how": how}):
        options = {"cv": SPLITS, "error_score": error_score, "refit": "score"}
        ours, said, n_fits = outcome(search(Fragile(), grid, **options))
        theirs, their_words, n_their = outcome(
            GridSearchCV(Fragile(), grid, **options | {"refit": True})
        )
        frames = r"0x[0-9a-f]+|  File [^\n]*pa_select.*\n.*\n(    +\^+\n)?"  # models remember
        assert [re.sub(frames, "", text) for text in said] == their_words
        if "a finite 'score'" in str(ours):  # scikit-learn fits one that has no score
            assert not np.isfinite(theirs.cv_results_["mean_test_score"]).any()
            continue
        assert n_fits == n_their
        if isinstance(theirs, Exception):
            assert (type(ours), str(ours)) == (type(theirs), str(theirs))
        else:
            same_as_grid_search(ours, theirs)
            assert ours.n_fits_ == n_fits == 6 * len(grid["how"]) + 1


@pytest.mark.parametrize("error_score", [np.nan, 1.0])
def test_failing_candidates_never_win_and_keep_their_message(error_score):
    grid = {"how": ["always", "sometimes", "never", "scoreless"]}
    with pytest.warns((FitFailedWarning, UserWarning)):
        fitted = search(Fragile(), grid, error_score=error_score).fit(X, Y)
    table = fitted.cv_results_
    fragile, scoreless = "ValueError: too fragile", "AttributeError: no probabilities today"
    assert table["error"].tolist() == [fragile, fragile, "", scoreless]
    np.testing.assert_array_equal(np.isnan(table["agreement"]), [True, True, False, True])
    assert np.isnan(fitted.compare(0, 2).difference)
    assert fitted.best_params_ == {"how": "never"}
    assert table["eligible"].tolist() == [False, False, True, False]


def test_randomized_search_draws_candidates():
    model = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": loguniform(1e-3, 1e3)}
    one, two = (PARandomizedSearchCV(model, grid, 4, random_state=0).fit(X, Y) for _ in range(2))
    assert one.cv_results_["params"] == two.cv_results_["params"]
    assert len({params["logisticregression__C"] for params in one.cv_results_["params"]}) == 4
