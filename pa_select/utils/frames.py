"""Rows and columns of any type, and views: the same rows as in another environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any

import numpy as np

from pa_select.utils.arrays import are_rows, is_dataset, shape_of
from pa_select.utils.messages import named_error
from pa_select.utils.typing import Mask


def reordered(one: object, other: object) -> bool:
    """Return whether both have pandas indexes that differ only in their order."""
    first: Any = getattr(one, "index", None)
    second: Any = getattr(other, "index", None)
    if not (hasattr(first, "equals") and hasattr(second, "equals")) or first.equals(second):
        return False
    return len(first) == len(second) and second.is_unique and bool(_is_in(first, second).all())


def check_row_order(values: object, X: object, name: str) -> None:
    """Refuse values that have the index of X in another order: they would go by position."""
    if reordered(X, values):
        raise ValueError(f"{name}: expected the rows of X in their order, got another order.")


def shares_index(values: object, X: object) -> bool:
    """Return whether values can be looked up by the index of X, at least in part.

    Not if both merely number their rows: those of X may have been chosen, and numbered anew.
    """
    first: Any = getattr(X, "index", None)
    second: Any = getattr(values, "index", None)
    if not (hasattr(first, "equals") and hasattr(second, "equals")) or first.equals(second):
        return False
    if all(np.array_equal(index, np.arange(len(index))) for index in (first, second)):
        return False
    return bool(first.is_unique and _is_in(first, second).any())


def _is_in(index: Any, other: Any) -> Mask:
    """Return which labels of an index another one has; none if the two are of different kinds."""
    try:
        found: Mask = index.isin(other)
    except (AssertionError, TypeError, ValueError):  # such as of one level and of two
        return np.zeros(len(index), dtype=bool)
    return found


def named_like(X: Any, rows: Any, same_rows: bool = False) -> Any:
    """Convert rows to a DataFrame if X is a DataFrame, to a dense array if X is an array.

    With `same_rows` row i belongs to row i of X, and gets its label of the index.
    """
    if hasattr(X, "columns") and isinstance(rows, np.ndarray) and rows.shape[1:] == X.shape[1:]:
        names = {"columns" if hasattr(X, "loc") else "schema": X.columns}  # pandas, polars
        if same_rows and hasattr(X, "loc"):
            names["index"] = X.index
        return type(X)(rows, **names)
    if isinstance(X, np.ndarray) and hasattr(rows, "to_numpy"):
        return rows.to_numpy()
    if isinstance(X, np.ndarray) and hasattr(rows, "toarray"):
        return rows.toarray()
    if isinstance(X, np.ndarray) and isinstance(rows, list):
        with suppress(ValueError):  # rows of several lengths
            return np.array(rows)
    return rows


def joined(X: Any, others: Sequence[Any]) -> Any:
    """Stack rows below those of X, an array, tensor, sparse matrix, DataFrame, Series or list.

    All have the type of X, but arrays, sparse rows and lists may be mixed. The result has a new
    index, and floating numbers keep their precision.
    """
    # Imported here: scores are checked without scipy, and rows of a package need only that one.
    from scipy.sparse import csr_array, csr_matrix, issparse, sparray, vstack

    if issparse(X):
        kind = csr_array if isinstance(X, sparray) else csr_matrix
        return _of_precision(X, vstack([kind(rows) for rows in (X, *others)], format="csr"))
    others = [rows.toarray() if issparse(rows) else rows for rows in others]
    if hasattr(X, "detach"):
        import torch

        return torch.cat([X, *(rows.to(X.device) for rows in others)])
    if hasattr(X, "iloc"):
        import pandas as pd

        return pd.concat([X, *others], ignore_index=True)
    if hasattr(X, "columns"):
        import polars as pl

        # Measurements of one quantity may be integers in one table and floats in the other.
        return pl.concat([X, *others], how="vertical_relaxed")
    if isinstance(X, list):
        return [row for rows in (X, *others) for row in rows]
    return _of_precision(X, np.concatenate([X, *others]))


def _of_precision(X: Any, rows: Any) -> Any:
    """Return rows in the floating type of X, if it has one."""
    return rows.astype(X.dtype, copy=False) if X.dtype.kind == "f" else rows


def check_columns(rows: Any, X: Any, name: str, name_of_X: str = "X", advice: str = "") -> None:
    """Check that rows have the columns and the shape of X.

    An error ends with `advice` if other columns are there. Mappings of parts, as skorch's
    ``SliceDict`` is one, have the parts of X, and each is checked.
    """
    if is_dataset(X) or is_dataset(rows):  # of a net; its items may be parts, and are not read
        return
    if isinstance(rows, Mapping) or isinstance(X, Mapping):
        parts, known_parts = (sorted(x) if isinstance(x, Mapping) else None for x in (rows, X))
        if parts is None or parts != known_parts:
            expected, got = (
                f"a {type(x).__name__}" + (f" of {names}" if names is not None else "")
                for x, names in ((X, known_parts), (rows, parts))
            )
            raise ValueError(f"{name}: expected {expected} like {name_of_X}, got {got}.{advice}")
        for part in parts:
            names_of_part = f"{name}[{part!r}]", f"{name_of_X}[{part!r}]"
            check_columns(rows[part], X[part], *names_of_part, advice)
        return
    columns, known = (list(getattr(x, "columns", [])) for x in (rows, X))
    if columns and known and columns != known:
        expected = f"{name}: expected the columns of {name_of_X}"
        column_set, known_set = set(columns), set(known)
        more = [c for c in columns if c not in known_set]
        lacking = [c for c in known if c not in column_set]
        if more and lacking:
            got = f"{some_of(more)} instead of {some_of(lacking)}"
        else:
            got = f"also {some_of(more)}" if more else f"all but {some_of(lacking)}"
        if more or lacking:
            raise ValueError(f"{expected}, got {got}.{advice}")
        raise ValueError(
            f"{expected} in their order, got another order, in which {columns[0]!r} is the first "
            f"one. The cure is {name}[{name_of_X}.columns]."
        )
    shape, of_X = shape_of(rows), shape_of(X)
    if shape is not None and of_X is not None and tuple(shape[1:]) != tuple(of_X[1:]):
        raise ValueError(
            f"{name}: expected rows of shape {tuple(of_X[1:])} like those of {name_of_X}, got "
            f"{tuple(shape[1:])}.{advice}"
        )


def some_of(names: list[Any]) -> str:
    """Return the first three names, and how many there are besides."""
    shown = ", ".join(map(repr, names[:3]))
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def view_of(view: Any, X: Any, name: str = "views") -> Any:
    """Apply one view to X, or look up its rows by the index of X; refuse other numbers of rows.

    A view is a callable, a shift, a transformer, or a DataFrame with the rows by their index. The
    rows are returned in the order of X. Errors begin with `name`.
    """
    if hasattr(view, "loc"):
        return look_up(view, X, name)
    check_view(view, name)
    # A view may change its argument; the next view and metric must see X unchanged.
    try:
        other = view.transform(_copy(X)) if hasattr(view, "transform") else view(_copy(X))
    except Exception as error:  # whatever the view
        raise named_error(error, name) from error
    if is_shifted(other):
        other = other.X
    if other is None:
        raise TypeError(f"{name}: expected a view of X, got None.")
    # Imported here: scores are checked without scikit-learn.
    from sklearn.utils.validation import _num_samples

    if _num_samples(other) != _num_samples(X):
        raise ValueError(
            f"{name}: expected a view of each of {_num_samples(X)} rows of X, got "
            f"{_num_samples(other)} rows."
        )
    check_row_order(other, X, name)
    return named_like(X, other, same_rows=True)


def check_view(view: Any, name: str = "views") -> None:
    """Check that a view can be applied or looked up."""
    check_not_shifted(view, name)
    if getattr(view, "_aimed", False):
        raise TypeError(f"{name}: an attack needs a fitted model, got {type(view).__name__}.")
    a_class = isinstance(view, type)
    transforms = hasattr(view, "transform") and not are_rows(view)
    if a_class or not (hasattr(view, "loc") or transforms or callable(view)):
        raise TypeError(
            f"{name}: expected a callable X -> X2, a transformer, a pandas DataFrame aligned "
            f"with X by its index, or a list of these, got "
            f"{_type_name(view if a_class else type(view))}{', a class' if a_class else ''}."
        )


def is_shifted(value: object) -> bool:
    """Whether this is a `Shifted`, the result of a shift, see pa_select.shifts."""
    return isinstance(value, tuple) and hasattr(value, "X")


def check_not_shifted(value: object, name: str) -> None:
    """Refuse the result of a shift where the shift or its rows are expected."""
    if is_shifted(value):
        raise TypeError(
            f"{name}: expected a shift or rows, got a Shifted; give the shift itself, or its "
            "rows, `.X`."
        )


def _copy(X: Any) -> Any:
    for method in ("clone", "copy"):
        if hasattr(X, method):
            return getattr(X, method)()
    return deepcopy(X)


def _type_name(kind: type) -> str:
    """Return the name of a type; DataFrame also gets the name of its package."""
    home = kind.__module__.split(".")[0]
    return f"{home}.{kind.__name__}" if kind.__name__ == "DataFrame" else kind.__name__


def look_up(table: Any, X: Any, name: str, name_of_X: str = "X") -> Any:
    """Return the rows of a Series or DataFrame that have the index of X, in the order of X."""
    index = getattr(X, "index", None)
    if index is None or callable(index):
        raise TypeError(
            f"{name}: looked up by the index of {name_of_X}, so {name_of_X} must be a pandas "
            f"DataFrame, got {_type_name(type(X))}."
        )
    if not table.index.is_unique:
        repeated = table.index[table.index.duplicated()].tolist()[0]
        raise ValueError(f"{name}: expected a unique index, got {repeated!r} several times.")
    missing = ~_is_in(index, table.index)
    if missing.any():
        raise ValueError(
            f"{name}: expected a row for each index of {name_of_X}, got none for "
            f"{some_of(index[missing].tolist())} "
            f"({int(missing.sum())} of {len(index)} are missing)."
        )
    return table.loc[index]
