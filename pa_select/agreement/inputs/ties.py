"""Ties of scores that differ by rounding alone.

The limit of the agreement for an infinite inverse temperature depends on which scores are exactly
equal.  The same votes of trees, added in another order, differ in the last digit, and then a tie
of two classes would look like a decision for one of them.  So scores that differ from the largest
of their row by no more than what rounding of numbers of their size can do are made equal to it,
once, where scores come in.

docs/certificate.rst bounds what this may change.
"""

from __future__ import annotations

import torch

# Scores tie if they differ by less than this share of their row's size: 64 roundings in float64,
# as in sums of a few hundred votes, and 8 in float32. Numbers of half precision were rounded once,
# from numbers that were more precise, and integers never.
_SHARE = {torch.float64: 2.0**-46, torch.float32: 2.0**-20}
# A row's size is that of its largest score, or the range of its scores if that is larger. Larger
# ranges than this are those of classes that were ruled out, for example by a score of -1e9.
_LARGEST_RANGE = 100.0
# This many scores are looked at once: it bounds the memory.
_SCORES_AT_ONCE = 1 << 20


def with_exact_ties(scores: torch.Tensor) -> torch.Tensor:
    """Return scores (n, n_classes) in which those that tie but for rounding are equal.

    They are the scores given if no row has such a tie, and else a copy.
    """
    if scores.dtype not in _SHARE:
        return scores
    exact = scores
    at_once = max(_SCORES_AT_ONCE // max(scores.shape[1], 1), 1)
    for begin in range(0, len(scores), at_once):
        rows = scores[begin : begin + at_once]
        top = rows.amax(1, keepdim=True)
        near = (rows >= top - tolerance(rows)) & (rows != top)
        if near.any():
            if exact is scores:
                exact = scores.clone()
            exact[begin : begin + at_once] = torch.where(near, top, rows)
    return exact


def tolerance(rows: torch.Tensor) -> torch.Tensor:
    """Return how far from the largest score of its row a score may be to tie with it, (n, 1)."""
    top = rows.amax(1, keepdim=True)
    spread = (top - rows.amin(1, keepdim=True)).clamp_max(_LARGEST_RANGE)
    return _SHARE[rows.dtype] * torch.maximum(top.abs(), spread)
