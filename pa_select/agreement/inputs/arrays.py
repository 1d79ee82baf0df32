"""Conversion of numbers and labels in any container to arrays and tensors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pa_select.utils.arrays import as_array, as_numbers
from pa_select.utils.frames import reordered
from pa_select.utils.typing import Floats

# Types that float64 holds exactly and torch can compare. Other types are converted to float64
# at once, so that the same scores tie in every later step.
_KEPT = {
    *(torch.uint8, torch.int8, torch.int16, torch.int32),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
}


def as_scores(values: Any, name: str) -> torch.Tensor:
    """Return real numbers as a tensor of a type that all functions of torch take."""
    tensor = as_tensor(values, name)
    if tensor.is_complex():
        raise TypeError(f"{name}: expected real numbers, got {tensor.dtype}.")
    if tensor.dtype == torch.bool:
        return tensor.to(torch.uint8)
    try:
        return tensor if tensor.dtype in _KEPT else tensor.double()
    except NotImplementedError as error:  # torch has types of bits that are not numbers
        raise TypeError(f"{name}: expected real numbers, got {tensor.dtype}.") from error


def as_floats(values: Any, name: str) -> Floats:
    floats: Floats = as_scores(values, name).to("cpu", torch.float64).numpy()
    return floats


def as_tensor(values: Any, name: str) -> torch.Tensor:
    """Return numbers of any container and type as a tensor, without a copy if possible."""
    if isinstance(values, torch.Tensor):
        if values.layout != torch.strided or values.is_meta:
            raise TypeError(
                f"{name}: expected a dense tensor, got layout {values.layout} on device "
                f"{values.device}."
            )
        return values.detach().resolve_neg()
    array = as_numbers(values, name)
    # torch has no longer types than double and complex double, and no foreign byte order.
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
    """Return labels or groups of any type; check that they are in the order of ``rows``."""
    check_order(values, rows, name)
    if isinstance(values, torch.Tensor):
        tensor = as_tensor(values, name).cpu()
        # numpy lacks some floating types, such as bfloat16.
        return (tensor.double() if tensor.is_floating_point() else tensor).numpy()
    return as_array(values, name)


def indexed(*samples: Any) -> Any:
    """Return the first sample with a pandas index, or None."""
    return next((x for x in samples if hasattr(x, "iloc")), None)


def check_order(values: Any, rows: Any, name: str, of: str = "the scores") -> None:
    """Refuse values that have the index of ``rows``, but in another order."""
    if reordered(rows, values):
        raise ValueError(
            f"{name}: expected the rows of {of} in the same order, got the same index in "
            "another order."
        )


def check_frames(scores: Any, other: Any, name: str, of: str) -> None:
    """Refuse a DataFrame whose rows or columns are in another order than those of `other`."""
    check_order(scores, other, name, of)
    columns = [getattr(x, "columns", None) for x in (other, scores)]
    if all(c is not None for c in columns):
        wanted, got = (list(c) for c in columns if c is not None)
        if wanted != got:
            raise ValueError(
                f"{name}: expected the columns of {of} in the same order, {wanted}, got {got}."
            )
