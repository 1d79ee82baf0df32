"""Samples in which only a share of the rows is shifted."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from pa_select.shifts.numeric_rows import is_frame, is_polars, is_series, is_tensor, seeded
from pa_select.utils.arrays import as_numpy
from pa_select.utils.frames import check_row_order, joined
from pa_select.utils.typing import Mask, RandomState, Vector

_KINDS: tuple[Callable[[Any], bool], ...] = (
    *(is_frame, is_series, is_polars, is_tensor, sparse.issparse),
    *(lambda rows: isinstance(rows, np.ndarray), lambda rows: isinstance(rows, list)),
)


def mix(
    X: Any, X2: Any, ratio: float, order: Vector | None = None, random_state: RandomState = None
) -> Any:
    """Replace a share of the rows by shifted rows.

    Parameters
    ----------
    X, X2 : array, tensor, sparse matrix or array, DataFrame, Series or list of n rows
        Rows, and the same rows after a shift; both have the same type and shape.
    ratio : float
        Share of the rows to replace, in [0, 1]; their number is rounded.
    order : array-like of shape (n,), default=None
        Rows with the smallest values are replaced first, rows with nan last; ties are broken
        by row number. `Shifted.norm` with ratios of 0.1, 0.2, … gives the samples of the
        paper [1]_. None: rows are replaced in random order.
    random_state : int, RandomState instance or None, default=None
        Seed of the random order, used if ``order`` is None. None: the same order in every
        call. A row replaced at one ratio is also replaced at every higher ratio.

    Returns
    -------
    array, tensor, sparse matrix or array, DataFrame, Series or list of n rows
        New rows of the type of X, with the index of X.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid; the message names it.

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 4.1 (adversarial ratio: the attacked rows under a decile of their norm).

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.shifts import mix
    >>> mix(["a", "b", "c", "d"], ["A", "B", "C", "D"], 0.5, order=[0.3, 0.1, np.inf, 0.2])
    ['a', 'B', 'c', 'D']
    """
    n = _num_samples(X)
    # By kind and not by type: an array that is mapped from a file is an array, too.
    kind, other = ([is_kind(rows) for is_kind in _KINDS] for rows in (X, X2))
    if not any(kind):
        raise TypeError(
            "X: expected an array, a tensor, a list, a pandas DataFrame or Series, a polars "
            f"DataFrame or sparse rows, got {type(X).__name__}."
        )
    if kind != other:
        raise TypeError(
            f"X2: expected rows of the type of X, {type(X).__name__}, got {type(X2).__name__}."
        )
    if _num_samples(X2) != n:
        raise ValueError(f"X2: expected {n} rows as X has, got {_num_samples(X2)}.")
    shapes = [getattr(rows, "shape", (n,)) for rows in (X, X2)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"X2: expected shape {tuple(shapes[0])}, got {tuple(shapes[1])}.")
    replaced = shifted_rows(n, ratio, order, random_state)
    _check_alike(X, X2)
    rows = _safe_indexing(joined(X, [X2]), np.arange(n) + n * replaced)
    if is_frame(X) or is_series(X):
        rows.index = X.index
        return rows.rename(X.name) if is_series(X) else rows
    return rows.asformat(X.format) if sparse.issparse(X) else rows


def shifted_rows(
    n: int, ratio: float, order: Vector | None = None, random_state: RandomState = None
) -> Mask:
    """Return a mask of the rows that `mix` replaces, for example to mix scores.

    Parameters
    ----------
    n : int
        Number of rows.
    ratio, order, random_state
        As in `mix`.

    Returns
    -------
    ndarray of shape (n,) of bool
        A row that is True at one ratio is also True at every higher ratio.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid; the message names it.

    Examples
    --------
    >>> from pa_select.shifts import shifted_rows
    >>> shifted_rows(4, 0.5, order=[0.3, 0.1, 0.4, 0.2])
    array([False,  True, False,  True])
    """
    if not isinstance(ratio, numbers.Real) or isinstance(ratio, bool):
        raise TypeError(f"ratio: expected a number, got {ratio!r}.")
    if not 0 <= ratio <= 1:
        raise ValueError(f"ratio: expected a number in [0, 1], got {ratio!r}.")
    if order is None:
        rows = seeded(random_state).permutation(n)
    else:
        values = np.asarray(as_numpy(order))
        if values.shape != (n,):
            raise ValueError(f"order: expected shape ({n},), got {values.shape}.")
        if values.dtype.kind not in "fiub":
            raise TypeError(f"order: expected numbers, got dtype {values.dtype}.")
        rows = np.argsort(values, kind="stable")
    replaced = np.zeros(n, dtype=bool)
    replaced[rows[: round(ratio * n)]] = True
    return replaced


def _check_alike(X: Any, X2: Any) -> None:
    """Check that both have the same columns, the same order, and texts at the same places."""
    if is_frame(X) or is_polars(X):
        columns, columns2 = list(X.columns), list(X2.columns)
        if columns != columns2:
            raise ValueError(f"X2: expected columns {columns}, got {columns2}.")
    check_row_order(X2, X, "X2")
    texts = [isinstance(x, np.ndarray) and x.dtype.kind in "US" for x in (X, X2)]
    if texts[0] != texts[1]:
        raise TypeError(f"X2: expected dtype {X.dtype} as X has, got {X2.dtype}.")
