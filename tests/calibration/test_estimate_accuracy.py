"""The accuracy on unlabelled rows: its three rules against plain formulas, and bad input."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer, max_error
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import shuffle

from pa_select import AgreementCalibratedClassifier, class_scores, estimate_accuracy

X, Y = shuffle(*load_digits(return_X_y=True), random_state=0)
X = X / 16
NOISY = X[600:1200] + np.random.default_rng(0).normal(0, 0.25, (600, 64))
MODELS = {
    "logistic": LogisticRegression(max_iter=500),
    "neighbours": KNeighborsClassifier(),
    "Bayes": GaussianNB(var_smoothing=0.01),
    "tree": DecisionTreeClassifier(random_state=0),
}


@pytest.fixture(scope="module")
def fitted():
    return {
        name: AgreementCalibratedClassifier(model, cv=3).fit(X[:600], Y[:600])
        for name, model in MODELS.items()
    }


def decisions(models, rows):
    return [class_scores(model, rows)[0].argmax(1) for model in models]


@pytest.mark.filterwarnings("ignore:target. expected rows on which:UserWarning")  # a small ratio
def test_the_rules_by_hand(fitted):
    found = estimate_accuracy(fitted, NOISY)
    held_out = {name: one._held_out for name, one in fitted.items()}
    for name, one in fitted.items():
        scores, columns = held_out[name][:2]
        accuracy = np.mean(scores.of_models.argmax(1) == columns)
        assert found[name].validation_score == pytest.approx(accuracy)
        here = np.mean(scores.of_halves[0].argmax(1) == scores.of_halves[1].argmax(1))
        there = np.mean(
            [np.equal(*decisions(fold.halves, NOISY)).mean() for fold in one.fold_models_]
        )
        assert found[name].agreement_change == pytest.approx(accuracy + there - here)
        again = AgreementCalibratedClassifier(MODELS[name], cv=3)
        again.fit(X[:600], Y[:600], target=NOISY)
        assert found[name].ratio == again.ratio_
        assert found[name].confidence == pytest.approx(again.predict_proba(NOISY).max(1).mean())
        assert found[name].n_rows == 600
        rules = found[name][1:4]
        assert found[name].score == pytest.approx(np.mean(rules))
    names, folds = list(fitted), range(3)
    order = {name: np.argsort(held_out[name].scores.rows) for name in names}
    own = {name: held_out[name].scores.of_models.argmax(1)[order[name]] for name in names}
    target = {
        name: np.concatenate(decisions([fitted[name].fold_models_[i].model for i in folds], NOISY))
        for name in names
    }

    def probit(hits):
        return norm.ppf((hits.sum() + 0.5) / (len(hits) + 1))

    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    here = [probit(own[a] == own[b]) for a, b in pairs]
    there = [probit(target[a] == target[b]) for a, b in pairs]
    slope, _ = np.polyfit(here, there, 1)
    rates = [(own[a] == own[b]).mean() for a, b in pairs]
    noise = [p * (1 - p) / 600 / norm.pdf(z) ** 2 for p, z in zip(rates, here, strict=True)]
    slope = 1 + (slope - 1) * (1 - np.mean(noise) / np.var(here))
    intercept = np.mean(there) - slope * np.mean(here)
    for name in names:
        hits = own[name] == held_out[name].columns[order[name]]
        expected = norm.cdf(intercept + slope * probit(hits))
        assert found[name].agreement_line == pytest.approx(expected, abs=1e-3)


def test_it_is_nearer_to_the_truth_than_validation(fitted):
    found = estimate_accuracy(fitted, NOISY)
    truth = {name: one.score(NOISY, Y[600:1200]) for name, one in fitted.items()}
    errors = {name: abs(found[name].score - truth[name]) for name in fitted}
    naive = {name: abs(found[name].validation_score - truth[name]) for name in fitted}
    assert np.mean(list(errors.values())) < np.mean(list(naive.values())) / 2


def test_without_a_shift_it_is_the_validation_score(fitted):
    found = estimate_accuracy(fitted, X[1200:])
    for name, one in found.items():
        # Scores of full-grown trees are of two kinds: a mean of them has another temperature.
        if name != "tree":
            assert one.score == pytest.approx(one.validation_score, abs=0.04)


@pytest.mark.filterwarnings("ignore:X. expected rows on which:UserWarning")  # a small ratio
@pytest.mark.parametrize("scoring", ["neg_log_loss", "f1_macro", "roc_auc_ovr", None])
def test_other_metrics(fitted, scoring):
    found = estimate_accuracy(fitted["logistic"], NOISY, scoring=scoring)
    truth = fitted["logistic"].recalibrate(NOISY)
    assert np.isnan(found.agreement_line)
    assert found.score == pytest.approx((found.confidence + found.agreement_change) / 2)
    if scoring == "f1_macro":
        expected = f1_score(Y[600:1200], truth.predict(NOISY), average="macro")
        assert found.score == pytest.approx(expected, abs=0.1)
    if scoring is None:
        assert found[:3] == estimate_accuracy(fitted["logistic"], NOISY)[:3]
    if scoring == "neg_log_loss":
        probability = truth.predict_proba(NOISY)
        entropy = (probability * np.log(probability)).sum(1).mean()
        assert found.confidence == pytest.approx(entropy, rel=1e-4)


@pytest.mark.filterwarnings(
    "ignore:divide by zero encountered in log:RuntimeWarning"
)  # shares of 0
def test_weights_of_labelled_rows(fitted):
    weight = np.where(Y[:600] < 5, 1.0, 0.0)
    model = AgreementCalibratedClassifier(GaussianNB(var_smoothing=0.01), cv=3)
    found = estimate_accuracy(model.fit(X[:600], Y[:600], weight), NOISY)
    scores, columns = model._held_out[:2]
    used = weight[scores.rows] > 0
    hits = scores.of_models.argmax(1) == columns
    assert found.validation_score == pytest.approx(hits[used].mean())


def test_the_line_of_classifiers_that_are_alike_has_no_slope_of_its_own():
    alike = {
        c: AgreementCalibratedClassifier(LogisticRegression(C=c, max_iter=500), cv=3)
        for c in (0.1, 0.12, 0.15)
    }
    alike = {str(c): one.fit(X[:600], Y[:600]) for c, one in alike.items()}
    for one in estimate_accuracy(alike, NOISY).values():
        assert one.agreement_line == pytest.approx(one.agreement_change, abs=0.1)


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true:UserWarning")
@pytest.mark.filterwarnings("ignore:X. expected at least:UserWarning")  # few rows
@pytest.mark.parametrize("scoring", ["neg_log_loss", "neg_brier_score", "balanced_accuracy"])
def test_a_target_of_one_class(fitted, scoring):
    found = estimate_accuracy(fitted["logistic"], X[:600][Y[:600] == 3], scoring=scoring)
    assert np.isfinite(found.score)


def test_one_or_several(fitted):
    one = estimate_accuracy(fitted["tree"], NOISY)
    (named,) = estimate_accuracy({"tree": fitted["tree"]}, NOISY).values()
    assert one[:3] == named[:3]
    (listed,) = estimate_accuracy([fitted["tree"]], NOISY).values()
    assert listed[:3] == one[:3]
    assert isinstance(one.to_frame(), pd.DataFrame)
    # The estimate is for these rows, whatever target a classifier was calibrated for.
    before = fitted["tree"].ratio_
    assert fitted["tree"].recalibrate(2 * NOISY).ratio_ != before
    assert estimate_accuracy(fitted["tree"], NOISY)[:3] == one[:3]


def test_what_it_cannot_see_models_that_are_wrong_alike():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 2))
    labels = (rows[:, 0] > 0).astype(int)
    turned = rows @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    model = AgreementCalibratedClassifier(LogisticRegression(), cv=3).fit(rows, labels)
    found = estimate_accuracy(model, turned)
    assert abs(model.score(turned, labels) - 0.5) < 0.1
    assert found.score > 0.9


def test_bad_input(fitted):
    one = fitted["logistic"]
    with pytest.raises(TypeError, match="expected fitted AgreementCalibratedClassifiers, got Gau"):
        estimate_accuracy(GaussianNB().fit(X, Y), NOISY)
    with pytest.raises(ValueError, match="X: expected at least 20 rows, got 5"):
        estimate_accuracy(one, NOISY[:5])
    with pytest.raises(ValueError, match="estimators: expected at least one"):
        estimate_accuracy([], NOISY)
    other = AgreementCalibratedClassifier(GaussianNB(), cv=3).fit(X[600:], Y[600:])
    with pytest.raises(ValueError, match="fitted to the same rows"):
        estimate_accuracy({"a": one, "b": other}, NOISY)
    with pytest.raises(TypeError, match="takes sample weights"):
        estimate_accuracy(one, NOISY, scoring=make_scorer(max_error))
    five = AgreementCalibratedClassifier(GaussianNB(), cv=5).fit(X[:600], Y[:600])
    with pytest.raises(ValueError, match="as many folds"):
        estimate_accuracy([one, fitted["tree"], five], NOISY)
    with pytest.warns(UserWarning, match="expected at least 100 rows, got 50"):
        estimate_accuracy(one, NOISY[:50])
