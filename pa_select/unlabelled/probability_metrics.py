"""Metrics of class probabilities, and what each row contributes to their errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn import metrics

from pa_select.unlabelled.scored import Scored
from pa_select.utils.typing import Floats


def of_probabilities(
    metric: Any, options: Mapping[str, Any], n_classes: int
) -> Callable[[Floats, Floats], Scored] | None:
    """Return a function of labels and outputs of a classifier, or None if none is known.

    Labels are the probabilities of the classes of each row, (n, n_classes).
    """
    if metric is metrics.roc_auc_score and (
        options == {"multi_class": "ovr"} or (n_classes == 2 and not options)
    ):
        return _area
    if options:
        return None
    if metric is metrics.log_loss:
        return lambda labels, output: Scored.of_mean((labels * _log_losses(output)).sum(1))
    if metric is metrics.brier_score_loss:
        return lambda labels, output: Scored.of_mean((labels * _brier_losses(output)).sum(1))
    return None


def _log_losses(probabilities: Floats) -> Floats:
    """Return the loss of each row (first axis) for each class that it may have."""
    least = np.finfo(probabilities.dtype).eps
    losses: Floats = -np.log(np.clip(probabilities, least, 1 - least))
    return losses


def _brier_losses(probabilities: Floats) -> Floats:
    squares = np.square(probabilities)
    losses: Floats = squares.sum(1, keepdims=True) - squares + np.square(1 - probabilities)
    return losses / 2 if losses.shape[1] == 2 else losses


def _area(labels: Floats, output: Floats) -> Scored:
    """Return the area under the curve; of several classes the mean of each against the rest."""
    if output.ndim == 1 or output.shape[1] == 2:
        values = output if output.ndim == 1 else output[:, 1]
        return _binary_area(labels[:, 1], labels[:, 0], values)
    return Scored.mean_of(
        [
            _binary_area(of_class, 1 - of_class, values)
            for of_class, values in zip(labels.T, output.T, strict=True)
        ]
    )


def _binary_area(positive: Floats, negative: Floats, values: Floats) -> Scored:
    """Return the probability that a positive row has a larger value than a negative one.

    A row counts as a positive and as a negative one, with two weights. It contributes by how
    its placement among the rows of the other class differs from the mean (DeLong).
    """
    below = _share_below(values, negative)
    above = 1 - _share_below(values, positive)
    weights = positive / positive.sum(), negative / negative.sum()
    area = float(weights[0] @ below)
    return Scored(area, weights[0] * (below - area) + weights[1] * (above - area))


def _share_below(values: Floats, weight: Floats) -> Floats:
    """Return the share of the weight that has smaller values; equal ones count by half."""
    order = np.argsort(values, kind="stable")
    ordered, sums = values[order], np.append(0.0, np.cumsum(weight[order]))
    below = sums[np.searchsorted(ordered, values, "left")]
    not_above = sums[np.searchsorted(ordered, values, "right")]
    shares: Floats = (below + not_above) / (2 * sums[-1])
    return shares
