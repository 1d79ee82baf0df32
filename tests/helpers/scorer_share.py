"""The share of a search's time that `PAScorer` needs for the agreement."""

from time import process_time
from unittest import mock

import numpy as np
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


def scorer_share(model, pairing, n):
    """Search `n` digits; return the agreement's share of the CPU time and the search."""
    X, y = load_digits(return_X_y=True)
    spent = []
    solve = agreement.posterior_agreement

    def timed(*args, **kwargs):
        start = process_time()
        try:
            return solve(*args, **kwargs)
        finally:
            spent.append(process_time() - start)

    estimator, grid = MODELS[model]
    scorer = SCORERS[pairing]
    search = GridSearchCV(estimator, grid, scoring=scorer, refit=False, error_score="raise")
    with mock.patch.object(agreement, "posterior_agreement", timed):
        start = process_time()
        search.fit(X[:n] / 16, y[:n])
        total = process_time() - start
    assert len(spent) == 20
    return sum(spent) / total, search
