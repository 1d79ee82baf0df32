"""The score of always predicting the most frequent class."""

from __future__ import annotations

from typing import Any

import numpy as np


def majority_rate(estimator: Any, X: Any, y: Any) -> float:
    """Return the accuracy of always predicting the most frequent class of ``y``.

    This scorer is recorded with the accuracy, as the floor of `GuardedSelection`.

    Parameters
    ----------
    estimator, X : object
        Not used.
    y : array-like of shape (n,)
        Labels.

    Returns
    -------
    float
        Share of the most frequent label, in (0, 1].

    Examples
    --------
    >>> from pa_select.model_selection import majority_rate
    >>> majority_rate(None, None, ["a", "b", "b", "b"])
    0.75
    """
    _, counts = np.unique(np.asarray(y), return_counts=True)
    return float(counts.max() / counts.sum())
