"""Checks of scores, counts and tolerances; probabilities among scores, and their logs.

They work for numpy arrays and torch tensors, without an import of torch.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from pa_select.utils.typing import Floats, Ints

#: Larger scores could overflow in a sum over pairs.
LARGEST_SCORE = 1e100
#: For a row of smaller scores, other than zeros, the inverse temperature could overflow.
SMALLEST_SCORE = 1e-300
#: Smallest probability if the classifier's own resolution is not known.
DEFAULT_CLIP = 1e-8
#: Tolerance for sums of rows and for negative values: half precision and printing round this much.
ROUNDING = 1e-3


class BadScoresError(ValueError):
    """Scores of the right shape that cannot be compared, such as nan."""


#: What to do with the scores of pixels, and with several labels of one row.
OF_PIXELS = (
    " For classes of pixels, (n, n_classes, height, width), put the classes last, "
    "numpy.moveaxis(scores, 1, -1).reshape(-1, n_classes), and give the image of each pixel as "
    "groups (documentation: 'Pixels, and several labels of a row')."
)
OF_LABELS = (
    " For several labels of a row compare one binary problem for each label (documentation: "
    "'Pixels, and several labels of a row')."
)
# Number of elements to check at once; it bounds the memory of the comparisons.
_CHECKED_ELEMENTS = 1 << 20
# On a device each check is waited for.
_CHECKED_ON_DEVICE = 1 << 27
# Numbers of rows to read at once: a few first, because they suffice to recognise most logits.
_FIRST_ROWS, _ROWS_AT_ONCE = 1 << 10, 1 << 16


def check_tol(tol: object, default: float, name: str = "tol") -> float:
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


def check_level(confidence_level: float) -> None:
    """Raise a ValueError unless the level of an interval is between 0 and 1."""
    number = isinstance(confidence_level, (int, float, np.number))
    if not (number and 0 < confidence_level < 1):
        raise ValueError(
            f"confidence_level: expected a number between 0 and 1, got {confidence_level!r}."
        )


def check_count(value: object, name: str, what: str) -> int:
    """Check a number of things, which is whole and at least 1, and return it."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name}: expected a whole number of {what}, got {value!r}.")
    if value < 1:
        raise ValueError(f"{name}: expected a positive number of {what}, got {value!r}.")
    return int(value)


def check_matrix(matrix: Any, name: str) -> None:
    """Check one matrix of scores (n_pairs, n_classes), an array or a tensor."""
    check_shape(matrix, name)
    check_values(matrix, name)


def check_shape(matrix: Any, name: str, fewest_classes: int = 2) -> None:
    """Check that a matrix has real numbers, at least one row, and a column for each class."""
    if getattr(matrix.dtype, "kind", "f") not in "biuf":
        raise TypeError(f"{name}: expected real numbers, got dtype {matrix.dtype}.")
    shape = tuple(matrix.shape)
    if len(shape) != 2:
        hint = (
            " One number per row, a margin or a predicted class, is not enough: give each class "
            "a column, for a margin numpy.column_stack([-margin / 2, margin / 2])."
            if len(shape) == 1
            else OF_PIXELS
        )
        raise ValueError(
            f"{name}: expected scores of shape (n_pairs, n_classes), got shape {shape}.{hint}"
        )
    if shape[0] == 0:
        raise ValueError(f"{name}: expected at least one row, got shape {shape}.")
    if shape[1] < fewest_classes:
        raise ValueError(
            f"{name}: expected a column for each of at least {fewest_classes} classes, got shape "
            f"{shape}. Two classes have two columns, such as 1 - p and p."
        )


def check_n_rows(n: int, X: Any, name: str) -> None:
    """Check that an estimator returned a row for each row of X, if X tells how many it has."""
    n_expected = (
        X.shape[0] if getattr(X, "shape", None) else len(X) if hasattr(X, "__len__") else n
    )
    if n != n_expected:
        raise ValueError(f"estimator: expected scores of {n_expected} rows from {name}, got {n}.")


def check_same_shape(
    shape_a: tuple[int, ...], shape_b: tuple[int, ...], name_a: str, name_b: str
) -> None:
    """Check that both samples have the same shape."""
    if shape_a != shape_b:
        raise ValueError(f"{name_b}: expected the shape of {name_a}, {shape_a}, got {shape_b}.")


def check_values(
    matrix: Any, name: str, n_rows: int | None = None, numbers: Ints | None = None
) -> None:
    """Refuse scores that are nan, inf, too large or too small, by a `BadScoresError`.

    A score may be at most `LARGEST_SCORE` in size, and a row may not be all -inf, nor all below
    `SMALLEST_SCORE` in size but not all 0. The matrix may be a stack of matrices with ``n_rows``
    rows each. `numbers` are what error messages call the rows, by default 0, 1, ...
    """
    library: Any = np if isinstance(matrix, np.ndarray) else sys.modules["torch"]
    if not (matrix.dtype.kind == "f" if library is np else matrix.is_floating_point()):
        return
    elements = _CHECKED_ELEMENTS if getattr(matrix, "is_cpu", True) else _CHECKED_ON_DEVICE
    at_once = max(elements // matrix.shape[1], 1)
    # Types of less precision have no positive numbers as small.
    may_be_tiny = matrix.dtype == library.float64
    for begin in range(0, len(matrix), at_once):
        rows = matrix[begin : begin + at_once]
        # Maxima are enough in the usual case, because nan and inf survive them.
        with np.errstate(invalid="ignore"):
            tops = library.amax(abs(rows), 1) if may_be_tiny else library.amax(abs(rows))
            largest = float(library.amax(tops))
            tiny = may_be_tiny and bool(((tops < SMALLEST_SCORE) & (tops > 0)).any())
        if tiny or not largest <= LARGEST_SCORE:
            _check_rows(rows, name, library, n_rows, begin, numbers)


def _check_rows(
    rows: Any, name: str, library: Any, n_rows: int | None, begin: int, numbers: Ints | None
) -> None:
    """Raise an error for rows, numbered from ``begin``, of which some look invalid."""

    def place(row: int) -> str:
        row += begin
        if numbers is not None:
            return f"row {numbers[row]}"
        return f"row {row}" if n_rows is None else f"problem {row // n_rows}, row {row % n_rows}"

    with np.errstate(over="ignore", invalid="ignore"):  # half precision has no 1e100
        size = abs(rows)
        too_large = size > LARGEST_SCORE
    for wrong, what in (
        (library.isnan(rows), "nan"),
        (library.isposinf(rows), "inf"),
        (library.isfinite(rows) & too_large, "a value beyond 1e100"),
    ):
        if wrong.any():
            row, column = (int(i) for i in library.argwhere(wrong)[0])
            raise BadScoresError(
                f"{name}: expected finite scores (or -inf for probability 0) of at most "
                f"1e100 in size, got {what} in {place(row)}, column {column}."
            )
    empty = library.isneginf(rows).all(1)
    if empty.any():
        row = int(library.argwhere(empty)[0, 0])
        raise BadScoresError(
            f"{name}: expected at least one class of positive probability in each row, "
            f"got only -inf in {place(row)}."
        )
    tops = library.amax(library.where(library.isfinite(rows), size, library.zeros_like(size)), 1)
    tiny = (tops > 0) & (tops < SMALLEST_SCORE)
    if tiny.any():
        row = int(library.argwhere(tiny)[0, 0])
        raise BadScoresError(
            f"{name}: expected scores of which the largest in each row is 0 or at least "
            f"{SMALLEST_SCORE:g} in size, got at most {float(tops[row]):.3g} in {place(row)}."
        )


def are_probabilities(rows: Any) -> Any:
    """Return a mask (n,) of the rows that are non-negative and sum to 1."""
    double: Any = np.float64 if isinstance(rows, np.ndarray) else sys.modules["torch"].float64
    with np.errstate(over="ignore", invalid="ignore"):
        sums = rows.sum(axis=1, dtype=double)
        return (rows >= -ROUNDING).all(axis=1) & (abs(sums - 1) <= ROUNDING)


def check_clip(clip: object) -> None:
    """Raise an error unless `clip` is a float in (0, 0.5)."""
    if not isinstance(clip, (float, np.floating)) or not 0 < clip < 0.5:
        raise ValueError(f"clip: expected a probability in (0, 0.5), got {clip!r}.")


def wrong_row(rows: Floats) -> int | None:
    """Return the first row that does not hold probabilities of exclusive classes, or None."""
    right = are_probabilities(rows)
    return None if right.all() else right.tolist().index(False)


def clipped_logs(probabilities: Any, clip: float) -> Any:
    """Return logs of floating-point probabilities; those below `clip` are raised to it."""
    if isinstance(probabilities, np.ndarray):
        raised = np.maximum(probabilities, clip)
        return np.log(raised, out=raised)
    return probabilities.clamp_min(clip).log()


def look_like_probabilities(*matrices: Any) -> list[bool]:
    """Return which matrices look like probabilities; all False if a row of any cannot be one.

    A matrix whose rows are all one-hot holds decisions. It does not look like probabilities
    itself, but does not prevent another matrix from doing so. Reading stops at the first block
    with a row that cannot be probabilities.
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
