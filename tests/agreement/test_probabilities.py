"""Warnings of scores that look like probabilities."""

import warnings

import numpy as np
import pytest
import torch

from pa_select import pa_kernel, posterior_agreement
from pa_select.agreement import agreement_of_chunks
from pa_select.scores import log_probabilities
from pa_select.utils.arrays import look_like_probabilities

RNG = np.random.default_rng(0)
A = RNG.normal(size=(60, 3))
B = A + RNG.normal(size=(60, 3))
P, Q = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) for x in (A, B))
DECISIONS = np.eye(3)[A.argmax(axis=1)]


def said(call, *arguments, **keywords):
    """The texts of the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments, **keywords)
    assert all(w.category is UserWarning and w.filename == __file__ for w in caught)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize(
    "convert",
    [
        lambda p: p.astype(np.float16),
        lambda p: np.round(p, 4),
        lambda p: p.tolist(),
        lambda p: torch.tensor(p, dtype=torch.float32),
    ],
)
def test_probabilities_of_every_type_are_noticed(convert):
    (text,) = said(posterior_agreement, convert(P), convert(Q), prior="marginal")
    assert text.startswith("scores_a and scores_b: expected logits")


def with_row(wrong):
    """Probabilities, but for one row."""
    return np.concatenate([P[:40], [wrong], P[41:]])


BOTH, LOGS = "scores_a and scores_b", log_probabilities(Q)


@pytest.mark.parametrize(
    ("a", "b", "named"),
    [
        (P, Q, BOTH),
        (A, B, None),
        (log_probabilities(P), LOGS, None),
        (P, LOGS, "scores_a"),
        (A, Q, "scores_b"),
        (DECISIONS, DECISIONS, None),
        (DECISIONS, B, None),
        (DECISIONS, Q, "scores_b"),
        (P, DECISIONS, "scores_a"),
        # One row that is not of probabilities tells logits.
        (with_row([0.5, 0.6, 0.0]), with_row([1.5, -0.5, 0.0]), None),
        (with_row([0.5, 0.6, 0.0]), Q, "scores_b"),
    ],
)
def test_the_sample_of_probabilities_is_named_whatever_reads_it(a, b, named):
    in_chunks = [[(a, b), (a, b)]]
    for call, given in ((posterior_agreement, [a, b]), (agreement_of_chunks, in_chunks)):
        texts = said(call, *given)
        assert [text.partition(": ")[0] for text in texts] == [named] * bool(named)
    assert len(said(pa_kernel, a, b, 1.0)) == bool(named)


class Counted:
    """An array that knows how many of its rows were read."""

    def __init__(self, values):
        self.values, self.read = values, 0

    def __len__(self):
        return len(self.values)

    def __getitem__(self, rows):
        found = self.values[rows]
        self.read += len(found) if found.ndim == 2 else 1
        return found


def test_logits_are_told_apart_by_the_first_block():
    n = 300_000
    logits = Counted(RNG.normal(size=(n, 3)))
    assert look_like_probabilities(logits, logits) == [False, False]
    assert logits.read <= 10
    # Probabilities at first: no more is read than what tells them apart, block by block.
    late = np.tile(P, (n // len(P), 1))
    late[500] = 3
    counted = Counted(late)
    assert look_like_probabilities(counted) == [False]
    assert counted.read < 5000
    late[500] = P[0]
    assert look_like_probabilities(late, late) == [True, True]
    late[-1] = 3
    assert look_like_probabilities(late, late) == [False, False]
