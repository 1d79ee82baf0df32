"""Inputs that users of other packages gave: each is taken, or refused with its reason."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.utils import shuffle

from pa_select import expected_score

X, Y = shuffle(*load_wine(return_X_y=True), random_state=0)
X = (X - X.mean(0)) / X.std(0)
A, V, LABELS = X[:50], X[50:], Y[50:]
B = 1.5 * A + 0.3
MODEL = LogisticRegression().fit(V, LABELS)


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
