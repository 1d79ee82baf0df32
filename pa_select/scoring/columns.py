"""One value for each row: labels, environments, weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def check_column(values: Any, n: int, name: str) -> NDArray[Any]:
    """Labels or environments of n rows, none of them missing.

    Raises
    ------
    ValueError
        If the shape is neither (n,) nor (n, 1), or a value is missing.
    """
    column = np.asarray(values)
    if column.shape == (n, 1):
        column = column[:, 0]
    if column.shape != (n,):
        raise ValueError(f"{name}: expected shape ({n},), got {column.shape}.")
    missing = [x is None for x in column] if column.dtype == object else []
    # Only a missing value differs from itself.
    wrong = (column != column) | np.asarray(missing if len(missing) else False)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{name}: expected a value for each row, got {column[row]} in row {row}.")
    return column


def check_weight(sample_weight: Any, n: int) -> NDArray[np.float64]:
    """Weights of n rows.

    Raises
    ------
    ValueError
        If the shape is not (n,), a weight is negative or not finite, or all are 0.
    """
    weight = check_column(np.asarray(sample_weight, dtype=np.float64), n, "sample_weight")
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"sample_weight: expected finite non-negative weights, got {weight[row]} in row {row}."
        )
    if not weight.any():
        raise ValueError("sample_weight: expected a positive sum, got only zeros.")
    return weight
