"""Inputs that users of other packages gave: each is taken, or refused with its reason."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import shuffle

from pa_select import PASearchCV, expected_score

X, Y = shuffle(*load_wine(return_X_y=True), random_state=0)
X = (X - X.mean(0)) / X.std(0)
A, V, LABELS = X[:50], X[50:], Y[50:]
B = 1.5 * A + 0.3
MODEL = LogisticRegression().fit(V, LABELS)


class Logarithms(ClassifierMixin, BaseEstimator):
    """Takes -inf and numbers that single precision lacks, such as logarithms of counts."""

    def __init__(self, max_depth=3):
        self.max_depth = max_depth

    def fit(self, X, y):
        self.tree_ = DecisionTreeClassifier(max_depth=self.max_depth, random_state=0)
        self.tree_.fit(np.clip(X, -1e30, 1e30), y)
        self.classes_ = self.tree_.classes_
        return self

    def predict_proba(self, X):
        return self.tree_.predict_proba(np.clip(X, -1e30, 1e30))

    def predict(self, X):
        return self.tree_.predict(np.clip(X, -1e30, 1e30))


def of_infinity(rows):
    return np.where(rows < -0.5, -np.inf, rows)


def of_large_numbers(rows):
    return np.where(rows > 0, 1e200 * (1 + rows), rows)


@pytest.mark.parametrize("made", [of_infinity, of_large_numbers])
def test_a_check_does_not_stop_rows_that_the_model_takes(made):
    model = Logarithms(max_depth=3)
    pairs = made(A), made(B)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("default", "expected classes|X_val: expected rows of which")
        search = PASearchCV(model, {}, cv=3).fit(made(V), LABELS, paired=pairs)
        found = expected_score(
            clone(model).fit(made(V[:60]), LABELS[:60]), *pairs, made(V[60:]), LABELS[60:]
        )
    assert 0 < search.expected_score_ <= 1
    assert 0 < found.score <= 1


def test_missing_objects_of_frames_are_named():
    a, b = (pd.DataFrame(rows, index=[f"id{i}" for i in range(50)]) for rows in (A, B))
    with pytest.raises(ValueError, match=r"X_b: .* X_a, got none for 'id3', 'id7' \(2 of 50"):
        expected_score(MODEL, a, b.drop(["id3", "id7"]), V, LABELS)


class Single(LogisticRegression):
    kind = np.float32

    def predict_proba(self, X):
        return super().predict_proba(X).astype(self.kind)


class Half(Single):
    kind = np.float16


@pytest.mark.parametrize("kind", [Single, Half])
@pytest.mark.parametrize("metric", ["neg_log_loss", "neg_brier_score"])
def test_probabilities_in_single_precision_are_not_called_wrong(kind, metric):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*sum to one.*")
        found = expected_score(kind().fit(V, LABELS), A, B, V, LABELS, scoring=metric)
    usual = expected_score(MODEL, A, B, V, LABELS, scoring=metric)
    assert found.score == pytest.approx(usual.score, rel=0.02)
