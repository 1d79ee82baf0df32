"""Committees of trained models: labels, parts that no order changes, formulas of metrics."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone, is_regressor
from sklearn.datasets import load_diabetes, load_digits, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, brier_score_loss, check_scoring, log_loss, make_scorer
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from pa_select import PACommittee
from pa_select.scores import class_scores
from pa_select.scores.class_scores import calibrated
from pa_select.scores.means_of_rows import means_of_folds
from pa_select.scores.precomputed import (
    RecordedClassifier,
    RecordedRegressor,
    row_numbers,
    taking_classes,
)

X, Y = load_wine(return_X_y=True)
Z = (X - X.mean(axis=0)) / X.std(axis=0)
X_T, Y_T = load_diabetes(return_X_y=True)
FIT, TEST = np.arange(len(Y)) % 2 == 0, np.arange(len(Y)) % 2 == 1
BAYES, LINE = GaussianNB().fit(X, Y), Ridge().fit(X_T, Y_T)
BAYES_AND_TREE = [
    *(GaussianNB(var_smoothing=s).fit(X[::3], Y[::3]) for s in (1e-9, 1e-3)),
    DecisionTreeClassifier(max_depth=2, random_state=0).fit(X[1::3], Y[1::3]),
]
LINES = [Ridge(alpha).fit(X_T[200:], Y_T[200:]) for alpha in (0.01, 0.3, 1.0)]


def test_trained_models_and_a_few_labels():
    digits, label = load_digits(return_X_y=True)
    known, line = np.arange(400), LogisticRegression(max_iter=100)
    seven = known[label[known] < 7]
    models = {
        "sure": clone(line).fit(digits[known], label[known]),
        "trees": DecisionTreeClassifier(random_state=0).fit(digits[known], label[known]),
        "seven": clone(line).fit(digits[seven], label[seven]),
    }
    committee = PACommittee.from_models(models, digits[400:460], label[400:460], min_weight=0)
    weights = committee.posterior_.weights
    assert weights[0] > 0.85  # the others do not know three classes, or are less often right
    assert committee.estimators_[0] is models["sure"]
    assert committee.classes_.tolist() == list(range(10))
    proba = committee.predict_proba(digits[440:])
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert committee.score(digits[440:], label[440:]) > 0.85
    assert (committee.search_, committee.n_fits_) == (None, 0)
    regressors = [Ridge(alpha).fit(X_T[:200], Y_T[:200]) for alpha in (0.1, 1e4)]
    mean = PACommittee.from_models(regressors, X_T[200:260], Y_T[200:260])
    assert mean.posterior_.weights[0] > 0.9
    assert mean.score(X_T[260:], Y_T[260:]) > 0.3
    assert is_regressor(mean)


@pytest.mark.parametrize(
    ("models", "n_rows", "scoring", "message"),
    [
        ([], 178, None, "^models: expected"),
        ([Ridge().fit(X, Y), BAYES], 178, None, "either classifiers or regressors"),
        ([BAYES], 1, None, "at least two labelled rows, got 1"),
        ([BAYES], 178, ["accuracy"], "scoring: expected one scorer, by name or callable, got"),
    ],
)
def test_wrong_models_and_rows_are_named(models, n_rows, scoring, message):
    with pytest.raises((TypeError, ValueError), match=message):
        PACommittee.from_models(models, X[:n_rows], Y[:n_rows], scoring=scoring)


def words(labels):
    return np.array(["benign", "other", "severe"])[labels]


def test_labels_that_no_model_knows():
    models = [GaussianNB().fit(X[FIT], words(Y[FIT])), SVC().fit(X[FIT], words(Y[FIT]))]
    with pytest.raises(ValueError, match=r"y: expected classes .* as 'benign', got"):
        PACommittee.from_models(models, X[TEST], Y[TEST])
    some = np.where(words(Y) == "benign", "Benign", words(Y))
    with pytest.warns(UserWarning, match=r"y: expected .*'Benign' in \d+ of 89 rows"):
        committee = PACommittee.from_models(models, X[TEST], some[TEST])
    assert committee.classes_.tolist() == ["Benign", "benign", "other", "severe"]
    # Numbers of another type are the same classes.
    numbers = GaussianNB().fit(X[FIT], Y[FIT])
    same = PACommittee.from_models([numbers], X[TEST], Y[TEST].astype(float))
    assert same.score(X[TEST], Y[TEST]) > 0.9


@pytest.mark.parametrize("loss", [log_loss, brier_score_loss])
@pytest.mark.parametrize("classes", [[1, 2], [1]])
def test_losses_take_columns_of_classes_that_no_label_has(loss, classes):
    models = [GaussianNB(var_smoothing=s).fit(X[FIT], Y[FIT]) for s in (1e-9, 1e-3)]
    rows = np.flatnonzero(TEST & np.isin(Y, classes))
    scoring = make_scorer(loss, response_method="predict_proba", greater_is_better=False)
    committee = PACommittee.from_models(models, X[rows], Y[rows], scoring=scoring)
    # The scores are sums over the rows of each fold, which is in 4 of the 10 pairs of five.
    pairs = committee.posterior_.scores_a + committee.posterior_.scores_b
    losses = [loss(Y[rows], one.predict_proba(X[rows]), labels=[0, 1, 2]) for one in models]
    np.testing.assert_allclose(pairs.mean(axis=0), -0.4 * len(rows) * np.array(losses))
    assert np.isfinite(committee.score(X[rows], Y[rows]))


@pytest.mark.parametrize("scoring", ["neg_log_loss", "roc_auc_ovr", "average_precision"])
@pytest.mark.parametrize("n_rows", [12, 30])
def test_metrics_that_need_every_class(scoring, n_rows):
    models = [GaussianNB(var_smoothing=s).fit(X[FIT], Y[FIT]) for s in (1e-9, 1e-3)]
    rows = np.flatnonzero(TEST)[np.linspace(0, 88, n_rows).astype(int)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        committee = PACommittee.from_models(models, X[rows], Y[rows], scoring=scoring)
    assert np.isfinite(committee.posterior_.scores_a).all()


def test_a_class_of_one_row_is_in_one_fold_alone():
    models = [GaussianNB().fit(X[FIT], Y[FIT]), KNeighborsClassifier().fit(X[FIT], Y[FIT])]
    rows = np.flatnonzero(TEST)
    rows = np.r_[rows[Y[rows] == 0][:1], rows[Y[rows] > 0]]
    for some, message in ((rows, "metric that is finite"), (rows[1:], "is defined on parts")):
        with pytest.raises(ValueError, match=f"scoring: expected .*{message}"):
            PACommittee.from_models(models, X[some], Y[some], scoring="roc_auc_ovr")
    twice = np.r_[rows, 0]
    binary = [clone(model).fit(X[FIT], Y[FIT] == 0) for model in models]
    committee = PACommittee.from_models(binary, X[twice], Y[twice] == 0, scoring="roc_auc")
    # Two folds, which have one of both rows each.
    both = committee.posterior_.scores_a, committee.posterior_.scores_b
    assert all(np.isfinite(side).all() for side in both)

    def sometimes(estimator, X, y):
        return np.nan if np.count_nonzero(y == 0) < 2 else accuracy_score(y, estimator.predict(X))

    several = np.r_[np.flatnonzero(TEST)[:9], np.flatnonzero(TEST)[40:]]
    with pytest.warns(UserWarning, match="a metric that is defined on all parts .* pairs"):
        PACommittee.from_models(models, X[several], Y[several], scoring=sometimes)


def test_too_few_rows_for_a_metric():
    with pytest.raises(ValueError, match="scoring: expected a metric .* 3 labelled rows, got no"):
        PACommittee.from_models([LINE], X_T[:3], Y_T[:3])
    error = PACommittee.from_models([LINE], X_T[:3], Y_T[:3], scoring="neg_mean_absolute_error")
    assert error.weights_.tolist() == [1]


def test_no_vote_is_certain_after_a_few_rows_without_an_error():
    models = [LogisticRegression(C=C).fit(Z[FIT], Y[FIT]) for C in (0.01, 1.0)]
    known = np.flatnonzero(TEST)[::9]
    right = [model.predict(Z[known]) == Y[known] for model in models]
    known = known[np.all(right, axis=0)]
    assert len(known) > 5
    committee = PACommittee.from_models(models, Z[known], Y[known])
    assert np.isfinite(committee.betas_).all()
    assert np.isfinite(committee.predict_log_proba(Z)).all()
    for model, beta in zip(models, committee.betas_, strict=True):
        proba = calibrated(class_scores(model, Z[known])[0], beta)
        doubt = np.mean(1 - proba.max(axis=1))
        assert doubt == pytest.approx((1 - 1 / 3) / (len(known) + 1))
        losses = [log_loss(Y[TEST], calibrated(class_scores(model, Z[TEST])[0], b))
                  for b in (beta, 1e6)]  # fmt: skip
        assert losses[0] < losses[1]


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32 - 1), st.integers(12, 40), st.booleans())
def test_the_order_of_the_rows_does_not_matter(seed, n, of_regressors):
    rng = np.random.default_rng(seed)
    if of_regressors:
        known = rng.permutation(200)[:n]
        models, rows, y = LINES, X_T[known], Y_T[known]
    else:
        known = rng.permutation(len(Y))[:n]
        models, rows, y = BAYES_AND_TREE, X[known], Y[known]
    order = rng.permutation(n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = PACommittee.from_models(models, rows, y, min_weight=0)
        other = PACommittee.from_models(models, rows[order], y[order], min_weight=0)
    np.testing.assert_allclose(one.posterior_.weights, other.posterior_.weights, rtol=1e-9)
    if not of_regressors:
        np.testing.assert_allclose(one.betas_, other.betas_, rtol=1e-6)
        np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("of_regressors", [False, True])
@pytest.mark.parametrize("n", [15, 40])
def test_another_draw_of_the_parts_moves_no_weight_by_much(monkeypatch, n, of_regressors):
    models, rows, y = (LINES, X_T, Y_T) if of_regressors else (BAYES_AND_TREE, X, Y)
    some = np.random.default_rng(0).permutation(150)[:n]
    made, found = np.random.default_rng, []
    for seed in range(4):
        monkeypatch.setattr(np.random, "default_rng", lambda _, seed=seed: made(seed))
        found.append(PACommittee.from_models(models, rows[some], y[some]).posterior_.weights)
    assert np.ptp(found, axis=0).max() < 0.02


OF_FORMULA = [(False, x) for x in (None, "accuracy", "neg_log_loss", "neg_brier_score")]
OF_FORMULA += [(True, x) for x in (None, "r2", "neg_mean_absolute_error")]
OF_FORMULA += [(True, x) for x in ("neg_mean_squared_error", "neg_root_mean_squared_error")]


@pytest.mark.parametrize(("of_regressors", "scoring"), OF_FORMULA)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_formulas_are_the_scorers(of_regressors, scoring, n_classes):
    if of_regressors:
        outputs, y = [RecordedRegressor.of(one, X_T[:50]) for one in LINES], Y_T[:50].copy()
        y[:12] = 100.0
    else:
        y = np.minimum(Y, n_classes - 1)[TEST]
        models = [
            clone(one).fit(X[FIT], np.minimum(Y, n_classes - 1)[FIT]) for one in BAYES_AND_TREE
        ]
        outputs = [RecordedClassifier.of(one, X[TEST]) for one in models]
    scorer = check_scoring(outputs[0], scoring)
    if not of_regressors:
        scorer = taking_classes(scorer, np.arange(n_classes))
    rng = np.random.default_rng(0)
    folds = [rng.permutation(len(y))[: rng.integers(2, 30)] for _ in range(40)] + [np.arange(5)]
    found = means_of_folds(scorer, outputs, y, folds)
    expected = [[scorer(one, row_numbers(fold), y[fold]) for one in outputs] for fold in folds]
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    for other in ("f1_macro", "neg_max_error"):
        if (other == "neg_max_error") == of_regressors:
            assert means_of_folds(check_scoring(outputs[0], other), outputs, y, folds) is None
