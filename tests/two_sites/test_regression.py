"""Regressors at another site: against simulated truth, the closed form, and bad input."""

import numpy as np
import pytest
from scipy.stats import t
from sklearn.datasets import load_diabetes
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, PoissonRegressor, Ridge
from sklearn.metrics import (
    get_scorer,
    make_scorer,
    mean_squared_error,
)
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.neighbors import KNeighborsRegressor

from pa_select import PASearchCV, expected_score, expected_scorer
from pa_select.scores.precomputed import RecordedRegressor
from pa_select.two_sites.regression import Regression
from pa_select.two_sites.score_of_units import LabelledRows
from pa_select.two_sites.trained import estimates

RMSE, MAE = "neg_root_mean_squared_error", "neg_mean_absolute_error"
SLOPE, NOISE = 2.0, 0.5


def line(slope, offset=0.0):
    """A linear regression of one feature."""
    model = LinearRegression()
    model.coef_, model.intercept_ = np.array([slope]), offset
    return model


def draw(rng, n):
    """Rows at both sites, and targets that depend on the row of the first one alone."""
    a = rng.normal(size=(n, 1))
    return a, 0.7 * a + 0.5 * rng.normal(size=(n, 1)), SLOPE * a[:, 0] + NOISE * rng.normal(size=n)


def spectra(seed=0):
    X, y = load_diabetes(return_X_y=True)
    X = X / X.std(axis=0)
    rng = np.random.default_rng(seed)
    return X, X + rng.normal(scale=0.5, size=X.shape) + 0.2, y


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("scoring", ["neg_mean_squared_error", RMSE, MAE, "r2"])
@pytest.mark.parametrize("slope", [SLOPE, 1.5 * SLOPE, SLOPE / 3])
def test_it_is_unbiased_whatever_the_scale_of_the_predictions(scoring, slope):
    rng = np.random.default_rng(0)
    model, found, covered = line(slope, 1.0), [], 0
    _, b, y = draw(rng, 200_000)
    truth = get_scorer(scoring)(model, b, y)
    for _ in range(150):
        a, b, _ = draw(rng, 60)
        labelled, _, y = draw(rng, 300)
        (one,) = estimates(model, a, b, labelled, y, scoring).values()
        found.append(one.score)
        covered += one.low <= truth <= one.high
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    scale = 1 + abs(truth)
    assert np.mean(found) == pytest.approx(truth, abs=4 * error + 0.01 * scale)
    assert covered >= 0.95 * 150 or scoring == "r2"


def test_the_change_of_the_squared_error_has_a_closed_form():
    rng = np.random.default_rng(1)
    a, b, _ = draw(rng, 50)
    labelled, _, y = draw(rng, 40)
    models = {"line": line(1.5, 0.3), "steep": line(4.0), "flat": line(0.1)}
    found = expected_score(
        models, a, b, labelled, y, scoring="neg_mean_squared_error", reference="self"
    )
    for name, model in models.items():
        slope, offset = np.polyfit(model.predict(labelled), y, 1)
        mean = offset + slope * model.predict(a)
        squared = [np.square(model.predict(rows) - mean).mean() for rows in (a, b)]
        validated = np.square(model.predict(labelled) - y).mean()
        assert found[name].beta == pytest.approx(slope)
        assert found[name].validation_score == pytest.approx(-validated)
        assert found[name].score == pytest.approx(-(validated + squared[1] - squared[0]))


def test_intervals_of_errors_and_of_squared_errors_agree():
    X, there, y = spectra()
    model = Ridge().fit(X[:200], y[:200])
    rows = X[300:360], there[300:360], X[200:300], y[200:300]
    rmse, mse, mae, r2 = (
        expected_score(model, *rows, scoring=scoring)
        for scoring in (RMSE, "neg_mean_squared_error", MAE, None)
    )
    for one in (rmse, mse, mae):
        assert one.low < one.score < one.high <= 0
        assert one.low < one.validation_score < one.high
    assert mse.low == pytest.approx(-(rmse.low**2), rel=0.05)
    assert np.isnan([r2.low, r2.high]).all()
    assert r2.validation_score == pytest.approx(model.score(X[200:300], y[200:300]))
    difference = model.predict(there[300:360]) - model.predict(X[300:360])
    assert rmse.disagreement == pytest.approx(np.sqrt(np.mean(difference**2)))


def test_the_estimates_are_near_the_truth_and_rank_the_models():
    X, there, y = spectra()
    models = {
        "ridge": Ridge(),
        "neighbour": KNeighborsRegressor(1),
        "neighbours": KNeighborsRegressor(15),
        "mean": DummyRegressor(),
    }
    for model in models.values():
        model.fit(X[:200], y[:200])
    pairs, rest = slice(300, 360), slice(360, None)
    rows = X[pairs], there[pairs], X[200:300], y[200:300]
    with pytest.warns(UserWarning, match="that the predictions of mean say nothing about"):
        found = expected_score(models, *rows, scoring=RMSE)
    truth = {name: get_scorer(RMSE)(m, there[rest], y[rest]) for name, m in models.items()}
    ranked = sorted(found, key=lambda name: found[name].score)
    assert set(ranked[:2]) == set(sorted(truth, key=truth.get)[:2])
    for name, one in found.items():
        assert abs(one.score - truth[name]) < 3 * one.standard_error
    assert found["mean"].disagreement == found["mean"].beta == 0
    # One model is its own ensemble.
    alone = expected_score(models["ridge"], *rows, scoring=RMSE)
    assert alone == expected_score(models["ridge"], *rows, scoring=RMSE, reference="self")
    with pytest.warns(UserWarning, match="say nothing about"):
        by_model = expected_score(models, *rows, scoring=RMSE, reference=models["ridge"])
    assert by_model["ridge"].score != alone.score  # it is shrunk
    assert by_model["ridge"][2:-1] == alone[2:-1]


@pytest.mark.parametrize(("scoring", "tails", "least"), [(RMSE, 50, 0.93), (MAE, 3, 0.92)])
def test_the_interval_covers_the_worst_change(scoring, tails, least):
    held = held_truths(scoring, tails)
    assert min(held) >= least


def test_with_heavy_tails_the_mean_absolute_error_is_covered_better():
    # The page says so: squares of such errors have no variance.
    held = held_truths(RMSE, 3)
    assert 0.68 < min(held) <= max(held) < 0.82


def held_truths(scoring, tails):
    """How often intervals hold the error, if each difference of two predictions makes it worse.

    Errors at the first site are of Student's t, and twice as large at the other one.
    """
    rng, scorer = np.random.default_rng(0), get_scorer(scoring)
    truth = 2 * (t(tails).expect(np.abs) if scoring == MAE else t(tails).std())
    found = []
    for n_labelled, n_pairs in ((40, 20), (40, 100), (300, 20)):
        held = 0
        for _ in range(300):
            y, difference = (rng.standard_t(tails, n) for n in (n_labelled, n_pairs))
            model = RecordedRegressor(np.zeros(n_labelled))
            score = -np.mean(np.abs(y)) if scoring == MAE else -np.sqrt(np.mean(y**2))
            labelled = LabelledRows(y, [np.arange(n_labelled)])
            sides = [RecordedRegressor(np.zeros(n_pairs))], [RecordedRegressor(difference)]
            low, high = Regression().interval(scorer, score, labelled, lambda m=model: [m], *sides)
            held += low <= -truth <= high
        found.append(held / 300)
    return found


def swapped_spectra(seed):
    """Labelled rows of a noisy instrument's site, and pairs in the wrong order."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 3)) @ rng.normal(size=(3, 20))
    y = X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=150)
    X += 0.01 * rng.normal(size=X.shape)
    return X[:100], y[:100], X[100:] + 0.3 * rng.normal(size=(50, 20)), X[100:]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "scoring", [RMSE, "explained_variance", "neg_median_absolute_error", "r2"]
)
def test_expected_scores_stay_in_the_range_of_the_metric(scoring):
    X, y, noisy, clean = swapped_spectra(0)
    search = PASearchCV(Ridge(), {"alpha": [1e-8, 1e-2, 10]}, scoring=scoring)
    search.fit(X, y, paired=(noisy, clean))
    most = 0.0 if scoring.startswith("neg") else 1.0
    assert search.expected_score_ == most
    assert search.expected_interval_ is None or search.expected_interval_[1] <= most


@pytest.mark.parametrize("offset", [1e6, 1e9])
@pytest.mark.parametrize("weight", [None, 1.0])
def test_targets_may_be_far_from_0(offset, weight):
    X, there, y = spectra()
    rows = X[300:], there[300:]
    near, far = (Ridge().fit(X[:200], y[:200] + shift) for shift in (0.0, offset))
    found = expected_score(far, *rows, X[200:300], y[200:300] + offset, scoring=RMSE)
    known = expected_score(near, *rows, X[200:300], y[200:300], scoring=RMSE)
    assert found == pytest.approx(known, rel=1e-4)
    given = {} if weight is None else {"sample_weight": np.full(200, weight)}
    search = PASearchCV(Ridge(), {}, scoring=RMSE, cv=3)
    scores = [
        search.fit(X[:200], y[:200] + shift, paired=rows, **given).expected_score_
        for shift in (0.0, offset)
    ]
    assert scores[1] == pytest.approx(scores[0], rel=1e-4)


def test_equal_weights_are_no_weights_and_rows_of_weight_0_do_not_count():
    X, there, y = spectra()
    folds, zero = np.arange(200) % 4, np.arange(200) % 3 == 0

    def expected(rows, weight=None):
        search = PASearchCV(Ridge(), {}, scoring=RMSE, cv=PredefinedSplit(folds[rows]))
        params = {} if weight is None else {"sample_weight": weight[rows]}
        search.fit(X[:200][rows], y[:200][rows], paired=(X[300:], there[300:]), **params)
        return search.expected_score_

    every, weight = np.full(200, True), np.ones(200)
    assert expected(every, weight) == pytest.approx(expected(every))
    assert expected(every, np.where(zero, 0.0, weight)) == pytest.approx(expected(~zero))


def test_several_targets_are_refused_with_a_way_out():
    X, y = load_diabetes(return_X_y=True)
    y, pair = np.column_stack([y, y]), (X[:60], 1.01 * X[:60])
    with pytest.raises(ValueError, match=r"^y: expected shape \(382,\), got \(382, 2\)"):
        PASearchCV(Ridge(), {}).fit(X[60:], y[60:], paired=pair)
    with pytest.raises(ValueError, match=r"^y_val: expected shape \(382,\), got \(382, 2\)"):
        expected_score(Ridge().fit(X, y), *pair, X[60:], y[60:])


def test_a_maximum_grows_with_the_rows_and_has_no_expected_score():
    X, y = load_diabetes(return_X_y=True)
    pair, rest, scoring = (X[:60], 1.01 * X[:60]), (X[60:], y[60:]), "neg_max_error"
    for call in (
        lambda: PASearchCV(Ridge(), {}, scoring=scoring).fit(*rest, paired=pair),
        lambda: expected_score(Ridge().fit(*rest), *pair, *rest, scoring=scoring),
        lambda: expected_scorer(*pair, scoring=scoring),
    ):
        with pytest.raises(ValueError, match="does not grow with .*, such as 'neg_root_mean_sq"):
            call()


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("scoring", ["neg_mean_poisson_deviance", "neg_mean_squared_log_error"])
def test_targets_of_metrics_of_positive_numbers_stay_positive(counts, scoring):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4))
    mean = np.exp(0.7 + X @ [0.5, -0.4, 0.3, 0.2])
    y = rng.poisson(mean) if counts else rng.gamma(4, mean / 4)
    a, b = X + 0.1 * rng.normal(size=X.shape), 1.3 * X + 0.4 * rng.normal(size=X.shape)
    model, pairs = PoissonRegressor(), (a[:300], b[:300])
    fitted = model.fit(a[600:], y[600:])
    truth = get_scorer(scoring)(fitted, b[:300], y[:300])
    found = expected_score(fitted, *pairs, a[300:600], y[300:600], scoring=scoring)
    assert found.score == pytest.approx(truth, rel=0.5)
    scorer = expected_scorer(*pairs, scoring=scoring)
    scores = GridSearchCV(model, {"alpha": [0, 1]}, scoring=scorer, cv=3).fit(a[300:], y[300:])
    search = PASearchCV(model, {"alpha": [0, 1]}, scoring=scoring, cv=3)
    search.fit(a[300:], y[300:], paired=pairs)
    for table in (scores.cv_results_["mean_test_score"], search.cv_results_["expected_score"]):
        assert np.isfinite(table).all()


@pytest.mark.parametrize("factor", [1.0, -1.0])
def test_a_loss_of_a_user_may_be_negative(factor):
    def likelihood(y, predicted):
        return factor * np.mean(np.square(y - predicted)) - 1000

    X, there, y = spectra()
    model, rows = Ridge().fit(X[:200], y[:200]), (X[300:], there[300:], X[200:300], y[200:300])
    scorer = make_scorer(likelihood, greater_is_better=False)
    mse = make_scorer(mean_squared_error)  # someone forgot that less is better
    found = expected_score(model, *rows, scoring=scorer)
    known = expected_score(model, *rows, scoring=mse)
    assert known.score > 1
    assert found.score == pytest.approx(1000 - factor * known.score)
