"""What rows in a DataFrame have beyond their numbers: an order, and names of columns."""

from __future__ import annotations

from typing import Any

import numpy as np


def reordered(one: Any, other: Any) -> bool:
    """Whether both have a pandas index and it is the same one in another order."""
    first: Any = getattr(one, "index", None)
    second: Any = getattr(other, "index", None)
    if not (hasattr(first, "equals") and hasattr(second, "equals")) or first.equals(second):
        return False
    return len(first) == len(second) and second.is_unique and bool(first.isin(second).all())


def named_like(X: Any, rows: Any) -> Any:
    """Rows as a DataFrame where X is one, as an array where X is one."""
    if hasattr(X, "columns") and isinstance(rows, np.ndarray) and rows.shape[1:] == X.shape[1:]:
        names = {"columns" if hasattr(X, "loc") else "schema": X.columns}  # pandas, polars
        return type(X)(rows, **names)
    if isinstance(X, np.ndarray) and hasattr(rows, "to_numpy"):
        return rows.to_numpy()
    return rows
