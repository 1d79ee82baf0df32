"""Class scores of an estimator that are known to be comparable, as an array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pa_select.scores.class_scores import class_scores
from pa_select.utils.arrays import as_numbers
from pa_select.utils.score_checks import check_size, check_values


def comparable_scores(
    estimator: Any, X: Any, *, dtype: Any = None, numbers: Any = None, labels: Any = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Compute an estimator's class scores and check that agreement accepts them.

    Everything that scores several estimators calls this, so that one with bad scores can be
    left out before its scores are compared with anything.

    Parameters
    ----------
    estimator, X
        As in `class_scores`.
    dtype : dtype, default=None
        The type of the scores. None: as the estimator has it, if that is a floating type.
    numbers : array-like of shape (n,), default=None
        What errors call the rows. None: 0, 1, ...
    labels : array-like, default=None
        The classes that the estimator may have. None: any.

    Returns
    -------
    scores : ndarray of shape (n, n_classes)
    classes : ndarray of shape (n_classes,)

    Raises
    ------
    TypeError, ValueError
        As `class_scores` and `check_values`; also if a class is not among the labels.
    """
    scores, classes = class_scores(estimator, X)
    if hasattr(scores, "detach"):
        scores = scores.detach().cpu().numpy()
    matrix = as_numbers(scores, "class scores")
    if matrix.dtype.kind == "c":
        raise TypeError(f"class scores: expected real numbers, got {matrix.dtype}.")
    if labels is not None and not np.isin(classes, labels).all():
        raise ValueError(
            f"class scores: expected classes of y, {np.unique(labels).tolist()}, got "
            f"{np.asarray(classes).tolist()}."
        )
    if dtype is None:
        dtype = matrix.dtype if matrix.dtype.char in "efd" else np.float64
    with np.errstate(over="ignore"):  # the check reports what becomes infinite
        matrix = matrix.astype(dtype, copy=False)
    if matrix.shape[1] > 1:  # a model that was fitted to one class has nothing to compare
        check_size(matrix.shape, "class scores")
    if matrix.dtype.kind == "f" and len(matrix):
        check_values(matrix, "class scores", np, numbers=numbers)
    return matrix, classes
