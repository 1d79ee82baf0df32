"""PASearchCV behaves as scikit-learn's own searches do."""

import pickle

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
from pa_select.model_selection import GuardedSelection, within_one_standard_error

X, Y = load_iris(return_X_y=True)
GRID = {"max_depth": [1, 3, None]}
TREE = DecisionTreeClassifier(random_state=0)
CV = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)


def search(estimator=TREE, grid=GRID, **params):
    # Hardly any test here looks at the last digits of an agreement.
    return PASearchCV(estimator, grid, **{"cv": CV, "tol": 0.1, **params})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator",
    [
        # What is found is of no importance here, so that it is not sought to the last digit.
        PASearchCV(GaussianNB(), {"var_smoothing": [1e-9, 0.1]}, error_score="raise"),
        PARandomizedSearchCV(
            make_pipeline(StandardScaler(), LinearSVC()), {"linearsvc__C": [0.1, 1.0]}, 1
        ),
    ],
)
def test_estimator_checks(estimator):
    found = check_estimator(estimator.set_params(cv=2, tol=0.1), on_fail=None, on_skip=None)
    assert not [check for check in found if check["status"] == "failed"]
    assert len(found) > 50


def test_attributes_and_columns_are_those_of_grid_search():
    # Without ties, in which GridSearchCV lets the last digit decide.
    grid = {"max_depth": [1, 2, 3]}
    ours = search(grid=grid, selection="score").fit(X, Y)
    theirs = GridSearchCV(TREE, grid, cv=CV).fit(X, Y)
    assert np.diff(np.sort(theirs.cv_results_["mean_test_score"])).min() > 1e-6
    public = {name for name in vars(theirs) if not name.startswith("_")} - {"return_train_score"}
    assert public <= set(vars(ours))
    assert set(theirs.cv_results_) <= set(ours.cv_results_)
    for name, column in theirs.cv_results_.items():
        if "time" not in name:
            own = np.ma.asarray(ours.cv_results_[name])
            compare = "allclose" if own.dtype.kind == "f" else "array_equal"
            getattr(np.testing, f"assert_{compare}")(own, column)
    for name in ("best_index_", "best_params_", "best_score_", "n_splits_", "multimetric_"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name))
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
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


def test_without_refit():
    fitted = search(refit=False).fit(X, Y)
    assert fitted.best_params_ == fitted.cv_results_["params"][fitted.best_index_]
    assert not hasattr(fitted, "best_estimator_")
    assert not hasattr(fitted, "predict")
    with pytest.raises(AttributeError, match="refit=False"):
        fitted.score(X, Y)


def test_tags_representation_clone_and_pickle():
    fitted = search().fit(X, Y)
    assert is_classifier(fitted)
    assert is_classifier(search())
    assert "DecisionTreeClassifier" in fitted._repr_html_()
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
        {"selection": ["guarded", "score"], "estimator__criterion": ["gini"]},
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
    assert fitted.multimetric_
    assert set(fitted.scorer_) == {"acc", "loss"}
    table = fitted.cv_results_
    assert fitted.best_score_ == table["mean_test_acc"][fitted.best_index_]
    assert table["chance_test_acc"][0] == pytest.approx(1 / 3, abs=1e-3)
    assert table["chance_test_loss"][0] == pytest.approx(-np.log(3), abs=1e-3)
    assert "acc 0." in table["reason"][1]
    with pytest.raises(ValueError, match="parameter refit must be set to a scorer key"):
        search(scoring=scoring).fit(X, Y)
    unselected = search(scoring=scoring, refit=False).fit(X, Y)
    assert not hasattr(unselected, "best_index_")
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


def test_scoring_by_functions():
    def one(estimator, X, y):
        return accuracy_score(y, estimator.predict(X))

    def several(estimator, X, y):
        return {"a": one(estimator, X, y), "b": 0.5}

    plain = search().fit(X, Y)
    for scoring in (one, make_scorer(accuracy_score)):
        assert search(scoring=scoring).fit(X, Y).best_index_ == plain.best_index_
    found = search(scoring=several, refit="a").fit(X, Y)
    assert found.best_index_ == plain.best_index_
    assert set(found.cv_results_["mean_test_b"]) == {0.5}


def test_selection_by_rules_and_functions():
    first = search(selection=lambda table: 0).fit(X, Y)
    assert first.best_index_ == 0
    assert first.best_score_ == first.cv_results_["mean_test_score"][0]
    assert set(first.cv_results_["reason"]) == {"eligible"}
    assert search(refit=lambda table: 2).fit(X, Y).best_index_ == 2
    shallow = search(selection=within_one_standard_error(lambda p: p["max_depth"] or 99))
    assert shallow.fit(X, Y).best_params_ == {"max_depth": 3}
    tuned = clone(search(selection=GuardedSelection())).set_params(selection__n_se=0).fit(X, Y)
    assert tuned.best_score_ == tuned.cv_results_["mean_test_score"].max()
    with pytest.raises(TypeError, match="selection: expected the index of a candidate, got 'x'"):
        search(selection=lambda table: "x").fit(X, Y)
    with pytest.raises(IndexError, match="selection: expected a candidate from 0 to 2, got 7"):
        search(selection=lambda table: 7).fit(X, Y)


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
    fitted = search(model, {"C": [0.1, 1]}, cv=folds, selection="score").fit(X[order], Y[order])
    assert np.isfinite(fitted.cv_results_["agreement"]).all()
    assert set(fitted.cv_results_["n_pairs"]) == {150}
    stump = search(grid={"max_depth": [1]}, selection="score").fit(X[:60], np.arange(60) == 0)
    assert np.isfinite(stump.cv_results_["agreement"]).all()
    alone = search(DummyClassifier(), {"strategy": ["prior"]}, selection="score")
    assert alone.fit(X[:60], np.zeros(60)).cv_results_["agreement"][0] == 0


class Fragile(ClassifierMixin, BaseEstimator):
    """Fails where it is told to."""

    def __init__(self, how="never"):
        self.how = how

    def fit(self, X, y):
        if self.how == "always" or (self.how == "sometimes" and X[0, 0] == 4.9):
            raise ValueError("too fragile")
        self.inner_ = DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X):
        return np.argmax(self.inner_.predict_proba(X), axis=1)

    def predict_proba(self, X):
        if self.how == "scoreless":
            raise AttributeError("no probabilities today")
        return self.inner_.predict_proba(X)


def test_failing_candidates_never_win_and_keep_their_message():
    grid = {"how": ["always", "sometimes", "never", "scoreless"]}
    for error_score, selection in [(np.nan, "guarded"), (9.0, "score"), (9.0, "guarded")]:
        options = {"error_score": error_score, "selection": selection}
        with pytest.warns((FitFailedWarning, UserWarning)):
            fitted = search(Fragile(), grid, **options).fit(X, Y)
        table, always = fitted.cv_results_, "failed in 6 of 6 splits: ValueError: too fragile"
        assert fitted.best_params_ == {"how": "never"}
        assert table["reason"][0] == f"not eligible: {always}"
        assert table["reason"][1].startswith("not eligible: failed in ")
        assert 0 < table["n_failed_splits"][1] < 6
        assert "no class scores: AttributeError: no probabilities today" in table["reason"][3]
        np.testing.assert_array_equal(np.isnan(table["agreement"]), [True, True, False, True])
        assert fitted.compare(0, 2).difference != fitted.compare(0, 2).difference
    with pytest.raises(ValueError, match="too fragile"):
        search(Fragile(), grid, error_score="raise").fit(X, Y)
    with pytest.raises(ValueError, match="All the 6 fits failed"):
        search(Fragile(), {"how": ["always"]}).fit(X, Y)
    with (
        pytest.warns((FitFailedWarning, UserWarning)),
        pytest.raises(ValueError, match="No candidate has a finite 'score' in all splits"),
    ):
        search(Fragile(), {"how": ["sometimes"]}).fit(X, Y)


def test_randomized_search_draws_candidates():
    model = make_pipeline(StandardScaler(), LogisticRegression())
    grid = {"logisticregression__C": loguniform(1e-3, 1e3)}
    one, two = (
        PARandomizedSearchCV(model, grid, 4, random_state=0, tol=0.1).fit(X, Y) for _ in range(2)
    )
    assert one.cv_results_["params"] == two.cv_results_["params"]
    assert len({params["logisticregression__C"] for params in one.cv_results_["params"]}) == 4
