"""Metrics of classifiers of expected counts, and what each row contributes to their errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from sklearn import metrics

from pa_select.two_sites.score_of_units import ScoreOfUnits
from pa_select.utils.typing import Array, Floats, Index

Tensor = torch.Tensor
# From the counts of each class (right ones, labels, predictions) to a numerator and a denominator.
_RATIOS: dict[Any, Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor]]] = {
    metrics.precision_score: lambda right, true, predicted, _: (right, predicted),
    metrics.recall_score: lambda right, true, predicted, _: (right, true),
    metrics.jaccard_score: lambda right, true, predicted, _: (right, true + predicted - right),
    metrics.f1_score: lambda right, true, predicted, _: (2 * right, true + predicted),
    metrics.fbeta_score: lambda right, true, predicted, beta: (
        (1 + beta**2) * right,
        beta**2 * true + predicted,
    ),
}
#: Metrics between 0 and 1, but for options that adjust them.
SHARES = (
    *_RATIOS,
    metrics.accuracy_score,
    metrics.average_precision_score,
    metrics.balanced_accuracy_score,
    metrics.roc_auc_score,
    metrics.top_k_accuracy_score,
)
# Sums of shares that differ from 1 by no more than this are 1.
_ROUNDING = 1e-12
# Options of these metrics that the formula has.
_KNOWN_OPTIONS = {"average", "beta", "pos_label"}


def value_and_gradient(
    metric: object, options: Mapping[str, Any], table: Floats, classes: Array
) -> tuple[float, Floats] | None:
    """Return a metric of a table of counts, and its gradient; None if its formula is not known.

    The table has the weight of the rows of each class (first axis) with each prediction. Each of
    the classes has a label or a prediction.
    """
    formula = _formula(metric, options, classes)
    if formula is None:
        return None
    counts = torch.tensor(table, requires_grad=True)
    value = formula(counts)
    if not value.requires_grad:
        return None
    value.backward()  # type: ignore[no-untyped-call]
    assert counts.grad is not None
    gradient: Floats = counts.grad.numpy()
    return float(value.detach()), gradient


def _formula(
    metric: object, options: Mapping[str, Any], classes: Array
) -> Callable[[Tensor], Tensor] | None:
    """Return a function of the table; None if an option is not known."""
    if metric in _RATIOS:
        average, beta = options.get("average", "binary"), options.get("beta", 1.0)
        positive = np.flatnonzero(classes == options.get("pos_label", 1))
        is_binary = len(classes) <= 2 and len(positive) == 1
        if not set(options) <= _KNOWN_OPTIONS or (average == "binary" and not is_binary):
            return None
        return lambda table: _averaged(metric, table, average, beta, positive)
    if options:
        return None
    return {
        metrics.balanced_accuracy_score: _balanced_accuracy,
        metrics.cohen_kappa_score: _kappa,
        metrics.matthews_corrcoef: _correlation,
        metrics.zero_one_loss: lambda table: 1 - table.diagonal().sum() / table.sum(),
    }.get(metric)


def _averaged(metric: Any, table: Tensor, average: str, beta: float, positive: Index) -> Tensor:
    right, true, predicted = table.diagonal(), table.sum(1), table.sum(0)
    if average == "micro":
        right, true, predicted = (count.sum(0, keepdim=True) for count in (right, true, predicted))
    ratios = _ratio(*_RATIOS[metric](right, true, predicted, beta))
    if average == "binary":
        return ratios[int(positive[0])]
    if average == "weighted":
        return (ratios * true).sum() / true.sum()
    return ratios.mean()


def _balanced_accuracy(table: Tensor) -> Tensor:
    true = table.sum(1)
    known = true > 0
    return (table.diagonal()[known] / true[known]).mean()


def _kappa(table: Tensor) -> Tensor:
    shares = table / table.sum()
    by_chance = shares.sum(0) @ shares.sum(1)
    return (shares.diagonal().sum() - by_chance) / (1 - by_chance)


def _correlation(table: Tensor) -> Tensor:
    shares = table / table.sum()
    true, predicted = shares.sum(1), shares.sum(0)
    # Of one class alone this is 0 but for rounding.
    of_each = 1 - true @ true, 1 - predicted @ predicted
    varies = min(of_each) > _ROUNDING
    spread = of_each[0] * of_each[1]
    together = shares.diagonal().sum() - true @ predicted
    return _ratio(together, torch.sqrt(torch.where(varies, spread, 1.0)) * varies)


def _ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide; 0 where the denominator is 0, with the gradient 0."""
    usable = denominator > 0
    return torch.where(usable, numerator / torch.where(usable, denominator, 1.0), 0.0)


def of_probabilities(
    metric: object, options: Mapping[str, Any], n_classes: int
) -> Callable[[Floats, Floats, Floats | None], ScoreOfUnits] | None:
    """Return a function of labels, outputs and weights of rows, or None if none is known.

    Labels are the probabilities of the classes of each row, (n, n_classes).
    """
    if metric is metrics.roc_auc_score and (
        options == {"multi_class": "ovr"} or (n_classes == 2 and not options)
    ):
        return _area
    if options:
        return None
    losses = {metrics.log_loss: _log_losses, metrics.brier_score_loss: _brier_losses}.get(metric)
    if losses is None:
        return None
    return lambda labels, output, weight: ScoreOfUnits.of_mean(
        (labels * losses(output)).sum(1), weight=weight
    )


def _log_losses(probabilities: Floats) -> Floats:
    """Return the loss of each row (first axis) for each class that it may have."""
    least = np.finfo(probabilities.dtype).eps
    losses: Floats = -np.log(np.clip(probabilities, least, 1 - least))
    return losses


def _brier_losses(probabilities: Floats) -> Floats:
    squares = np.square(probabilities)
    losses: Floats = squares.sum(1, keepdims=True) - squares + np.square(1 - probabilities)
    return losses / 2 if losses.shape[1] == 2 else losses


def _area(labels: Floats, output: Floats, weight: Floats | None) -> ScoreOfUnits:
    """Return the area under the curve; of several classes the mean of each against the rest."""
    share = np.ones(len(labels)) if weight is None else weight
    if output.ndim == 1 or output.shape[1] == 2:
        values = output if output.ndim == 1 else output[:, 1]
        return _binary_area(share * labels[:, 1], share * labels[:, 0], values)
    return ScoreOfUnits.mean_of(
        [
            _binary_area(share * of_class, share * (1 - of_class), values)
            for of_class, values in zip(labels.T, output.T, strict=True)
        ]
    )


def _binary_area(positive: Floats, negative: Floats, values: Floats) -> ScoreOfUnits:
    """Return the probability that a positive row has a larger value than a negative one.

    A row counts as a positive and as a negative one, with two weights. It contributes by how
    its placement among the rows of the other class differs from the mean (DeLong).
    """
    below = _share_below(values, negative)
    above = 1 - _share_below(values, positive)
    weights = positive / positive.sum(), negative / negative.sum()
    area = float(weights[0] @ below)
    return ScoreOfUnits(area, weights[0] * (below - area) + weights[1] * (above - area))


def _share_below(values: Floats, weight: Floats) -> Floats:
    """Return the share of the weight that has smaller values; equal ones count by half."""
    order = np.argsort(values, kind="stable")
    ordered, sums = values[order], np.append(0.0, np.cumsum(weight[order]))
    below = sums[np.searchsorted(ordered, values, "left")]
    not_above = sums[np.searchsorted(ordered, values, "right")]
    shares: Floats = (below + not_above) / (2 * sums[-1])
    return shares
