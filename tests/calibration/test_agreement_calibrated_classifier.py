"""The calibrated classifier: its contract, its claims where theory gives them, and bad input."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from scipy.sparse import csr_array
from scipy.special import softmax
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import shuffle
from sklearn.utils.estimator_checks import check_estimator

from pa_select import AgreementCalibratedClassifier, class_scores
from pa_select.calibration.temperatures import halves_agreement, labels_beta
from tests.helpers.nets import Module

X, Y = shuffle(*load_iris(return_X_y=True), random_state=0)
RNG = np.random.default_rng(0)
TARGET = X + RNG.normal(0, 0.7, X.shape)

pytestmark = pytest.mark.filterwarnings("ignore:target.*Ratios from:UserWarning")


def calibrated(estimator=None, **params):
    return AgreementCalibratedClassifier(estimator or GaussianNB(), **{"cv": 3, **params})


# The halves are drawn by row: a row of weight 2 cannot be in both, as two rows can.
NOT_EQUIVALENT = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ensemble", [True, False])
def test_estimator_checks(ensemble):
    checked = calibrated(LogisticRegression(tol=0.1), cv=2, ensemble=ensemble)
    found = check_estimator(checked, on_fail=None, on_skip=None)
    failed = {c["check_name"]: c["exception"] for c in found if c["status"] == "failed"}
    assert set(failed) <= NOT_EQUIVALENT
    assert len(found) > 50


def test_the_formula():
    model = calibrated().fit(X, Y, target=TARGET)
    scores, columns, weight, _ = model._held_out
    assert model.source_inverse_temperature_ == labels_beta(
        scores.of_models, columns, scores.rows, weight
    )
    # The scores of the held-out rows are those of models that were not fitted to them.
    for fold, (train, test) in zip(
        model.fold_models_, StratifiedKFold(3).split(X, Y), strict=True
    ):
        by_hand = class_scores(GaussianNB().fit(X[train], Y[train]), X[test])[0]
        here = np.isin(scores.rows, test)
        np.testing.assert_allclose(scores.of_models[here], by_hand)
        np.testing.assert_allclose(class_scores(fold.model, X[test])[0], by_hand)
        assert sum(half.class_count_.sum() for half in fold.halves) == len(train)
    firsts, seconds = (
        np.concatenate([class_scores(fold.halves[i], TARGET)[0] for fold in model.fold_models_])
        for i in range(2)
    )
    rows = np.tile(np.arange(len(TARGET)), 3)
    # Both have as many rows, so that both count the row of error as one of 150.
    there = halves_agreement(firsts, seconds, rows, np.ones(len(TARGET)), "hard", 1 / 150)
    assert model.target_agreement_ == there
    here = halves_agreement(*scores.of_halves, scores.rows, weight, "hard", 1 / 150)
    assert model.source_agreement_ == here
    assert model.ratio_ == there.beta / model.source_agreement_.beta
    assert model.ratio_ < 1
    assert model.inverse_temperature_ == model.source_inverse_temperature_ * model.ratio_
    mean = np.mean([class_scores(fold.model, TARGET)[0] for fold in model.fold_models_], axis=0)
    expected = softmax(model.inverse_temperature_ * mean, axis=1)
    np.testing.assert_allclose(model.predict_proba(TARGET), expected)


def test_under_a_shift_it_is_better_calibrated_than_by_labels_of_the_source():
    pytest.importorskip("sklearn", minversion="1.8")  # which has temperature scaling
    digits, labels = shuffle(*load_digits(return_X_y=True), random_state=0)
    digits = digits / 16
    there = digits[900:] + np.random.default_rng(0).normal(0, 0.4, digits[900:].shape)
    for estimator in (LogisticRegression(max_iter=1000), SVC()):
        model = calibrated(estimator).fit(digits[:900], labels[:900], target=there)
        plain = CalibratedClassifierCV(estimator, method="temperature", cv=3)
        plain = plain.fit(digits[:900], labels[:900])
        ours, theirs = (log_loss(labels[900:], m.predict_proba(there)) for m in (model, plain))
        assert model.ratio_ < 0.8
        assert ours < theirs - 0.05


@pytest.mark.slow
def test_without_a_shift_the_ratio_is_one_also_with_wrong_labels():
    rng = np.random.default_rng(1)
    ratios, plain, betas = [], [], []
    for seed in range(12):
        rows = rng.normal(size=(1200, 4))
        probability = softmax(rows @ rng.normal(0, 1.5, (4, 3)), axis=1)
        labels = np.array([rng.choice(3, p=p) for p in probability])
        wrong = rng.random(1200) < 0.3  # 30 % of the labels say nothing
        labels[wrong] = rng.integers(0, 3, wrong.sum())
        model = calibrated(LogisticRegression(), random_state=seed)
        model.fit(rows[:600], labels[:600], target=rows[600:])
        ratios.append(model.ratio_)
        plain.append(model.target_agreement_.beta)
        betas.append(model.source_inverse_temperature_)
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert abs(np.mean(ratios) - 1) < 3 * error
    assert error < 0.05
    # The agreement by itself does not see that labels are wrong: models agree on them.
    assert np.mean(betas) < 1.2
    assert np.mean(plain) > 3 * np.mean(betas)


@pytest.mark.parametrize(("n_source", "n_target"), [(200, 5000), (3000, 100)])
def test_the_ratio_does_not_depend_on_how_many_rows_there_are(n_source, n_target):
    ratios = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 2, n_source + n_target)
        rows = rng.normal(size=(len(labels), 2)) + 3 * labels[:, None]
        model = calibrated(LogisticRegression(), random_state=seed)
        model.fit(rows[:n_source], labels[:n_source], target=rows[n_source:])
        ratios.append(model.ratio_)
    assert 0.8 < np.mean(ratios) < 1.25


def test_what_it_cannot_see_models_that_are_wrong_alike():
    # All models turn with the data: they agree, and are wrong.
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 2))
    labels = (rows[:, 0] > 0).astype(int)
    turned = rows @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    model = calibrated(LogisticRegression()).fit(rows, labels, target=turned)
    assert abs(model.score(turned, labels) - 0.5) < 0.1
    assert model.ratio_ > 0.5
    assert model.predict_proba(turned).max(1).mean() > 0.9


def test_recalibrate_is_fit_with_another_target():
    model = calibrated().fit(X, Y)
    assert model.ratio_ == 1
    assert model.target_agreement_ is None
    assert model.inverse_temperature_ == model.source_inverse_temperature_
    assert "No target was given" in model.summary()
    assert model.recalibrate(TARGET) is model
    fitted = calibrated().fit(X, Y, target=TARGET)
    assert model.inverse_temperature_ == fitted.inverse_temperature_
    assert model.summary() == fitted.summary()
    assert f"{model.ratio_:.3g} times" in model.summary()
    model.recalibrate(2 * TARGET)
    assert model.ratio_ != fitted.ratio_
    # Parameters that are set later count at the next fit.
    model.set_params(partner="soft", ensemble=False).recalibrate(TARGET)
    assert model.ratio_ == pytest.approx(fitted.ratio_)
    np.testing.assert_allclose(model.predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize("ensemble", [True, False])
def test_probabilities_scores_and_predictions_go_together(ensemble):
    model = calibrated(ensemble=ensemble).fit(X, Y, target=TARGET)
    probabilities = model.predict_proba(TARGET)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    np.testing.assert_allclose(softmax(model.decision_function(TARGET), axis=1), probabilities)
    np.testing.assert_array_equal(model.predict(TARGET), probabilities.argmax(1))
    assert model.score(TARGET, Y) == np.mean(probabilities.argmax(1) == Y)
    assert is_classifier(model)
    assert hasattr(model, "estimator_") is not ensemble
    two = Y < 2
    binary = calibrated(ensemble=ensemble).fit(X[two], Y[two], target=TARGET[two])
    margin = binary.decision_function(X)
    assert margin.shape == (150,)
    np.testing.assert_allclose(1 / (1 + np.exp(-margin)), binary.predict_proba(X)[:, 1])


def test_one_model_of_all_rows():
    model = calibrated(ensemble=False).fit(X, Y, target=TARGET)
    scores, _ = class_scores(GaussianNB().fit(X, Y), X)
    expected = softmax(model.inverse_temperature_ * scores, axis=1)
    np.testing.assert_allclose(model.predict_proba(X), expected)
    model.set_params(ensemble=True).fit(X, Y)
    assert not hasattr(model, "estimator_")


def test_clone_pickle_jobs_and_seeds():
    model = calibrated(DecisionTreeClassifier(max_depth=3, random_state=0))
    fitted = clone(model).fit(X, Y, target=TARGET)
    expected = fitted.predict_proba(TARGET)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(TARGET), expected)
    again.recalibrate(2 * TARGET)
    with joblib.parallel_config(backend="threading"):
        parallel = clone(model).set_params(n_jobs=2).fit(X, Y, target=TARGET)
    np.testing.assert_array_equal(parallel.predict_proba(TARGET), expected)
    other = clone(model).set_params(random_state=1).fit(X, Y, target=TARGET)
    assert other.ratio_ != fitted.ratio_
    with pytest.raises(NotFittedError):
        clone(fitted).predict_proba(X)
    with pytest.raises(NotFittedError):
        clone(fitted).recalibrate(X)


def test_inputs_of_all_kinds():
    expected = calibrated().fit(X, Y, target=TARGET).predict_proba(TARGET)
    names = [f"x{i}" for i in range(4)]
    frame, target = pd.DataFrame(X, columns=names), pd.DataFrame(TARGET, columns=names)
    words = np.array(["one", "two", "three"])[Y]
    model = calibrated().fit(frame, pd.Series(words), target=target)
    assert list(model.classes_) == ["one", "three", "two"]
    np.testing.assert_allclose(model.predict_proba(target)[:, [0, 2, 1]], expected, atol=1e-6)
    assert set(model.predict(target)) <= set(words)
    assert list(model.feature_names_in_) == names
    assert model.n_features_in_ == 4
    sparse = calibrated(LinearSVC()).fit(csr_array(X), Y, target=csr_array(TARGET))
    dense = calibrated(LinearSVC()).fit(X, Y, target=TARGET)
    np.testing.assert_allclose(
        sparse.predict_proba(csr_array(X)), dense.predict_proba(X), atol=0.01
    )


def test_splitters_groups_and_rare_classes():
    repeated = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    model = calibrated(cv=repeated).fit(X, Y, target=TARGET)
    assert len(model.fold_models_) == 6
    assert model.source_agreement_.n_rows == 150
    splits = list(StratifiedKFold(3).split(X, Y))
    by_list = calibrated(cv=splits).fit(X, Y, target=TARGET)
    assert by_list.ratio_ == calibrated().fit(X, Y, target=TARGET).ratio_
    groups = np.repeat(np.arange(30), 5)
    for cv in (3, GroupKFold(3)):
        grouped = calibrated(RowsSeen(), cv=cv).fit(
            np.c_[X, groups], Y, target=np.c_[TARGET, groups], groups=groups
        )
        for fold in grouped.fold_models_:
            one, other = (set(half.groups_) for half in fold.halves)
            assert not one & other
            assert one | other == set(fold.model.groups_)
    # A class of which a half has one row only, and one that has a single row in some training.
    rare = np.r_[Y, [7, 7]]
    found = calibrated(KNeighborsClassifier(1), cv=2).fit(np.r_[X, X[:2]], rare, target=TARGET)
    assert found.predict_proba(TARGET).shape == (150, 4)


@pytest.mark.filterwarnings(
    "ignore:The groups parameter is ignored:UserWarning"
)  # which is then refused
def test_folds_must_not_divide_groups():
    with pytest.raises(ValueError, match="cv: expected folds that divide no group"):
        calibrated(cv=StratifiedKFold(3)).fit(X, Y, groups=np.repeat(np.arange(30), 5))


def test_a_classifier_that_says_nothing():
    model = calibrated(DummyClassifier(strategy="uniform", random_state=0))
    with pytest.warns(UserWarning, match="models of different rows predict each other"):
        model.fit(X, Y, target=TARGET)
    assert np.isfinite(model.decision_function(X)).all()
    np.testing.assert_allclose(model.predict_proba(X), 1 / 3)


class RowsSeen(GaussianNB):
    """Remembers the groups, in the last column, of the rows that it was fitted to."""

    def fit(self, X, y):
        self.groups_ = np.unique(X[:, -1])
        return super().fit(X, y)


def test_weights():
    weight = np.where(Y == 0, 0.2, 1.0)
    weighted = calibrated().fit(X, Y, weight, target=TARGET)
    plain = calibrated().fit(X, Y, target=TARGET)
    assert weighted.inverse_temperature_ != plain.inverse_temperature_
    scaled = calibrated().fit(X, Y, 5 * weight, target=TARGET)
    np.testing.assert_allclose(
        scaled.predict_proba(TARGET), weighted.predict_proba(TARGET), atol=1e-4
    )
    with pytest.warns(UserWarning, match="calibration alone"):
        calibrated(KNeighborsClassifier()).fit(X, Y, weight)
    model = make_pipeline(StandardScaler(), GaussianNB())
    calibrated(model).fit(X, Y, gaussiannb__sample_weight=weight)


def test_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        nb = GaussianNB().set_fit_request(sample_weight=True)
        routed = calibrated(nb).fit(X, Y, sample_weight=np.where(Y == 0, 0.2, 1.0), target=TARGET)
        grouped = calibrated(GaussianNB(), cv=GroupKFold(3))
        grouped.fit(X, Y, groups=np.repeat(np.arange(30), 5), target=TARGET)
        with pytest.raises(TypeError, match="nonsense"):
            calibrated(GaussianNB()).fit(X, Y, nonsense=1)
    plain = calibrated().fit(X, Y, np.where(Y == 0, 0.2, 1.0), target=TARGET)
    assert routed.ratio_ == plain.ratio_


@pytest.mark.filterwarnings("ignore:target. expected at least:UserWarning")  # few rows
def test_in_searches_and_pipelines():
    scores = cross_val_score(calibrated(), X, Y, cv=3, scoring="neg_log_loss")
    assert np.isfinite(scores).all()
    search = GridSearchCV(calibrated(), {"estimator__var_smoothing": [1e-9, 1e-2]}, cv=2)
    search.fit(X, Y, target=TARGET)
    assert search.best_estimator_.ratio_ != 1
    model = make_pipeline(StandardScaler(), calibrated()).fit(X, Y)
    assert model.predict_proba(X).shape == (150, 3)


@pytest.mark.filterwarnings("ignore:target. expected rows on which:UserWarning")  # a small ratio
def test_skorch_nets():
    from skorch import NeuralNetClassifier

    torch.manual_seed(0)
    digits, labels = load_digits(return_X_y=True)
    rows = (digits[:300] / 16).astype(np.float32)
    net = NeuralNetClassifier(
        Module, criterion=torch.nn.CrossEntropyLoss, max_epochs=3, lr=0.1, verbose=0
    )
    model = calibrated(net, cv=2).fit(rows, labels[:300].astype(np.int64), target=rows[::-1] / 2)
    probabilities = model.predict_proba(rows)
    assert probabilities.dtype == np.float64
    np.testing.assert_allclose(probabilities.sum(1), 1)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"y": np.zeros(150)}, ValueError, "y: expected at least two classes, got one class"),
        ({"target": TARGET[:, :3]}, ValueError, r"target: expected rows of shape \(4,\)"),
        ({"target": TARGET[:19]}, ValueError, "target: expected at least 20 rows, got 19"),
        ({"target": "rows"}, TypeError, "target: expected rows like X, got the text 'rows'"),
        ({"groups": np.repeat([0, 1], 75)}, ValueError, r"groups: expected at least 3 .* got 2.$"),
        ({"groups": np.arange(149)}, ValueError, r"groups: expected shape \(150,\)"),
        ({"y": np.r_[Y[:-1], 9]}, ValueError, "y: expected at least 3 rows of each class"),
        ({"sample_weight": -np.ones(150)}, ValueError, "sample_weight: expected finite non-neg"),
        ({"targets": TARGET}, TypeError, "Did you mean 'target'"),
        (
            {"sample_weight": TARGET},
            ValueError,
            r"expected shape \(150,\), got \(150, 4\). A target .*: fit\(X, y, target=...\)",
        ),
        ({"X": pd.DataFrame(X), "y": pd.Series(Y)[::-1]}, ValueError, "y: .* got another order"),
    ],
)
def test_bad_input_is_named_before_any_fit(arguments, error, message):
    class Fails(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            raise AssertionError("a fit")

    given = {"X": X, "y": Y, **arguments}
    with pytest.raises(error, match=message):
        calibrated(Fails()).fit(**given)


@pytest.mark.parametrize(
    "params", [{"estimator": LinearRegression()}, {"partner": "firm"}, {"ensemble": "yes"}]
)
def test_bad_parameters(params):
    with pytest.raises(ValueError, match=next(iter(params))):
        calibrated().set_params(**params).fit(X, Y)


def test_warnings():
    with pytest.warns(UserWarning, match="expected at least 100 rows, got 40") as given:
        calibrated().fit(X, Y, target=TARGET[:40])
    assert sum("100 rows" in str(one.message) for one in given) == 1
    assert given[0].filename == __file__
    with pytest.warns(UserWarning, match="Ratios from 0.8 to 1.3 are also found without a shift"):
        calibrated().fit(X, Y, target=X + 1e-3)
    labels = np.arange(200) % 2
    rows = 4 * (2 * labels - 1)[:, None] + np.random.default_rng(0).normal(size=(200, 1))
    with pytest.warns(UserWarning, match="shrink away from the labelled rows"):
        model = calibrated(LogisticRegression()).fit(rows, labels, target=0.3 * rows)
    # Models that agree more surely are not right more often.
    assert model.ratio_ > 1.2
    assert model.inverse_temperature_ == model.source_inverse_temperature_
    assert "does not make probabilities surer" in model.summary()
    assert "instead of" not in model.summary()


def test_a_frozen_estimator_has_no_halves():
    frozen = FrozenEstimator(GaussianNB().fit(X, Y))
    with pytest.raises(ValueError, match="estimator: expected one that is trained on halves"):
        calibrated(frozen).fit(X, Y)


def test_four_groups_need_a_smaller_cv_than_five():
    with pytest.raises(ValueError, match=r"groups: .* got 4\. Give a smaller cv, such as 4"):
        calibrated(GaussianNB(), cv=5).fit(X, Y, groups=np.arange(150) % 4)
    calibrated(GaussianNB(), cv=4).fit(X, Y, groups=np.arange(150) % 4)
