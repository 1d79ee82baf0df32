"""Scorers to record beside the agreement."""

from __future__ import annotations

from typing import Any

import numpy as np


def majority_rate(estimator: Any, X: Any, y: Any) -> float:
    """Accuracy of always predicting the largest class of ``y``.

    A scorer: recorded beside the accuracy it tells `GuardedSelection` which candidates
    learnt anything.

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

    References
    ----------
    .. [1] "Rethinking Robustness in Machine Learning: A Posterior Agreement Approach",
       section 3 (a constant classifier is robust by definition).

    Examples
    --------
    >>> from pa_select.model_selection import majority_rate
    >>> majority_rate(None, None, ["a", "b", "b", "b"])
    0.75
    """
    _, counts = np.unique(np.asarray(y), return_counts=True)
    return float(counts.max() / counts.sum())
