"""One input through every door: search, scorer and function take and refuse the same."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import BaggingClassifier, HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, f1_score, get_scorer, make_scorer
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, PredefinedSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import shuffle
from torch.utils.data import TensorDataset

from pa_select import (
    PACommittee,
    PAScorer,
    PASearchCV,
    expected_score,
    expected_scorer,
    plan_pairs,
)
from pa_select.model_selection import GuardedSelection
from pa_select.pairing import LabelPairing
from pa_select.two_sites.score_of_units import error_of_rate

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


def of_ours(model=MODEL, grid=GRID, y=v, rows=V, pairs=(A, B), **params):
    return PASearchCV(model, grid, **{"cv": 3, **params}).fit(rows, y, paired=pairs)


def of_theirs(scorer, model=MODEL, grid=GRID, y=v, cv=3):
    return GridSearchCV(model, grid, scoring=scorer, cv=cv).fit(V, y)


@pytest.mark.parametrize("column", [lambda y: y[:, None], lambda y: pd.DataFrame({"y": y})])
@pytest.mark.filterwarnings("ignore:A column-vector")
def test_labels_as_a_column(column):
    P, q = load_diabetes(return_X_y=True)
    regressors = PASearchCV(Ridge(), {"alpha": [0.01, 1]}, cv=3)
    for search, rows, y, pairs in (
        (PASearchCV(MODEL, GRID, cv=3), V, v, (A, B)),
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
    assert other.score == pytest.approx(one.score, abs=1e-9)
    scorer = expected_scorer(A, B)
    tables = [of_theirs(scorer, model, {}).cv_results_ for model in (plain, Column())]
    assert tables[1]["mean_test_score"] == pytest.approx(tables[0]["mean_test_score"], abs=1e-9)
    searches = [of_ours(model, {}) for model in (plain, Column())]
    assert searches[1].expected_score_ == pytest.approx(searches[0].expected_score_, abs=1e-9)


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


OF_PREDICTIONS = ["f1_macro", "balanced_accuracy", "jaccard_macro", "matthews_corrcoef"]
OF_PREDICTIONS += [make_scorer(f1_score, average="macro", zero_division=1)]


@pytest.mark.parametrize("scoring", OF_PREDICTIONS)
def test_classes_that_no_row_has_change_no_score_of_predictions(scoring):
    scores, errors = [], []
    for kind in (LogisticRegression, WithMoreClasses):
        search = of_ours(kind(), {"C": [1e-4, 1]}, scoring=scoring, refit="expected")
        found = expected_score(kind().fit(V[:64], v[:64]), A, B, V[64:], v[64:], scoring=scoring)
        scores.append([*search.cv_results_["expected_score"], found.score])
        errors.append([*search.cv_results_["expected_score_se"], found.standard_error])
    # Biases have a prior, which sees the further classes.
    np.testing.assert_allclose(scores[1], scores[0], rtol=0.06, atol=1e-9)
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
    # The score of a search is scikit-learn's, which is not defined.
    with pytest.raises(ValueError, match="a finite 'score' and 'expected_score' .* got none"):
        of_ours(scoring=scoring, y=rare, cv=5)


@pytest.mark.parametrize("rows", [csr_array, np.ndarray.tolist, lambda rows: rows.astype(object)])
def test_pairs_in_any_form(rows):
    fitted = LogisticRegression().fit(V, v)
    plain, other = (
        expected_score(fitted, here(A), here(B), V, v).score for here in (np.asarray, rows)
    )
    assert other == pytest.approx(plain)
    same, found = (
        of_ours(GaussianNB(), {}, pairs=(here(A), here(B))) for here in (np.asarray, rows)
    )
    assert found.expected_score_ == pytest.approx(same.expected_score_)


def share_of_first(y, predicted, sample_weight=None):
    """The share of the first class among the errors, if there is an error."""
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
    missed = weight * (np.asarray(y) != predicted)
    return float(missed[np.asarray(y) == 0].sum()) / float(missed.sum())


def test_a_metric_may_not_be_defined_for_predictions_without_an_error():
    model, scoring = LogisticRegression(C=1e-3), make_scorer(share_of_first)
    search = of_theirs(expected_scorer(A, B, scoring=scoring), model, {})
    assert 0 <= search.best_score_ <= 1
    assert 0 <= of_ours(model, {}, scoring=scoring).expected_score_ <= 1


FITTED = LogisticRegression().fit(V, v)


@pytest.mark.parametrize(
    "call",
    [
        lambda scoring: expected_score(FITTED, A, B, V, v, scoring=scoring),
        lambda scoring: expected_score(None, A, B, V, v, scoring=scoring),
        lambda scoring: expected_scorer(A, B, scoring=scoring),
        lambda scoring: plan_pairs(FITTED, A, B, V, v, scoring=scoring),
        lambda scoring: PACommittee.from_models([FITTED], V, v, scoring=scoring),
    ],
)
@pytest.mark.parametrize("scoring", ["accuracy_", accuracy_score])
def test_a_misspelt_metric_is_refused(call, scoring):
    with pytest.raises((TypeError, ValueError), match="^scoring: expected"):
        call(scoring)


def share_with_several(y, predicted, sample_weight=None):
    """The accuracy of predictions of several classes; an error for those of one."""
    right = np.average(y == predicted, weights=sample_weight)
    return float(right) if np.ptp(predicted) else 1 // 0


def test_a_candidate_without_a_score_is_not_eligible():
    scoring = {"own": make_scorer(share_with_several), "accuracy": "accuracy"}
    for given in ({"paired": (A, B)}, {}):
        search = PASearchCV(MODEL, {"C": [1e-9, 1]}, scoring=scoring, refit="own", cv=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search.fit(V, v, **given)
        assert np.isnan(search.cv_results_["mean_test_own"][0])
        assert search.cv_results_["eligible"].tolist() == [False, True]


PLAIN = Pipeline([("imputer", "passthrough"), ("model", LogisticRegression())])
TREES = HistGradientBoostingClassifier(max_iter=3)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.filterwarnings("ignore")
def test_a_search_takes_missing_values_that_some_candidate_takes(wrong, side):
    pair = [A, B]
    pair[side] = np.where(pair[side] > 3, wrong, pair[side])
    # Trees take both, and an imputer takes missing values alone.
    steps = {"imputer": ["passthrough", SimpleImputer()]}
    grid = steps if np.isnan(wrong) else {"model": [LogisticRegression(), TREES]}
    for model in (PLAIN, clone(PLAIN).set_params(**{name: x[1] for name, x in grid.items()})):
        search = PASearchCV(model, grid, cv=3).fit(V, v, paired=pair)
        assert np.isfinite(search.cv_results_["expected_score"]).tolist() == [False, True]
        assert search.best_index_ == 1
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


FEW_VOTES = BaggingClassifier(DecisionTreeClassifier(min_samples_leaf=4), random_state=0)


@pytest.mark.parametrize("model", [GaussianNB(), FEW_VOTES, LinearSVC()])
@pytest.mark.parametrize("scoring", ["average_precision", "top_k_accuracy"])
@pytest.mark.filterwarnings("ignore")
def test_metrics_of_decision_values_are_scikit_learns(model, scoring):
    test = np.repeat([-1, 0], [len(V) // 2, len(V) - len(V) // 2])
    fitted, labelled = model.fit(V[test < 0], v[test < 0]), (V[test == 0], v[test == 0])
    found = expected_score(fitted, A, B, *labelled, scoring=scoring)
    # Probabilities, and not logs of clipped ones, if the model has no decision values.
    assert found.validation_score == pytest.approx(get_scorer(scoring)(fitted, *labelled))
    search = of_ours(model, {}, scoring=scoring, cv=PredefinedSplit(test))
    assert search.expected_score_ == pytest.approx(found.score)


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
@pytest.mark.slow
def test_the_agreement_does_not_depend_on_the_size_of_the_folds():
    def agreements(n_folds, **given):
        cv = LeaveOneOut() if n_folds == len(V) else KFold(n_folds)
        search = PASearchCV(MODEL, GRID, cv=cv).fit(V, v, **given)
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
    # Several views of one row are no more rows, nor are rows without weight.
    weight, views = np.arange(40) < 2, [lambda rows, by=by: by * rows for by in range(2, 12)]
    with pytest.warns(UserWarning, match="at least 6 pairs of 3 classes, got 2"):
        PAScorer(views=views)(fitted, V[:2], v[:2])
    with pytest.warns(UserWarning, match="at least 6 pairs of 3 classes, got 2"):
        PAScorer(views=views[0])(fitted, V[:40], v[:40], sample_weight=weight)
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


D, d = load_digits(return_X_y=True)
D, d = D[:400] / 16, d[:400]
ONE_SPLIT = PredefinedSplit(np.repeat([0, -1], [100, 300]))


@pytest.mark.parametrize("scoring", [None, "accuracy", "neg_log_loss", ["accuracy", "f1_macro"]])
@pytest.mark.parametrize("views", [0.5 * D, [0.5 * D, 0.6 * D], None])
@pytest.mark.filterwarnings("ignore:cv tests no row")
def test_the_error_of_one_split_is_that_of_its_rows(scoring, views):
    several = isinstance(scoring, list)
    options = {"scoring": scoring, "refit": "accuracy" if several else True}
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


@pytest.mark.filterwarnings("error:.*at least two splits")
@pytest.mark.parametrize(("cv", "n_tested"), [(ONE_SPLIT, 1), (5, 4)])
def test_the_error_in_the_worst_environment_is_that_of_its_rows(cv, n_tested):
    sites = np.where(np.arange(400) % 4 == 3, "small", "large")
    rule = GuardedSelection(score="accuracy_worst_environment")
    options = {"scoring": ["accuracy", "f1_macro"], "refit": rule}
    grid = {"C": [1e-6, 0.1, 1, 2]}
    search = PASearchCV(LogisticRegression(max_iter=200), grid, cv=cv, **options)
    table = search.fit(D, d, environments=sites).cv_results_
    n = n_tested * np.where(table["worst_environment_accuracy"] == "small", 25, 75)
    score = table["mean_test_accuracy_worst_environment"]
    by_hand = error_of_rate(score, n)
    found = table["se_test_accuracy_worst_environment"]
    np.testing.assert_allclose(found, by_hand, rtol=2e-3)  # folds differ by a row
    assert (table["se_test_f1_macro_worst_environment"] > 0).all()
    lowest = score.max() - rule.n_se * by_hand[score.argmax()]
    assert (table["eligible"] == (score >= lowest)).all()


def test_one_wrong_row_of_a_single_split_excludes_no_candidate():
    grid = {"C": np.logspace(-3, 1, 7)}
    search = PASearchCV(LogisticRegression(max_iter=200), grid, cv=ONE_SPLIT)
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


WINES = np.array(["first", "second", "third"])[Y]
# The first class is at both sites, and each other one at one.
SITES = np.where(
    Y == 1, "north", np.where(Y == 2, "south", np.array(["north", "south"])[Y[::-1] % 2])
)


@pytest.mark.parametrize("refit", ["guarded", "agreement"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("pairing", ["repeated", LabelPairing()])
def test_the_score_decides_if_sites_share_one_class(refit, n_classes, pairing):
    kept = n_classes > Y
    search = PASearchCV(MODEL, GRID, cv=3, refit=refit, pairing=pairing)
    with pytest.warns(UserWarning, match="environments: expected") as caught:
        search.fit(X[kept], WINES[kept], environments=SITES[kept])
    table, texts = search.cv_results_, [str(one.message) for one in caught]
    assert any("got only rows of class 'first'" in text for text in texts)
    assert (table["agreement"] == 0).all()
    assert table["mean_test_score"][search.best_index_] == table["mean_test_score"].max()


def test_a_scorer_of_rows_of_one_class_is_0_and_warns():
    fitted, same = LogisticRegression().fit(X, WINES), WINES == "first"
    with pytest.warns(UserWarning, match="PAScorer: expected pairs of several classes, got only"):
        assert PAScorer()(fitted, X[same], WINES[same]) == 0
    with pytest.warns(UserWarning, match="only rows of class 'first'"):
        assert PAScorer()(fitted, X, WINES, environments=SITES) == 0
    with pytest.warns(UserWarning, match="only rows of class 'first'"):
        assert PAScorer(LabelPairing())(fitted, X, WINES, environments=SITES) == 0
    assert PAScorer(prior="uniform")(fitted, X[same], WINES[same]) > 0.1
