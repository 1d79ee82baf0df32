"""Tells saved probabilities from saved scores, and makes scores of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pa_select.command_line.reading import InputError

# Half precision and a few printed digits leave so much of a sum open.
_ROUNDING = 1e-3

# Rows are looked at so many at a time: a mapped file is not copied.
_ROWS_AT_ONCE = 1 << 16


def look_like_probabilities(values: NDArray[Any]) -> bool:
    """Whether all rows of a matrix are non-negative and sum to 1."""
    starts = range(0, len(values), _ROWS_AT_ONCE)
    parts = (values[begin : begin + _ROWS_AT_ONCE] for begin in starts)
    return len(values) > 0 and all(_are_probabilities(part).all() for part in parts)


def log_probabilities(
    values: NDArray[Any], name: str, smallest: float
) -> tuple[NDArray[np.float64], int]:
    """Logs of probabilities, and how many were raised to the smallest one.

    Raises
    ------
    InputError
        If a row is not of probabilities of exclusive classes.
    """
    with np.errstate(over="ignore"):
        probabilities = values.astype(np.float64)
    wrong = ~_are_probabilities(probabilities)
    if wrong.any():
        row = int(wrong.argmax())
        cells = probabilities[row]
        least, total = cells.min(initial=np.inf), cells.sum()
        raise InputError(
            f"{name}: expected probabilities, rows of non-negative numbers that sum to 1, got "
            f"a sum of {total:.4g} and a least number of {least:.4g} in row {row}."
        )
    raised = int(np.count_nonzero(probabilities < smallest))
    np.maximum(probabilities, smallest, out=probabilities)
    return np.log(probabilities, out=probabilities), raised


def _are_probabilities(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows are; in each that is, every number lies between 0 and 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums = rows.sum(axis=1, dtype=np.float64)
        good: NDArray[np.bool_] = (rows >= 0).all(axis=1) & (abs(sums - 1) <= _ROUNDING)
    return good
