"""The expected score at another site: against simulated truth, brute force and bad input."""

import pickle
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from helpers.calibration import calibration, error_of_change
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, logsumexp, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import get_scorer, log_loss, make_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

from pa_select import PACommittee, PASearchCV, expected_score, expected_scorer, new_site_interval
from pa_select.scores.calibration import beta_and_bias, calibrating_beta
from pa_select.scores.precomputed import RecordedClassifier
from pa_select.two_sites import ExpectedScore
from pa_select.two_sites.classification import Classification
from pa_select.two_sites.engine import expected_scores, shrunk_scores
from pa_select.two_sites.score_of_units import widening
from pa_select.two_sites.site_adapter import cross_adapted
from pa_select.two_sites.trained import estimates

# Many pairs here are of no class: their rows are drawn around the middle of all classes.
pytestmark = pytest.mark.filterwarnings("ignore:X_a. expected objects of the classes:UserWarning")

TRUE_SLOPE = 2.0


def classifier(slope):
    """A logistic regression of one feature whose decision function is slope * x."""
    model = LogisticRegression()
    model.classes_, model.coef_ = np.array([0, 1]), np.array([[slope]])
    model.intercept_ = np.zeros(1)
    return model


def draw(rng, n, label_noise=0.0):
    """Rows at both sites and labels, which depend on the row of the first one alone."""
    a = 1.5 * rng.normal(size=(n, 1))
    p = label_noise + (1 - 2 * label_noise) * expit(TRUE_SLOPE * a[:, 0])
    y = (rng.random(n) < p).astype(int)
    return a, a + rng.normal(size=(n, 1)), y


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("slope", [TRUE_SLOPE, 4 * TRUE_SLOPE, TRUE_SLOPE / 5])
def test_it_is_unbiased_whatever_the_scale_of_the_scores(slope):
    rng = np.random.default_rng(0)
    model = classifier(slope)
    _, b, y = draw(rng, 200_000)
    truth = model.score(b, y)
    found = []
    for _ in range(150):
        a, b, _ = draw(rng, 60)
        labelled, _, y = draw(rng, 400)
        found += estimates(model, a, b, labelled, y).values()
    scores = np.array([f.score for f in found])
    error = scores.std(ddof=1) / np.sqrt(len(scores))
    assert scores.mean() == pytest.approx(truth, abs=4 * error)
    assert error < 0.005
    # The standard error is that of one estimate; the calibration adds hardly anything.
    errors = np.mean([f.standard_error for f in found])
    # One pair that changes is added to the sixty, and one that does not.
    assert errors == pytest.approx(np.hypot(scores.std(ddof=1), 1 / 62), rel=0.25)
    # Its rivals are far off.
    assert np.mean([f.validation_score for f in found]) > truth + 0.05


def test_label_noise_is_seen():
    rng = np.random.default_rng(1)
    model = classifier(TRUE_SLOPE)
    _, b, y = draw(rng, 100_000, label_noise=0.2)
    a, b_pairs, _ = draw(rng, 20_000, label_noise=0.2)
    labelled, _, y_labelled = draw(rng, 20_000, label_noise=0.2)
    found = expected_score(model, a, b_pairs, labelled, y_labelled)
    # A temperature cannot make such posteriors exact, only nearly so.
    truth = model.score(b, y)
    assert found.score == pytest.approx(truth, abs=0.02)
    assert found.validation_score > truth + 0.04
    assert found.beta < 0.6


def three_classes(seed=0, n=6):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(300, 2)), rng.integers(0, 3, 300)
    X += 1.5 * np.eye(3)[y][:, :2]
    model = LogisticRegression().fit(X, np.array(["x", "y", "z"])[y])
    a = rng.normal(size=(n, 2))
    return model, a, a + rng.normal(size=(n, 2)), X, np.array(["x", "y", "z"])[y]


def labels_of_pairs(model, a, X, y):
    """The model's calibrated posterior of the rows of a."""
    columns = np.searchsorted(model.classes_, y)
    return calibration(model.decision_function(X), columns)(model.decision_function(a))


@pytest.mark.filterwarnings("ignore:X_a and X_b:UserWarning")
def test_accuracy_and_log_loss_are_means_over_all_labellings():
    model, a, b, X, y = three_classes()
    found = expected_score(model, a, b, X, y)
    q = labels_of_pairs(model, a, X, y)
    accuracy, log_score = model.score(X, y), -log_loss(y, model.predict_proba(X))
    for rows, sign in ((a, -1), (b, 1)):
        predicted, p = model.predict(rows), model.predict_proba(rows)
        for labels in product(range(3), repeat=len(a)):
            weight = sign * np.prod(q[np.arange(len(a)), labels])
            accuracy += weight * np.mean(predicted == model.classes_[list(labels)])
            log_score += weight * np.mean(np.log(p[np.arange(len(a)), labels]))
    assert found.score == pytest.approx(accuracy, abs=1e-5)
    log = expected_score(model, a, b, X, y, scoring="neg_log_loss")
    assert log.score == pytest.approx(log_score, abs=1e-5)
    assert np.isnan([log.low, log.high]).all()


@pytest.mark.parametrize("scoring", ["balanced_accuracy", "roc_auc_ovr"])
def test_other_metrics_count_each_pair_once_for_each_class(scoring):
    model, a, b, X, y = three_classes(1, 40)
    found = expected_score(model, a, b, X, y, scoring=scoring)
    q = labels_of_pairs(model, a, X, y)
    scorer = get_scorer(scoring)
    at_a, at_b = (
        scorer(model, np.repeat(rows, 3, axis=0), np.tile(model.classes_, 40),
               sample_weight=q.ravel())
        for rows in (a, b)
    )  # fmt: skip
    assert found.score == pytest.approx(scorer(model, X, y) + at_b - at_a, abs=1e-5)
    assert 0 < found.standard_error < 0.2


def plain_accuracy(y, predicted, sample_weight=None):
    return np.average(y == predicted, weights=sample_weight)


def test_the_jackknife_of_a_mean_is_its_standard_error():
    model, a, b, X, y = three_classes(2, 20)
    labels = [softmax(model.decision_function(a), axis=1)]
    sides = [RecordedClassifier.of(model, a)], [RecordedClassifier.of(model, b)]
    by_name, by_jackknife = (
        there._replace(step=0.0).change_from(here)  # without the pairs that are added to a rate
        for here, there in (
            expected_scores(Classification(), scorer, labels, *sides)
            for scorer in (get_scorer("accuracy"), make_scorer(plain_accuracy))
        )
    )
    assert by_jackknife[:2] == pytest.approx(by_name[:2])
    # The error of the labelled rows is added.
    found = expected_score(model, a, b, X, y, scoring=make_scorer(plain_accuracy))
    p = found.validation_score
    assert found.standard_error == pytest.approx(
        np.hypot(np.sqrt(p * (1 - p) / len(y)), by_name.standard_error), rel=0.25
    )


def best_temperature(scores, y):
    rows = np.arange(len(y))
    return minimize_scalar(
        lambda beta: -log_softmax(beta * scores, axis=1)[rows, y].mean(), bounds=(0, 9)
    ).x


def test_the_temperature_is_that_of_the_highest_likelihood():
    rng = np.random.default_rng(3)
    scores, y = 4 * rng.normal(size=(200, 3)), rng.integers(0, 3, 200)
    scores[np.arange(200), y] += 3
    found = calibrating_beta(scores, y)
    assert found == pytest.approx(best_temperature(scores, y), rel=1e-2)
    # Scores in other units, and other weights, have the same posteriors.
    for factor in (1e-200, 1e90):
        scaled = calibrating_beta(factor * scores, y, np.full(len(y), 7.0))
        assert scaled * factor == pytest.approx(found, rel=1e-6)
    # Scores that are always right need no doubt, and useless ones deserve all of it.
    assert calibrating_beta(np.eye(3)[y], y) == np.inf
    assert calibrating_beta(-np.eye(3)[y], y) == 0


def test_the_fits_of_a_thousand_classes_cost_few_softmaxes(monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 1000, 1500)
    scores = rng.normal(size=(1500, 1000))
    scores[np.arange(1500), y] += 4
    exponentials, exp = [], np.exp
    monkeypatch.setattr(np, "exp", lambda x, **out: exponentials.append(x.size) or exp(x, **out))
    calibrating_beta(scores, y)
    assert 10 < exponentials.count(scores.size) < 30
    exponentials.clear()
    beta_and_bias(scores, y)
    assert 20 < exponentials.count(scores.size) < 120


class Scores(ClassifierMixin, BaseEstimator):
    """Its rows are scores of classes."""

    def __init__(self, n_classes=4):
        self.n_classes, self.classes_ = n_classes, np.arange(n_classes)

    def fit(self, X, y):
        return self

    def decision_function(self, X):
        return X

    def predict(self, X):
        return X.argmax(axis=1)

    def predict_proba(self, X):
        return np.exp(X - logsumexp(X, axis=1, keepdims=True))


def language_model(seed=0, n=500, n_labelled=300):
    """Log-probabilities of both sites, the labelled ones, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    a = log_softmax(2.5 * np.eye(4)[y] + rng.normal(size=(n, 4)), axis=1)
    b = log_softmax(a + 1.5 * rng.normal(size=(n, 4)), axis=1)
    n_pairs = n - n_labelled
    return a[:n_pairs], b[:n_pairs], a[n_pairs:].copy(), y[n_pairs:]


@pytest.mark.parametrize("low", [-np.inf, -9999.0, -60.0, -1e90])
@pytest.mark.parametrize("n_rows", [1, 4])
def test_labels_without_a_score_decide_nothing(low, n_rows):
    a, b, labelled, y = language_model()
    (known,) = estimates(Scores(), a, b, labelled, y).values()
    rows = np.flatnonzero(labelled.argmax(axis=1) != y)[1 : 1 + n_rows]
    labelled[rows, y[rows]] = low
    found_warnings = []
    (found,) = estimates(Scores(), a, b, labelled, y, warnings=found_warnings).values()
    assert found.score == pytest.approx(known.score, abs=0.01)
    assert found.beta == pytest.approx(known.beta, rel=0.2)
    if low > -np.inf:
        return
    assert f"in {n_rows} of 300 rows, the first in row {rows[0]}." in found_warnings[0]
    with pytest.warns(UserWarning, match=f"X: expected a score .* {n_rows} of 300 rows, "):
        PASearchCV(Scores(), {}, cv=3).fit(labelled, y, paired=(a, b))


@pytest.mark.parametrize("scoring", [None, "balanced_accuracy", "neg_log_loss"])
def test_class_scores_of_two_versions_may_be_given(scoring):
    old, new, labelled, y = language_model()
    found = expected_score(None, old, new, labelled, y, scoring=scoring)
    (by_model,) = estimates(Scores(), old, new, labelled, y, scoring).values()
    assert found == pytest.approx(by_model, nan_ok=True)
    assert found.change == pytest.approx(found.score - found.validation_score)
    assert 0 < found.change_standard_error <= found.standard_error
    # Tensors, labels of any kind, and logits.
    names = np.array(["d", "e", "f", "g"])
    again = expected_score(
        None, torch.tensor(old), torch.tensor(new) + 1, labelled - 2, names[y], scoring=scoring
    )
    if scoring != "neg_log_loss":
        assert again.score == pytest.approx(found.score)


def test_class_scores_that_are_wrong_are_named():
    old, new, labelled, y = language_model()
    counted = [expected_score(None, old, new, labelled, labels).score for labels in (y, y + 1)]
    assert counted[0] == counted[1]
    few = np.minimum(y, 2)
    for given, message in (
        ((old, new[:9], labelled, y), "X_b: expected the shape of X_a"),
        ((old, new, labelled, few + 2), "y_val: expected numbers of the 4 columns"),
        ((old, new, labelled, np.array(["a", "b", "c"])[few]), "got 3 such as 'a'."),
        ((old, np.exp(new), labelled, y), "^X_b: expected logits or log-probabilities"),
    ):
        with pytest.raises(ValueError, match=message):
            expected_score(None, *given)
    with pytest.raises(ValueError, match="adapter: expected None for class scores"):
        expected_score(None, old, new, labelled, y, adapter="ridge")


@pytest.mark.parametrize(
    ("names", "kind"), [("abcd", str), (range(4), int), ("3210", int), ([-2, -1, 0, 1], int)]
)
def test_the_columns_of_frames_are_found_by_their_names(names, kind):
    old, new, labelled, y = language_model()
    known = np.array([kind(name) for name in names])

    def frame(scores, order=slice(None)):
        named = pd.DataFrame(scores, columns=list(names)).sort_index(axis=1)
        return named.iloc[order, [2, 0, 3, 1]]

    known_order = np.argsort(known)
    plain = [x[:, known_order] for x in (old, new, labelled)]
    order, loss = np.arange(len(old))[::-1], {"scoring": "neg_log_loss"}
    right = expected_score(None, *plain, known[y], **loss)
    found = expected_score(None, frame(old), frame(new, order), frame(labelled), known[y], **loss)
    assert found.score == pytest.approx(right.score)
    # A class without a label has its column, too.
    few = known[y] != known[1]
    some = expected_score(None, frame(old), frame(new), frame(labelled)[few], known[y][few])
    right = known[labelled[few].argmax(axis=1)] == known[y][few]
    assert some.validation_score == pytest.approx(right.mean())
    with pytest.raises(ValueError, match="X_b: expected the columns of X_a in their order"):
        expected_score(None, frame(old), frame(new).iloc[:, ::-1], frame(labelled), known[y])


@pytest.mark.parametrize(
    ("scoring", "confidence", "predicted", "limit"),
    [("recall", 0.2, 1, 1.0), ("recall", 5.0, 0, 0.0), ("f1", 5.0, 0, 0.0)],
)
@pytest.mark.filterwarnings("ignore:X_a and X_b. expected row i of both")
def test_no_score_is_expected_that_the_metric_cannot_have(scoring, confidence, predicted, limit):
    rng = np.random.default_rng(0)
    y = rng.permutation(60) % 2
    labelled = np.eye(2)[y] + rng.normal(scale=0.8, size=(60, 2))
    margins = confidence * np.linspace(-1, 1, 30)[rng.permutation(30)]
    a = np.column_stack([-margins, margins])
    b = rng.uniform(1, 2, size=(30, 1)) * (np.eye(2)[predicted] - 0.5)
    found = expected_score(None, a, b, labelled, y, scoring=scoring)
    assert found.score == limit != found.validation_score
    # It would be beyond the limit.
    assert (found.validation_score + found.change - limit) * (limit - 0.5) > 0


@pytest.mark.parametrize("n_graded", [0, 1])
@pytest.mark.filterwarnings("ignore")
def test_scores_of_the_most_probable_class_alone(n_graded):
    *sides, y = language_model(seed=1, n=2300)
    a, b, labelled = (np.where(x == x.max(axis=1, keepdims=True), x, -np.inf) for x in sides)
    # A wrong row that has a score of its label, too, is no reason for a temperature of 0.
    graded = np.flatnonzero(sides[2].argmax(axis=1) != y)[:n_graded]
    labelled[graded, y[graded]] = sides[2][graded, y[graded]]
    accuracy = np.mean(sides[2].argmax(axis=1) == y)
    found = expected_score(None, a, b, labelled, y)
    of_floors = expected_score(None, *(np.maximum(x, -9999) for x in (a, b, labelled)), y)
    known = expected_score(None, *sides, y)
    assert found.validation_score == accuracy
    assert found.change == pytest.approx(known.change, abs=0.1)
    assert found.change < -0.15
    if not n_graded:
        assert found.change == pytest.approx(of_floors.change, abs=0.01)
    search = PASearchCV(Scores(), {}, cv=3).fit(labelled, y, paired=(a, b))
    assert search.expected_score_ == pytest.approx(found.score, abs=0.01)
    # Its votes are for the class that it predicts.
    committee = PACommittee.from_models([Scores(), Scores()], labelled, y)
    assert np.mean(committee.predict(labelled) == y) == accuracy


def test_lapses_leave_other_calibrations_nearly_as_they_are():
    _, _, labelled, y = language_model()
    found_warnings = []
    estimates(Scores(), labelled + 0.1, labelled, labelled, y, warnings=found_warnings)
    assert not found_warnings
    assert calibrating_beta(labelled, y) == pytest.approx(best_temperature(labelled, y), rel=0.02)


def test_a_wrong_label_or_an_unknown_class_is_no_absurd_score():
    # Posteriors of few rows are nearly certain if all but one row are predicted right.
    y = np.arange(30) % 3
    labelled = log_softmax(0.3 * np.eye(3)[y], axis=1)
    labelled[0] = log_softmax([0.0, 2.7, 0.1])
    found_warnings = []
    given = Scores(3), labelled + 0.1, labelled, labelled, y
    (found,) = estimates(*given, warnings=found_warnings).values()
    assert found.beta > 20  # so the label's posterior is below 1e-20
    assert not found_warnings
    # A class that the model lacks has a score as low as the lowest one.
    sure = 50 * np.eye(3)[y]
    sure[1:3] = 0
    given = Scores(3), sure + 1, sure, sure, np.where(y + np.arange(30) == 31, 3, y)
    estimates(*given, warnings=found_warnings)
    (message,) = found_warnings
    assert "y_val: expected classes of Scores, got other labels in 1 of 30" in message


def test_the_biases_make_posteriors_believe_in_each_class_as_often_as_it_occurs():
    rng = np.random.default_rng(4)
    posterior, y = rng.dirichlet([1, 2, 3, 4], 5000), rng.choice(4, 5000, p=[0.4, 0.3, 0.2, 0.1])
    scores, shares = np.log(posterior), np.bincount(y) / len(y)
    beta, bias = beta_and_bias(scores, y)
    shifted = softmax(beta * scores + bias, axis=1)
    np.testing.assert_allclose(shifted.mean(axis=0), shares, atol=1e-3)
    assert abs(posterior.mean(axis=0) - shares).max() > 0.2
    # Weights count rows, whatever their unit; a class without a row is not lost.
    weight = rng.integers(0, 3, 5000)
    repeated = np.repeat(np.arange(5000), weight)
    by_weight = beta_and_bias(scores, y, weight * 1e-3)
    expected = beta_and_bias(scores[repeated], y[repeated])
    np.testing.assert_allclose(np.hstack(by_weight), np.hstack(expected), atol=1e-2)
    few = beta_and_bias(scores[:8], np.array([0, 1, 1, 1, 2, 2, 2, 2]))[1]
    assert np.isfinite(few).all()
    # Where most labels have the score -inf the scores say nothing, and the biases are as without.
    lost = rng.normal(size=(300, 4))
    lost[np.arange(200), y[:200]] = -np.inf
    beta, bias = beta_and_bias(lost, y[:300])
    assert beta == 0
    counted = beta_and_bias(np.zeros((300, 4)), y[:300])
    np.testing.assert_allclose(bias, counted[1], atol=1e-6)
    # Scores that are always right need no bias.
    beta, bias = beta_and_bias(np.eye(4)[y], y)
    assert beta == np.inf
    np.testing.assert_allclose(bias, np.zeros(4), atol=1e-9)


def test_slope_and_biases_are_fitted_together():
    """Against scikit-learn, where both have no prior: logistic regression of the log odds."""
    rng = np.random.default_rng(0)
    truth = 1.5 * rng.normal(size=20000) - 3
    y = (rng.random(20000) < expit(truth)).astype(int)
    line = LogisticRegression(C=np.inf).fit(truth[:, None], y)
    for slope, offset in ((1, 0), (1e-4, 7), (-0.3, 1), (50, -3)):  # flat, off centre, reversed
        flat = (slope * truth + offset)[:, None] * [-0.5, 0.5]
        beta, bias = beta_and_bias(flat, y)
        assert beta * slope == pytest.approx(line.coef_.item(), rel=0.02)
        odds = beta * np.diff(flat, axis=1)[:, 0] + np.diff(bias)
        np.testing.assert_allclose(odds, line.decision_function(truth[:, None]), atol=0.1)


@pytest.mark.filterwarnings("ignore:X_val. expected rows of which:UserWarning")
def test_few_rows_without_an_error_are_not_certain():
    far = 3 * np.where(np.arange(30) % 2, 1.0, -1.0)[:, None]
    found = expected_score(classifier(1.0), far, 2 * far, far, (far[:, 0] > 0).astype(int))
    assert found.disagreement == 0
    assert found.validation_score == found.high == 1
    assert 0.7 < found.low < 0.95


def test_several_estimators_frames_and_modules():
    model, a, b, X, y = three_classes(6, 30)
    several = expected_score({"m": model, "n": model}, a, b, X, y)
    assert list(several) == ["m", "n"]
    # The mean of two equal posteriors is calibrated once more, against the prior of the biases.
    assert several["m"] == pytest.approx(expected_score(model, a, b, X, y), abs=2e-3)
    frames = [pd.DataFrame(x, index=np.arange(30) + 7) for x in (a, b)]
    shuffled = expected_score(model, frames[0], frames[1].iloc[::-1], pd.DataFrame(X), y)
    assert shuffled == expected_score(model, a, b, X, y)
    module = torch.nn.Linear(2, 3).double()
    module.weight.data = torch.tensor(model.coef_)
    module.bias.data = torch.tensor(model.intercept_)
    codes = np.searchsorted(model.classes_, y)
    found = expected_score(module, a, b, X, codes)
    assert found.score == pytest.approx(expected_score(model, a, b, X, y).score)
    assert found.validation_score == pytest.approx(several["m"].validation_score)


def test_bad_input_is_named():
    model, a, b, X, y = three_classes(7, 30)
    given = {"estimators": model, "X_a": a, "X_b": b, "X_val": X, "y_val": y}
    no_weights = make_scorer(lambda y, p: 0.0)
    for change, message in (
        ({"X_b": b[:-1]}, "X_b: expected the 30 objects of X_a"),
        ({"X_b": a}, "X_b: expected the objects of X_a.* got the same values"),
        ({"X_b": b[:, :1]}, r"X_b: expected rows of shape \(2,\) like those of X_a"),
        ({"y_val": np.full(300, "w")}, "y_val: expected classes of LogisticRegression"),
        ({"groups": np.arange(9)}, r"groups: expected shape \(300,\), got \(9,\)"),
        ({"scoring": no_weights}, "scoring: expected a scorer whose metric takes sample w"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            expected_score(**given | change)
    with pytest.warns(UserWarning, match="expected at least 20 pairs, got 5"):
        expected_score(model, a[:5], b[:5], X, y)


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "neg_log_loss"])
def test_labelled_rows_of_one_group_count_once(scoring):
    model, a, b, X, y = three_classes(7, 30)
    objects = np.repeat(np.arange(300), 4)
    once = expected_score(model, a, b, X, y, scoring=scoring)
    scans = X[objects], y[objects]
    apart = expected_score(model, a, b, *scans, scoring=scoring)
    together = expected_score(model, a, b, *scans, scoring=scoring, groups=objects)
    assert together.score == pytest.approx(apart.score)
    assert together.standard_error == pytest.approx(once.standard_error, rel=0.02)
    assert apart.standard_error < 0.97 * together.standard_error
    if scoring == "accuracy":
        assert together.low == pytest.approx(once.low, abs=0.001)
        assert apart.low > together.low + 0.005


def test_differences_of_models_count_a_group_once():
    model, a, b, X, y = three_classes(7, 120)
    objects = np.tile(np.arange(120), 6)
    rng = np.random.default_rng(0)
    scans = [rows[objects] + 1e-6 * rng.normal(size=(720, 2)) for rows in (a, b)]
    models = {"one": model, "other": DecisionTreeClassifier(max_depth=2).fit(X[:100], y[:100])}
    found = [
        expected_score(models, *pairs, X[100:], y[100:], groups=rows, pair_groups=groups)
        for pairs, rows, groups in (
            ([a, b], None, None),
            (scans, None, objects),
            (scans, None, None),
            ([a, b], np.arange(200), None),
            ([a, b], np.arange(200) // 20, None),
        )
    ]
    once, together, apart, alone, blocks = (
        max(one.difference_standard_error for one in of_models.values()) for of_models in found
    )
    # Two pairs are added to all pairs, and not to the objects.
    assert 0.98 * once < together < once
    assert apart < 0.9 * once
    assert alone == pytest.approx(once)
    assert abs(blocks / once - 1) > 0.01


def test_pairs_of_regressors_in_groups():
    rng = np.random.default_rng(0)
    X, objects = rng.normal(size=(100, 2)), np.repeat(np.arange(30), 6)
    model = Ridge().fit(X, X[:, 0])
    a = rng.normal(size=(30, 2))[objects] + 0.01 * rng.normal(size=(180, 2))
    b = a + rng.normal(size=(30, 2))[objects]
    given = model, a, b, X, X[:, 0] + rng.normal(size=100)
    apart, together = (
        expected_score(*given, scoring="neg_root_mean_squared_error", pair_groups=groups)
        for groups in (None, objects)
    )
    ratio = together.change_standard_error / apart.change_standard_error
    assert ratio == pytest.approx(np.sqrt(6) * widening(30, 180), rel=0.05)
    assert together.low < apart.low - 0.1
    # The row of an object is mapped by an adapter that has seen none of its scans.
    nearest = KNeighborsRegressor(1)
    mapped = [cross_adapted(nearest, b, a, 0, groups) for groups in (None, objects)]
    errors = [np.square(rows - a).mean() for rows in mapped]
    assert errors[0] < 0.01 < 0.5 < errors[1]
    adapted = expected_score(*given, adapter=nearest, pair_groups=objects)
    by_hand = expected_score(model, a, mapped[1], *given[3:], pair_groups=objects)
    assert adapted == pytest.approx(by_hand, nan_ok=True)


def test_the_scorer_calibrates_on_the_fold_that_it_is_given():
    model, a, b, X, y = three_classes(10, 30)
    scorer = expected_scorer(a, b, scoring="neg_log_loss")
    by_hand = expected_score(model, a, b, X, y, scoring="neg_log_loss")
    assert scorer(model, X, y) == by_hand.score
    assert clone(scorer).X_a is not None
    assert pickle.loads(pickle.dumps(scorer))(model, X, y) == by_hand.score
    assert scorer.__name__ == "expected_score"
    folds = cross_val_score(LogisticRegression(), X, y, scoring=expected_scorer(a, b))
    assert ((0 < folds) & (folds < 1)).all()


class Counted(LinearRegression):
    """An adapter that counts how often it is fitted."""

    n_fits = 0

    def fit(self, X, y):
        Counted.n_fits += 1
        return super().fit(X, y)


def test_a_scorer_adapts_the_rows_once():
    model, a, _, X, y = three_classes(15, 60)
    b = 5 - 2 * a
    adapter = Counted()
    scorer = expected_scorer(a, b, adapter=adapter)
    n_fits = Counted.n_fits
    copy = pickle.loads(pickle.dumps(scorer))
    found = expected_score(model, a, b, X, y, adapter=LinearRegression()).score
    assert scorer(model, X, y) == copy(model, X, y) == pytest.approx(found)
    assert Counted.n_fits == n_fits > 0
    scorer.set_params(X_b=b + 1)  # other rows are adapted anew
    assert scorer(model, X, y) == pytest.approx(found)
    assert Counted.n_fits == 2 * n_fits
    assert clone(scorer)(model, X, y) == pytest.approx(found)


def calibrated_by_hand(scores, validation, columns):
    calibrate = calibration(validation, columns)
    return calibrate(scores), calibrate(validation)


@pytest.mark.filterwarnings("ignore:X_a. expected rows like:UserWarning")
def test_several_models_are_shrunk_and_judged_by_the_most_accurate_ones():
    model, a, b, X, y = three_classes(14, 60)
    rng = np.random.default_rng(0)
    noisy = {name: LogisticRegression(C=C) for name, C in (("strong", 1.0), ("weak", 1e-3))}
    models = {name: one.fit(X[:100], y[:100]) for name, one in noisy.items()}
    models["wrong"] = LogisticRegression().fit(X[:100], rng.permutation(y[:100]))
    models["same"] = model
    X, y = X[100:], y[100:]
    columns, every = np.searchsorted(model.classes_, y), np.arange(60)
    accuracy = np.array([m.score(X, y) for m in models.values()])
    added = (accuracy * 200 + 2) / 204
    error = np.sqrt(added * (1 - added) / 204)
    near = accuracy >= accuracy.max() - 2 * error[accuracy.argmax()]
    assert not near.all()
    members = [m for m, is_near in zip(models.values(), near, strict=True) if is_near]
    by_member = [
        calibrated_by_hand(np.log(m.predict_proba(a)), np.log(m.predict_proba(X)), columns)
        for m in members
    ]
    q, _ = calibrated_by_hand(
        *(np.log(np.mean(p, axis=0)) for p in zip(*by_member, strict=True)), columns
    )

    def hits(m, rows):
        return q[every, np.searchsorted(m.classes_, m.predict(rows))]

    at_a, at_b = (np.array([hits(m, rows) for m in models.values()]) for rows in (a, b))
    level, level_error = at_a.mean(1), at_a.std(1, ddof=1) / np.sqrt(60)
    shrunk, misfit, _ = shrunk_scores(accuracy, error, level, level_error)
    found = expected_score(models, a, b, X, y).values()
    change = at_b - at_a
    np.testing.assert_allclose([f.score for f in found], shrunk + change.mean(1), atol=1e-5)
    of_change = np.array([error_of_change(gains) for gains in change])
    expected_error = np.sqrt(error**2 + misfit**2 + of_change**2)
    np.testing.assert_allclose([f.standard_error for f in found], expected_error, rtol=1e-3)
    # The interval and what is known of the labelled rows are not shrunk.
    alone = [expected_score(m, a, b, X, y) for m in models.values()]
    assert [f[2:8] for f in found] == [f[2:8] for f in alone]
    own = expected_score(models, a, b, X, y, reference="self")
    assert [one[:-1] for one in own.values()] == [one[:-1] for one in alone]


@pytest.mark.filterwarnings("ignore:X_a. expected rows like:UserWarning")
def test_others_may_stand_in_for_the_labels():
    model, a, b, X, y = three_classes(12, 60)
    other = KNeighborsClassifier(20).fit(X[:150], y[:150])
    X, y = X[150:], y[150:]
    by_itself = expected_score(model, a, b, X, y)
    # An ensemble of one is calibrated already.
    alone = expected_score({"m": model}, a, b, X, y, reference="ensemble")["m"]
    assert alone.score == pytest.approx(by_itself.score, abs=1e-6)
    by_other = expected_score(model, a, b, X, y, reference=other)
    q = np.log(np.maximum(other.predict_proba(a), 1 / 40))
    validation = np.log(np.maximum(other.predict_proba(X), 1 / 40))
    columns = np.searchsorted(model.classes_, y)
    q, _ = calibrated_by_hand(q, validation, columns)
    rows = np.arange(60)
    hits = [q[rows, np.searchsorted(model.classes_, model.predict(x))].mean() for x in (a, b)]
    assert by_other.score == pytest.approx(model.score(X, y) + hits[1] - hits[0], abs=1e-6)
    both = expected_score([model, other], a, b, X, y, reference="ensemble")
    assert len({e.score for e in both.values()} | {by_itself.score, by_other.score}) == 4
    with pytest.raises(ValueError, match="reference: expected 'self', 'ensemble' or a fitted"):
        expected_score(model, a, b, X, y, reference="best")
    two = LogisticRegression().fit(X[y != "z"], y[y != "z"])
    with pytest.raises(ValueError, match="y_val: expected classes of the reference"):
        expected_score(model, a, b, X, y, reference=two)
    of_two = [LogisticRegression().fit(X[y != k], y[y != k]) for k in "xz"]
    here = y == "y"
    # Classes that one model has and another lacks are columns as any other.
    both = expected_score(of_two, a, b, X[here], y[here], reference="ensemble")
    assert all(0 <= one.score <= 1 for one in both.values())
    assert 0 <= expected_score(model, a, b, X[here], y[here], reference=two).score <= 1


@pytest.mark.filterwarnings("ignore:X_a. expected rows like the labelled ones:UserWarning")
def test_fitted_searches_are_judged_by_their_metric():
    _, a, b, X, y = three_classes(12, 60)
    search = GridSearchCV(LogisticRegression(), {}, scoring="f1_macro").fit(X[:150], y[:150])
    rows = a, b, X[150:], y[150:]
    found, named, accuracy = (
        expected_score(search, *rows, scoring=scoring).score
        for scoring in (None, "f1_macro", "accuracy")
    )
    assert found == pytest.approx(named)
    assert abs(found - accuracy) > 1e-3


def test_results_of_three_sites_are_read_with_their_numbers_of_pairs():
    model, a, b, X, y = three_classes(7, 30)
    found = [expected_score(model, a, a + k * (b - a), X, y) for k in (1, 2, 3)]
    scores = [one.score for one in found]
    # Given sizes are taken, and none are those of the pairs.
    for given, sizes in ((None, [30, 30, 30]), ([9, 99, 9], [9, 99, 9])):
        expected = new_site_interval(scores, sizes)
        assert new_site_interval(found, given) == pytest.approx(expected)


def test_it_prints_one_short_line_and_is_a_tuple_of_all_its_numbers():
    values = dict.fromkeys(ExpectedScore._fields, 1 / 3) | {"standard_error": 0.04567}
    found = ExpectedScore(**values)
    assert repr(found).startswith("ExpectedScore(score=0.3333 +- 0.046, low=0.3333, high=")
    assert tuple(found) == tuple(values.values())
    assert pickle.loads(pickle.dumps(found)) == found
