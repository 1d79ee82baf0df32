"""Inputs that were once misread, or refused without a name: one line for each."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from skorch import NeuralNetClassifier

from pa_select import (
    PAScoring,
    class_scores,
    posterior_agreement,
    robustness_curve,
)
from pa_select.agreement import agreement_of_chunks
from pa_select.shifts import GaussianNoise

A = np.arange(12.0).reshape(4, 3) % 5
B = A[::-1].copy()
FRAMES = pd.DataFrame(A), pd.DataFrame(B)
TEXTS = pd.DataFrame(A).astype(str)
TWO = [[frame] * 2 for frame in FRAMES]
TURNED_ROWS, MOVED = FRAMES[1][::-1], FRAMES[1][[1, 0, 2]]
WEIGHT = pd.Series([1.0, 2, 3, 4])
TURNED = WEIGHT[::-1]
FREQUENCIES = pd.Series([0, 1, 1, 2, 2, 2]).value_counts(normalize=True)
SORTED = [1 / 6, 1 / 3, 1 / 2]
BACKWARDS = pd.Series(["u", "v", "v", "w"])[::-1]
MASKED = np.ma.masked_greater(A, 3)
MODULE = torch.nn.Linear(3, 2, dtype=torch.float64)


def pa(a=A, b=B, **options):
    return posterior_agreement(a, b, **options)


REFUSED = {
    # Read as if nothing was masked.
    "masked scores of many problems": (r"scores_b\[1\]", lambda: pa([A, A], [B, MASKED])),
    # Used by position, though they are in another order.
    "weights": ("sample_weight", lambda: pa(*FRAMES, sample_weight=TURNED)),
    "of all problems": ("sample_weight", lambda: pa(TWO[0], [B] * 2, sample_weight=TURNED)),
    "of a chunk": ("sample_weight of chunk", lambda: agreement_of_chunks([(*FRAMES, TURNED)])),
    "groups": ("groups", lambda: pa(*FRAMES, groups=BACKWARDS)),
    "prior": (r"prior: .* in the order of .*index \[2, 1, 0\]", lambda: pa(prior=FREQUENCIES)),
    # Other values than what came.
    "numbers in texts": ("scores_a", lambda: pa(TEXTS)),
    # Errors of other kinds.
    "groups with a gap": ("groups: .*a value", lambda: pa(groups=["a", None, "b", "b"])),
}


@pytest.mark.parametrize("what", REFUSED)
def test_is_refused_by_name(what):
    said, call = REFUSED[what]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
    message = str(caught.value)
    assert re.match(rf"{said}\W", message)
    assert "expected" in message


def score(a, b=B, **options):
    return pa(a, b, certify=False, **options).score


def outputs(X):
    return class_scores(MODULE, X)[0].tolist()


def of_two(weight):
    return [result.score for result in pa([A] * 2, [B] * 2, sample_weight=weight)]


LAST, FIRST = (A[:1][::-1], B[:1]), (A[:1], B[:1])


SAME = {
    "nullable X": (lambda: outputs(pd.DataFrame(A).convert_dtypes()), lambda: outputs(A)),
    "one row reversed": (lambda: score(*LAST), lambda: score(*FIRST)),
    "frames with a weight of their order": (
        lambda: score(*FRAMES, sample_weight=WEIGHT), lambda: score(A, sample_weight=range(1, 5))),
    "weights in a frame": (lambda: of_two(FRAMES[0].T[:2]), lambda: of_two(A.T[:2])),
    "a prior of pandas": (
        lambda: score(A, prior=FREQUENCIES.sort_index()), lambda: score(A, prior=SORTED)),
}  # fmt: skip


@pytest.mark.parametrize("what", SAME)
def test_gives_the_same(what):
    one, other = SAME[what]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(one(), other(), rtol=1e-12)


class _Half(torch.nn.Module):
    """A module that computes in bfloat16, which numpy lacks."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 3, dtype=torch.bfloat16)

    def forward(self, X):
        return self.layer(X.bfloat16())


def test_outputs_in_bfloat16_are_converted():
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    y = X.argmax(1)
    scores, _ = class_scores(_Half(), X)
    assert scores.dtype == torch.float32
    assert torch.equal(scores.bfloat16(), _Half()(torch.from_numpy(X)).detach())
    curve = robustness_curve(_Half(), X, y, shift=GaussianNoise())
    assert np.isfinite(curve.table["pa"]).all()
    net = NeuralNetClassifier(
        _Half, criterion=torch.nn.CrossEntropyLoss, max_epochs=2, verbose=0,
        callbacks=[PAScoring((X, 1.1 * X))], callbacks__valid_acc=None,
    ).fit(X, y)  # fmt: skip
    assert np.isfinite(net.history[:, "pa"]).all()
