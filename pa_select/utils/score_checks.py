"""Checks of scores and tolerances, for numpy and torch, without importing torch."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Larger scores could overflow in a sum over pairs.
LARGEST_SCORE = 1e100

# Number of elements to check at once; it bounds the memory of the comparisons.
_CHECKED_ELEMENTS = 1 << 20


def check_tol(tol: Any, default: float, name: str = "tol") -> float:
    """Check the largest gap to certify and return it, in nats per pair."""
    if tol is None:
        return default
    if isinstance(tol, bool) or not isinstance(tol, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name}: expected a number of nats, got {type(tol).__name__}.")
    try:
        nats = float(tol)
    except OverflowError:
        nats = np.inf
    if not 1e-12 <= nats < np.inf:
        raise ValueError(
            f"{name}: expected at least 1e-12 nats (the rounding of the sums) and finite, "
            f"got {nats!r}."
        )
    return nats


def check_size(shape: tuple[int, int], name: str) -> None:
    """Check that there are at least one row and two columns."""
    n, n_classes = shape
    if n == 0:
        raise ValueError(f"{name}: expected at least one row, got shape {shape}.")
    if n_classes < 2:
        raise ValueError(
            f"{name}: expected a column for each of at least 2 classes, got shape {shape}."
        )


def check_same_shape(
    shape_a: tuple[int, ...], shape_b: tuple[int, ...], name_a: str, name_b: str
) -> None:
    """Check that both samples have the same shape."""
    if shape_a != shape_b:
        raise ValueError(f"{name_b}: expected the shape of {name_a}, {shape_a}, got {shape_b}.")


def check_values(matrix: Any, name: str, library: Any, n_rows: int | None = None) -> None:
    """Check that floating-point scores are finite or -inf, and that no row is all -inf.

    Parameters
    ----------
    matrix : array or tensor of shape (n, n_classes)
        Matrix of floating-point type, or a stack of matrices with ``n_rows`` rows each.
    name : str
        Name of the matrix in error messages.
    library : module
        numpy or torch, whichever the matrix belongs to.
    n_rows : int, default=None
        Number of rows of each stacked matrix. None: there is only one matrix.
    """
    at_once = max(_CHECKED_ELEMENTS // matrix.shape[1], 1)
    for begin in range(0, len(matrix), at_once):
        rows = matrix[begin : begin + at_once]
        # One maximum is enough in the usual case, because nan and inf survive it.
        with np.errstate(invalid="ignore"):
            largest = float(library.amax(abs(rows)))
        if not largest <= LARGEST_SCORE:
            _check_rows(rows, name, library, n_rows, begin)


def _check_rows(rows: Any, name: str, library: Any, n_rows: int | None, begin: int) -> None:
    """Raise an error for rows, numbered from ``begin``, of which some look invalid."""

    def place(row: int) -> str:
        row += begin
        return f"row {row}" if n_rows is None else f"problem {row // n_rows}, row {row % n_rows}"

    with np.errstate(over="ignore", invalid="ignore"):  # half precision has no 1e100
        too_large = abs(rows) > LARGEST_SCORE
    for wrong, what in (
        (library.isnan(rows), "nan"),
        (library.isposinf(rows), "inf"),
        (library.isfinite(rows) & too_large, "a value beyond 1e100"),
    ):
        if wrong.any():
            row, column = (int(i) for i in library.argwhere(wrong)[0])
            raise ValueError(
                f"{name}: expected finite scores (or -inf for probability 0) of at most "
                f"1e100 in size, got {what} in {place(row)}, column {column}."
            )
    empty = library.isneginf(rows).all(1)
    if empty.any():
        row = int(library.argwhere(empty)[0, 0])
        raise ValueError(
            f"{name}: expected at least one class of positive probability in each row, "
            f"got only -inf in {place(row)}."
        )
