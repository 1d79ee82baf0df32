"""Numbers and labels of any container as arrays and tensors, or why not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pa_select._rows import reordered
from pa_select.agreement.kernel import Floats

# What float64 holds exactly and torch can compare; other types become float64 themselves, so
# that all that reads the scores ties the same of them.
_KEPT = {
    *(torch.uint8, torch.int8, torch.int16, torch.int32),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
}

# Lists that are nested deeper are no array; one that contains itself never ends.
_MOST_AXES = 8


def n_axes(x: Any) -> int:
    """Number of axes of an array, or of nested sequences by their first elements."""
    axes = 0
    while isinstance(x, (list, tuple)) and axes < _MOST_AXES:
        axes += 1
        x = x[0] if len(x) else None
    if isinstance(x, (list, tuple)):
        return axes
    return axes + (len(x.shape) if hasattr(x, "shape") else np.ndim(x))


def as_scores(values: Any, name: str) -> torch.Tensor:
    """Real numbers in a type that all of torch takes."""
    tensor = as_tensor(values, name)
    if tensor.is_complex():
        raise TypeError(f"{name}: expected real numbers, got {tensor.dtype}.")
    if tensor.dtype == torch.bool:
        return tensor.to(torch.uint8)
    try:
        return tensor if tensor.dtype in _KEPT else tensor.double()
    except NotImplementedError as error:  # of torch's types that are bits, not numbers
        raise TypeError(f"{name}: expected real numbers, got {tensor.dtype}.") from error


def as_floats(values: Any, name: str) -> Floats:
    floats: Floats = as_scores(values, name).to("cpu", torch.float64).numpy()
    return floats


def as_tensor(values: Any, name: str) -> torch.Tensor:
    """Numbers of any container and type, where possible without a copy."""
    if isinstance(values, torch.Tensor):
        if values.layout != torch.strided or values.is_meta:
            raise TypeError(
                f"{name}: expected a dense tensor, got layout {values.layout} on device "
                f"{values.device}."
            )
        return values.detach().resolve_neg()
    array = _as_array(values, name)
    dtypes: Any = getattr(values, "dtypes", None)
    if array.dtype == object and all(getattr(x, "kind", "O") in "biuf" for x in np.ravel(dtypes)):
        # pandas' nullable columns hold their missing values as objects.
        array = values.to_numpy(dtype=np.float64, na_value=np.nan)
    if array.dtype.kind not in "biufc":
        raise TypeError(
            f"{name}: expected real numbers, got "
            + (f"objects such as {array.ravel()[0]!r}" if array.size else "an empty sequence")
            + f" (dtype {array.dtype})."
        )
    # torch has no numbers longer than these, and takes the machine's byte order.
    dtype = {"g": "d", "G": "D"}.get(array.dtype.char, array.dtype.newbyteorder("="))
    with np.errstate(over="ignore"):
        array = array.astype(dtype, copy=False)
    if any(stride < 0 or stride % array.itemsize for stride in array.strides):
        array = array.copy()
    with warnings.catch_warnings():
        # torch warns that a read-only array could be written to; it is only read here.
        warnings.filterwarnings("ignore", message=".*non-writable")
        return torch.from_numpy(array)


def as_labels(values: Any, name: str, rows: Any = None) -> NDArray[Any]:
    """Labels or groups of any type, in the order of ``rows``."""
    check_order(values, rows, name)
    if isinstance(values, torch.Tensor):
        tensor = as_tensor(values, name).cpu()
        # numpy has fewer floating types.
        return (tensor.double() if tensor.is_floating_point() else tensor).numpy()
    return _as_array(values, name)


def _as_array(values: Any, name: str) -> NDArray[Any]:
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


def indexed(*samples: Any) -> Any:
    """The first sample whose pandas index tells the order of the rows, or None."""
    return next((x for x in samples if hasattr(x, "iloc")), None)


def check_order(values: Any, rows: Any, name: str, of: str = "the scores") -> None:
    """Refuse values with the index of ``rows`` in another order."""
    if reordered(rows, values):
        raise ValueError(
            f"{name}: expected the rows of {of} in the same order, got the same index in "
            "another order."
        )


def check_frames(scores: Any, other: Any, name: str, of: str) -> None:
    """Refuse a DataFrame whose rows or columns are in another order than those of another."""
    check_order(scores, other, name, of)
    columns = [getattr(x, "columns", None) for x in (other, scores)]
    if all(c is not None for c in columns):
        wanted, got = (list(c) for c in columns if c is not None)
        if wanted != got:
            raise ValueError(
                f"{name}: expected the columns of {of} in the same order, {wanted}, got {got}."
            )
