"""The rows and the labels of torch Datasets."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def is_dataset(rows: Any) -> bool:
    """Whether rows are a torch Dataset; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(rows, torch.utils.data.Dataset)


def stacked(rows: Any, name: str) -> Any:
    """Return the rows of a Dataset as one array; other rows are returned as they are.

    Raises
    ------
    TypeError
        If they cannot be stacked, or can only be read one after the other.
    """
    if not is_dataset(rows):
        return rows
    from pa_select.utils.estimators import refuse_iterable_dataset

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


def labels_of(rows: Any, y: Any, name: str) -> Any:
    """Return labels; if y is None, those of a Dataset with items of a row and its label.

    Raises
    ------
    TypeError
        If its items are no such pairs.
    """
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
