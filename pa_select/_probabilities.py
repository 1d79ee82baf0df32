"""Tells matrices of probabilities from matrices of scores, in arrays of numpy and torch."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

#: Smallest probability where a classifier's own resolution is not known.
DEFAULT_CLIP = 1e-8
#: Rounding of the sum of a row, and below 0: half precision and a few printed digits cost this.
ROUNDING = 1e-3

# Rows are looked at so many at a time, first a few: most logits are told apart by them.
_FIRST_ROWS, _ROWS_AT_ONCE = 1 << 10, 1 << 16


def are_probabilities(rows: Any) -> Any:
    """Mask of the rows that are non-negative and sum to 1, (n,)."""
    double: Any = np.float64 if isinstance(rows, np.ndarray) else sys.modules["torch"].float64
    with np.errstate(over="ignore", invalid="ignore"):
        sums = rows.sum(axis=1, dtype=double)
        return (rows >= -ROUNDING).all(axis=1) & (abs(sums - 1) <= ROUNDING)


def look_like_probabilities(*matrices: Any) -> list[bool]:
    """Which matrices hold probabilities; none of them does unless all rows of all may do.

    Rows of zeros and a one are decisions: a matrix of such rows does not look like
    probabilities, and does not keep another matrix from it. Reading ends at the first block
    with a row of something else.

    Parameters
    ----------
    *matrices : arrays or tensors of shape (n, n_classes)
    """
    n = len(matrices[0])
    uncertain = [False] * len(matrices)
    # Of many small problems a call for each row costs less than one for an array.
    if not n or not all(abs(sum(matrix[0].tolist()) - 1) <= ROUNDING for matrix in matrices):
        return uncertain
    begin, size = 0, _FIRST_ROWS
    while begin < n:
        for i, matrix in enumerate(matrices):
            rows = matrix[begin : begin + size]
            if not are_probabilities(rows).all():
                return [False] * len(matrices)
            uncertain[i] = uncertain[i] or bool(((rows != 0) & (rows != 1)).any())
        begin, size = begin + size, _ROWS_AT_ONCE
    return uncertain
