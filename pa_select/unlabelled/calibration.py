"""Temperature scaling: posterior agreement with labels on one side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pa_select.agreement.confidence import posteriors as posteriors_at
from pa_select.agreement.posterior_agreement import agreements
from pa_select.utils.typing import Floats

# The least mean posterior, of which the log is taken.
_LEAST = 1e-12


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
    values = torch.from_numpy(np.asarray(scores, dtype=np.float64))
    found: Floats = posteriors_at(values, beta).numpy()
    return found


def log_mean(posteriors: Sequence[Floats]) -> Floats:
    """Return the logs of mean posteriors, as scores to calibrate again.

    A mean of calibrated posteriors is too uncertain.
    """
    mean: Floats = np.log(np.maximum(np.mean(posteriors, axis=0), _LEAST))
    return mean
