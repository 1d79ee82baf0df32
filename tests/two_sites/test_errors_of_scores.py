"""Errors of scores on rows, and of differences: by hand, in any order, at all doors alike."""

import numpy as np
import pytest
from helpers.calibration import calibration
from scipy.stats import norm, t
from sklearn.datasets import load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import balanced_accuracy_score, get_scorer, make_scorer, r2_score
from sklearn.model_selection import KFold, RepeatedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier

from pa_select import PASearchCV, expected_score
from pa_select.scores.precomputed import RecordedClassifier, RecordedRegressor
from pa_select.two_sites.classification import Classification
from pa_select.two_sites.regression import Regression
from pa_select.two_sites.score_of_units import (
    LabelledRows,
    accuracy_interval,
    error_of_rate,
    error_of_score,
    normal_p_value,
    scored_rows,
    student_factor,
)

CLASSES, NUMBERS = Classification(), Regression()
METRICS = ["accuracy", "balanced_accuracy", "f1_macro", "neg_log_loss", "roc_auc_ovr"]
X, Y = load_wine(return_X_y=True)
X = ((X - X.mean(0)) / X.std(0))[:, :4] + np.random.default_rng(3).normal(size=(178, 4))
ORDER = np.random.default_rng(0).permutation(178)
X, Y = X[ORDER], Y[ORDER]
A, B = X[120:], X[120:] + np.random.default_rng(1).normal(0, 0.7, (58, 4))
PAIRED = pytest.mark.filterwarnings("ignore:(paired|X_a).*:UserWarning")


def rows_of(model, X, y, splits):
    """The labelled rows, and what models fitted to the splits predict for them."""
    outputs = [RecordedClassifier.of(model.fit(X[a], y[a]), X[b]) for a, b in splits]
    return LabelledRows(y, [test for _, test in splits]), outputs


def test_each_row_of_a_mean_counts_once_however_often_it_is_tested():
    model, splits = KNeighborsClassifier(3), list(RepeatedKFold(random_state=0).split(X))
    labelled, outputs = rows_of(model, X, Y, splits)
    right = np.zeros(178)
    for (_, test), output in zip(splits, outputs, strict=True):
        right[test] += (output.predicted == Y[test]) / 10
    found = scored_rows(CLASSES, get_scorer("accuracy"), labelled, outputs)
    assert found.score == pytest.approx(right.mean())
    # Folds have 35 or 36 rows, and each fold counts as much.
    assert found.standard_error() == pytest.approx(right.std(ddof=1) / np.sqrt(178), rel=1e-3)
    error = error_of_score(CLASSES, get_scorer("accuracy"), right.mean(), labelled, outputs)
    assert error == pytest.approx(float(error_of_rate(right.mean(), 178)), rel=1e-3)


def test_splits_of_few_rows_have_the_error_of_a_mean_of_means():
    sizes, classes = np.array([10, 150]), np.array([0, 1])
    y = np.zeros(160, dtype=int)
    outputs = [
        RecordedClassifier(classes, np.zeros((n, 2)), np.repeat([0, 1], [n - n // 5, n // 5]))
        for n in sizes
    ]
    labelled = LabelledRows(y, [np.arange(10), np.arange(10, 160)])
    # The mean of two rates of 0.8 varies as much as that of so many rows.
    n = 4 / np.sum(1 / sizes)
    assert labelled.n_independent == pytest.approx(n)
    accuracy = get_scorer("accuracy")
    error = error_of_score(CLASSES, accuracy, 0.8, labelled, outputs)
    assert error == pytest.approx(float(error_of_rate(0.8, n)))
    of_means = np.sqrt(np.sum(0.8 * 0.2 / sizes)) / 2
    found = scored_rows(CLASSES, accuracy, labelled, outputs)
    assert found.standard_error() == pytest.approx(of_means, rel=0.01)


def test_an_accuracy_and_balanced_classes_have_the_error_of_a_rate():
    y = np.arange(60) % 3
    wrong = np.arange(60) < 6  # two of each class
    model = RecordedClassifier(np.arange(3), np.eye(3)[y], np.where(wrong, (y + 1) % 3, y))
    labelled = LabelledRows(y, [np.arange(60)])
    by_rate = float(error_of_rate(0.9, 60))
    for scorer in (get_scorer("accuracy"), get_scorer("balanced_accuracy")):
        # The classes have equal shares, so both metrics are the same share of the rows.
        error = error_of_score(CLASSES, scorer, 0.9, labelled, [model])
        assert error == pytest.approx(by_rate, rel=0.02)
    plain = make_scorer(lambda y, predicted: np.mean(y == predicted))  # leaves parts out
    assert error_of_score(CLASSES, plain, 0.9, labelled, [model]) == pytest.approx(
        by_rate, rel=0.1
    )


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "f1_macro"])
def test_rows_without_an_error_still_have_one(metric):
    y = np.arange(30) % 3
    model = RecordedClassifier(np.arange(3), np.eye(3)[y], y)
    labelled = LabelledRows(y, [np.arange(30)])
    error = error_of_score(CLASSES, get_scorer(metric), 1.0, labelled, [model])
    assert 0.02 < error < 0.08


def test_heavy_tails_widen_the_error_as_students_t_does():
    rng = np.random.default_rng(0)
    terms = np.abs(rng.standard_t(2, size=50))
    y, model = np.zeros(50), RecordedRegressor(terms)
    labelled, scorer = LabelledRows(y, [np.arange(50)]), get_scorer("neg_mean_absolute_error")
    away = terms - terms.mean()
    kurtosis = np.mean(away**4) / np.mean(away**2) ** 2
    factor = t.ppf(0.975, 100 / (kurtosis - 1)) / norm.ppf(0.975)
    assert factor > 1.1
    found = error_of_score(NUMBERS, scorer, -terms.mean(), labelled, [model])
    assert found == pytest.approx(factor * terms.std(ddof=1) / np.sqrt(50))
    normal = student_factor(norm.ppf((np.arange(1000) + 0.5) / 1000))
    assert normal == pytest.approx(1, abs=2e-3)
    assert student_factor(np.zeros(10)) == 1


OF_NUMBERS = ["neg_mean_absolute_error", "neg_root_mean_squared_error", "r2"]


@pytest.mark.parametrize("metric", [*METRICS, "neg_brier_score", *OF_NUMBERS])
def test_the_error_of_weighted_rows_is_that_of_repeated_ones(metric):
    # The copies of a row are a group; parts of equal weight are parts of equal numbers of copies.
    rng, scorer = np.random.default_rng(5), get_scorer(metric)
    task, model, y = CLASSES, LogisticRegression(), Y
    if metric in OF_NUMBERS:
        task, model, y = NUMBERS, Ridge(), X[:, 0] + rng.normal(size=178)
    rows = [np.arange(60, 120), np.arange(120, 178)]
    fitted = model.fit(X[:60], y[:60])
    record = RecordedRegressor.of if task is NUMBERS else RecordedClassifier.of
    weight = rng.choice([1, 9], 178, p=[0.9, 0.1])
    copies = [np.repeat(test, weight[test]) for test in rows]
    every = np.concatenate(copies)
    places = np.split(np.arange(len(every)), [len(copies[0])])
    weighted = LabelledRows(y, rows, score_weight=weight.astype(float))
    repeated = LabelledRows(y[every], places, groups=every)
    found = scored_rows(task, scorer, weighted, [record(fitted, X[test]) for test in rows])
    expected = scored_rows(task, scorer, repeated, [record(fitted, X[test]) for test in copies])
    outputs = [record(fitted, X[test]) for test in rows]
    equal = weighted._replace(score_weight=None)
    plain = scored_rows(task, scorer, equal, outputs)
    error = expected.standard_error()
    assert found.standard_error() == pytest.approx(error, rel=0.05)
    assert plain.standard_error() != pytest.approx(error, rel=0.1)


def test_the_interval_of_an_accuracy_counts_weighted_rows_as_fewer():
    weight = np.where(np.arange(160) < 10, 50.0, 1.0)
    model = RecordedClassifier(np.array([0, 1]), np.zeros((160, 2)), np.arange(160) % 5 // 4)
    labelled = LabelledRows(np.zeros(160, dtype=int), [np.arange(160)], score_weight=weight)
    n = weight.sum() ** 2 / np.sum(weight**2)
    assert n < 20
    pairs = [[model], [model]]  # whose predictions are the same
    found = CLASSES.interval(get_scorer("accuracy"), 0.8, labelled, lambda: [model], *pairs)
    assert found == pytest.approx(accuracy_interval(0.8, n, 0.0, 160))
    equal = labelled._replace(score_weight=np.full(160, 3.0))
    assert equal.n_effective == pytest.approx(labelled.n)
    # Of as many groups as rows, all of one weight each, the number is about the same.
    alone = labelled._replace(groups=np.arange(160))
    of_groups = CLASSES.interval(get_scorer("accuracy"), 0.8, alone, lambda: [model], *pairs)
    assert of_groups[0] < accuracy_interval(0.8, 25, 0.0, 160)[0]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.filterwarnings("ignore:cv tests no row")
def test_a_search_without_pairs_has_the_error_of_its_rows(metric):
    splits = list(KFold(5).split(X))
    with_views = PASearchCV(LogisticRegression(), {"C": [1.0]}, cv=splits, scoring=metric)
    table = with_views.fit(X, Y, views=0.9 * X).cv_results_
    labelled, outputs = rows_of(LogisticRegression(), X, Y, splits)
    scorer, score = get_scorer(metric), table["mean_test_score"][0]
    by_hand = error_of_score(CLASSES, scorer, score, labelled, outputs)
    assert table["se_test_score"][0] == pytest.approx(by_hand)
    outputs = [
        RecordedClassifier.of(LogisticRegression().fit(X[a], Y[a]), 0.9 * X[b]) for a, b in splits
    ]
    on_views = error_of_score(
        CLASSES, scorer, table["mean_test_score_views"][0], labelled, outputs
    )
    assert table["se_test_score_views"][0] == pytest.approx(on_views)
    halves = PASearchCV(LogisticRegression(), {"C": [1.0]}, cv=splits, scoring=metric)
    of_halves = halves.set_params(pairing="split-half").fit(X, Y).cv_results_["se_test_score"][0]
    # Two models test each row, which count once.
    assert of_halves == pytest.approx(table["se_test_score"][0], rel=0.3)


@PAIRED
@pytest.mark.parametrize("metric", ["accuracy", "f1_macro", "neg_log_loss"])
def test_rows_of_weight_0_are_left_out_and_equal_weights_are_none(metric):
    splits, weight = list(KFold(3).split(X[:120])), np.where(np.arange(120) % 3, 1.0, 0.0)
    kept = np.flatnonzero(weight)
    place = np.cumsum(weight).astype(int) - 1
    of_kept = [[place[rows[weight[rows] > 0]] for rows in split] for split in splits]
    columns = ["se_test_score", "expected_score", "expected_score_se"]

    def found(rows, cv, **weights):
        search = PASearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=cv, scoring=metric)
        search.fit(X[rows], Y[rows], paired=(A, B), **weights)
        return [search.cv_results_[column] for column in columns]

    every = found(np.arange(120), splits)
    equal = found(np.arange(120), splits, sample_weight=np.full(120, 1.0))
    np.testing.assert_allclose(equal, every, rtol=1e-6)
    alone, weighted = found(kept, of_kept), found(np.arange(120), splits, sample_weight=weight)
    np.testing.assert_allclose(weighted, alone, rtol=0.01)


@pytest.mark.filterwarnings("ignore:cv tests no row")
def test_scores_that_recorded_predictions_do_not_give_have_the_error_of_the_folds():
    def of_rows(model, X, y):  # looks at the rows
        return balanced_accuracy_score(y, model.predict(X)) + 0.1 * np.mean(X[:, 0] > 0)

    search = PASearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, scoring=of_rows, cv=5)
    table = search.fit(X, Y, views=0.9 * X).cv_results_
    folds = np.array([table[f"split{i}_test_score"] for i in range(5)])
    np.testing.assert_allclose(table["se_test_score"], folds.std(0, ddof=1) / np.sqrt(5))


@pytest.mark.filterwarnings("ignore:cv tests no row")
def test_groups_have_the_error_of_groups():
    groups = np.repeat(np.arange(60), 3)[:178]
    copies = X[::3][groups % 60], Y[::3][groups % 60]  # three equal rows in each group
    model = {"estimator": LogisticRegression(), "param_grid": {"C": [1.0]}, "cv": 3}
    for scoring in ("accuracy", "neg_log_loss"):
        alone = PASearchCV(**model, scoring=scoring).fit(copies[0][::3], copies[1][::3])
        many = PASearchCV(**model, scoring=scoring).fit(*copies)
        grouped = PASearchCV(**model, scoring=scoring).fit(*copies, groups=groups)
        errors = [s.cv_results_["se_test_score"][0] for s in (many, alone, grouped)]
        assert errors[0] < 0.75 * errors[2]
        assert errors[2] == pytest.approx(errors[1], rel=0.4)


@PAIRED
def test_r2_is_that_of_all_rows_together():
    X, y = load_diabetes(return_X_y=True)
    a, b = X[60:160], X[60:160] + np.random.default_rng(0).normal(0, 0.01, (100, 10))
    search = PASearchCV(Ridge(), {"alpha": [0.1]}, scoring="r2", cv=5)
    search.fit(X[:60], y[:60], paired=(a, b))
    predicted = cross_val_predict(Ridge(alpha=0.1), X[:60], y[:60], cv=KFold(5))
    pooled = r2_score(y[:60], predicted)
    table = search.cv_results_
    assert table["mean_test_score"][0] < pooled - 0.02
    models = [Ridge(alpha=0.1).fit(X[i], y[i]) for i, _ in KFold(5).split(X[:60])]
    slope, offset = np.polyfit(predicted, y[:60], 1)
    residuals = y[:60] - slope * predicted - offset
    changes = []
    for model in models:
        targets = offset + slope * model.predict(a)[:, None] + residuals
        spread = np.mean((targets - targets.mean()) ** 2)
        before, after = (np.mean((targets - model.predict(Z)[:, None]) ** 2) for Z in (a, b))
        changes.append((before - after) / spread)
    assert search.expected_score_ == pytest.approx(pooled + np.mean(changes), abs=0.01)
    labelled = LabelledRows(y, [test for _, test in KFold(5).split(X[:60])])
    outputs = [RecordedRegressor(m.predict(X[r])) for m, r in zip(models, labelled.rows)]  # noqa: B905
    error = error_of_score(NUMBERS, get_scorer("r2"), pooled, labelled, outputs)
    assert table["se_test_score"][0] == pytest.approx(error)


def differences_by_hand(models, splits, labels):
    """The error of the difference of two expected accuracies, with two units in each part."""
    right = np.zeros((2, 120))
    for c, of_model in enumerate(models):
        for (_, test), model in zip(splits, of_model, strict=True):
            right[c, test] = model.predict(X[test]) == Y[test]
    changes = np.zeros((2, 58))
    for c, of_model in enumerate(models):
        for posterior, model in zip(labels, of_model, strict=True):
            at_a, at_b = model.predict(A), model.predict(B)
            changes[c] += (posterior[np.arange(58), at_b] - posterior[np.arange(58), at_a]) / 5
    squares = 0.0
    for terms in (right[0] - right[1], changes[0] - changes[1]):
        # Half of a unit in favour of each model, twice.
        with_two = np.sum(terms**2) + 1, len(terms) + 2
        mean = terms.sum() / with_two[1]
        squares += (with_two[0] / with_two[1] - mean**2) / with_two[1]
    return np.sqrt(squares)


@PAIRED
def test_the_error_of_a_difference_is_that_of_both_differences_of_rows():
    # Of the two only the second one comes near the best score: its posteriors are used.
    grid, splits = {"C": [1e-6, 1.0]}, list(KFold(5).split(X[:120]))
    search = PASearchCV(LogisticRegression(), grid, cv=splits)
    search.fit(X[:120], Y[:120], paired=(A, B))
    models = [
        [LogisticRegression(C=C).fit(X[train], Y[train]) for train, _ in splits] for C in grid["C"]
    ]
    tests = [test for _, test in splits]
    scores = [m.decision_function(X[rows]) for m, rows in zip(models[1], tests, strict=True)]
    calibrate = calibration(np.concatenate(scores), Y[np.concatenate(tests)])
    posteriors = [calibrate(m.decision_function(A)) for m in models[1]]
    error = differences_by_hand(models, splits, posteriors)
    found, table = search.compare(0, 1), search.cv_results_
    assert found.standard_error == pytest.approx(error, rel=1e-4)
    assert found.difference == pytest.approx(np.subtract(*table["expected_score"]))
    assert found.p_value == pytest.approx(2 * norm.sf(abs(found.difference) / error), rel=1e-3)
    other = search.compare(1, 0)
    assert other.standard_error == pytest.approx(found.standard_error)
    assert other.difference == pytest.approx(-found.difference)
    assert search.compare(1, 1)[:4] == (0, 0, 1, 1)
    # It is smaller than both errors suggest, and so more candidates are told apart.
    assert error < 0.8 * np.hypot(*table["expected_score_se"])


@PAIRED
@pytest.mark.parametrize("metric", METRICS)
def test_trained_models_have_the_scores_and_errors_of_a_search(metric):
    train, labelled = np.arange(60), np.arange(60, 120)
    grid = [1e-3, 0.1, 1.0]
    models = [LogisticRegression(C=C).fit(X[train], Y[train]) for C in grid]
    trained = list(expected_score(models, A, B, X[labelled], Y[labelled], scoring=metric).values())
    search = PASearchCV(
        LogisticRegression(), {"C": grid}, cv=[(train, labelled)], scoring=metric
    ).fit(X[:120], Y[:120], paired=(A, B))
    table = search.cv_results_
    for name, column in (("score", "expected_score"), ("standard_error", "expected_score_se")):
        np.testing.assert_allclose([getattr(one, name) for one in trained], table[column])
    best = int(np.argmax([one.score for one in trained]))
    for c, one in enumerate(trained):
        found = search.compare(best, c)
        assert found.standard_error == pytest.approx(one.difference_standard_error, abs=1e-9)
    assert trained[best].difference_standard_error == 0
    single = expected_score(models[0], A, B, X[labelled], Y[labelled], scoring=metric)
    assert single.difference_standard_error == 0
    both = np.hypot(table["se_test_score"][0], single.change_standard_error)
    assert single.standard_error == pytest.approx(both)


@PAIRED
def test_candidates_are_compared_at_each_site():
    grid = {"C": [1e-3, 1.0]}
    sites = {"near": (A, 0.99 * A), "far": (A, B)}
    search = PASearchCV(LogisticRegression(), grid).fit(X[:120], Y[:120], paired=sites)
    for name, pair in sites.items():
        alone = PASearchCV(LogisticRegression(), grid).fit(X[:120], Y[:120], paired=pair)
        np.testing.assert_allclose(
            search.compare(0, 1, site=name)[:2], alone.compare(0, 1)[:2], rtol=1e-9
        )


@PAIRED
def test_metrics_without_a_formula_count_as_independent():
    scorer = make_scorer(
        lambda y, predicted, sample_weight=None: np.average(y == predicted, weights=sample_weight)
    )
    search = PASearchCV(LogisticRegression(), {"C": [1e-3, 1.0]}, scoring=scorer)
    table = search.fit(X[:120], Y[:120], paired=(A, B)).cv_results_
    errors = np.hypot(table["se_test_score"], table["expected_score_se_pairs"])
    assert search.compare(0, 1).standard_error == pytest.approx(np.hypot(*errors))


def test_p_values_of_differences():
    assert normal_p_value(1.96, 1.0) == pytest.approx(0.05, abs=1e-3)
    assert normal_p_value(0.0, 0.0) == 1
    assert normal_p_value(0.1, 0.0) == 0
    assert np.isnan(normal_p_value(0.1, np.nan))
    assert np.isnan(normal_p_value(np.nan, 0.1))
