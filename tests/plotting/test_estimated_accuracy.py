"""Estimated accuracies against the true ones."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.utils import shuffle

from pa_select import AgreementCalibratedClassifier, EstimatedAccuracyDisplay, estimate_accuracy

X, Y = shuffle(*load_digits(return_X_y=True), random_state=0)
X = X[:800] / 16
TARGET, TRUTH = X[400:] + np.random.default_rng(0).normal(0, 0.3, (400, 64)), Y[400:800]
RULES = ("confidence", "agreement_change", "agreement_line")


@pytest.fixture(scope="module")
def models():
    kinds = {
        "linear": LogisticRegression(),
        "naive": GaussianNB(var_smoothing=0.1),
        "plain": GaussianNB(var_smoothing=0.01),
    }
    return {
        name: AgreementCalibratedClassifier(one, cv=3).fit(X[:400], Y[:400])
        for name, one in kinds.items()
    }


@pytest.fixture(scope="module")
def estimates(models):
    return estimate_accuracy(models, TARGET)


def test_marks_are_at_the_true_and_the_estimated_accuracies(models, estimates, ax):
    display = EstimatedAccuracyDisplay.from_estimators(models, TARGET, TRUTH, ax=ax)
    assert display.names == list(models)
    bars = display.rules_.get_segments()
    for i, (name, model) in enumerate(models.items()):
        truth, found = model.score(TARGET, TRUTH), estimates[name]
        assert_allclose(display.marks_[i].get_data(), [[truth], [found.score]])
        rules = [getattr(found, rule) for rule in RULES]
        assert_allclose(bars[i], [[truth, min(rules)], [truth, max(rules)]])
        x, y = display.claimed_.get_data()
        assert_allclose([x[i], y[i]], [truth, found.validation_score])
    x, y = display.diagonal_.get_data()
    assert_array_equal(x, y)
    assert ax.get_xlim() == ax.get_ylim() == tuple(x)
    assert x[0] < min(display.true_score)
    assert x[1] > max(display.claimed)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [
        *models,
        "lowest to highest rule",
        "accuracy on the labelled rows",
        "no error",
    ]
    assert ax.get_xlabel() == "true accuracy on the target"
    assert ax.get_ylabel() == "estimated accuracy on the target"


@pytest.mark.filterwarnings("ignore:X. expected rows on which:UserWarning")  # a small ratio
@pytest.mark.filterwarnings("ignore:target. expected rows on which")  # a small ratio
def test_another_metric_and_rules_that_are_missing(models, ax):
    model = models["linear"]
    display = EstimatedAccuracyDisplay.from_estimators(
        model, TARGET, TRUTH, scoring="neg_log_loss", ax=ax
    )
    assert ax.get_xlabel() == "true neg log loss on the target"
    found = estimate_accuracy(model, TARGET, scoring="neg_log_loss")
    there = copy.copy(model).recalibrate(TARGET)
    assert_allclose(display.true_score, [-log_loss(TRUTH, there.predict_proba(TARGET))])
    assert model.target_agreement_ is None
    # The classifier that was given is not changed.
    assert model.inverse_temperature_ == model.source_inverse_temperature_
    assert np.isnan(found.agreement_line)
    two = found.confidence, found.agreement_change
    assert_allclose([display.low[0], display.high[0]], [min(two), max(two)])


def test_estimates_with_true_scores_in_any_order(estimates, ax):
    truth = dict(zip(reversed(estimates), (0.1, 0.2, 0.3), strict=True))
    display = EstimatedAccuracyDisplay.from_estimates(estimates, truth, ax=ax)
    assert_array_equal(display.true_score, [0.3, 0.2, 0.1])
    in_order = EstimatedAccuracyDisplay.from_estimates(estimates, [0.3, 0.2, 0.1], ax=ax)
    assert_array_equal(in_order.true_score, display.true_score)
    some = EstimatedAccuracyDisplay.from_estimates(estimates, {"linear": 0.3}, ax=ax)
    assert np.isfinite(some.true_score).sum() == 1
    assert np.isfinite(ax.get_xlim()).all()
    one = EstimatedAccuracyDisplay.from_estimates(estimates["naive"], 0.5, score_name="F1", ax=ax)
    assert one.names == ["classifier"]
    assert ax.get_xlabel() == "true F1 on the target"


def test_scores_alone(ax):
    display = EstimatedAccuracyDisplay(score=np.full(13, 0.5), true_score=np.full(13, 0.5))
    display.plot(ax, markersize=3)
    assert display.rules_ is None
    assert display.claimed_ is None
    looks = {(mark.get_color(), mark.get_marker()) for mark in display.marks_}
    assert len(looks) == 13
    assert [mark.get_label() for mark in display.marks_] == [str(i) for i in range(13)]
    assert {mark.get_markersize() for mark in display.marks_} == {3}
    low, high = ax.get_xlim()
    assert low < 0.5 < high


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda d, e, m: d.from_estimates(0.3, 0.2), TypeError, "estimates: .* got float"),
        (lambda d, e, m: d.from_estimates({}, {}), TypeError, "estimates: .* got an empty dict"),
        (
            lambda d, e, m: d.from_estimates(e, {"linaer": 0.3}),
            ValueError,
            r"true_scores: expected some of the names \['linear', .*, got 'linaer'",
        ),
        (
            lambda d, e, m: d.from_estimates(e, [0.3]),
            ValueError,
            r"true_score: expected one for each of 3 classifiers, got shape \(1,\)",
        ),
        (
            lambda d, e, m: d(score=[0.3], true_score=[0.3], names=["a", "b"]).plot(),
            ValueError,
            "names: expected one for each of 1 classifiers, got 2",
        ),
        (
            lambda d, e, m: d(score=[0.3], true_score=[0.3], claimed=[]).plot(),
            ValueError,
            "claimed: expected one for each of 1 classifiers",
        ),
        (
            lambda d, e, m: d.from_estimators(m, TARGET, TRUTH[:5]),
            ValueError,
            r"y: expected shape \(400,\), got \(5,\)",
        ),
        (
            lambda d, e, m: d.from_estimators(GaussianNB(), TARGET, TRUTH),
            TypeError,
            "estimators: expected fitted AgreementCalibratedClassifiers",
        ),
    ],
)
def test_errors(call, error, message, estimates, models):
    with pytest.raises(error, match=message):
        call(EstimatedAccuracyDisplay, estimates, models)
