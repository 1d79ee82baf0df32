"""Arrays from array-likes, with clear errors: numbers, one value for each row, Datasets.

It needs no torch.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from pa_select.utils.estimators import is_instance, refuse_iterable_dataset, refuse_loader
from pa_select.utils.score_checks import OF_LABELS, OF_PIXELS
from pa_select.utils.typing import Array, Floats, Labels, Rows, Vector

# Deeper lists are not arrays; a list that contains itself would never end.
_MOST_AXES = 8
# Longer representations of an object are not shown in a message.
_LONG = 60


def n_axes(x: Any) -> int:
    """Return the number of axes of an array, or of nested sequences (by first elements)."""
    axes = 0
    while isinstance(x, (list, tuple)) and axes < _MOST_AXES:
        axes += 1
        x = x[0] if len(x) else None
    if isinstance(x, (list, tuple)):
        return axes
    return axes + (len(x.shape) if hasattr(x, "shape") else np.ndim(x))


def as_numpy(values: Any) -> Any:
    """Return a tensor's numbers as an array; other values are returned as they are."""
    if not hasattr(values, "detach"):
        return values
    tensor = values.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def as_numbers(values: Any, name: str) -> Array:
    """Convert to an array of real or complex numbers, if possible without a copy."""
    array = as_array(values, name)
    dtypes: Any = getattr(values, "dtypes", None)
    if array.dtype == object and all(getattr(x, "kind", "O") in "biuf" for x in np.ravel(dtypes)):
        # pandas' nullable columns with missing values convert to objects.
        array = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if array.dtype.kind not in "biufc":
        some = repr(array.ravel()[0]) if array.size else ""
        if len(some) > _LONG:
            some = f"a {type(array.ravel()[0]).__name__}"
        got = f"objects such as {some}" if some else "an empty sequence"
        raise TypeError(f"{name}: expected real numbers, got {got} (dtype {array.dtype}).")
    return array


def as_array(values: Any, name: str) -> Array:
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


def check_column(values: Labels, n: int, name: str) -> Array:
    """Check labels or environments of n rows and return them as an array of shape (n,).

    The shape (n, 1) is taken, too; missing and masked values are refused.
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
        got = column.shape or type(values).__name__
        several = column.ndim == 2 and len(column) == n and column.dtype.kind != "f"
        hint = OF_LABELS if several else OF_PIXELS if column.ndim > 2 else ""
        hint *= name in ("y", "y_val")
        raise ValueError(f"{name}: expected shape ({n},), got {got}.{hint}")
    of_objects = column.dtype == object
    wrong = np.array([_is_missing(x) for x in column]) if of_objects else column != column
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{name}: expected a value for each row, got {column[row]} in row {row}.")
    if of_objects:
        try:
            np.sort(column)
        except TypeError as error:
            kinds = " and ".join(sorted({type(value).__name__ for value in column}))
            raise TypeError(
                f"{name}: expected values of one type, got {kinds}; such as .astype(str)."
            ) from error
    return column


def _is_missing(value: Any) -> bool:
    """Whether a value is None, differs from itself like nan, or cannot be compared like NA."""
    differs = value != value
    return value is None or not isinstance(differs, (bool, np.bool_)) or bool(differs)


def one_column(values: Any) -> Array:
    """Return predictions of the shape (n, 1), as some models make them, in the shape (n,)."""
    array = np.asarray(values)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def check_weight(sample_weight: Vector, n: int) -> Floats:
    """Check the weights of n rows, finite and not all 0, and return them in double precision."""
    given = check_column(sample_weight, n, "sample_weight")
    # pandas' nullable columns may convert to objects.
    if given.dtype.kind not in "biuf" and not all(isinstance(x, Real) for x in given):
        raise TypeError(f"sample_weight: expected real numbers, got dtype {given.dtype}.")
    weight = given.astype(np.float64)
    check_weight_values(weight, "sample_weight")
    return weight


def check_weight_values(weight: Floats, name: str, *, may_be_zero: bool = False) -> None:
    """Check that weights are finite and not negative, with a positive sum."""
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{name}: expected finite non-negative weights, got {weight[row]} in row {row}."
        )
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not 0 < total < np.inf and not (may_be_zero and total == 0):
        raise ValueError(f"{name}: expected a positive and finite sum, got {total}.")


def is_dataset(rows: object) -> bool:
    """Whether rows are a torch Dataset; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(rows, torch.utils.data.Dataset)


def are_rows(value: object) -> bool:
    """Whether a mapping, or an object with a ``transform``, is the rows of one sample.

    skorch's ``SliceDict`` is a dict, and its ``SliceDataset`` has a ``transform``. Unlike a dict
    of samples and unlike a transformer, both have a shape.
    """
    return hasattr(value, "shape")


#: The error of a net in single precision that gets rows in double precision.
WRONG_PRECISION = (
    '{name}: expected rows of the net\'s precision, got float64; give {name}.astype("float32").'
)


def is_of_doubles(rows: Any) -> bool:
    """Whether rows are, or begin with, numbers in double precision."""
    if isinstance(rows, Mapping):
        return any(is_of_doubles(part) for part in rows.values())
    if is_slice_dataset(rows) or is_dataset(rows):
        return len(rows) > 0 and is_of_doubles(rows[0])
    if isinstance(rows, (tuple, list)):
        return len(rows) > 0 and is_of_doubles(rows[0])
    dtypes: Any = getattr(rows, "dtype", getattr(rows, "dtypes", ""))
    return any("float64" in str(dtype) for dtype in np.ravel(dtypes))


def is_slice_dataset(rows: object) -> bool:
    """Whether rows are a ``SliceDataset`` of skorch; skorch is not imported to find out."""
    return is_instance(rows, "skorch.helper", "SliceDataset")


def shape_of(rows: Any) -> tuple[int, ...] | None:
    """Return the shape of rows, if they have one.

    Items of skorch's ``SliceDataset``, whose own shape is their number, have shapes, too.
    """
    shape = getattr(rows, "shape", None)
    if is_slice_dataset(rows) and len(rows):
        return (len(rows), *np.shape(as_numpy(rows[0])))
    return None if shape is None else tuple(shape)


def stacked(rows: Any, name: str) -> Rows:
    """Return the rows of a Dataset as one array; other rows are returned as they are."""
    refuse_loader(rows, name)
    if not is_dataset(rows):
        return rows
    refuse_iterable_dataset(rows, name)
    items = [rows[i] for i in range(len(rows))]
    inputs = [item[0] if isinstance(item, (tuple, list)) else item for item in items]
    try:
        array = np.stack([np.asarray(row) for row in inputs]) if inputs else np.empty((0,))
        if array.dtype == object:
            raise TypeError("they are not numbers")
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name}: expected a Dataset of arrays or tensors of one shape, got items that begin "
            f"with a {type(inputs[0]).__name__} ({error})."
        ) from error
    return array


def labels_of(rows: Any, y: Labels | None, name: str) -> Any:
    """Return labels; if y is None, those of a Dataset with items of a row and its label."""
    if y is not None or not is_dataset(rows):
        return y
    labels = []
    for item in (rows[i] for i in range(len(rows))):
        if not isinstance(item, (tuple, list)) or len(item) < 2:
            raise TypeError(
                f"{name}: expected a Dataset whose items are a row and its label, got "
                f"{type(item).__name__} items without a label."
            )
        labels.append(np.asarray(item[1]))
    return np.array(labels)
