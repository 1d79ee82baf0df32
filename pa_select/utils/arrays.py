"""Conversion of array-likes to numpy arrays, with clear errors; needs no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Deeper lists are not arrays; a list that contains itself would never end.
_MOST_AXES = 8


def n_axes(x: Any) -> int:
    """Return the number of axes of an array, or of nested sequences (by first elements)."""
    axes = 0
    while isinstance(x, (list, tuple)) and axes < _MOST_AXES:
        axes += 1
        x = x[0] if len(x) else None
    if isinstance(x, (list, tuple)):
        return axes
    return axes + (len(x.shape) if hasattr(x, "shape") else np.ndim(x))


def as_numbers(values: Any, name: str) -> NDArray[Any]:
    """Convert to an array of real or complex numbers, if possible without a copy."""
    array = as_array(values, name)
    dtypes: Any = getattr(values, "dtypes", None)
    if array.dtype == object and all(getattr(x, "kind", "O") in "biuf" for x in np.ravel(dtypes)):
        # pandas' nullable columns with missing values convert to objects.
        array = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if array.dtype.kind not in "biufc":
        raise TypeError(
            f"{name}: expected real numbers, got "
            + (f"objects such as {array.ravel()[0]!r}" if array.size else "an empty sequence")
            + f" (dtype {array.dtype})."
        )
    return array


def as_array(values: Any, name: str) -> NDArray[Any]:
    """Convert values of any type to a dense array; masked values are an error."""
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        raise TypeError(f"{name}: expected a dense array, got a sparse one; use .toarray().")
    is_list = isinstance(values, (list, tuple))
    if is_list and n_axes(values) >= _MOST_AXES:
        raise ValueError(f"{name}: expected an array, got a list nested {_MOST_AXES} times.")
    masked = [np.ma.is_masked(row) for row in values] if is_list else [np.ma.is_masked(values)]
    if any(masked):
        row = masked.index(True) if is_list else int(np.argwhere(np.ma.getmask(values))[0][0])
        raise ValueError(
            f"{name}: expected no masked values, got one in row {row}; fill them, or leave "
            "their rows out everywhere."
        )
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        rows = values if is_list else ()
        lengths = sorted({len(row) for row in rows if isinstance(row, (list, tuple))})
        if len(lengths) > 1:
            raise ValueError(
                f"{name}: expected rows of equal length, got rows of {lengths} entries."
            ) from error
        raise TypeError(f"{name}: expected an array ({error}).") from error
