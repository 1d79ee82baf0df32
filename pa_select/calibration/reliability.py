"""How often the predicted class is right, for rows of which it has about the same probability."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pa_select.utils.arrays import shares_of
from pa_select.utils.typing import Floats, Index, Ints

# Added to the right and to the wrong rows of a bin, so that bins of few rows have an error too.
_HALF_A_ROW = 0.5


class Reliability(NamedTuple):
    """Rows in bins of their confidence, which is the probability of the predicted class.

    Attributes
    ----------
    edges : ndarray of shape (n_bins + 1,)
        The edges of the bins, from 1 / n_classes to 1.
    share : ndarray of shape (n_bins,)
        Share of the rows in each bin; they sum to 1.
    in_bin : ndarray of shape (n_bins,)
        Number of rows in each bin. For rows of unequal weights, the number of rows of equal
        weights that would have as exact a mean.
    confidence : ndarray of shape (n_bins,)
        Mean confidence in each bin; nan for an empty one.
    accuracy : ndarray of shape (n_bins,) or None
        Share of each bin's rows whose predicted class is right, nan for an empty bin; None
        without labels.
    error : ndarray of shape (n_bins,) or None
        Standard error of the accuracy.
    mean_confidence : float
        Mean confidence of all rows.
    mean_accuracy : float
        Accuracy on all rows; nan without labels.
    n_rows : int
        Number of rows with a positive weight.
    """

    edges: Floats
    share: Floats
    in_bin: Floats
    confidence: Floats
    accuracy: Floats | None
    error: Floats | None
    mean_confidence: float
    mean_accuracy: float
    n_rows: int


def reliability(
    posteriors: Floats,
    columns: Index | None = None,
    *,
    n_bins: int,
    rows: Ints | None = None,
    weight: Floats | None = None,
) -> Reliability:
    """Sort rows into bins of equal width by their confidence.

    Parameters
    ----------
    posteriors : ndarray of shape (m, n_classes)
        Probabilities of the classes.
    columns : ndarray of shape (m,), default=None
        The column of each row's label.
    n_bins : int
        Number of bins.
    rows : ndarray of shape (m,), default=None
        The row that the probabilities are of, in [0, n); a row that is there several times
        counts once. None: each is there once.
    weight : ndarray of shape (n,), default=None
        Non-negative weights of the rows.
    """
    m, n_classes = posteriors.shape
    rows = np.arange(m) if rows is None else rows
    weight = np.ones(rows.max() + 1) if weight is None else weight
    weight_of_row, share = weight[rows], shares_of(rows, weight)
    confidence = posteriors.max(1)
    edges = np.linspace(1 / n_classes, 1, n_bins + 1)
    place = np.searchsorted(edges[1:-1], confidence, side="right")

    def total(values: Floats) -> Floats:
        return np.bincount(place, weights=values, minlength=n_bins).astype(np.float64)

    def mean(values: Floats) -> Floats:
        empty = np.full(n_bins, np.nan)
        return np.divide(total(share * values), in_bin, where=in_bin > 0, out=empty)

    in_bin = total(share)
    squares = total(share * weight_of_row)
    count = np.divide(in_bin**2, squares, where=squares > 0, out=np.zeros(n_bins))
    accuracy = error = None
    mean_accuracy = float("nan")
    if columns is not None:
        hits = (posteriors.argmax(1) == columns).astype(np.float64)
        accuracy, mean_accuracy = mean(hits), float(np.average(hits, weights=share))
        likely = (accuracy * count + _HALF_A_ROW) / (count + 2 * _HALF_A_ROW)
        error = np.sqrt(likely * (1 - likely) / np.where(count > 0, count, np.nan))
    return Reliability(
        edges,
        in_bin / in_bin.sum(),
        count,
        mean(confidence),
        accuracy,
        error,
        float(np.average(confidence, weights=share)),
        mean_accuracy,
        len(np.unique(rows[weight_of_row > 0])),
    )
