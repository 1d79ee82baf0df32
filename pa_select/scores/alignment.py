"""The columns of scores: those of models with different classes aligned, and those of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def align_classes(
    scores: NDArray[Any], classes: NDArray[Any], all_classes: NDArray[Any]
) -> NDArray[Any]:
    """Give scores a column for each of ``all_classes``.

    Parameters
    ----------
    scores : ndarray of shape (n, n_classes)
        Scores of the model's classes.
    classes : ndarray of shape (n_classes,)
        Classes of the columns, all of them among `all_classes`.
    all_classes : ndarray of shape (n_all,)
        All classes, sorted.

    Returns
    -------
    ndarray of shape (n, n_all)
        The scores. A class that the model lacks gets the row's lowest score, which is finite
        and scales with the other scores.

    Examples
    --------
    >>> import numpy as np
    >>> from pa_select.scores import align_classes
    >>> align_classes(np.array([[2.0, -1.0]]), np.array([0, 2]), np.array([0, 1, 2]))
    array([[ 2., -1., -1.]])
    """
    if len(classes) == len(all_classes) and (classes == all_classes).all():
        return scores
    aligned = np.repeat(scores.min(axis=1, keepdims=True), len(all_classes), axis=1)
    aligned[:, np.searchsorted(all_classes, classes)] = scores
    return aligned


def columns_of(
    y: NDArray[Any], classes: NDArray[Any], name: str, argument: str = "y"
) -> NDArray[np.intp]:
    """Return the column of each label in an estimator's scores."""
    known = np.isin(y, classes)
    if not known.all():
        row = int(np.argmin(known))
        raise ValueError(
            f"{argument}: expected classes of {name}, {classes.tolist()}, got "
            f"{y.tolist()[row]!r} in row {row}."
        )
    order = np.argsort(classes)
    return order[np.searchsorted(classes, y, sorter=order)]
