"""Conversion of rows to arrays of numbers, and back to their own type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from pa_select.utils.estimators import is_instance
from pa_select.utils.typing import Bounds, Floats, RandomState, Rows


class NumericRows(NamedTuple):
    """The numbers of some rows, and a function that converts numbers back to such rows.

    The values are in double precision. Do not write to them: they may be the caller's. ``restore``
    converts changed numbers of the same shape to rows of the original type, in new memory.
    Precision and device stay the same; integers become floats.
    """

    values: Floats
    restore: Callable[[Floats], Any]


def numeric_rows(X: Rows, name: str = "X") -> NumericRows:
    """Return the numbers of an array, tensor or list, or of the numeric columns of a DataFrame.

    In a DataFrame of pandas or polars, columns of booleans, text, dates and categories stay
    unchanged.
    """
    if is_instance(X, "pandas", "DataFrame"):
        return _frame_rows(X, name)
    if is_instance(X, "polars", "DataFrame"):
        return _polars_rows(X, name)
    if is_instance(X, "torch", "Tensor"):
        return _tensor_rows(X, name)
    if not isinstance(X, np.ndarray | list):
        raise TypeError(
            f"{name}: expected an array, a tensor, a list or a pandas or polars DataFrame of "
            f"numbers, got {type(X).__name__}."
        )
    array = np.asarray(X)
    if array.dtype.kind not in "fiu":
        advice = "; give a DataFrame, whose numeric columns change" * (array.dtype == object)
        raise TypeError(f"{name}: expected real numbers, got dtype {array.dtype}{advice}.")
    dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)

    def restore(values: Floats) -> Any:
        return values.astype(dtype) if isinstance(X, np.ndarray) else values.tolist()

    return NumericRows(array.astype(np.float64, copy=False), restore)


def _tensor_rows(X: Any, name: str) -> NumericRows:
    import torch

    dtype = X.dtype if X.is_floating_point() else torch.get_default_dtype()

    def restore(values: Floats) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=X.device)

    return NumericRows(X.detach().cpu().double().numpy(), restore)


def _frame_rows(X: Any, name: str) -> NumericRows:
    import pandas as pd
    from pandas.api import types

    def is_real(dtype: Any) -> bool:
        return types.is_numeric_dtype(dtype) and not (
            types.is_bool_dtype(dtype) or types.is_complex_dtype(dtype)
        )

    dtypes = list(X.dtypes)
    real = [j for j, dtype in enumerate(dtypes) if is_real(dtype)]
    if not real:
        raise TypeError(f"{name}: expected at least one numeric column, got none.")

    def restore(values: Floats) -> Any:
        frame = X.copy()
        for j, column in zip(real, values.T, strict=True):
            kept = dtypes[j] if types.is_float_dtype(dtypes[j]) else np.dtype(np.float64)
            # A Series for each of thousands of columns of numpy would take twice as long.
            ours = isinstance(kept, np.dtype)
            array = column.astype(kept) if ours else pd.Series(column).astype(kept).array
            # By number, since names may occur twice; as an array, which has no index to align.
            frame.isetitem(j, array)
        return frame

    values = X.iloc[:, real].to_numpy(dtype=np.float64, na_value=np.nan)
    # In the order of an array, so that sums over the rows are rounded alike.
    return NumericRows(np.ascontiguousarray(values), restore)


def _polars_rows(X: Any, name: str) -> NumericRows:
    import polars as pl

    real = [column for column, dtype in X.schema.items() if dtype.is_numeric()]
    if not real:
        raise TypeError(f"{name}: expected at least one numeric column, got none.")

    def restore(values: Floats) -> Any:
        kept = [X.schema[column] if X.schema[column].is_float() else pl.Float64 for column in real]
        columns = (
            pl.Series(column, values[:, j]).cast(dtype)
            for j, (column, dtype) in enumerate(zip(real, kept, strict=True))
        )
        return X.with_columns(*columns)

    return NumericRows(X.select(pl.col(real).cast(pl.Float64)).to_numpy(), restore)


def distances(before: Floats, after: Floats) -> Floats:
    """Euclidean norm of the change of each row, over numbers that are finite before and after."""
    finite = np.isfinite(before) & np.isfinite(after)
    change = np.subtract(after, before, where=finite, out=np.zeros(before.shape))
    norm: Floats = np.sqrt(np.square(change).sum(axis=tuple(range(1, change.ndim))))
    return norm


def clip_to_box(values: Floats, bounds: Bounds | None, before: Floats) -> Floats:
    """Clip values to a box; values that were already outside do not move farther out.

    The bounds are a pair of numbers or of arrays that fit a row, or None. `before` has the numbers
    before the change.
    """
    if bounds is None:
        return values
    low, high = check_bounds(bounds, values.shape[1:])
    return np.clip(values, np.minimum(low, before), np.maximum(high, before))


def check_bounds(bounds: Bounds, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return the smallest and the largest value, broadcast to the shape of a row."""
    low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), shape) for end in bounds)
    if not (low < high).all():
        raise ValueError(f"bounds: expected the least value before the greatest, got {bounds!r}.")
    return low, high


def seeded(random_state: RandomState) -> np.random.RandomState:
    """Return a random number generator; None gives seed 0."""
    source: np.random.RandomState = check_random_state(0 if random_state is None else random_state)
    return source
