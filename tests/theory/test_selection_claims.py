"""What the documentation claims of selection, over ten seeds."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pa_select import PASearchCV

pytestmark = pytest.mark.slow

MODEL = Pipeline([("scale", StandardScaler()), ("model", GaussianNB())])
GRID = [
    {"model": [DummyClassifier(strategy=s) for s in ("most_frequent", "prior", "stratified")]},
    {"model": [GaussianNB()], "model__var_smoothing": [1e-9, 0.1]},
    {"model": [LogisticRegression()], "model__C": [1e-3, 0.1, 10]},
    {"model": [KNeighborsClassifier()], "model__n_neighbors": [1, 15, 40]},
    {"model": [SVC()], "model__C": [0.1, 10], "model__gamma": [1e-3, 1e-2]},
]
SEEDS = range(10)


def standard_error(values):
    return np.std(values, ddof=1) / np.sqrt(len(values))


def most_accurate(search, X, y):
    """What GridSearchCV would choose on the same splits, without fitting all candidates again."""
    table = search.cv_results_
    params = table["params"][int(np.argmax(table["mean_test_score"]))]
    return clone(MODEL).set_params(**clone(params, safe=False)).fit(X, y)


def test_guarded_search_is_never_degenerate_and_as_accurate_as_grid_search():
    X, y = load_breast_cancer(return_X_y=True)
    differences = []
    for seed in SEEDS:
        X_fit, X_new, y_fit, y_new = train_test_split(
            X, y, train_size=300, stratify=y, random_state=seed
        )
        cv = RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=seed)
        guarded = PASearchCV(MODEL, GRID, cv=cv).fit(X_fit, y_fit)
        accurate = most_accurate(guarded, X_fit, y_fit)
        assert not isinstance(guarded.best_estimator_["model"], DummyClassifier)
        assert len(np.unique(guarded.predict(X_new))) == 2
        differences.append(guarded.score(X_new, y_new) - accurate.score(X_new, y_new))
    assert np.mean(differences) > -0.01


def test_views_of_the_shift_gain_shifted_accuracy():
    X_all, progress = load_diabetes(return_X_y=True)
    y_all = (progress > np.median(progress)).astype(int)

    def with_columns(X, y, rates, rng):
        agrees = rng.random((len(y), 2)) < np.asarray(rates).reshape(-1, 1)
        return np.column_stack([X, np.where(agrees, y[:, None], 1 - y[:, None])])

    gains, losses = [], []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        X, X_new, y, y_new = train_test_split(
            X_all, y_all, test_size=0.4, stratify=y_all, random_state=seed
        )
        rates = np.where(rng.random(len(y)) < 0.5, 0.9, 0.8)
        rows = with_columns(X, y, rates, rng)
        # As the other environment would show them; labels are in none of the pairs.
        view = with_columns(X, y, 1.7 - rates, rng)
        search = PASearchCV(MODEL, GRID, cv=5).fit(rows, y, views=view)
        accurate = most_accurate(search, rows, y)
        shifted = with_columns(X_new, y_new, [0.1], rng)
        same = with_columns(X_new, y_new, [0.85], rng)
        gains.append(search.score(shifted, y_new) - accurate.score(shifted, y_new))
        losses.append(search.score(same, y_new) - accurate.score(same, y_new))
        assert not isinstance(search.best_estimator_["model"], DummyClassifier)
    # Five points of accuracy under the shift, beyond two standard errors.
    assert np.mean(gains) - 2 * standard_error(gains) > 0.05
    assert np.mean(losses) > -0.06
