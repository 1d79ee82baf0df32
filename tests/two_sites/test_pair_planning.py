"""How many pairs: the promises in simulations, and bad input."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.utils import shuffle

from pa_select import expected_score, plan_pairs
from pa_select.two_sites.trained import estimates

X, Y = shuffle(*load_digits(return_X_y=True), random_state=0)
X = X / 16
NOISY = X + np.random.default_rng(0).normal(scale=0.2, size=X.shape)
DIM = 0.6 * X


MODEL = LogisticRegression(max_iter=500).fit(X[:300], Y[:300])
NAIVE = GaussianNB(var_smoothing=0.1).fit(X[:300], Y[:300])
VAL = X[300:500], Y[300:500]
REST = np.arange(500, len(X))


@pytest.mark.filterwarnings("ignore:X_a. expected objects of the classes:UserWarning")
def test_for_the_first_pairs_it_is_what_they_say():
    first = REST[:25]
    pairs = X[first], NOISY[first]
    [one] = plan_pairs(MODEL, *pairs, *VAL, n_pairs=[25])
    found = expected_score(MODEL, *pairs, *VAL)
    assert one.n_pairs == 25
    np.testing.assert_allclose(one, found, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:X_a. expected objects of the classes:UserWarning")
def test_a_fitted_search_is_judged_by_its_own_metric():
    pairs, grid = (X[REST[:25]], NOISY[REST[:25]]), {"var_smoothing": [0.1]}
    loss = GridSearchCV(GaussianNB(), grid, scoring="neg_log_loss", cv=2).fit(X[:300], Y[:300])
    by_loss = expected_score(NAIVE, *pairs, *VAL, scoring="neg_log_loss")
    assert expected_score(loss, *pairs, *VAL).score == pytest.approx(by_loss.score)
    [one] = plan_pairs(loss, *pairs, *VAL, n_pairs=[25])
    assert one.standard_error == pytest.approx(by_loss.standard_error)
    # Beside a model without a metric it is judged by the accuracy, as that one is.
    both = expected_score([loss, NAIVE], *pairs, *VAL)
    # One of two equal models is the best, and the other one differs from it by no known number.
    assert both["GridSearchCV"][:-1] == pytest.approx(both["GaussianNB"][:-1])
    assert both["GridSearchCV"].score > 0


@pytest.mark.parametrize("X_b", [NOISY, DIM], ids=["noisy", "dim"])
def test_the_predicted_precision_is_that_of_more_pairs(X_b):
    ratios, away = [], []
    for seed in range(6):
        rows = np.random.default_rng(seed).permutation(REST)[:100]
        first = rows[:20]
        for one in plan_pairs(MODEL, X[first], X_b[first], *VAL, n_pairs=[40, 100]):
            more = rows[: one.n_pairs]
            later = estimates(MODEL, X[more], X_b[more], *VAL)["LogisticRegression"]
            ratios.append(one.standard_error / later.standard_error)
            away.append((one.high - one.low) - (later.high - later.low))
    assert np.mean((np.array(ratios) > 0.95) & (np.array(ratios) < 1.35)) >= 0.9
    assert np.mean(np.abs(away) < 0.15) >= 0.9


def test_more_pairs_leave_the_error_of_the_labelled_rows_and_the_disagreement():
    first = REST[:20]
    pairs = X[first], NOISY[first]
    plan = plan_pairs(MODEL, *pairs, *VAL, n_pairs=[10, 20, 100, 10_000])
    errors = [one.standard_error for one in plan]
    assert errors == sorted(errors, reverse=True)
    of_labelled = np.sqrt(0.05 * 0.95 / 200)
    assert 0.5 * of_labelled < errors[-1] < 2 * of_labelled
    widths = [one.high - one.low for one in plan]
    assert widths == sorted(widths, reverse=True)
    assert plan[-1].high == 1 or widths[-1] > 2 * plan[-1].disagreement


def test_it_takes_what_expected_score_takes():
    first = REST[:30]
    pairs = X[first], DIM[first]
    plans = plan_pairs({"a": MODEL, "b": NAIVE}, *pairs, *VAL, n_pairs=[50], adapter="ridge")
    assert list(plans) == ["a", "b"]
    assert plans["a"][0].score > plan_pairs(MODEL, *pairs, *VAL, n_pairs=[50])[0].score
    [grouped] = plan_pairs(MODEL, *pairs, *VAL, n_pairs=[50], groups=np.arange(200) // 40)
    [alone] = plan_pairs(MODEL, *pairs, *VAL, n_pairs=np.array([50]))
    assert grouped.standard_error != alone.standard_error
    [balanced] = plan_pairs(MODEL, *pairs, *VAL, n_pairs=(50,), scoring="balanced_accuracy")
    assert np.isnan(balanced.low)
    assert balanced.score != alone.score
    D, t = load_diabetes(return_X_y=True)
    again = D + np.random.default_rng(0).normal(scale=0.03, size=D.shape)
    model = Ridge(0.01).fit(D[:200], t[:200])
    rows = D[300:330], again[300:330], D[200:300], t[200:300]
    few, many = plan_pairs(model, *rows, n_pairs=(30, 300), scoring="neg_mean_absolute_error")
    assert 0 < many.standard_error < few.standard_error
