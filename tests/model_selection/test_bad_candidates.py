"""One candidate whose scores cannot be compared never costs the others their results."""

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import RadiusNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

from pa_select import PASearchCV, class_scores, posterior_agreement, robustness_curve
from pa_select.shifts import GaussianNoise
from pa_select.training import EpochSelector

X, Y = make_classification(120, 4, n_informative=3, n_redundant=0, n_classes=3,
                           n_clusters_per_class=1, random_state=0)  # fmt: skip
PAIRED = X[:40], X[:40] + 0.1 * np.cos(np.arange(40))[:, None]


def replaced(scores, row, values):
    scores = scores.copy()
    scores[row] = values
    return scores


BAD = {
    "a row of only -inf": lambda s: replaced(s, 1, -np.inf),
    "a row of nan": lambda s: replaced(s, 1, np.nan),
    "only nan": lambda s: np.full_like(s, np.nan),
    "inf": lambda s: replaced(s, (1, 1), np.inf),
    "beyond 1e100": lambda s: 1e101 * s,
    "below 1e-300": lambda s: 1e-309 * s,
    "a row below 1e-300": lambda s: replaced(s, 1, [1e-310, 0, 0]),
    "one row too few": lambda s: s[:-1],
    "one row too many": lambda s: np.vstack([s, s[:1]]),
    "one class too few": lambda s: s[:, :2],
    "one class too many": lambda s: np.hstack([s, s[:, :1]]),
    "complex numbers": lambda s: s + 1j,
    "texts": lambda s: s.astype(str),
}


class Candidate(ClassifierMixin, BaseEstimator):
    """A linear classifier whose scores may be spoilt; it predicts as well as the others."""

    def __init__(self, C=1.0, bad=None):
        self.C = C
        self.bad = bad

    def fit(self, X, y):
        self.linear_ = LogisticRegression(C=self.C).fit(X, y)
        self.classes_ = self.linear_.classes_
        return self

    def predict(self, X):
        return self.linear_.predict(X)

    def decision_function(self, X):
        scores = self.linear_.decision_function(X)
        return scores if self.bad is None else BAD[self.bad](scores)


GOOD = [{"C": [0.01]}, {"C": [1.0]}]
SEARCHES = {
    "repeated": {},
    "split-half": {"pairing": "split-half"},
    "environments": {"environments": np.arange(120) % 2},
    "views": {"views": 1.05 * X},
    "paired": {"paired": PAIRED},
}


def searched(grid, pairing="repeated", **fit):
    search = PASearchCV(Candidate(), grid, pairing=pairing, cv=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, Y, **fit)
    kinds = [w.category for w in caught if issubclass(w.category, RuntimeWarning)]
    assert not kinds
    return search, [str(w.message) for w in caught]


FEW = ["a row of only -inf", "one row too few", "below 1e-300"]


@pytest.mark.slow
@pytest.mark.parametrize("pairing", SEARCHES)
def test_a_search_keeps_the_results_of_the_others(pairing):
    alone, _ = searched(GOOD, **SEARCHES[pairing])
    bad = [*BAD] if pairing == "views" else FEW
    grid = [GOOD[0], {"C": [1.0], "bad": bad}, GOOD[1]]
    search, warned = searched(grid, **SEARCHES[pairing])
    table, others = search.cv_results_, [0, len(bad) + 1]
    assert any("Class scores or predictions could not be" in text for text in warned)
    for i, name in enumerate(bad, 1):
        assert not table["eligible"][i], name
        assert table["error"][i], name
        assert np.isnan(table["agreement"][i]), name
    # All candidates with a score share ranks and weights.
    apart = ("mean_fit", "std_fit", "mean_score", "std_score", "rank", "param", "weight")
    for name, values in alone.cv_results_.items():
        if not name.startswith(apart):
            found = table[name][others].tolist()
            assert values.tolist() == pytest.approx(found, nan_ok=True), name
    assert search.best_params_ == alone.best_params_


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("other", ["views", "paired"])
def test_a_search_of_which_no_candidate_has_scores_says_why(other):
    missing = np.where(np.arange(4) == 0, np.nan, X)
    rows = {"views": missing, "paired": (X, missing)}
    search = PASearchCV(LogisticRegression(), GOOD, cv=3)
    with pytest.raises(ValueError, match=r"ValueError: Input X contains NaN\. error_score='ra"):
        search.fit(X, Y, **{other: rows[other]})
    assert search.set_params(refit="score").fit(X, Y, views=missing).best_index_ in (0, 1)


def test_an_agreement_that_cannot_be_certified_loses_its_candidate(monkeypatch):
    import pa_select.solver.branch_and_bound as solver

    full = searched(GOOD)[0].cv_results_
    monkeypatch.setattr(solver, "MAX_EVALUATIONS", 4)
    options = {"prior": "uniform", "cv": 3, "refit": "score"}
    with pytest.warns(UserWarning, match="of 2 agreements could not be computed. The first, cand"):
        search = PASearchCV(Candidate(), GOOD, **options).fit(X, Y)
    found = search.cv_results_
    lost = np.isnan(found["agreement"])
    assert lost.any()
    assert all("could not be certified" in text for text in found["error"][lost])
    np.testing.assert_allclose(found["mean_test_score"], full["mean_test_score"])
    with pytest.raises(RuntimeError, match=r"candidate .: .* could not be certified"):
        PASearchCV(Candidate(), GOOD, error_score="raise", **options).fit(X, Y)


class AlwaysRight(Candidate):
    """It knows the labels, and has no scores if `bad` says so."""

    def predict(self, rows):
        if self.bad is None:
            return super().predict(rows)
        return Y[[np.flatnonzero((row == X).all(1))[0] for row in rows]]


@pytest.mark.filterwarnings("ignore:Scoring failed|One or more|y_pred")
@pytest.mark.parametrize("scoring", ["neg_log_loss", "neg_brier_score", "roc_auc_ovr"])
def test_a_candidate_without_probabilities_loses_its_own_expected_score(scoring):
    grid = {"model": [LogisticRegression(), LinearSVC(), LogisticRegression(C=0.1)]}
    search = PASearchCV(Pipeline([("model", LinearSVC())]), grid, scoring=scoring, cv=3)
    with pytest.warns(UserWarning, match="the model has no predict_proba"):
        search.fit(X[40:], Y[40:], paired=PAIRED)
    expected = search.cv_results_["expected_score"]
    others = search.set_params(param_grid={"model": grid["model"][::2]})
    others.fit(X[40:], Y[40:], paired=PAIRED)
    np.testing.assert_allclose(expected[::2], others.cv_results_["expected_score"])
    assert np.isnan(expected[1])


def test_a_more_accurate_candidate_without_scores_does_not_exclude_the_others():
    with pytest.warns(UserWarning, match="Class scores or .* computed in 6 of 12 fits"):
        search = PASearchCV(AlwaysRight(), {"bad": [None, "only nan"]}, cv=3).fit(X, Y)
    assert search.cv_results_["mean_test_score"][1] == 1
    assert search.cv_results_["eligible"].tolist() == [True, False]
    assert search.best_index_ == 0


FITTED = {C: Candidate(C).fit(X, Y) for C in (0.01, 1.0)}
SAMPLES = [FITTED[1.0].decision_function(X + 0.1 * k * np.sin(9 * X)) for k in range(3)]


def spoilt(bad):
    candidate = Candidate(1.0, bad).fit(X, Y)
    return {"weak": FITTED[0.01], "bad": candidate, "strong": FITTED[1.0]}


CURVE = {"shift": GaussianNoise(0.3), "powers": [0.1, 0.5], "ratios": [0.5, 1.0]}


@cache
def good_curve():
    return robustness_curve({"weak": FITTED[0.01], "strong": FITTED[1.0]}, X, Y, **CURVE)


@pytest.mark.parametrize("bad", BAD)
def test_a_curve_keeps_the_rows_of_the_others(bad):
    given = spoilt(bad)
    if "class" in bad or bad in ("complex numbers", "texts"):
        # Known before any work: this is no classifier.
        with pytest.raises(TypeError, match="expected"):
            robustness_curve(given, X, Y, **CURVE)
        return
    alone = good_curve()
    with pytest.warns(UserWarning, match="1 of 3 estimators failed, .* The first, bad at power"):
        curve = robustness_curve(given, X, Y, **CURVE)
    others = curve.table["estimator"] != "bad"
    for name, values in alone.table.items():
        if values.dtype.kind == "f":
            np.testing.assert_allclose(curve.table[name][others], values, atol=1e-6)
    assert np.isnan(curve.table["pa"][~others]).all()
    assert np.isnan(curve.table["shifted_accuracy"][~others]).all()
    assert set(curve.failures) == {("bad", 0.1), ("bad", 0.5)}
    with pytest.raises(ValueError, match="estimators: bad: "):
        robustness_curve(given, X, Y, error_score="raise", **CURVE)


def test_a_classifier_without_neighbours_under_the_shift_loses_its_rows_alone():
    radius = RadiusNeighborsClassifier(1.5).fit(X, Y)
    given = {"radius": radius, "linear": FITTED[1.0]}
    shift = GaussianNoise()
    with pytest.warns(UserWarning, match="radius at power 20: ValueError: No neighbors found"):
        curve = robustness_curve(given, X, Y, shift=shift, powers=[0.01, 20])
    assert np.isnan(curve.table["pa"]).tolist() == [False, True, False, False]
    alone = robustness_curve(FITTED[1.0], X, Y, shift=shift, powers=[0.01, 20])
    np.testing.assert_allclose(curve.table["pa"][2:], alone.table["pa"], atol=1e-6)


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
@pytest.mark.parametrize("bad", BAD)
def test_a_batch_keeps_the_results_of_the_others(bad, prior):
    weight = np.arange(120.0)
    options = {"prior": prior, "sample_weight": [weight] * 3}
    alone = posterior_agreement(SAMPLES[:2], SAMPLES[1:], prior=prior, sample_weight=weight)
    wrong = BAD[bad](SAMPLES[0])
    lists = [SAMPLES[0], wrong, SAMPLES[1]], [SAMPLES[1], SAMPLES[0], SAMPLES[2]]
    with pytest.warns(UserWarning, match="1 of 3 problems have no agreement, .* problem 1: "):
        found = posterior_agreement(*lists, error_score=np.nan, **options)
    for i, result in zip((0, 2), alone, strict=True):
        assert found[i].score == pytest.approx(result.score, abs=1e-6)
    assert np.isnan(found[1].score)
    assert found[1].failure.startswith(("scores_a[1]: ", "scores_b[1]: "))
    with pytest.raises((TypeError, ValueError), match=r"scores_[ab]\[1\]: "):
        posterior_agreement(*lists, **options)


def test_a_problem_that_cannot_be_certified_does_not_lose_the_others(monkeypatch):
    import pa_select.solver.branch_and_bound as solver

    hard, easy = (SAMPLES[0], SAMPLES[2]), (SAMPLES[0], SAMPLES[0])
    problems = [easy[0], hard[0], easy[0]], [easy[1], hard[1], easy[1]]
    expected = posterior_agreement(*easy).score
    monkeypatch.setattr(solver, "MAX_EVALUATIONS", 8)
    with pytest.raises(RuntimeError, match="problem 1 could not be certified") as caught:
        posterior_agreement(*problems, tol=1e-11)
    assert [r.score for r in caught.value.results][::2] == pytest.approx([expected] * 2)
    with pytest.warns(UserWarning, match="The agreement of problem 1 could not be certified"):
        found = posterior_agreement(*problems, tol=1e-11, error_score=np.nan)
    assert [r.failure is None for r in found] == [True, False, True]


def test_arguments_that_all_problems_share_raise_in_any_case():
    for options in ({"prior": "flat"}, {"sample_weight": np.ones(3)}, {"tol": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(options))}: expected"):
            posterior_agreement([SAMPLES[0]], [SAMPLES[1]], error_score=np.nan, **options)


@pytest.mark.parametrize("bad", [name for name in BAD if "too" not in name][:7])
def test_an_epoch_that_cannot_be_compared_is_not_kept(bad):
    alone, selector = EpochSelector(patience=2), EpochSelector(patience=2)
    for one in (alone, selector):
        one.update(SAMPLES[0], SAMPLES[2], {"epoch": 1})
    with pytest.warns(UserWarning, match="Epoch 2 cannot be compared and is not kept: scores_b"):
        assert not selector.update(SAMPLES[0], BAD[bad](SAMPLES[1]), {"epoch": 2})
    assert selector.last.failure is not None
    for one in (alone, selector):
        assert one.update(SAMPLES[0], SAMPLES[1], {"epoch": 3})
    assert selector.best_score == pytest.approx(alone.best_score)
    assert selector.best_epoch == 3


def test_scores_have_a_row_for_each_row_of_X():
    for bad, n in (("one row too few", 119), ("one row too many", 121)):
        message = f"expected scores of 120 rows from Candidate, got {n}"
        with pytest.raises(ValueError, match=message):
            class_scores(spoilt(bad)["bad"], X)
