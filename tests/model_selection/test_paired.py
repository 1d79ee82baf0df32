"""Searches with objects measured twice: against refitting by hand, and bad input."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from helpers.calibration import calibration, error_of_change
from scipy.sparse import csr_matrix
from scipy.sparse import random as random_sparse
from scipy.stats import norm
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import make_scorer
from sklearn.model_selection import FixedThresholdClassifier, GroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline

from pa_select import PASearchCV, expected_score, expected_scorer
from pa_select.model_selection import GuardedSelection
from pa_select.two_sites import SiteAdapter
from pa_select.two_sites.paired_rows import warn_of_known_rows

GRID = {"C": [1e-4, 1e-2, 1.0]}
pytestmark = pytest.mark.filterwarnings("ignore:The chosen candidate may")


def problem(n_pairs=60, n_classes=3, noise=0.7, seed=0):
    X, y = make_classification(
        400, 6, n_informative=4, n_redundant=0, n_classes=n_classes, random_state=seed
    )
    rng = np.random.default_rng(seed)
    a, X = X[:n_pairs], X[n_pairs:]
    return X, y[n_pairs:], a, a + noise * rng.normal(size=a.shape), y[:n_pairs]


X, y, a, b, labels = problem()
FITTED = LogisticRegression().fit(X, y)


def searched(paired, X, y, grid=GRID, **params):
    """A fitted search of logistic regressions."""
    return PASearchCV(LogisticRegression(), grid, **params).fit(X, y, paired=paired)


def models_by_hand(X, y, **params):
    """The models of five folds, and their test rows."""
    folds = list(StratifiedKFold(5).split(X, y))
    models = [LogisticRegression(**params).fit(X[train], y[train]) for train, _ in folds]
    return models, [test for _, test in folds]


def calibration_by_hand(models, tests, X, y):
    scores = [m.decision_function(X[test]) for m, test in zip(models, tests, strict=True)]
    return calibration(np.concatenate(scores), y[np.concatenate(tests)])


def gain_of(q, model, a, b):
    """The probability that each prediction for b is right, less that for a."""
    return q[rows_of(a), model.predict(b)] - q[rows_of(a), model.predict(a)]


def rows_of(values):
    return np.arange(len(values))


def test_columns_are_those_of_refitting_by_hand():
    # A single candidate is the whole ensemble, and its own posteriors stand in for the labels.
    for C in GRID["C"]:
        search = searched((a, b), X, y, {"C": [C]})
        table, c = search.cv_results_, 0
        assert search.pairing_ == "paired"
        models, tests = models_by_hand(X, y, C=C)
        calibrate = calibration_by_hand(models, tests, X, y)
        gains, differ = [], []
        for model in models:
            q = calibrate(model.decision_function(a))
            gains.append(gain_of(q, model, a, b))
            differ.append(model.predict(a) != model.predict(b))
        accuracy = table["mean_test_score"][c]
        assert table["expected_score"][c] == pytest.approx(accuracy + np.mean(gains), abs=1e-5)
        error = error_of_change(np.mean(gains, axis=0))
        total = np.hypot(error, table["se_test_score"][c])
        assert table["expected_score_se"][c] == pytest.approx(total, rel=1e-4)
        assert table["expected_score_se_pairs"][c] == pytest.approx(error, rel=1e-4)
        assert table["disagreement"][c] == pytest.approx(np.mean(differ))
        assert table["expected_score_low"][c] < accuracy - np.mean(differ)
        assert table["expected_score_high"][c] <= 1
    search = searched((a, b), X, y)
    table, best = search.cv_results_, search.best_index_
    assert best == table["expected_score"].argmax()
    assert search.decides_ == "expected_score"
    assert search.expected_score_ == table["expected_score"][best]
    assert search.expected_score_se_ == table["expected_score_se"][best]
    limits = table["expected_score_low"][best], table["expected_score_high"][best]
    assert search.expected_interval_ == limits
    assert search.best_adapted_ is search.best_estimator_
    assert search.n_objects_ == 60
    assert "adapted" not in table


def test_two_candidates_are_compared_by_their_expected_scores():
    search = searched((a, b), X, y, {"C": [1e-6, 1e-4, 0.1, 1, 100]})
    value, best = search.cv_results_["expected_score"], search.best_index_
    for c in range(5):
        found = search.compare(best, c)
        assert found.difference == pytest.approx(value[best] - value[c])
        z = found.difference / found.standard_error if c != best else 0
        assert found.p_value == found.p_adjusted == pytest.approx(2 * norm.sf(abs(z)))
    by_agreement = searched((a, b), X, y, refit="agreement")
    agreement = by_agreement.cv_results_["agreement"]
    assert by_agreement.compare(0, 2).difference == pytest.approx(agreement[0] - agreement[2])


def test_a_search_plans_pairs():
    sites = {"far": (a, b), "near": (a[:30], a[:30] + 0.01 * (b - a)[:30])}
    for paired, n in (((a, b), len(a)), (sites, len(a))):
        search = searched(paired, X, y)
        table, best = search.cv_results_, search.best_index_
        planned = search.plan_pairs([n, 2 * n + 2, 10**9])
        of_pairs = table["expected_score_se_pairs"][best]
        stays = search.expected_score_se_**2 - of_pairs**2
        assert planned[n] == pytest.approx(search.expected_score_se_)
        assert planned[2 * n + 2] == pytest.approx(np.sqrt(stays + of_pairs**2 / 2))
        assert planned[10**9] == pytest.approx(np.sqrt(stays), rel=1e-5)
    with pytest.raises(ValueError, match=r"n_pairs: expected a list .* got \[1\]"):
        search.plan_pairs([1])
    without = PASearchCV(search.estimator, GRID, cv=2).fit(X, y, views=X + 1)
    with pytest.raises(ValueError, match=r"paired=...\), got 0 pairs"):
        without.plan_pairs()


@pytest.mark.filterwarnings("ignore:paired.*expected row i of both")  # they look swapped
def test_an_adapter_is_used_where_it_helps():
    rng = np.random.default_rng(1)
    turned = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    b = 2 * a @ turned + 3
    search = PASearchCV(LogisticRegression(), GRID, adapter="ridge")
    search.fit(X, y, paired={"turned": (a, b), "same": (a, a + 1e-6)})
    table = search.cv_results_
    assert table["adapted_turned"].all()
    assert not table["adapted_same"].any()
    plain = searched({"turned": (a, b)}, X, y).cv_results_
    assert (table["expected_score_turned"] > plain["expected_score_turned"]).all()
    assert isinstance(search.best_adapted_["turned"][0], SiteAdapter)
    assert search.best_adapted_["same"] is search.best_estimator_
    adapted, plain = search.best_adapted_["turned"], search.best_estimator_
    assert adapted.score(b, labels) > plain.score(b, labels) + 0.2
    # The rows of each pair are mapped by an adapter that has not seen the pair: rows that say
    # nothing gain nothing, although they have as many columns as pairs.
    wide = rng.normal(size=(60, 6))
    nothing = PASearchCV(LogisticRegression(), GRID, adapter=Ridge(1e-3))
    nothing.fit(X, y, paired=(a, wide))
    assert nothing.expected_score_ < 0.5


def test_the_worst_of_several_sites_decides():
    far = a + 3 * np.random.default_rng(2).normal(size=a.shape)
    search = PASearchCV(LogisticRegression(), GRID).fit(
        X, y, paired={"near": (a, b), "far": (a, far)}
    )
    table = search.cv_results_
    both = np.stack([table["expected_score_near"], table["expected_score_far"]])
    assert np.array_equal(table["expected_score"], both.min(0))
    assert np.array_equal(table["worst_site"], np.array(["near", "far"])[both.argmin(0)])
    one = searched((a, far), X, y)
    assert np.allclose(one.cv_results_["expected_score"], table["expected_score_far"])


def test_the_ensemble_is_calibrated_again():
    X, y, a, b, _ = problem(n_pairs=200)
    # These two candidates are within two standard errors of each other.
    grid = {"C": [0.5, 1.0]}
    found = searched((a, b), X, y, grid)
    of_test, of_pairs = [], []
    for C in grid["C"]:
        models, tests = models_by_hand(X, y, C=C)
        calibrate = calibration_by_hand(models, tests, X, y)
        of_test.append(
            [calibrate(m.decision_function(X[t])) for m, t in zip(models, tests, strict=True)]
        )
        of_pairs.append([calibrate(m.decision_function(a)) for m in models])
    log_means = np.log(np.concatenate([np.mean(p, axis=0) for p in zip(*of_test, strict=True)]))
    again = calibration(log_means, y[np.concatenate(tests)])
    q = [again(np.log(np.mean(p, axis=0))) for p in zip(*of_pairs, strict=True)]
    change = np.mean([gain_of(p, m, a, b) for p, m in zip(q, models, strict=True)])
    table = found.cv_results_
    total = table["mean_test_score"][1] + change
    assert table["expected_score"][1] == pytest.approx(total, abs=1e-4)


@pytest.mark.filterwarnings("ignore:No candidate predicts another class:UserWarning")
def test_the_threshold_of_a_classifier_counts():
    X, y, a, b, _ = problem(n_classes=2)
    never = FixedThresholdClassifier(LogisticRegression(), threshold=1.0)
    search = PASearchCV(never, {"estimator__C": [1.0]}).fit(X, y, paired=(a, b))
    assert search.cv_results_["disagreement"][0] == 0
    assert search.expected_score_ == pytest.approx(1 - y.mean(), abs=0.15)


def test_constant_and_failing_candidates():
    with pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="non-finite"):
        search = searched((a, b), X, y, {"C": [1.0, -1.0]})
    assert np.isnan(search.cv_results_["expected_score"][1])
    assert not search.cv_results_["eligible"][1]
    # a constant classifier is expected to be right as often as its class occurs.
    constant = PASearchCV(DummyClassifier(strategy="most_frequent"), {}, cv=5)
    with pytest.warns(UserWarning, match="No candidate predicts another class"):
        constant.fit(X, y, paired=(a, b))
    assert constant.expected_score_ == pytest.approx(np.mean(y == 0), abs=0.05)


@pytest.mark.parametrize("scoring", ["roc_auc", "average_precision", "neg_log_loss"])
def test_metrics_of_scores_tell_candidates_apart_that_predict_equal_classes(scoring):
    rng = np.random.default_rng(1)
    y = (rng.random(600) < 0.04).astype(int)
    X = np.column_stack([2 * y + rng.normal(size=600), rng.normal(size=600)])
    there = 0.5 * X + rng.normal(size=X.shape) * [0.8, 0]
    search = PASearchCV(LogisticRegression(), {"C": [5e-4, 1e-3]}, scoring=scoring)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "No candidate predicts another class")
        search.fit(X[:400], y[:400], paired=(X[400:], there[400:]))
    assert not search.cv_results_["disagreement"].any()
    assert np.ptp(search.cv_results_["expected_score"]) > 0


def test_an_adapter_may_undo_the_difference():
    for adapter in ("ridge", None):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "No candidate predicts another class")
            table = searched((a, 3 - 2 * a), X, y, {"C": [1.0, 2.0]}, adapter=adapter).cv_results_
        assert ("adapted" in table and table["adapted"].all()) == (adapter == "ridge")
        assert ((table["disagreement"] > 0) == (adapter is None)).all()


def unlucky(y, predicted, sample_weight=None):
    """A metric that fails where labels are uncertain."""
    if sample_weight is not None and len(np.unique(sample_weight)) > 1:
        raise ValueError("no luck")
    return float(np.mean(y == predicted))


def test_a_metric_that_fails_costs_no_fits():
    scoring = {"accuracy": "accuracy", "unlucky": make_scorer(unlucky)}
    params = {"scoring": scoring, "refit": "accuracy"}
    with pytest.warns(UserWarning, match="3 expected scores could not be computed and are nan"):
        search = searched((a, b), X, y, **params)
    assert np.isfinite(search.cv_results_["mean_test_unlucky"]).all()
    assert np.isnan(search.cv_results_["expected_unlucky"]).all()
    assert search.expected_score_ == searched((a, b), X, y).expected_score_
    with pytest.raises(ValueError, match="no luck"):
        searched((a, b), X, y, error_score="raise", **params)
    # A later fit without pairs leaves nothing of them.
    plain = searched((a, b), X, y).set_params(cv=2).fit(X, y)
    assert not hasattr(plain, "expected_score_")
    assert not hasattr(plain, "best_adapted_")


def test_frames_are_aligned_by_their_index():
    plain = searched((a, b), X, y)
    names = [f"x{i}" for i in range(6)]
    index = [f"object {i}" for i in range(60)]
    first, second = (pd.DataFrame(rows, index=index, columns=names) for rows in (a, b))
    frames = PASearchCV(LogisticRegression(), GRID, adapter="ridge")
    frames.fit(pd.DataFrame(X, columns=names), y, paired=(first, second.iloc[::-1]))
    without = ~frames.cv_results_["adapted"]
    assert without.any()
    assert np.allclose(
        frames.cv_results_["expected_score"][without], plain.cv_results_["expected_score"][without]
    )


@pytest.mark.usefixtures("no_fit")
@pytest.mark.parametrize(
    ("paired", "error", "message"),
    [
        (a, TypeError, r"paired: expected the rows of the same objects.*ndarray"),
        ({"se": (a, b)}, ValueError, "paired: expected names of sites without the words"),
        ({"s": a}, TypeError, r"paired\['s'\]: expected the rows"),
        ((a, b[:-1]), ValueError, r"paired\[1\]: expected the 60 objects"),
        ((a, b[:, 1:]), ValueError, r"paired\[1\]: expected rows of shape"),
        ((a, a.copy()), ValueError, "got the same values"),
        ((pd.DataFrame(a), pd.DataFrame(b, index=np.arange(60) + 100)), ValueError,
         r"a row for each index of paired\[0\]"),
        ((pd.DataFrame(a), pd.DataFrame(b)[[1, 0, 2, 3, 4, 5]]), ValueError,
         r"paired\[1\]: expected the columns of paired\[0\] in their order"),
    ],
)  # fmt: skip
def test_bad_pairs_are_named_before_any_fit(paired, error, message):
    with pytest.raises(error, match=message):
        PASearchCV(LogisticRegression(), GRID).fit(X, y, paired=paired)


@pytest.mark.usefixtures("no_fit")
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"adapter": 3}, "adapter: expected None, 'ridge'"),
        ({"scoring": make_scorer(lambda y, p: 0.5)}, "scoring: .* whose metric takes sample wei"),
        ({"estimator": make_pipeline(SiteAdapter(), LogisticRegression()), "param_grid": {}},
         "estimator: .* begins with a SiteAdapter.*adapter='ridge'"),
    ],
)  # fmt: skip
def test_bad_parameters_are_named_before_any_fit(params, message):
    with pytest.raises((TypeError, ValueError), match=message):
        PASearchCV(LogisticRegression(), GRID).set_params(**params).fit(X, y, paired=(a, b))


@pytest.mark.usefixtures("no_fit")
@pytest.mark.parametrize("scoring", ["roc_auc_ovo", "roc_auc_ovo_weighted"])
def test_a_metric_without_weights_is_refused_by_each_door(scoring):
    labels = np.arange(len(X)) % 3
    labels, search = np.arange(len(X)) % 3, PASearchCV(LogisticRegression(), {}, scoring=scoring)
    for door in (
        lambda: search.fit(X, labels, paired=(a, b)),
        lambda: expected_scorer(a, b, scoring=scoring),
        lambda: expected_score(FITTED, a, b, X, labels, scoring=scoring),
    ):
        with pytest.raises(TypeError, match="scoring: expected a scorer .* 'roc_auc_ovr'"):
            door()


@pytest.mark.filterwarnings("ignore:paired:UserWarning")  # several at once
@pytest.mark.parametrize(
    ("paired", "message"),
    [
        ((a[:10], b[:10]), r"paired\[0\] and paired\[1\]: expected at least 20 pair"),
        ((a, 5 * np.random.default_rng(0).normal(size=a.shape)), "The chosen candidate may be no"),
        ((X[:60], X[:60] + 0.1), r"paired\[0\]: .* not among the rows of X, got 60 of 60"),
    ],
)  # fmt: skip
def test_warnings_that_save_people(paired, message):
    search = PASearchCV(LogisticRegression(), {"C": [1.0]})
    with pytest.warns(UserWarning, match=message):
        search.fit(X, y, paired=paired)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.fit(X, y, paired=(a, a + 0.01))


def test_tables_whose_rows_repeat_may_have_the_pairs_rows_too():
    rng = np.random.default_rng(0)
    X, a = rng.integers(0, 3, (200, 3)), rng.integers(0, 3, (60, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_known_rows(a, X, "paired[0]")
    known = rng.normal(size=(200, 3))
    some = np.r_[known[:6], a[6:]]
    zeros = known * [1, 1, 0]  # 0 and -0 are the same number
    for rows, among in [
        (some, known),
        (csr_matrix(some), csr_matrix(known)),
        (pd.DataFrame(some), pd.DataFrame(known)),
        (np.r_[zeros[:6], a[6:]], zeros * [1, 1, -1]),
        (np.where(some == some[0, 0], np.nan, some), np.where(known == some[0, 0], np.nan, known)),
    ]:
        with pytest.warns(UserWarning, match="got 6 of 60 that are"):
            warn_of_known_rows(rows, among, "paired[0]")


def test_many_sparse_rows_are_not_read_into_memory_at_once():
    X = random_sparse(100_000, 400, density=0.005, format="csr", random_state=0)
    tracemalloc.start()
    warn_of_known_rows(X[:100] * 2, X, "paired[0]")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6  # dense rows have 320 MB


def test_rows_of_one_group_count_once_in_the_interval():
    alone, repeated = np.arange(len(y)), np.repeat(np.arange(len(y)), 4)

    def width(rows, groups):
        folds = list(GroupKFold(5).split(rows, groups=rows))
        search = PASearchCV(LogisticRegression(), {"C": [1.0]}, cv=folds)
        low, high = search.fit(X[rows], y[rows], paired=(a, b), groups=groups).expected_interval_
        return high - low

    assert width(repeated, repeated) == pytest.approx(width(alone, None), abs=0.01)
    assert width(repeated, None) < width(repeated, repeated) - 0.01


@pytest.mark.filterwarnings("ignore:paired.*expected rows like the labelled:UserWarning")
def test_other_rules_and_weights():
    guarded = searched((a, b), X, y, refit=GuardedSelection(n_se=4))
    table = guarded.cv_results_
    eligible = np.flatnonzero(table["eligible"])
    assert guarded.best_index_ == eligible[table["agreement"][eligible].argmax()]
    by_score = searched((a, b), X, y, refit="score")
    assert by_score.best_index_ == table["mean_test_score"].argmax()
    # Integer weights of the labelled rows are repeated rows for the calibration.
    weight = np.random.default_rng(0).integers(1, 4, len(X))
    folds, rows = list(StratifiedKFold(5).split(X, y)), np.repeat(np.arange(len(X)), weight)
    search = PASearchCV(LogisticRegression(), {"C": [1.0]}, cv=folds)
    weighted = search.fit(X, y, paired=(a, b), sample_weight=weight).expected_score_
    repeated = [tuple(np.flatnonzero(np.isin(rows, part)) for part in fold) for fold in folds]
    plain = search.set_params(cv=repeated).fit(X[rows], y[rows], paired=(a, b)).expected_score_
    assert weighted == pytest.approx(plain, abs=1e-4)
