"""The share of a search's time that `PAScorer` needs for the agreement.

Run it with ``make bench``, which writes the table of docs/large.
"""

from time import process_time

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from pa_select import PAScorer, agreement

MODELS = {
    "support vectors": (SVC(), {"C": [0.1, 1, 10, 100]}),
    "logistic regression": (LogisticRegression(max_iter=500), {"C": [0.01, 0.1, 1, 10]}),
}


def noisy(X):
    return np.clip(X + np.random.default_rng(0).normal(0, 0.1, X.shape), 0, 1)


SCORERS = {"label": PAScorer("label"), "views": PAScorer("views", views=[noisy])}


@pytest.mark.slow
@pytest.mark.parametrize("pairing", SCORERS)
@pytest.mark.parametrize("model", MODELS)
def test_share_of_a_search(benchmark, figures, one_thread, monkeypatch, model, pairing):
    X, y = load_digits(return_X_y=True)
    n = 900 if benchmark.enabled else 200
    spent = []
    solve = agreement.posterior_agreement

    def timed(*args, **kwargs):
        start = process_time()
        try:
            return solve(*args, **kwargs)
        finally:
            spent.append(process_time() - start)

    monkeypatch.setattr(agreement, "posterior_agreement", timed)
    estimator, grid = MODELS[model]
    how = {"scoring": SCORERS[pairing], "refit": False, "error_score": "raise"}
    search = GridSearchCV(estimator, grid, **how)
    start = process_time()
    benchmark.pedantic(search.fit, (X[:n] / 16, y[:n]), rounds=1)
    total = process_time() - start
    assert len(spent) == 20
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    if benchmark.enabled:
        share = f"{sum(spent) / total:.0%}"
        row = {"classifier": model, "pairs": pairing, "agreement's share of the time": share}
        figures("scorer_share", row)
        print(row)
