"""Errors of all metrics: against leaving out one object, and in any order."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn import metrics
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, make_scorer

from pa_select.scores.precomputed import RecordedClassifier, RecordedRegressor
from pa_select.two_sites.classification import Classification
from pa_select.two_sites.engine import expected_scores
from pa_select.two_sites.regression import Regression
from pa_select.two_sites.score_of_units import LabelledRows, ScoreOfUnits, parts_of, scored_rows
from pa_select.two_sites.trained import estimates

CLASSES, NUMBERS = Classification(), Regression()
LABEL_METRICS = {
    **{name: get_scorer(name) for name in ("balanced_accuracy", "matthews_corrcoef")},
    **{
        f"{name}_{average}": get_scorer(f"{name}_{average}")
        for name in ("f1", "precision", "recall", "jaccard")
        for average in ("macro", "micro", "weighted")
    },
    "kappa": make_scorer(metrics.cohen_kappa_score),
    "F2": make_scorer(metrics.fbeta_score, beta=2, average="macro"),
    "wrong ones": make_scorer(metrics.zero_one_loss, greater_is_better=False),
}
OF_PROBABILITIES = ["neg_log_loss", "neg_brier_score", "roc_auc_ovr"]
BINARY = ["f1", "precision", "recall", "jaccard", "roc_auc", "neg_log_loss", "neg_brier_score"]
# Scorers without a formula here: by options, by the metric, or by nature.
OTHERS = {
    "no predictions": make_scorer(metrics.precision_score, average="macro", zero_division=1.0),
    "top 2": make_scorer(metrics.top_k_accuracy_score, response_method="predict_proba"),
    "adjusted": make_scorer(metrics.balanced_accuracy_score, adjusted=True),
    "some labels": make_scorer(metrics.f1_score, labels=[0, 2], average="macro"),
    "quadratic kappa": make_scorer(metrics.cohen_kappa_score, weights="quadratic"),
    "weighted area": get_scorer("roc_auc_ovr_weighted"),
    "plain function": lambda model, X, y, sample_weight=None: get_scorer("accuracy")(
        model, X, y, sample_weight=sample_weight
    ),
}
OF_NUMBERS = ["neg_mean_squared_error", "neg_root_mean_squared_error", "r2"]
OF_NUMBERS += ["neg_mean_absolute_error", make_scorer(metrics.mean_pinball_loss, alpha=0.1)]


def objects(n=40, n_classes=3, seed=0):
    """Probabilities of the classes of some objects, and a classifier of their rows."""
    rng = np.random.default_rng(seed)
    p, labels = rng.dirichlet(np.ones(n_classes), n), rng.dirichlet(np.ones(n_classes), n)
    return labels, RecordedClassifier(np.arange(n_classes), np.log(p), p.argmax(1), p)


def left_out(score_of, n):
    """The jackknife's standard error, from its definition."""
    scores = np.array([score_of(np.delete(np.arange(n), i)) for i in range(n)])
    return np.sqrt((n - 1) / n * np.square(scores - scores.mean()).sum())


def check_value(scorer, labels, model):
    found, every = CLASSES.closed_form(scorer, labels, model), np.arange(len(labels))
    assert found.score == pytest.approx(
        CLASSES.weighted_score(scorer, model, labels, every), abs=1e-12
    )
    return found


def check_formula(scorer, labels, model):
    found = check_value(scorer, labels, model)
    assert found.contributions.sum() == pytest.approx(0, abs=1e-12)
    error = left_out(
        lambda rows: CLASSES.weighted_score(scorer, model, labels[rows], rows), len(labels)
    )
    assert found.standard_error() == pytest.approx(error, rel=0.08)


@pytest.mark.parametrize(
    ("name", "n_classes"),
    [
        *((name, 3) for name in (*LABEL_METRICS, *OF_PROBABILITIES)),
        *((name, 2) for name in BINARY),
    ],
)
def test_a_formula_gives_the_metric_and_the_error_of_leaving_out_each_object(name, n_classes):
    check_formula(LABEL_METRICS.get(name) or get_scorer(name), *objects(n_classes=n_classes))


@pytest.mark.parametrize("name", ["f1_macro", "balanced_accuracy", "neg_log_loss", "roc_auc"])
def test_labelled_rows_have_the_same_error(name):
    scorer, (_, model) = get_scorer(name), objects(60, 2 if name == "roc_auc" else 3, seed=1)
    y = np.where(np.arange(60) % 3 == 0, np.roll(model.predicted, 1), model.predicted)
    every = np.arange(60)
    error = left_out(lambda rows: scorer(model, rows[:, None], y[rows]), 60)
    found = scored_rows(CLASSES, scorer, LabelledRows(y, [every]), [model])
    assert found.score == pytest.approx(scorer(model, every[:, None], y))
    assert found.standard_error() == pytest.approx(error, rel=0.05)


@pytest.mark.filterwarnings("ignore:Precision is ill-defined")
def test_classes_that_no_row_has_or_no_prediction_is():
    labels, model = objects()
    model.predicted = np.minimum(model.predicted, 1)  # never the last class
    for name in ("f1_macro", "precision_macro", "jaccard_weighted", "matthews_corrcoef"):
        check_value(get_scorer(name), labels, model)
    y = np.minimum(np.arange(40) % 3, 1)  # nor has a row that label
    for name in ("f1_macro", "balanced_accuracy"):
        scorer = get_scorer(name)
        score = scorer(model, np.arange(40)[:, None], y)
        hot = (y[:, None] == model.classes).astype(float)
        assert CLASSES.closed_form(scorer, hot, model, is_counted=False).score == pytest.approx(
            score
        )


def test_predictions_of_one_class_have_a_correlation_of_0_without_a_large_error():
    for seed in range(50):
        labels = np.random.default_rng(seed).dirichlet([1, 2, 3, 4], 50 + seed)
        # The shares of all classes sum to 1 but for rounding.
        one, other = (
            CLASSES.closed_form(
                get_scorer("matthews_corrcoef"),
                labels,
                RecordedClassifier(np.arange(4), labels, np.full(len(labels), predicted)),
            )
            for predicted in (1, 2)
        )
        assert one.score == pytest.approx(0, abs=1e-6)
        assert one.standard_error() < 1
        # Two added pairs count by what one pair more would change, which divides by the rounding.
        assert other.change_from(one).standard_error < 1


def test_a_metric_of_two_classes_is_none_of_three():
    labels, model = objects()
    for name in ("f1", "roc_auc"):
        assert CLASSES.closed_form(get_scorer(name), labels, model) is None
        with pytest.raises(ValueError, match="multiclass|multi_class"):
            expected_scores(CLASSES, get_scorer(name), [labels], [model])


def test_a_formula_calls_no_metric(monkeypatch):
    def refused(*args):
        raise AssertionError("the metric was called")

    monkeypatch.setattr(Classification, "weighted_score", refused)
    labels, model = objects()
    for scorer in (*LABEL_METRICS.values(), *map(get_scorer, OF_PROBABILITIES)):
        found = expected_scores(CLASSES, scorer, [labels, labels], [model, model], [model, model])
        assert [len(one.contributions) for one in found] == [40, 40]
    with pytest.raises(AssertionError, match="was called"):
        expected_scores(CLASSES, OTHERS["top 2"], [labels], [model])


@pytest.mark.parametrize("name", OTHERS)
def test_metrics_without_a_formula_leave_out_parts(name):
    scorer, (labels, model) = OTHERS[name], objects()
    assert CLASSES.closed_form(scorer, labels, model) is None
    (found,) = expected_scores(CLASSES, scorer, [labels], [model])
    assert len(found.contributions) == 20
    error = left_out(lambda rows: CLASSES.weighted_score(scorer, model, labels[rows], rows), 40)
    assert found.standard_error() == pytest.approx(error, rel=0.5)


@pytest.mark.parametrize("scoring", OF_NUMBERS)
def test_so_it_is_with_metrics_of_numbers(scoring):
    scorer, rng = get_scorer(scoring), np.random.default_rng(0)
    targets, model = rng.normal(size=(80, 7)), RecordedRegressor(rng.normal(size=80))

    def score_of(rows):
        return scorer(model, rows.repeat(7)[:, None], targets[rows].ravel())

    found = NUMBERS.closed_form(scorer, targets, model)
    assert found.score == pytest.approx(score_of(np.arange(80)))
    assert found.standard_error() == pytest.approx(left_out(score_of, 80), rel=0.05)
    median = get_scorer("neg_median_absolute_error")
    assert NUMBERS.closed_form(median, targets, model) is None


class Columns(ClassifierMixin, BaseEstimator):
    """A classifier whose scores are the columns of its rows, to the last bit."""

    classes_ = np.arange(3)

    def __sklearn_is_fitted__(self):
        return True

    def decision_function(self, X):
        return X[:, :3]

    def predict_proba(self, X):
        p = np.exp(X[:, :3])
        return p / p.sum(axis=1, keepdims=True)

    def predict(self, X):
        return X[:, :3].argmax(axis=1)


class Column(RegressorMixin, BaseEstimator):
    """A regressor whose prediction is one column of the row."""

    def __init__(self, number=0):
        self.number = number

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return X[:, self.number]


def check_order(models, scoring, y_of):
    rng = np.random.default_rng(0)
    a, X = rng.normal(size=(60, 4)), rng.normal(size=(100, 4))
    b, y = a + 0.5 * rng.normal(size=a.shape), y_of(X, rng)
    found = []
    for _ in range(2):
        pairs, rows = rng.permutation(60), rng.permutation(100)
        by_name = estimates(models, a[pairs], b[pairs], X[rows], y[rows], scoring)
        found.append([list(one) for one in by_name.values()])
    assert np.isfinite(np.array(found)[:, :, :2]).all()
    scale = np.nanmax(np.abs(found[0]))
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize(
    "scoring", ["accuracy", "f1_macro", "neg_log_loss", "top 2", "plain function"]
)
def test_the_order_of_the_rows_is_of_no_account(scoring):
    def labels(X, rng):
        return np.where(rng.random(100) < 0.7, X[:, :3].argmax(axis=1), rng.integers(0, 3, 100))

    check_order({"one": Columns(), "two": Columns()}, OTHERS.get(scoring, scoring), labels)


@pytest.mark.parametrize("scoring", [*OF_NUMBERS, "neg_median_absolute_error"])
def test_nor_is_it_with_regressors(scoring):
    models = {str(number): Column(number) for number in range(3)}
    check_order(models, scoring, lambda X, rng: X[:, 0] + 0.3 * rng.normal(size=100))


def test_parts_are_of_equal_size_and_at_random():
    rng = np.random.default_rng(0)
    content = rng.normal(size=(1000, 3))
    part, order = parts_of(content), rng.permutation(1000)
    np.testing.assert_array_equal(np.bincount(part), np.full(20, 50))
    np.testing.assert_array_equal(parts_of(content[order]), part[order])
    # The parts do not take turns in the order of a column, which would make them too alike.
    means = np.array([content[part == p, 2].mean() for p in range(20)])
    assert means.std(ddof=1) == pytest.approx(1 / np.sqrt(50), rel=0.4)
    # Rounding does not move an object, and infinite numbers are no trouble.
    np.testing.assert_array_equal(parts_of(content * (1 + 1e-15)), part)
    parts_of(np.where(content > 2, -np.inf, content))


@pytest.mark.parametrize("n", [10, 20, 40, 100])
def test_the_error_of_a_change_counts_that_few_pairs_differ(n):
    # Whether the predictions of a pair differ is a draw; the first one is always right.
    rates, covered = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.3]), np.zeros(6)
    for n_differ in range(n + 1):
        right = np.append(np.zeros(n_differ), np.ones(n - n_differ))
        change = ScoreOfUnits.of_mean(right, step=1.0).change_from(
            ScoreOfUnits.of_mean(np.ones(n), step=1.0)
        )
        assert change.score == pytest.approx(-n_differ / n)
        inside = np.abs(change.score + rates) <= 1.96 * change.standard_error
        covered += inside * binom.pmf(n_differ, n, rates)
    # Without the pairs that are added 0.1 to 0.63 at the smallest rate.
    assert covered.min() > 0.86
    assert covered.mean() > 0.94


@pytest.mark.parametrize("name", LABEL_METRICS)
def test_a_step_is_what_one_right_prediction_adds(name):
    scorer, n, every = LABEL_METRICS[name], 600, np.arange(600)
    y = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [300, 200, 100]))
    labels, predicted = np.eye(3)[y], np.where(every % 3 > 0, y, (y + 1 + every % 2) % 3)
    model = RecordedClassifier(np.arange(3), labels, predicted)
    score, added = CLASSES.weighted_score(scorer, model, labels, every), []
    some = np.concatenate([np.flatnonzero(y == k)[:m] for k, m in enumerate((3, 2, 1))])
    for i in some:  # each of its two wrong predictions becomes right
        for wrong in (y[i] + 1, y[i] + 2):
            before, after = predicted.copy(), predicted.copy()
            before[i], after[i] = wrong % 3, y[i]
            both = (RecordedClassifier(np.arange(3), labels, p) for p in (before, after))
            worse, better = (CLASSES.weighted_score(scorer, one, labels, every) for one in both)
            added.append(n * (better - worse))
    found = CLASSES.closed_form(scorer, labels, model)
    assert found.score == pytest.approx(score)
    assert found.step == pytest.approx(np.sqrt(np.mean(np.square(added))), rel=0.05)


@pytest.mark.parametrize("rest", [1e-3, 1e-12])
def test_a_class_of_which_no_object_is_expected_adds_little_to_a_step(rest):
    labels, model = objects()
    model.predicted = np.minimum(model.predicted, 1)
    labels[:, 2] = rest / len(labels)
    two = RecordedClassifier(np.arange(2), model.scores[:, :2], model.predicted)
    scorer = get_scorer("balanced_accuracy")
    found = CLASSES.closed_form(scorer, labels, model)  # a mean over three classes
    expected = CLASSES.closed_form(scorer, labels[:, :2], two)
    assert found.step == pytest.approx(2 / 3 * expected.step, rel=0.01)


def test_one_unit_has_no_error():
    assert np.isnan(ScoreOfUnits.of_mean(np.ones(1)).standard_error())


@pytest.mark.parametrize("name", ["f1_macro", "balanced_accuracy", "matthews_corrcoef"])
def test_a_weight_counts_as_copies_among_the_classes_that_the_metric_sees(name):
    labels, model = objects(n_classes=4)
    model.predicted = np.minimum(model.predicted, 2)
    weight = np.arange(40) % 4 + 1
    copies = np.repeat(np.arange(40), weight)
    repeated = RecordedClassifier(model.classes, model.scores[copies], model.predicted[copies])
    scorer, y = get_scorer(name), np.arange(3)  # the last class is neither a label nor predicted
    found = CLASSES.closed_form(scorer, labels, model, weight=weight, y=y)
    expected = CLASSES.closed_form(scorer, labels[copies], repeated, y=y)
    assert found.score == pytest.approx(expected.score)
    assert found.step == pytest.approx(expected.step)
    of_copies = np.bincount(copies, expected.contributions)
    np.testing.assert_allclose(found.contributions, of_copies, atol=1e-12)
