"""Metrics of predicted classes, as functions of the table of counts, with their gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import metrics

from pa_select.utils.typing import Floats

Tensor = torch.Tensor
# From the counts of each class (right ones, labels, predictions) to a numerator and a denominator.
_RATIOS: dict[Any, Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor]]] = {
    metrics.precision_score: lambda right, true, found, _: (right, found),
    metrics.recall_score: lambda right, true, found, _: (right, true),
    metrics.jaccard_score: lambda right, true, found, _: (right, true + found - right),
    metrics.f1_score: lambda right, true, found, _: (2 * right, true + found),
    metrics.fbeta_score: lambda right, true, found, beta: (
        (1 + beta**2) * right,
        beta**2 * true + found,
    ),
}
# Options of these metrics that the formula has.
_KNOWN_OPTIONS = {"average", "beta", "pos_label"}


def value_and_gradient(
    metric: Any, options: Mapping[str, Any], table: Floats, classes: NDArray[Any]
) -> tuple[float, Floats] | None:
    """Return a metric of a table of counts, and its gradient; None if its formula is not known.

    Parameters
    ----------
    metric : callable
        A metric of scikit-learn.
    options : dict
        Its keyword arguments.
    table : ndarray of shape (n_classes, n_classes)
        The weight of the rows of each class (first axis) with each prediction.
    classes : ndarray of shape (n_classes,)
        Those of rows with a label or prediction; other rows and columns of the table are 0.

    Returns
    -------
    tuple of float and ndarray of shape (n_classes, n_classes), or None
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
    metric: Any, options: Mapping[str, Any], classes: NDArray[Any]
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


def _averaged(
    metric: Any, table: Tensor, average: Any, beta: float, positive: NDArray[np.intp]
) -> Tensor:
    right, true, found = table.diagonal(), table.sum(1), table.sum(0)
    if average == "micro":
        right, true, found = (count.sum(0, keepdim=True) for count in (right, true, found))
    ratios = _ratio(*_RATIOS[metric](right, true, found, beta))
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
    true, found = shares.sum(1), shares.sum(0)
    spread = (1 - true @ true) * (1 - found @ found)
    together = shares.diagonal().sum() - true @ found
    return _ratio(together, torch.sqrt(torch.where(spread > 0, spread, 1.0)) * (spread > 0))


def _ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide; 0 where the denominator is 0, with the gradient 0."""
    usable = denominator > 0
    return torch.where(usable, numerator / torch.where(usable, denominator, 1.0), 0.0)
