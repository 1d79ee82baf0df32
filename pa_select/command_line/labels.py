"""Column numbers of true classes, which are given as numbers or as names."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pa_select.command_line.reading import InputError

# Largest number of labels in a message.
_NAMED = 5

_WHOLE_NUMBER = re.compile(r"\s*[+-]?\d{1,15}\s*")


def columns_of_labels(
    labels: NDArray[Any],
    name: str,
    shape: tuple[int, int],
    columns: list[str] | None,
    what: str = "pairs",
) -> tuple[NDArray[np.int64], list[str] | None]:
    """Find the column of each label.

    Parameters
    ----------
    labels : ndarray
        Column numbers from 0, or strings. Strings are names of columns; if the columns have no
        names, the sorted labels are their names, as with scikit-learn's classes. If all names
        of columns are whole numbers, then numbers are names too.
    name : str
        Name of the file, for messages.
    shape : tuple of int
        Shape of the scores.
    columns : list of str or None
        Names of the columns.
    what : str, default="pairs"
        What has labels, in the plural, for messages.

    Returns
    -------
    numbers : ndarray of shape (n_pairs,)
        The number of the column of each label.
    columns : list of str or None
        Names of the columns; columns without names take those of string labels.

    Raises
    ------
    InputError
        If there is not one label for each pair, or a label has no column.
    """
    n, n_classes = shape
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n,):
        raise InputError(
            f"{name}: expected one label for each of {n} {what}, got shape {labels.shape}."
        )
    if labels.dtype.kind in "US":
        return _columns_by_name(labels, name, n_classes, columns)
    return _columns_by_number(labels, name, n_classes, columns), columns


def _columns_by_name(
    labels: NDArray[Any], name: str, n_classes: int, columns: list[str] | None
) -> tuple[NDArray[np.int64], list[str]]:
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8")
    distinct, codes = np.unique(labels, return_inverse=True)
    found = [label.strip() for label in distinct.tolist()]
    if "" in found:
        row = int((codes == found.index("")).argmax())
        raise InputError(f"{name}: expected a label in each row, got none in row {row}.")
    if columns is None:
        columns = sorted(set(found))
        if len(columns) != n_classes:
            raise InputError(
                f"{name}: expected {n_classes} different labels, one for each column of the "
                f"scores, whose columns have no names, got {len(columns)}: {_quoted(columns)}."
            )
    known = [column.strip() for column in columns]
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise InputError(
            f"{name}: expected names of columns of the scores, {_quoted(known)}, got labels that "
            f"are not among them: {_quoted(unknown)}."
        )
    twice = sorted({label for label in found if known.count(label) > 1})
    if twice:
        raise InputError(
            f"{name}: expected labels that name one column each, got some that name several: "
            f"{_quoted(twice)}."
        )
    numbers = np.array([known.index(label) for label in found], dtype=np.int64)
    return numbers[codes], columns


def _columns_by_number(
    labels: NDArray[Any], name: str, n_classes: int, columns: list[str] | None
) -> NDArray[np.int64]:
    numbers, wanted = list(range(n_classes)), f"numbers of columns, 0 to {n_classes - 1}"
    if columns is not None and all(map(_WHOLE_NUMBER.fullmatch, columns)):
        numbers, wanted = (
            list(map(int, columns)),
            f"names of columns of the scores, {_quoted(columns)}",
        )
    if labels.dtype.kind not in "iuf":
        raise InputError(f"{name}: expected {wanted}, got dtype {labels.dtype}.")
    order = np.argsort(numbers, kind="stable")
    known = np.array(numbers)[order]
    at = np.minimum(np.searchsorted(known, labels), n_classes - 1)
    wrong = known[at] != labels
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(f"{name}: expected {wanted}, got {labels[row]} in row {row}.")
    return order[at]


def _quoted(names: list[str]) -> str:
    return ", ".join(map(repr, names[:_NAMED])) + (", ..." if len(names) > _NAMED else "")
