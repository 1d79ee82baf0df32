"""Ties of scores that differ by rounding alone.

The limit of the agreement for an infinite inverse temperature depends on which scores are exactly
equal.  The same votes of trees, added in another order, differ in the last digit, and then a tie
of two classes would look like a decision for one of them.  So scores that differ from the largest
of their row by no more than what rounding of numbers of their size can do are made equal to it,
where the scores of a block are centred, which all sums over pairs use.

docs/certificate.rst bounds what this may change.
"""

from __future__ import annotations

import torch

# Scores tie if they differ by less than this share of their row's size: 64 roundings in float64,
# as in sums of a few hundred votes, and 8 in float32. Numbers of half precision were rounded once,
# from numbers that were more precise, and integers never.
_SHARE = {torch.float64: 2.0**-46, torch.float32: 2.0**-20}
# A row's size is that of its largest score, or the range of its scores if that is larger. Scores
# further than this below the largest do not count: their classes were ruled out, for example by a
# score of -1e9.
_LARGEST_RANGE = 100.0


def centred_with_ties(scores: torch.Tensor, stored: torch.dtype) -> tuple[torch.Tensor, bool]:
    """Return scores (n_classes, n_rows) less the top of their row; what ties with it is 0.

    `stored` is the type in which the scores were given. Also return whether some scores tied that
    were not equal.
    """
    top = scores.amax(0)
    centred = scores - top
    if stored not in _SHARE:
        return centred, False
    near = centred >= -tolerance(top, _lowest(centred), stored)
    if scores.is_cpu:  # a device would have to be waited for
        n_near = int(torch.count_nonzero(near))
        # Each row has a top.
        if n_near == near.shape[1] or n_near == int(torch.count_nonzero(centred == 0)):
            return centred, False
    return centred.masked_fill_(near, 0.0), True


def tolerance(top: torch.Tensor, lowest: torch.Tensor, stored: torch.dtype) -> torch.Tensor:
    """Return how far from the top of its row a score may be to tie with it, (n_rows,).

    `lowest` is the lowest score less the top, of those that are not ruled out.
    """
    return _SHARE[stored] * torch.maximum(top.abs(), -lowest)


def _lowest(centred: torch.Tensor) -> torch.Tensor:
    """Return the lowest scores of the rows, without those of classes that are ruled out."""
    lowest = centred.amin(0)
    if centred.is_cpu and float(lowest.amin()) >= -_LARGEST_RANGE:
        return lowest
    return torch.where(centred >= -_LARGEST_RANGE, centred, 0.0).amin(0)


def converted(scores: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Convert scores (n_rows, n_classes) to another type, with the ties of their own type."""
    if scores.dtype in _SHARE and scores.dtype != dtype:
        centred, some = centred_with_ties(scores.T, scores.dtype)
        if some:
            scores = torch.where(centred.T == 0, scores.amax(1, keepdim=True), scores)
    return scores.to(dtype)
