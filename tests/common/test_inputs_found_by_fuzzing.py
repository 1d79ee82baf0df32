"""Inputs that were once misread, or refused without a name: one line for each."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from skorch import NeuralNetClassifier
from torch.utils.data import IterableDataset

from pa_select import (
    PAScoring,
    class_scores,
    pa_kernel,
    pa_scorer,
    posterior_agreement,
    robustness_curve,
)
from pa_select.agreement import agreement_of_chunks
from pa_select.shifts import GaussianNoise
from papers.datasets import WILDSData

A = np.arange(12.0).reshape(4, 3) % 5
B = A[::-1].copy()
RAGGED = [[1], [2, 3], [4], [5]]
FRAMES = pd.DataFrame(A), pd.DataFrame(B)
TEXTS = pd.DataFrame(A).astype(str)
TWO = [[frame] * 2 for frame in FRAMES]
TURNED_ROWS, MOVED = FRAMES[1][::-1], FRAMES[1][[1, 0, 2]]
WEIGHT = pd.Series([1.0, 2, 3, 4])
TURNED = WEIGHT[::-1]
FREQUENCIES = pd.Series([0, 1, 1, 2, 2, 2]).value_counts(normalize=True)
SORTED = [1 / 6, 1 / 3, 1 / 2]
LABELS = pd.Series([0, 1, 2, 0])
BACKWARDS = pd.Series(["u", "v", "v", "w"])[::-1]
MASKED = np.ma.masked_greater(A, 3)
MASKED_ROW = np.ma.masked_greater([1.0, 2, 3, 4], 3)
MODULE = torch.nn.Linear(3, 2, dtype=torch.float64)
LOGISTIC = LogisticRegression().fit(A, [0, 1, 1, 0])
BIG = 2**60 + A.astype(np.int64)  # equal as float64
WITHIN = []  # contains itself, twice: an array of it would not fit anywhere
WITHIN += [WITHIN, WITHIN]


def pa(a=A, b=B, **options):
    return posterior_agreement(a, b, **options)


def negative(x):
    """A tensor whose sign is still to be turned."""
    return torch.tensor(-1j * np.asarray(x, float)).conj().imag


def scorer(**options):
    return pa_scorer(None, np.zeros((4, 1)), **options)


REFUSED = {
    # Read as if nothing was masked.
    "masked scores of many problems": (r"scores_b\[1\]", lambda: pa([A, A], [B, MASKED])),
    "a list of masked rows": ("scores_a.*row 1", lambda: pa(list(MASKED))),
    "masked weights": ("sample_weight.*row 3", lambda: pa(sample_weight=MASKED_ROW)),
    "masked prior": ("prior", lambda: pa(prior=np.ma.masked_greater([0.1, 0.1, 0.8], 0.5))),
    "masked groups": ("groups", lambda: pa(groups=MASKED_ROW)),
    "masked X of a module": ("X", lambda: class_scores(MODULE, MASKED)),
    "masked labels of a scorer": ("y", lambda: scorer(y=MASKED_ROW)),
    "masked weights of a scorer": ("sample_weight", lambda: scorer(sample_weight=MASKED_ROW)),
    # Used by position, though they are in another order.
    "weights": ("sample_weight", lambda: pa(*FRAMES, sample_weight=TURNED)),
    "of one frame": ("sample_weight", lambda: pa(A, FRAMES[1], sample_weight=TURNED)),
    "of one problem": (r"sample_weight\[1\]", lambda: pa(*TWO, sample_weight=[None, TURNED])),
    "of all problems": ("sample_weight", lambda: pa(TWO[0], [B] * 2, sample_weight=TURNED)),
    "of a chunk": ("sample_weight of chunk", lambda: agreement_of_chunks([(*FRAMES, TURNED)])),
    "of a kernel": ("sample_weight", lambda: pa_kernel(*FRAMES, 1, sample_weight=TURNED)),
    "groups": ("groups", lambda: pa(*FRAMES, groups=BACKWARDS)),
    "prior": (r"prior: .* in the order of .*index \[2, 1, 0\]", lambda: pa(prior=FREQUENCIES)),
    # Other values than what came.
    "complex tol": ("tol", lambda: pa(tol=np.complex128(1e-3 + 1j))),
    "numbers in texts": ("scores_a", lambda: pa(TEXTS)),
    "a column of texts": ("scores_a", lambda: pa(FRAMES[0].assign(u=list("1234")), np.eye(4))),
    "numbers in nullable texts": ("scores_a", lambda: pa(TEXTS.convert_dtypes())),
    "texts as weights of a scorer": ("sample_weight", lambda: scorer(sample_weight=list("1234"))),
    # Errors of other kinds.
    "tol beyond float": ("tol", lambda: pa(tol=10**400)),
    "tol too long to print": ("tol", lambda: pa(tol=10**9000)),
    "beyond float64": ("scores_a", lambda: pa(np.full((4, 3), np.finfo(np.longdouble).max))),
    "a list within itself": (r"scores_a\[0\]", lambda: pa(WITHIN, [B, B])),
    "a list within itself as weights": ("sample_weight", lambda: pa(sample_weight=WITHIN)),
    "groups with a gap": ("groups: .*a value", lambda: pa(groups=["a", None, "b", "b"])),
    "groups of two types": ("groups: .*of one", lambda: pa(groups=pd.Series(["a", 1, 2, 2]))),
    # Errors without a name.
    "ragged": (r"sample_weight\[0\].*equal length", lambda: pa([A], [B], sample_weight=[RAGGED])),
    "sparse": ("sample_weight", lambda: pa([A], [B], sample_weight=sparse.csr_array(A))),
    "ragged groups": ("groups.*equal length", lambda: pa(groups=RAGGED)),
    "ragged labels of a scorer": ("y", lambda: scorer(y=RAGGED)),
    "rows with gradients": ("scores_a", lambda: pa(list(torch.tensor(A, requires_grad=True)))),
    "0-d X of a module": ("X", lambda: class_scores(MODULE, 3)),
    "object X of a module": ("X", lambda: class_scores(MODULE, A.astype(object))),
    "sparse X of a module": ("X", lambda: class_scores(MODULE, sparse.csr_array(A))),
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


def error(groups):
    return pa(groups=groups).standard_error


def posteriors(a, b):
    return [posterior.tolist() for posterior in pa(a, b).posteriors()]


def outputs(X):
    return class_scores(MODULE, X)[0].tolist()


def of_scorer(weight):
    return pa_scorer(LOGISTIC, A, [0, 1, 0, 1], sample_weight=weight)


def of_two(weight):
    return [result.score for result in pa([A] * 2, [B] * 2, sample_weight=weight)]


LAST, FIRST = (A[:1][::-1], B[:1]), (A[:1], B[:1])
GRADIENT = torch.tensor([0.0, 0, 1, 1], requires_grad=True)
PRIOR = [0.5, 0.25, 0.25]
SAME = {
    "X of long doubles": (lambda: outputs(A.astype(np.longdouble)), lambda: outputs(A)),
    "nullable X": (lambda: outputs(pd.DataFrame(A).convert_dtypes()), lambda: outputs(A)),
    "one row reversed": (lambda: score(*LAST), lambda: score(*FIRST)),
    "its weight": (lambda: score(*FIRST, sample_weight=np.ones(1)[::-1]), lambda: score(*FIRST)),
    "float8": (lambda: score(torch.tensor(A).to(torch.float8_e4m3fn)), lambda: score(A)),
    "frames with a weight of their order": (
        lambda: score(*FRAMES, sample_weight=WEIGHT), lambda: score(A, sample_weight=range(1, 5))),
    "weights in a frame": (lambda: of_two(FRAMES[0].T[:2]), lambda: of_two(A.T[:2])),
    "weights in objects": (lambda: of_scorer(WEIGHT.astype(object)), lambda: of_scorer(WEIGHT)),
    "groups with a gradient": (lambda: error(GRADIENT), lambda: error([0, 0, 1, 1])),
    "groups of bfloat16": (lambda: error(GRADIENT.bfloat16()), lambda: error([0, 0, 1, 1])),
    "scores whose sign is to be turned": (lambda: score(negative(A)), lambda: score(A)),
    "weights whose sign is to be turned": (
        lambda: score(A, sample_weight=negative(WEIGHT)), lambda: score(A, sample_weight=WEIGHT)),
    "a prior": (lambda: score(A, prior=negative(PRIOR)), lambda: score(A, prior=PRIOR)),
    "a prior of pandas": (
        lambda: score(A, prior=FREQUENCIES.sort_index()), lambda: score(A, prior=SORTED)),
    "a beta": (lambda: pa_kernel(A, B, negative([1])), lambda: pa_kernel(A, B, [1.0])),
    **{
        f"posteriors of {dtype}": (
            lambda dtype=dtype: posteriors(torch.tensor(A).to(dtype), torch.tensor(B).to(dtype)),
            lambda: posteriors(A, B))
        for dtype in (torch.uint16, torch.uint32, torch.uint64)
    },
    "posteriors of integers beyond 2**53": (
        lambda: posteriors(BIG, BIG[::-1]),
        lambda: posteriors(BIG.astype(float), BIG.astype(float))),
}  # fmt: skip


@pytest.mark.parametrize("what", SAME)
def test_gives_the_same(what):
    one, other = SAME[what]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(one(), other(), rtol=1e-12)


class _Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(A, LABELS, strict=True))


def test_datasets_without_row_numbers_are_refused_by_name():
    said = "expected a Dataset whose rows have numbers, .* got the IterableDataset _Stream"
    with pytest.raises(TypeError, match=f"dataset: {said}"):
        WILDSData(_Stream())


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


@pytest.mark.parametrize("prior", ["uniform", "marginal"])
def test_sides_hundreds_of_decades_apart_do_not_warn(prior):
    a, b = np.zeros((2, 2, 4))
    a[0, 3], b[0, 3] = 1.7014118e38, -3.25355396e-273
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pa(a, b, prior=prior).score == 0


@pytest.mark.parametrize("size", [1e-306, 1e105])
def test_scorers_refuse_the_sizes_that_searches_refuse(size):
    class Sized(LogisticRegression):
        def decision_function(self, X):
            return size * super().decision_function(X)

    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.arange(60) % 3
    with pytest.raises(ValueError, match="expected .*1e"):
        pa_scorer(Sized().fit(X, y), X, y)
