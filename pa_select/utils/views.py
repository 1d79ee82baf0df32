"""Paired views: the same observations as another environment would show them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from sklearn.utils.validation import _num_samples

from pa_select.utils.frames import named_like, reordered


def view_of(view: Any, X: Any, name: str = "views") -> Any:
    """Apply one view to X, or look up its rows by the index of X.

    Parameters
    ----------
    view : callable, shift, transformer or DataFrame
        ``view(X)``, ``view.transform(X)``, or the rows of ``view`` with the index of X.
    X : array-like of n rows
        The rows to view.
    name : str
        Name of the view in error messages.

    Returns
    -------
    object
        The n rows of the view, in the order of X.

    Raises
    ------
    TypeError
        If ``view`` has another type, or X has no index to look up.
    ValueError
        If rows are missing or ambiguous, or their number differs from n.
    """
    if hasattr(view, "loc"):
        return look_up(view, X, name)
    check_view(view, name)
    # A view may change its argument; the next view and metric must see X unchanged.
    if hasattr(view, "transform"):
        other = view.transform(_copy(X))
    else:
        other = view(_copy(X))
        if isinstance(other, tuple) and hasattr(other, "X"):
            other = other.X  # a `Shifted`, see pa_select.environments
    if other is None:
        raise TypeError(f"{name}: expected a view of X, got None.")
    if _num_samples(other) != _num_samples(X):
        raise ValueError(
            f"{name}: expected a view of each of {_num_samples(X)} rows of X, got "
            f"{_num_samples(other)} rows."
        )
    if reordered(X, other):
        raise ValueError(f"{name}: expected the rows of X in their order, got another order.")
    return named_like(X, other, same_rows=True)


def check_view(view: Any, name: str = "views") -> None:
    """Check that a view can be applied or looked up.

    Raises
    ------
    TypeError
        If it cannot.
    """
    a_class = isinstance(view, type)
    if a_class or not (hasattr(view, "loc") or hasattr(view, "transform") or callable(view)):
        raise TypeError(
            f"{name}: expected a callable X -> X2, a transformer, a pandas DataFrame aligned "
            f"with X by its index, or a list of these, got "
            f"{_type_name(view if a_class else type(view))}{', a class' if a_class else ''}."
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
    missing = ~index.isin(table.index)
    if missing.any():
        raise ValueError(
            f"{name}: expected a row for each index of {name_of_X}, got none for "
            f"{index[missing].tolist()[0]!r} "
            f"({int(missing.sum())} of {len(index)} are missing)."
        )
    return table.loc[index]
