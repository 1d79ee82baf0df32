"""Temperature scaling: posterior agreement with labels on one side."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pa_select.agreement.confidence import posteriors
from pa_select.agreement.posterior_agreement import agreements
from pa_select.utils.typing import Floats


def calibrating_beta(scores: Floats, columns: NDArray[np.intp], weight: Any = None) -> float:
    """Return the inverse temperature at which labelled rows have the highest likelihood.

    Parameters
    ----------
    scores : ndarray of shape (n, n_classes)
        Scores of rows that the classifier was not fitted to.
    columns : ndarray of shape (n,)
        The column of each row's label.
    weight : ndarray of shape (n,), default=None
        Non-negative weights of the rows.
    """
    certain = np.full(scores.shape, -np.inf)
    certain[np.arange(len(columns)), columns] = 0.0
    return float(agreements(scores, certain, sample_weight=weight).beta)


def calibrated(scores: Floats, beta: float) -> Floats:
    """Return posteriors at an inverse temperature, (n, n_classes)."""
    found: Floats = posteriors(
        torch.from_numpy(np.asarray(scores, dtype=np.float64)), beta
    ).numpy()
    return found
