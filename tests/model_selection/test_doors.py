"""One input through every door: search, scorer and function take and refuse the same."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import IsolationForest, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, f1_score, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    StratifiedKFold,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import shuffle
from torch.utils.data import TensorDataset

from pa_select import (
    GuardedSelection,
    PACommittee,
    PAScorer,
    PASearchCV,
    expected_score,
    expected_scorer,
    within_one_standard_error,
)

X, Y = shuffle(*load_wine(return_X_y=True), random_state=0)
X = (X - X.mean(axis=0)) / X.std(axis=0)
A, B, V, v = X[:50], 1.5 * X[:50] + 0.3, X[50:], Y[50:]
MODEL, GRID = LogisticRegression(), {"C": [1e-4, 0.01, 1]}
FROZEN = Pipeline([("model", FrozenEstimator(LogisticRegression().fit(X, Y)))])


class Column(ClassifierMixin, BaseEstimator):
    """Predicts a column, as some libraries do for three or more classes."""

    def fit(self, X, y):
        self._model = LogisticRegression().fit(X, y)
        self.classes_ = self._model.classes_
        return self

    def predict(self, X):
        return self._model.predict(X)[:, None]

    def predict_proba(self, X):
        return self._model.predict_proba(X)


def of_ours(model=MODEL, grid=GRID, y=v, rows=V, **params):
    return PASearchCV(model, grid, **{"cv": 3, "tol": 0.1, **params}).fit(rows, y, paired=(A, B))


def of_theirs(scorer, model=MODEL, grid=GRID, y=v, cv=3):
    return GridSearchCV(model, grid, scoring=scorer, cv=cv).fit(V, y)


@pytest.mark.parametrize("column", [lambda y: y[:, None], lambda y: pd.DataFrame({"y": y})])
@pytest.mark.filterwarnings("ignore:A column-vector")
def test_labels_as_a_column(column):
    P, q = load_diabetes(return_X_y=True)
    regressors = PASearchCV(Ridge(), {"alpha": [0.01, 1]}, cv=3)
    for search, rows, y, pairs in (
        (PASearchCV(MODEL, GRID, cv=3, tol=0.1), V, v, (A, B)),
        (regressors, P[60:], q[60:], (P[:60], P[:60] + 0.01)),
    ):
        same, other = (
            search.fit(rows, labels, paired=pairs).cv_results_["expected_score"]
            for labels in (y, column(y))
        )
        np.testing.assert_allclose(other, same)


def test_predictions_as_a_column():
    plain = LogisticRegression()
    one, other = (expected_score(m.fit(V, v), A, B, V, v) for m in (plain, Column()))
    assert other == one
    scorer = expected_scorer(A, B)
    tables = [of_theirs(scorer, model, {}).cv_results_ for model in (plain, Column())]
    assert tables[1]["mean_test_score"] == tables[0]["mean_test_score"]
    searches = [of_ours(model, {}) for model in (plain, Column())]
    assert searches[1].expected_score_ == searches[0].expected_score_


@pytest.mark.filterwarnings("ignore")
def test_a_class_that_a_training_fold_lacks():
    rare = v.copy()
    rare[7] = 3
    search = of_theirs(expected_scorer(A, B), y=rare, cv=5)
    ours = of_ours(y=rare, cv=5)
    assert search.best_index_ == ours.best_index_ == 2
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], ours.cv_results_["expected_score"], atol=0.05
    )
    order = np.argsort(v, kind="stable")
    sorted_folds = GridSearchCV(MODEL, GRID, scoring=expected_scorer(A, B), cv=KFold(3))
    sorted_folds.fit(V[order], v[order])  # each test fold is nearly one class, unseen
    assert sorted_folds.cv_results_["mean_test_score"].max() < 0.4
    # Nor does a fold stop the search of whose classes its model knows none.
    unseen = GridSearchCV(MODEL, GRID, scoring=expected_scorer(A, B), cv=PredefinedSplit(v))
    assert unseen.fit(V, v).cv_results_["mean_test_score"].max() < 0.1
    with pytest.raises(
        ValueError, match="y: expected classes of Pipeline, .0, 1, 2.,"
    ):  # other labels than the model's
        of_theirs(expected_scorer(A, B), FROZEN, {}, y=np.array(["a", "b", "c"])[v])
    many = np.arange(len(V)) % 40
    scores = of_theirs(expected_scorer(A, B), y=many, cv=KFold(3)).cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()


def test_rows_of_an_unknown_class_are_missed_and_counted():
    model = LogisticRegression().fit(V[v < 2], v[v < 2])
    message = r"y_val: expected classes of Log.*in 38 of 128 rows, such"
    with pytest.warns(UserWarning, match=message):
        found = expected_score(model, A, B, V, v)
    assert found.validation_score == pytest.approx(np.mean(model.predict(V) == v))
    assert found.score < 0.8
    with pytest.raises(ValueError, match="y_val: expected classes of"):
        expected_score(model, A, B, V, np.where(v < 2, "a", "b"))


def test_a_classifier_that_knows_more_classes():
    few = v < 2
    big = FROZEN
    scored = GridSearchCV(big, {}, scoring=expected_scorer(A, B), cv=3).fit(V[few], v[few])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = of_ours(big, {}, y=v[few], rows=V[few])
    assert search.expected_score_ == pytest.approx(scored.best_score_, abs=0.02)
    assert search.classes_.tolist() == [0, 1, 2]
    other = PASearchCV(big, {}, cv=3).fit(V[few], v[few])
    assert other.cv_results_["agreement"] > 0


class WithMoreClasses(LogisticRegression):
    """Knows two classes that no row has, as a net with a larger head."""

    def fit(self, X, y):
        super().fit(X, y)
        self.classes_ = np.append(self.classes_, [8, 9])
        return self

    def decision_function(self, X):
        scores = super().decision_function(X)
        return np.column_stack([scores, np.tile([-8.0, -10.0], (len(X), 1))])


@pytest.mark.parametrize(
    "scoring",
    [
        "f1_macro",
        "balanced_accuracy",
        "jaccard_macro",
        "matthews_corrcoef",
        make_scorer(f1_score, average="macro", zero_division=1),
    ],
)
def test_classes_that_no_row_has_change_no_score_of_predictions(scoring):
    scores, errors = [], []
    for kind in (LogisticRegression, WithMoreClasses):
        search = of_ours(kind(), {"C": [1e-4, 1]}, scoring=scoring, selection="expected")
        found = expected_score(kind().fit(V[:64], v[:64]), A, B, V[64:], v[64:], scoring=scoring)
        scores.append([*search.cv_results_["expected_score"], found.score])
        errors.append([*search.cv_results_["expected_score_se"], found.standard_error])
    np.testing.assert_allclose(scores[1], scores[0], rtol=0.02, atol=1e-9)
    np.testing.assert_allclose(errors[1], errors[0], rtol=0.6)  # other parts are left out


@pytest.mark.parametrize("scoring", ["neg_log_loss", "neg_brier_score"])
@pytest.mark.filterwarnings("ignore")
def test_columns_of_classes_without_a_row_count_in_losses(scoring):
    few = v < 2
    found = expected_score(FROZEN, A, B, V[few], v[few], scoring=scoring)
    posterior, label = FROZEN.predict_proba(V[few]), np.eye(3)[v[few]]
    if scoring == "neg_log_loss":
        losses = -np.log(posterior[label == 1])
    else:
        losses = np.square(posterior - label).sum(axis=1)
    assert found.validation_score == pytest.approx(-losses.mean())
    assert np.isfinite(found.score)
    rare = np.where(np.arange(len(v)) == 7, 3, v)  # in four of five test folds no row has it
    scorer = expected_scorer(A, B, scoring=scoring)
    assert np.isfinite(of_theirs(scorer, y=rare, cv=5).cv_results_["mean_test_score"]).all()
    # The score of a search is scikit-learn's, which is not defined: the reason is said.
    with pytest.raises(ValueError, match="not finite in split 0.*different number of classes: 3"):
        of_ours(scoring=scoring, y=rare, cv=5)


def share(y, predicted):
    return np.mean(y == predicted)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: expected_scorer(A[:, :5], B[:, :5]), r"X_a: expected rows of shape \(13,\)"),
        (lambda: expected_scorer, "the function expected_scorer called as a scorer"),
        (lambda: expected_scorer(A, B, scoring="nope"), "'nope' is not a valid scoring value"),
        (lambda: expected_scorer(A, B, "accuracy"), "expected two samples, got 3 arguments"),
        (lambda: expected_scorer(np.where(A > 3, np.nan, A), B), "X_a: expected no missing"),
        (lambda: expected_scorer(A, B, scoring=["accuracy"]), "expected one scorer, by name"),
        (lambda: expected_scorer(A, B, scoring=accuracy_score), "looks like it is a metric"),
        (lambda: expected_scorer(A, B, scoring=make_scorer(share)), "takes sample weights"),
        (lambda: expected_scorer(A, B, scoring="f1"), "scoring: .*average='binary'"),
        (lambda: expected_scorer(A, B, scoring="roc_auc"), "scoring: multi_class must be"),
        (lambda: expected_scorer(A, np.where(B > 3, np.inf, B)), "X_b: expected no infinite"),
        (lambda: PAScorer(paired=(A, np.where(B > 3, np.inf, B))), r"paired\[1\]: .* no infinite"),
        (lambda: PAScorer(paired=(np.where(A > 3, np.nan, A), B)), r"paired\[0\]: .* no missing"),
        (lambda: PAScorer(views=lambda rows: rows * np.nan), "views: expected no missing"),
        (lambda: PAScorer(paired=(A[:, :5], B[:, :5])), r"paired\[0\]: expected rows of shape"),
        (lambda: PAScorer(views=lambda rows: rows[:, :5]), "views: expected rows of shape"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_an_error_that_no_candidate_escapes_stops_the_search(made, message):
    with pytest.raises((TypeError, ValueError), match=message):
        of_theirs(made())


@pytest.mark.parametrize("made", [lambda: expected_scorer(A, B), lambda: PAScorer(views=np.tanh)])
@pytest.mark.parametrize("model", [KNeighborsClassifier(), OneVsRestClassifier(MODEL)])
@pytest.mark.filterwarnings("ignore")
def test_several_labels_of_a_row_stop_the_search(made, model):
    with pytest.raises((TypeError, ValueError), match="For several labels of a row compare one"):
        of_theirs(made(), model, {}, (V[:, :3] > 0).astype(int))


def test_labels_of_pixels_point_to_the_page():
    with pytest.raises(ValueError, match="For classes of pixels, .* put the classes last"):
        expected_score(MODEL.fit(V, v), A, B, V, np.zeros((len(V), 8, 8), dtype=int))


@pytest.mark.parametrize("scorer", [expected_scorer(A, B), PAScorer(views=lambda x: 1.5 * x)])
@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (IsolationForest(), np.where(v == 0, -1, 1), "expected a classifier, got IsolationForest"),
        (DecisionTreeClassifier(), np.column_stack([v, v]), r"of one output|got \(43, 2\)"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_no_classifier_of_one_output_stops_the_search(scorer, model, y, message):
    with pytest.raises((TypeError, ValueError), match=message):
        of_theirs(scorer, model, {}, y=y)


def rarity_of_errors(y, predicted, sample_weight=None):
    return -np.log(np.average(y != predicted, weights=sample_weight))


def test_a_metric_may_be_infinite_for_predictions_without_an_error():
    scorer = expected_scorer(A, B, scoring=make_scorer(rarity_of_errors))
    model = LogisticRegression(C=1e-3)  # it has errors in each fold
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = of_theirs(scorer, model, {})
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


class Fails(LogisticRegression):
    """Fails with large C, by an error of its own."""

    def decision_function(self, X):
        return super().decision_function(X if self.C < 1 else None + X)


VOTING = VotingClassifier([("one", LogisticRegression()), ("other", LogisticRegression(C=0.1))])
IMPUTED = Pipeline([("imputer", SimpleImputer()), ("model", LogisticRegression())])


@pytest.mark.parametrize("of_pairs", [expected_scorer, lambda *pairs: PAScorer(paired=pairs)])
@pytest.mark.parametrize(
    ("model", "grid", "message"),
    [
        (Fails(), {"C": [0.1, 10]}, None),
        (VOTING, {"voting": ["soft", "hard"]}, None),
        (IMPUTED, {"imputer": [SimpleImputer(), "passthrough"]}, None),
        (VOTING, {"one__C": [0.1, 1]}, "give it voting='soft'"),
        (LogisticRegression(), {"C": [0.1, 1]}, "expected no missing values"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_candidate_that_fails_alone_is_nan(of_pairs, model, grid, message):
    of_grid = grid.get("imputer") or message == "expected no missing values"
    scorer = of_pairs(A, np.where(B > 3, np.nan, B) if of_grid else B)
    if message is None:
        scores = of_theirs(scorer, model, grid).cv_results_["mean_test_score"]
        assert np.isfinite(scores).tolist() == [True, False]
    else:  # no candidate has a score
        with pytest.raises(ValueError, match=message):
            of_theirs(scorer, model, grid)


@pytest.mark.parametrize("scoring", ["neg_log_loss", "neg_brier_score"])
@pytest.mark.filterwarnings("ignore")
def test_models_without_probabilities_have_no_score_of_probabilities(scoring):
    few, model = (V[v < 2], v[v < 2]), LinearSVC()
    fitted, scorer = model.fit(*few), expected_scorer(A, B, scoring=scoring)
    piped = make_pipeline(StandardScaler(), LinearSVC()).fit(*few)
    for call in (
        *(
            lambda given=given: expected_score(given, A, B, *few, scoring=scoring)
            for given in (fitted, piped, [fitted])
        ),
        lambda: scorer(fitted, *few),
        lambda: GridSearchCV(model, {}, scoring=scorer, cv=3).fit(*few),
        lambda: PACommittee.from_models([fitted, fitted], *few, scoring=scoring),
        lambda: of_ours(model, {}, *few[::-1], scoring=scoring),
    ):
        with pytest.raises(
            (TypeError, ValueError, RuntimeError), match="LinearSVC has no(ne)? .*predict_proba"
        ):
            call()
    # The model of another metric, and the reference, need none.
    assert expected_score(fitted, A, B, *few, scoring="roc_auc").score > 0.9
    plain = LogisticRegression().fit(*few)
    assert np.isfinite(expected_score(plain, A, B, *few, scoring=scoring, reference=fitted).score)


def test_logits_of_a_module_are_probabilities():
    module = torch.nn.Linear(13, 3)
    found = expected_score(module, A, B, V, v, scoring="neg_log_loss")
    assert np.isfinite(found.score)


@pytest.mark.parametrize("C", [0.01, 1])
@pytest.mark.filterwarnings("ignore")
def test_a_single_model_is_expected_to_score_the_same_in_a_search(C):
    model, test = LogisticRegression(C=C), np.repeat([-1, 0], [len(V) // 2, len(V) - len(V) // 2])
    search = PASearchCV(model, {}, cv=PredefinedSplit(test)).fit(V, v, paired=(A, B))
    found = expected_score(model.fit(V[test < 0], v[test < 0]), A, B, V[test == 0], v[test == 0])
    assert search.expected_score_ == pytest.approx(found.score)
    assert search.expected_score_se_ == pytest.approx(found.standard_error)
    # A model that nobody comes near is the whole ensemble, too.
    poor = DummyClassifier().fit(V, v)
    pair = expected_score([model, poor], A, B, V[test == 0], v[test == 0], scoring="accuracy")
    assert next(iter(pair.values())).score == pytest.approx(found.score)


def test_a_single_regressor_is_expected_to_score_the_same_in_a_search():
    P, q = load_diabetes(return_X_y=True)
    test, pairs = np.repeat([-1, 0], [200, 182]), (P[:60], P[:60] + 0.01)
    search = PASearchCV(Ridge(), {}, cv=PredefinedSplit(test)).fit(P[60:], q[60:], paired=pairs)
    found = expected_score(Ridge().fit(P[60:260], q[60:260]), *pairs, P[260:], q[260:])
    assert search.expected_score_ == pytest.approx(found.score)


@pytest.mark.parametrize("changed", ["rows of a", "rows of b", "Dataset", "parameter"])
def test_a_scorer_sees_what_is_changed_in_place(changed):
    here, there, ridge = A.copy(), B.copy(), Ridge(1e-3)
    rows = TensorDataset(torch.from_numpy(there)) if changed == "Dataset" else there
    scorer = expected_scorer(here, rows, adapter=ridge)
    fitted = LogisticRegression().fit(V, v)
    before = scorer(fitted, V, v)
    if changed == "parameter":
        ridge.set_params(alpha=1e6)
    else:  # the tensor of the Dataset shares the memory
        (here if changed == "rows of a" else there)[:] = X[50:100][::-1]
    after = scorer(fitted, V, v)
    assert after == expected_scorer(here, rows, adapter=ridge)(fitted, V, v) != before


@pytest.mark.filterwarnings("ignore")
def test_the_agreement_does_not_depend_on_the_size_of_the_folds():
    def agreements(n_folds, **given):
        cv = LeaveOneOut() if n_folds == len(V) else KFold(n_folds)
        search = PASearchCV(MODEL, GRID, cv=cv, tol=0.01).fit(V, v, **given)
        return search.cv_results_["agreement"]

    views = {"views": 1.5 * V}
    sites = {"environments": np.random.default_rng(0).integers(0, 2, len(V))}
    assert agreements(3, **views)[-1] > 1
    # One row in each fold of the views, in the end.
    for given, sizes, atol in ((views, (20, 60, len(V)), 0.1), (sites, (20,), 0.15)):
        of_three = agreements(3, **given)
        for n_folds in sizes:
            np.testing.assert_allclose(agreements(n_folds, **given), of_three, atol=atol)


def test_the_scorer_warns_once_of_folds_with_few_pairs():
    fitted, scorer = LogisticRegression().fit(V, v), PAScorer(views=lambda rows: 1.5 * rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scorer(fitted, V[:6], v[:6])
        PAScorer(views=lambda rows: 1.5 * rows, prior="uniform")(fitted, V[:1], v[:1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        GridSearchCV(MODEL, GRID, cv=LeaveOneOut(), scoring=scorer).fit(V[:40], v[:40])
    (few,) = (str(x.message) for x in caught if "PAScorer: " in str(x.message))
    assert "expected at least 6 pairs of 3 classes, got 1." in few
    with pytest.warns(UserWarning, match="at least 6 pairs of 3 classes, got 4"):
        PAScorer().agreement(fitted, V[:5], np.array([0, 0, 1, 1, 2]))


def test_the_expected_score_warns_once_of_folds_with_few_labels():
    scorer = expected_scorer(A, B)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        GridSearchCV(MODEL, GRID, cv=LeaveOneOut(), scoring=scorer).fit(V[:40], v[:40])
    (few,) = (str(x.message) for x in caught)
    assert "X: expected at least 6 labelled rows in each test fold, got 1." in few
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected_scorer(A, B)(LogisticRegression().fit(V, v), V[:6], v[:6])
        # One inverse temperature needs no more rows for more classes.
        warnings.filterwarnings("ignore", "The number of unique classes")  # of scikit-learn 1.7
        many = np.arange(len(V)) % 40
        expected_scorer(A, B)(LogisticRegression().fit(V, many), V[:40], many[:40])


class Likely(LogisticRegression):
    """Has a score of the most probable class only."""

    def decision_function(self, X):
        scores = super().decision_function(X)
        return np.where(scores == scores.max(axis=1, keepdims=True), scores, -np.inf)


def test_a_search_counts_the_pairs_that_share_no_class():
    with pytest.warns(UserWarning, match=r"class scores of candidate 0: .* share none") as caught:
        search = PASearchCV(Likely(), {}, cv=3).fit(V, v, views=0.2 - V)
    assert (search.cv_results_["agreement"] == 0).all()
    (n,) = {
        int(x) for one in caught for x in re.findall(r"got (\d+) of 128 pairs", str(one.message))
    }
    models = [LogisticRegression().fit(V[a], v[a]) for a, _ in StratifiedKFold(3).split(V, v)]
    tests = [test for _, test in StratifiedKFold(3).split(V, v)]
    differ = [m.predict(V[t]) != m.predict(0.2 - V[t]) for m, t in zip(models, tests, strict=True)]
    assert n == np.concatenate(differ).sum()


D, d = load_digits(return_X_y=True)
D, d = D[:400] / 16, d[:400]
ONE_SPLIT = PredefinedSplit(np.repeat([0, -1], [100, 300]))


@pytest.mark.parametrize("scoring", [None, "accuracy", "neg_log_loss", ["accuracy", "f1_macro"]])
@pytest.mark.parametrize("views", [0.5 * D, [0.5 * D, 0.6 * D], None])
@pytest.mark.filterwarnings("ignore:fit was given no|cv tests no row")
def test_the_error_of_one_split_is_that_of_its_rows(scoring, views):
    several = isinstance(scoring, list)
    options = {"scoring": scoring, "refit": "accuracy" if several else True, "tol": 0.1}
    model = LogisticRegression(max_iter=200)
    search = PASearchCV(model, {"C": [1e-3, 0.1, 1]}, cv=ONE_SPLIT, **options)
    table = search.fit(D, d, views=views).cv_results_
    for metric in scoring if several else ["score"]:
        for name in (metric, f"{metric}_views")[: 1 if views is None else 2]:
            score, error = table[f"mean_test_{name}"], table[f"se_test_{name}"]
            assert (error > 0).all()
            if metric == "f1_macro":
                assert (error < 0.15).all()
            elif scoring != "neg_log_loss":
                np.testing.assert_allclose(error, np.sqrt(score * (1 - score) / 100), atol=0.015)


def test_one_wrong_row_of_a_single_split_excludes_no_candidate():
    grid = {"C": np.logspace(-3, 1, 7)}
    search = PASearchCV(LogisticRegression(max_iter=200), grid, cv=ONE_SPLIT, tol=0.1)
    table = search.fit(D, d, views=0.5 * D).cv_results_
    near = table["mean_test_score_views"] >= table["mean_test_score_views"].max() - 0.01
    assert near.sum() > 1
    assert table["eligible"][near].all()
    assert not table["eligible"][table["mean_test_score_views"] < 0.5].any()
    # What a constant gains by one row is no reason to prefer it.
    near_constant = DummyClassifier(strategy="stratified", random_state=0)
    with pytest.warns(UserWarning, match="chance"):
        chosen = PASearchCV(near_constant, {}, cv=ONE_SPLIT).fit(D, d, views=0.5 * D)
    assert not chosen.cv_results_["eligible"].any() or chosen.best_score_ > 0.2


@pytest.mark.parametrize("rule", [GuardedSelection("pa", "acc"), None])
def test_a_single_split_of_another_search_is_warned_of(rule):
    scoring = {"pa": PAScorer(views=lambda rows: 0.5 * rows), "acc": "accuracy"}
    refit = rule or within_one_standard_error("C", score="acc")
    model = LogisticRegression(max_iter=200)
    search = GridSearchCV(model, {"C": [0.1, 1]}, cv=ONE_SPLIT, scoring=scoring, refit=refit)
    with pytest.warns(UserWarning, match="at least two splits, got one of 'acc'"):
        search.fit(D, d)


WINES = np.array(["first", "second", "third"])[Y]
# The first class is at both sites, and each other one at one.
SITES = np.where(
    Y == 1, "north", np.where(Y == 2, "south", np.array(["north", "south"])[Y[::-1] % 2])
)


@pytest.mark.parametrize("selection", ["guarded", "agreement"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_score_decides_if_sites_share_one_class(selection, n_classes):
    kept = n_classes > Y
    search = PASearchCV(MODEL, GRID, cv=3, selection=selection)
    with pytest.warns(UserWarning, match="environments: expected") as caught:
        search.fit(X[kept], WINES[kept], environments=SITES[kept])
    table, texts = search.cv_results_, [str(one.message) for one in caught]
    n = np.count_nonzero(kept & (Y > 0))
    assert any(f"got {n} of {kept.sum()} rows whose class no other" in text for text in texts)
    assert any("got only rows of class 'first'" in text for text in texts)
    assert (table["agreement"] == 0).all()
    assert table["mean_test_score"][search.best_index_] == table["mean_test_score"].max()
    assert "only rows of class 'first' are compared" in table["reason"][search.best_index_]
    assert search.certified_choice_ is None
    assert "more is more stable" not in search.report()
    assert "says nothing: only rows of class" in search.report()


def test_a_scorer_of_rows_of_one_class_is_0_and_warns():
    fitted, same = LogisticRegression().fit(X, WINES), WINES == "first"
    with pytest.warns(UserWarning, match="PAScorer: expected pairs of several classes, got only"):
        assert PAScorer()(fitted, X[same], WINES[same]) == 0
    with pytest.warns(UserWarning, match="only rows of class 'first'"):
        assert PAScorer()(fitted, X, WINES, environments=SITES) == 0
    assert PAScorer(prior="uniform")(fitted, X[same], WINES[same]) > 0.1
