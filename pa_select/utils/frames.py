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


def named_like(X: Any, rows: Any, same_rows: bool = False) -> Any:
    """Convert rows to a DataFrame if X is a DataFrame, to an array if X is an array.

    With `same_rows` row i belongs to row i of X, and gets its label of the index.
    """
    if hasattr(X, "columns") and isinstance(rows, np.ndarray) and rows.shape[1:] == X.shape[1:]:
        names = {"columns" if hasattr(X, "loc") else "schema": X.columns}  # pandas, polars
        if same_rows and hasattr(X, "loc"):
            names["index"] = X.index
        return type(X)(rows, **names)
    if isinstance(X, np.ndarray) and hasattr(rows, "to_numpy"):
        return rows.to_numpy()
    return rows


def check_columns(rows: Any, X: Any, name: str, name_of_X: str = "X", advice: str = "") -> None:
    """Check that rows have the shape and the columns of X.

    An error ends with `advice` if it is not the order of the columns that is wrong.

    Raises
    ------
    ValueError
        If they do not.
    """
    shape, of_X = getattr(rows, "shape", None), getattr(X, "shape", None)
    if shape is not None and of_X is not None and tuple(shape[1:]) != tuple(of_X[1:]):
        raise ValueError(
            f"{name}: expected rows of shape {tuple(of_X[1:])} like those of {name_of_X}, got "
            f"{tuple(shape[1:])}.{advice}"
        )
    columns, of_X = getattr(rows, "columns", None), getattr(X, "columns", None)
    if columns is not None and of_X is not None and list(columns) != list(of_X):
        if set(columns) == set(of_X):
            raise ValueError(
                f"{name}: expected the columns of {name_of_X} in their order, got another order, "
                f"in which {columns[0]!r} is the first one."
            )
        raise ValueError(
            f"{name}: expected the columns of {name_of_X}, {list(of_X)}, got {list(columns)}."
            f"{advice}"
        )
