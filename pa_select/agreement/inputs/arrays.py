"""Numbers and labels of any container as arrays and tensors, or why not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pa_select.utils.arrays import as_array, as_numbers
from pa_select.utils.frames import reordered
from pa_select.utils.typing import Floats

# What float64 holds exactly and torch can compare; other types become float64 themselves, so
# that all that reads the scores ties the same of them.
_KEPT = {
    *(torch.uint8, torch.int8, torch.int16, torch.int32),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
}


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
    array = as_numbers(values, name)
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
    return as_array(values, name)


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
