"""Recognition of probabilities among scores, for numpy arrays and torch tensors."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

#: Smallest probability if the classifier's own resolution is not known.
DEFAULT_CLIP = 1e-8
#: Tolerance for sums of rows and for negative values: half precision and printing round this much.
ROUNDING = 1e-3

# Numbers of rows to read at once: a few first, because they suffice to recognise most logits.
_FIRST_ROWS, _ROWS_AT_ONCE = 1 << 10, 1 << 16


def are_probabilities(rows: Any) -> Any:
    """Return a mask (n,) of the rows that are non-negative and sum to 1."""
    double: Any = np.float64 if isinstance(rows, np.ndarray) else sys.modules["torch"].float64
    with np.errstate(over="ignore", invalid="ignore"):
        sums = rows.sum(axis=1, dtype=double)
        return (rows >= -ROUNDING).all(axis=1) & (abs(sums - 1) <= ROUNDING)


def look_like_probabilities(*matrices: Any) -> list[bool]:
    """Return which matrices look like probabilities; all False if a row of any cannot be one.

    A matrix whose rows are all one-hot holds decisions. It does not look like probabilities
    itself, but does not prevent another matrix from doing so. Reading stops at the first block
    with a row that cannot be probabilities.

    Parameters
    ----------
    *matrices : arrays or tensors of shape (n, n_classes)
    """
    n = len(matrices[0])
    uncertain = [False] * len(matrices)
    # For many small problems a check of one row is faster than one of an array.
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
