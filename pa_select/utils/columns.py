"""Checks of labels, environments and weights: one value for each row."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pa_select.utils.typing import Floats, Ints


def check_column(values: Any, n: int, name: str) -> NDArray[Any]:
    """Check labels or environments of n rows and return them as an array.

    Raises
    ------
    TypeError, ValueError
        If the values are not an array, the shape is neither (n,) nor (n, 1), or a value is
        missing or masked.
    """
    if np.ma.is_masked(values):
        raise ValueError(f"{name}: expected a value for each row, got masked ones.")
    try:
        column = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name}: expected an array of shape ({n},) ({error}).") from error
    if column.shape == (n, 1):
        column = column[:, 0]
    if column.shape != (n,):
        raise ValueError(f"{name}: expected shape ({n},), got {column.shape}.")
    missing = [x is None for x in column] if column.dtype == object else []
    # Missing values such as nan differ from themselves.
    wrong = (column != column) | np.asarray(missing if len(missing) else False)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{name}: expected a value for each row, got {column[row]} in row {row}.")
    return column


def check_weight(sample_weight: Any, n: int) -> NDArray[np.float64]:
    """Check the weights of n rows and return them in double precision.

    Raises
    ------
    TypeError, ValueError
        If the weights are not real numbers, the shape is not (n,), a weight is negative or not
        finite, or all weights are 0.
    """
    given = check_column(sample_weight, n, "sample_weight")
    # pandas' nullable columns may convert to objects.
    if given.dtype.kind not in "biuf" and not all(isinstance(x, Real) for x in given):
        raise TypeError(f"sample_weight: expected real numbers, got dtype {given.dtype}.")
    weight = given.astype(np.float64)
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"sample_weight: expected finite non-negative weights, got {weight[row]} in row {row}."
        )
    if not weight.any():
        raise ValueError("sample_weight: expected a positive sum, got only zeros.")
    return weight


def shares_of(rows: Ints, weight: Floats) -> Floats:
    """Return the weights of rows that are there several times; together they count once."""
    shares: Floats = (weight / np.bincount(rows, minlength=len(weight)).clip(1))[rows]
    return shares
