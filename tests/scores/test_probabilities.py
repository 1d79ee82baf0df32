"""Scores of probabilities."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.naive_bayes import GaussianNB

from pa_select import class_scores, posterior_agreement
from pa_select.scores import log_probabilities

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(40, 3))
P = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
P[0] = [1, 0, 0]


def test_scores_are_logs_of_clipped_probabilities():
    scores = log_probabilities(P)
    np.testing.assert_allclose(scores, np.log(np.maximum(P, 1e-8)))
    assert log_probabilities(P, clip=0.01).min() == pytest.approx(np.log(0.01))
    assert P[0, 1] == 0  # nothing is written to what was given
    shifted = posterior_agreement(scores[1:], scores[1:] / 2).score
    assert shifted == pytest.approx(posterior_agreement(LOGITS[1:], LOGITS[1:] / 2).score)


@pytest.mark.parametrize(
    ("convert", "kind", "dtype"),
    [
        (lambda p: p.tolist(), np.ndarray, np.float64),
        (lambda p: p.astype(np.float32), np.ndarray, np.float32),
        (lambda p: p.astype(np.float16), np.ndarray, np.float64),
        (lambda p: p.astype(">f8"), np.ndarray, np.float64),
        (lambda p: torch.tensor(p, requires_grad=True), torch.Tensor, torch.float64),
        (lambda p: torch.tensor(p, dtype=torch.float32), torch.Tensor, torch.float32),
        (lambda p: torch.tensor(p, dtype=torch.bfloat16), torch.Tensor, torch.float64),
        (lambda p: pd.DataFrame(p, index=["u", "v"]), pd.DataFrame, np.float64),
        (lambda p: pd.DataFrame(p).convert_dtypes(), pd.DataFrame, np.float64),
    ],
)
def test_every_container_and_type(convert, kind, dtype):
    # bfloat16 has 8 bits: sums of rounded halves and quarters are exact.
    p = np.array([[0.5, 0.25, 0.25], [1, 0, 0]])
    scores = log_probabilities(convert(p))
    assert isinstance(scores, kind)
    values = scores
    if kind is pd.DataFrame:
        values = scores.to_numpy()
        assert all(map(pd.Index.equals, scores.axes, convert(p).axes))
    assert values.dtype == dtype
    assert not getattr(values, "requires_grad", False)
    np.testing.assert_allclose(np.asarray(values), np.log(np.maximum(p, 1e-8)), rtol=1e-6)


def with_row(row):
    p = P.copy()
    p[7] = row
    return p


WRONG = [
    (with_row([0.5, 0.6, 0]), "that sum to 1, got a sum of 1.1 and a least number of 0 in row 7"),
    (with_row([0.5, 0.5, np.nan]), "sum of nan .* in row 7"),
    (np.stack([P, with_row([0.5, 0.6, 0])]), "in problem 1, row 7"),
    (P[:, 0], r"expected shape \(n, n_classes\), got shape \(40,\).*1 - p, p"),
]


@pytest.mark.parametrize(("p", "message"), WRONG)
def test_what_is_not_of_probabilities_is_named(p, message):
    with pytest.raises(ValueError, match=f"^probabilities: .*{message}"):
        log_probabilities(p)


def test_neither_torch_nor_scikit_learn_is_imported():
    code = (
        "import sys; from pa_select.scores import class_scores, log_probabilities\n"
        "log_probabilities([[0.5, 0.5]])\n"
        "assert not {'torch', 'sklearn', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_rounded_probabilities_of_an_estimator_are_taken():
    class Rounded(GaussianNB):
        def predict_proba(self, X):
            return np.tile([1 + 1e-12, -1e-12], (len(X), 1))

    X = RNG.normal(size=(20, 2))
    scores = class_scores(Rounded().fit(X, X[:, 0] > 0), X)[0]
    np.testing.assert_allclose(scores[0], [0, np.log(1e-8)], atol=1e-9)
