"""The order of rows and the names of columns in DataFrames."""

from __future__ import annotations

from typing import Any

import numpy as np


def reordered(one: Any, other: Any) -> bool:
    """Return whether both have pandas indexes that differ only in their order."""
    first: Any = getattr(one, "index", None)
    second: Any = getattr(other, "index", None)
    if not (hasattr(first, "equals") and hasattr(second, "equals")) or first.equals(second):
        return False
    return len(first) == len(second) and second.is_unique and bool(first.isin(second).all())


def named_like(X: Any, rows: Any) -> Any:
    """Convert rows to a DataFrame if X is a DataFrame, to an array if X is an array."""
    if hasattr(X, "columns") and isinstance(rows, np.ndarray) and rows.shape[1:] == X.shape[1:]:
        names = {"columns" if hasattr(X, "loc") else "schema": X.columns}  # pandas, polars
        return type(X)(rows, **names)
    if isinstance(X, np.ndarray) and hasattr(rows, "to_numpy"):
        return rows.to_numpy()
    return rows
