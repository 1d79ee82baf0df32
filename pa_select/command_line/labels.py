"""Column numbers of true classes, which are given as numbers or as names."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pa_select.command_line.reading import (
    InputError,
    Table,
    check_same_names,
    is_whole_number,
    read_labels,
)

# Largest number of labels in a message.
_NAMED = 5


def label_columns(
    name: str, scores: Table, scores_name: str, columns: list[str] | None, what: str = "pairs"
) -> tuple[NDArray[np.int64], list[str] | None]:
    """Read labels, and find the column of each.

    Numbers are those of columns, from 0. Strings are names of columns; if the columns have no
    names, the sorted labels are their names, as with scikit-learn's classes. If all names of
    columns are whole numbers, then numbers are names too.

    Parameters
    ----------
    name : str
        Name of the file of labels.
    scores : Table
        The scores of the labelled rows.
    scores_name : str
        Name of their file.
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
        If there is not one label for each row of the scores, or a label has no column.
    """
    n, n_classes = scores.values.shape
    table = read_labels(name, n, what)
    check_same_names(scores, table._replace(columns=None), scores_name, name)
    labels = table.values
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
    distinct, codes = np.unique(np.char.strip(labels), return_inverse=True)
    names = distinct.tolist()
    if "" in names:
        row = int((codes == names.index("")).argmax())
        raise InputError(f"{name}: expected a label in each row, got none in row {row}.")
    if columns is None:
        columns = names
        if len(columns) != n_classes:
            raise InputError(
                f"{name}: expected {n_classes} different labels, one for each column of the "
                f"scores, whose columns have no names, got {len(columns)}: {_quoted(columns)}."
            )
    known = [column.strip() for column in columns]
    unknown = [label for label in names if label not in known]
    if unknown:
        raise InputError(
            f"{name}: expected names of columns of the scores, {_quoted(known)}, got labels that "
            f"are not among them: {_quoted(unknown)}."
        )
    twice = [label for label in names if known.count(label) > 1]
    if twice:
        raise InputError(
            f"{name}: expected labels that name one column each, got some that name several: "
            f"{_quoted(twice)}."
        )
    return np.array([known.index(label) for label in names], dtype=np.int64)[codes], columns


def _columns_by_number(
    labels: NDArray[Any], name: str, n_classes: int, columns: list[str] | None
) -> NDArray[np.int64]:
    numbers, expected = list(range(n_classes)), f"numbers of columns, 0 to {n_classes - 1}"
    if columns is not None and all(map(is_whole_number, columns)):
        numbers = list(map(int, columns))
        expected = f"names of columns of the scores, {_quoted(columns)}"
    if labels.dtype.kind not in "iuf":
        raise InputError(f"{name}: expected {expected}, got dtype {labels.dtype}.")
    order = np.argsort(numbers, kind="stable")
    known = np.array(numbers)[order]
    nearest = np.minimum(np.searchsorted(known, labels), n_classes - 1)
    wrong = known[nearest] != labels
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(f"{name}: expected {expected}, got {labels[row]} in row {row}.")
    return order[nearest]


def _quoted(names: list[str]) -> str:
    return ", ".join(map(repr, names[:_NAMED])) + (", ..." if len(names) > _NAMED else "")
